//! This machine's clock. The only file that asks for the time of day.

use ff_core::types::TimestampMs;

/// The time of day, for delays that a submitter states as a duration.
#[allow(clippy::disallowed_methods, reason = "this is where time comes in")]
pub(crate) fn now() -> TimestampMs {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 is set wrong; the epoch is as good an answer as any.
    let millis = since_epoch.map_or(0, |elapsed| elapsed.as_millis());
    TimestampMs::new(u64::try_from(millis).unwrap_or(u64::MAX))
}
