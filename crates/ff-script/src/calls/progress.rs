//! Reporting progress.

use ff_core::types::{AttemptId, ExecutionId, LeaseEpoch, LeaseId};

use crate::call::functions;

functions! {
    /// Records progress of the running attempt: a percentage, a message, or both. Empty leaves a
    /// value alone, `-` clears it.
    write ff_update_progress(UpdateProgress {
        execution_id: ExecutionId,
        lease_id: LeaseId,
        lease_epoch: LeaseEpoch,
        attempt_id: AttemptId,
        progress_pct: String,
        progress_message: String,
    })
    -> UpdateProgressReply { "OK" => Recorded {} }
    refuses [ExecutionNotFound, ExecutionNotActive, FenceRequired, PartialFenceTriple, LeaseRevoked,
        LeaseExpired, StaleLease];
}
