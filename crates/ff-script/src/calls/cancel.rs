//! Ending as cancelled.

use ff_core::state::{LifecyclePhase, PublicState};
use ff_core::types::{AttemptId, ExecutionId, LeaseEpoch, LeaseId, RequestId};

use crate::call::functions;

functions! {
    /// Ends an execution as cancelled.
    write ff_cancel_execution(CancelExecution {
        execution_id: ExecutionId,
        lease_id: Option<LeaseId>,
        lease_epoch: Option<LeaseEpoch>,
        attempt_id: Option<AttemptId>,
        reason: String,
        source: String,
        request_id: Option<RequestId>,
    })
    -> CancelExecutionReply {
        "OK" => Cancelled { public_state: PublicState, previous_phase: LifecyclePhase },
        "ALREADY_SATISFIED" => CancelledBefore { reason: String },
    }
    refuses [ExecutionNotFound, ExecutionNotActive, FenceRequired, PartialFenceTriple, LeaseRevoked,
        LeaseExpired, StaleLease];
}
