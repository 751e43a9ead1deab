//! The pauses between tries of something that failed.

use std::time::Duration;

/// The pause after a failure, which doubles with each until it is the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Pauses that grow.
pub(crate) struct Patience(Duration);

impl Patience {
    pub(crate) fn new() -> Self {
        Self(PAUSE)
    }

    /// Waits, and will wait for longer the next time.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = LONGEST_PAUSE.min(2 * self.0);
    }
}
