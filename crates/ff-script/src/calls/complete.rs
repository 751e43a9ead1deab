//! Ending in success.

use ff_core::state::PublicState;
use ff_core::types::{AttemptId, ExecutionId, LeaseEpoch, LeaseId};

use crate::call::functions;

functions! {
    /// Ends the running attempt and its execution in success, with a result.
    write ff_complete_execution(CompleteExecution {
        execution_id: ExecutionId,
        lease_id: LeaseId,
        lease_epoch: LeaseEpoch,
        attempt_id: AttemptId,
        result: Vec<u8>,
    })
    -> CompleteExecutionReply {
        "OK" => Completed { public_state: PublicState },
        "DUPLICATE" => CompletedBefore { public_state: PublicState },
    }
    refuses [ExecutionNotFound, ExecutionNotActive, FenceRequired, PartialFenceTriple, LeaseRevoked,
        LeaseExpired, StaleLease];
}
