//! Ending an attempt as failed, with the next execution or without.

use ff_core::types::TimestampMs;

use super::claim::ClaimRow;
use crate::call::functions;
use crate::wire::Rows;

functions! {
    /// Ends the running attempt as failed; unless that is final, a retry is scheduled if one is
    /// left.
    write ff_fail_execution(FailExecution {
        held,
        failure_reason: String,
        failure_category: String,
        failure_detail: Vec<u8>,
        is_final: bool,
    })
    -> FailExecutionReply {
        "OK" => Failed { result: String, delay_until: Option<TimestampMs> },
        "DUPLICATE" => FailedBefore { result: String, delay_until: Option<TimestampMs> },
    }
    refuses held [];

    /// Ends the running attempt as failed, and claims the next execution for the same worker: of
    /// the queue that is named, or of those of the lane that this end put something into.
    write ff_fail_and_claim_next(FailAndClaimNext {
        held and next,
        failure_reason: String,
        failure_category: String,
        failure_detail: Vec<u8>,
        is_final: bool,
    })
    -> FailAndClaimNextReply {
        "OK" => FailedAndClaimed {
            result: String,
            delay_until: Option<TimestampMs>,
            claims: Rows<ClaimRow>,
            next_score: Option<i64>,
        },
        "DUPLICATE" => FailedAndClaimedBefore {
            result: String,
            delay_until: Option<TimestampMs>,
            claims: Rows<ClaimRow>,
            next_score: Option<i64>,
        },
    }
    refuses held [InvalidCapabilities, CapabilityMismatch];
}
