//! What the store's clock shows, as far as this process can tell. Local time is monotonic and never
//! compared with the store's; only differences of the store's times are used.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ff_core::types::TimestampMs;
use tokio::time::Instant;

/// Readings of the store's clock.
#[derive(Debug, Default)]
pub(crate) struct StoreClock(Mutex<Option<Reading>>);

/// The store showed `store` at some moment between `sent` and `received`.
#[derive(Clone, Copy, Debug)]
struct Reading {
    sent: Instant,
    received: Instant,
    store: TimestampMs,
}

impl StoreClock {
    /// A call sent at this moment has just been answered with this time.
    pub(crate) fn note(&self, sent: Instant, store: TimestampMs) {
        *self.lock() = Some(Reading { sent, received: Instant::now(), store });
    }

    /// A moment at which the store's time has not passed `time` yet: the answer errs on the early
    /// side, by as much as the reading took.
    pub(crate) fn earliest(&self, time: TimestampMs) -> Option<Instant> {
        let Reading { sent, store, .. } = (*self.lock())?;
        Some(sent + Duration::from_millis(store.millis_until(time)))
    }

    /// A moment at which the store's time has certainly reached `time`.
    pub(crate) fn latest(&self, time: TimestampMs) -> Option<Instant> {
        let Reading { received, store, .. } = (*self.lock())?;
        Some(received + Duration::from_millis(store.millis_until(time)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_store_s_time_is_placed_on_the_safe_side() {
        let clock = StoreClock::default();
        assert_eq!(clock.earliest(TimestampMs(5)), None);
        let sent = Instant::now();
        tokio::time::advance(Duration::from_millis(40)).await;
        clock.note(sent, TimestampMs(1_000));
        assert_eq!(clock.earliest(TimestampMs(1_500)), Some(sent + Duration::from_millis(500)));
        let received = sent + Duration::from_millis(40);
        assert_eq!(clock.latest(TimestampMs(1_500)), Some(received + Duration::from_millis(500)));
    }
}
