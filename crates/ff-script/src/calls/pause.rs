//! Giving a lease back while the attempt goes on later.

use ff_core::state::PublicState;
use ff_core::types::{AttemptId, ExecutionId, LeaseEpoch, LeaseId, Moment, TimestampMs};

use crate::call::functions;

functions! {
    /// Gives the lease back; the same attempt goes on at the given time.
    write ff_delay_execution(DelayExecution {
        execution_id: ExecutionId,
        lease_id: LeaseId,
        lease_epoch: LeaseEpoch,
        attempt_id: AttemptId,
        delay_until: Moment,
    })
    -> DelayExecutionReply {
        "OK" => Delayed { delay_until: TimestampMs },
        "DUPLICATE" => DelayedBefore { delay_until: TimestampMs },
    }
    refuses [ExecutionNotFound, ExecutionNotActive, FenceRequired, PartialFenceTriple, LeaseRevoked,
        LeaseExpired, StaleLease];

    /// Gives the lease back until the execution's children are done; at once if none is open.
    write ff_move_to_waiting_children(MoveToWaitingChildren {
        execution_id: ExecutionId,
        lease_id: LeaseId,
        lease_epoch: LeaseEpoch,
        attempt_id: AttemptId,
    })
    -> MoveToWaitingChildrenReply {
        "OK" => Moved { public_state: PublicState },
        "DUPLICATE" => MovedBefore { public_state: PublicState },
    }
    refuses [ExecutionNotFound, ExecutionNotActive, FenceRequired, PartialFenceTriple, LeaseRevoked,
        LeaseExpired, StaleLease];
}
