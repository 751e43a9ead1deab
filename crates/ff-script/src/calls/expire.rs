//! One execution's timer, on demand.

use ff_core::types::ExecutionId;

use crate::call::functions;

functions! {
    /// Ends an attempt past its timeout (`attempt_timeout`), or an execution past its deadline
    /// (`execution_deadline`).
    write ff_expire_execution(ExpireExecution {
        execution_id: ExecutionId,
        expire_reason: String,
    })
    -> ExpireExecutionReply {
        "OK" => Expired { result: String, previous_phase: String },
        "ALREADY_SATISFIED" => NotDue { reason: String },
    }
    refuses [];

    /// Makes an execution whose delay is over claimable.
    write ff_promote_delayed(PromoteDelayed { execution_id: ExecutionId })
    -> PromoteDelayedReply {
        "OK" => Promoted { result: String },
        "ALREADY_SATISFIED" => NotDue { reason: String },
    }
    refuses [];
}
