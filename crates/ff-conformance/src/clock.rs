//! Time that a test sets by hand.

use std::sync::atomic::{AtomicU64, Ordering};

use ff_core::clock::Clock;

/// A clock that stands still until it is set.
#[derive(Debug)]
pub struct ManualClock {
    now_us: AtomicU64,
}

impl ManualClock {
    /// A clock that shows this time.
    pub fn at(ms: u64) -> Self {
        Self { now_us: AtomicU64::new(ms * 1000) }
    }

    /// Sets the clock, in either direction.
    pub fn set(&self, ms: u64) {
        self.now_us.store(ms * 1000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::SeqCst)
    }
}
