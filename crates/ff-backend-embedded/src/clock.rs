//! The system's clock. The only file that asks for the time.

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
