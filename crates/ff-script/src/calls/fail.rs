//! Ending an attempt as failed.

use ff_core::types::TimestampMs;

use crate::call::functions;

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
}
