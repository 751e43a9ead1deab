//! Checks of arguments before anything is sent to a store.

use std::ops::RangeInclusive;

use crate::error::{Code, EngineError};
use crate::limits;

/// Refuses a text or byte string that is longer than its limit.
pub fn check_bytes(field: &str, len: usize, max: u64) -> Result<(), EngineError> {
    if len as u64 <= max {
        return Ok(());
    }
    Err(EngineError::invalid(field, format!("must be at most {max} bytes long, got {len}")))
}

/// Refuses more words than there may be about a change: why, and by whom.
pub fn check_words(reason: &str, requested_by: &str) -> Result<(), EngineError> {
    check_bytes("reason", reason.len(), limits::REASON_BYTES_MAX)?;
    check_bytes("requested_by", requested_by.len(), limits::CREATOR_BYTES_MAX)
}

/// Refuses an input, a result or a signal's bytes that are more than there may be.
pub fn check_payload(len: usize, max: u64) -> Result<(), EngineError> {
    if len as u64 <= max {
        return Ok(());
    }
    let details = vec![len.to_string(), max.to_string()];
    Err(EngineError::Refused { code: Code::PayloadTooLarge, details })
}

/// Refuses a number outside its limits.
pub fn check_range(field: &str, value: u64, range: RangeInclusive<u64>) -> Result<(), EngineError> {
    if range.contains(&value) {
        return Ok(());
    }
    let rule = format!("must be from {} to {}, got {value}", range.start(), range.end());
    Err(EngineError::invalid(field, rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_named_in_the_refusal() {
        assert_eq!(check_bytes("reason", 4, 4), Ok(()));
        let error = check_bytes("reason", 5, 4).expect_err("too long");
        assert_eq!(error.to_string(), "reason must be at most 4 bytes long, got 5");
        assert_eq!(check_range("limit", 1, 1..=3), Ok(()));
        assert_eq!(check_range("limit", 3, 1..=3), Ok(()));
        let error = check_range("limit", 4, 1..=3).expect_err("too large");
        assert_eq!(error.to_string(), "limit must be from 1 to 3, got 4");
    }
}
