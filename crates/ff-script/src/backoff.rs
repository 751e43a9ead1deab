//! Pauses between tries of something that failed.

use std::time::Duration;

/// Pauses of which each is twice as long as the one before, until they are the longest.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// From the first pause to the longest.
    pub const fn of_ms(first: u64, longest: u64) -> Self {
        Self { next: Duration::from_millis(first), longest: Duration::from_millis(longest) }
    }

    /// How long the next pause is.
    pub const fn next(&self) -> Duration {
        self.next
    }

    /// True once pauses grow no more.
    pub fn is_longest(&self) -> bool {
        self.next >= self.longest
    }

    /// Takes the next pause; the one behind it is longer.
    pub fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// Waits, and will wait for longer the next time.
    pub async fn pause(&mut self) {
        tokio::time::sleep(self.take()).await;
    }
}
