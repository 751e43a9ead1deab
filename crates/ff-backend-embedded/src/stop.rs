//! How a store stops itself: once, for a reason, which everybody is told.

use std::sync::OnceLock;

use tokio::sync::Notify;

/// Whether a store has stopped itself, and why. The first reason stays.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    reason: OnceLock<String>,
    told: Notify,
}

impl Stop {
    /// Stops the store: no call is run from here on.
    pub(crate) fn because(&self, reason: String) {
        tracing::error!("the store stops: {reason}");
        // A second reason is most likely a consequence of the first.
        let _ = self.reason.set(reason);
        self.told.notify_waiters();
    }

    /// Why the store has stopped, if it has.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Waits until the store stops, and answers why.
    pub(crate) async fn wait(&self) -> &str {
        loop {
            // Made before the look: it hears of everything that comes after that.
            let told = self.told.notified();
            if let Some(reason) = self.reason() {
                return reason;
            }
            told.await;
        }
    }
}
