//! Gates, as seen from an execution's partition.

use ff_core::state::PublicState;
use ff_core::types::{BudgetId, ExecutionId, TimestampMs};

use crate::call::functions;

functions! {
    /// Parks an execution that may not run yet; the holder of a lease undoes its claim with that.
    write ff_block_execution_for_admission(BlockExecutionForAdmission {
        execution_id: ExecutionId,
        lease_id: String,
        lease_epoch: String,
        attempt_id: String,
        blocking_reason: String,
        blocking_detail: String,
        opens_at: Option<TimestampMs>,
        budget_id: Option<BudgetId>,
    })
    -> BlockExecutionForAdmissionReply {
        "OK" => Blocked { public_state: PublicState },
        "ALREADY_SATISFIED" => BlockedBefore { public_state: PublicState },
    }
    refuses [InvalidBlockingReason, ExecutionNotEligible, ExecutionNotFound, ExecutionNotActive,
        PartialFenceTriple, LeaseRevoked, LeaseExpired, StaleLease];

    /// Lets an execution that was blocked be claimed again.
    write ff_unblock_execution(UnblockExecution {
        execution_id: ExecutionId,
        expected_reason: String,
    })
    -> UnblockExecutionReply { "OK" => Unblocked { public_state: PublicState } }
    refuses [ExecutionNotFound, ExecutionNotEligible, FlowCancelled];

    /// Lets the best of those who wait at a closed gate be claimed; opens it if that is all.
    write ff_open_gate(OpenGate { gate: String, count: u32 })
    -> OpenGateReply { "OK" => Opened { opened: u32, left: u64, best_score: Option<i64> } }
    refuses [];
}
