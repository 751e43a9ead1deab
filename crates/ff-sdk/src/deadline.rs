//! Deadlines that may be as far away as one likes.

use std::time::Duration;

use tokio::time::Instant;

/// No process lives as long.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// When this much time has passed. `Duration::MAX` never does.
pub(crate) fn after(wait: Duration) -> Instant {
    Instant::now() + wait.min(FOR_EVER)
}
