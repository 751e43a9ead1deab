//! How long to wait before a call is sent again, and for how long at all.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use ff_script::backoff;
use tokio::time::{Instant, sleep};

const PAUSES: backoff::Backoff = backoff::Backoff::of_ms(4, 250);
const PAUSES_IN_BACKGROUND: backoff::Backoff = backoff::Backoff::of_ms(4, 1_000);

/// Waits that double, with jitter, until the time is up.
pub(crate) struct Backoff {
    pauses: backoff::Backoff,
    deadline: Option<Instant>,
}

impl Backoff {
    /// Gives up after `budget`.
    pub(crate) fn within(budget: Duration) -> Self {
        Self { pauses: PAUSES, deadline: Some(Instant::now() + budget) }
    }

    /// Never gives up.
    pub(crate) fn endless() -> Self {
        Self { pauses: PAUSES_IN_BACKGROUND, deadline: None }
    }

    /// Waits a little longer than the last time. False if the time is up.
    pub(crate) async fn pause(&mut self) -> bool {
        let pause = jittered(self.pauses.take());
        if self.deadline.is_some_and(|deadline| Instant::now() + pause > deadline) {
            return false;
        }
        sleep(pause).await;
        true
    }
}

/// Between half and all of it, so that those who failed together do not return together.
fn jittered(pause: Duration) -> Duration {
    let half = pause / 2;
    let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1);
    half + Duration::from_micros(random_u64() % span)
}

/// The standard library's hash keys are random, which is all that jitter and shuffling need.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_between_half_and_all() {
        for _ in 0..1000 {
            let (pause, whole) = (jittered(PAUSES.next()), PAUSES.next());
            assert!(pause >= whole / 2 && pause <= whole, "{pause:?}");
        }
    }

    #[tokio::test]
    async fn a_backoff_ends_within_its_budget() {
        let start = Instant::now();
        let mut backoff = Backoff::within(Duration::from_millis(50));
        while backoff.pause().await {}
        assert!(start.elapsed() <= Duration::from_millis(80));
    }
}
