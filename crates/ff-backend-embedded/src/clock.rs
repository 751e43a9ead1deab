//! The system's clocks. The only file that asks for the time.

use std::time::Instant;

use ff_core::clock::Clock;

/// The machine's own time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is where time comes in")]
    fn now_us(&self) -> u64 {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A clock before 1970 is set wrong; the epoch is as good an answer as any.
        since_epoch.map_or(0, |elapsed| elapsed.as_micros() as u64)
    }
}

/// For pacing the store's own work; nothing that is stored depends on it.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}
