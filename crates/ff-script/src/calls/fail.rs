//! Ending an attempt as failed.

use ff_core::types::{AttemptId, ExecutionId, LeaseEpoch, LeaseId, TimestampMs};

use crate::call::functions;

functions! {
    /// Ends the running attempt as failed; unless that is final, a retry is scheduled if one is
    /// left.
    write ff_fail_execution(FailExecution {
        execution_id: ExecutionId,
        lease_id: LeaseId,
        lease_epoch: LeaseEpoch,
        attempt_id: AttemptId,
        failure_reason: String,
        failure_category: String,
        failure_detail: Vec<u8>,
        is_final: bool,
    })
    -> FailExecutionReply {
        "OK" => Failed { result: String, delay_until: Option<TimestampMs> },
        "DUPLICATE" => FailedBefore { result: String, delay_until: Option<TimestampMs> },
    }
    refuses [ExecutionNotFound, ExecutionNotActive, FenceRequired, PartialFenceTriple, LeaseRevoked,
        LeaseExpired, StaleLease];
}
