//! How much is let in at a time.

use std::sync::Arc;
use std::time::Duration;

use ff_api::problem::{HttpCode, Problem};
use ff_core::operation::PLAIN_BODY_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Limits;
use crate::refusal::Refusal;

/// Bodies up to here are not counted: the number of requests bounds them.
const SMALL_BODY_BYTES: usize = PLAIN_BODY_BYTES;

/// Large bodies are counted in pieces of this size.
const PIECE_BYTES: u64 = 64 * 1024;

/// How long a request waits for another one to be over or given up.
const SOON: Duration = Duration::from_millis(250);

/// What limits the requests of a server.
pub(crate) struct RequestLimiter {
    requests: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
    waiting_max: usize,
}

impl RequestLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        let semaphore = |permits: u64| {
            let permits = usize::try_from(permits).unwrap_or(usize::MAX);
            Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
        };
        Self {
            requests: semaphore(limits.requests.into()),
            waiting: semaphore(limits.waiting.into()),
            large_bodies: semaphore(limits.large_body_bytes / PIECE_BYTES),
            waiting_max: limits.waiting as usize,
        }
    }

    /// How many requests wait for work or for an end.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting_max.saturating_sub(self.waiting.available_permits())
    }

    /// Lets a request in, or says that there are too many.
    pub(crate) fn enter(&self, waits: bool) -> Result<OwnedSemaphorePermit, Refusal> {
        let (semaphore, code) = if waits {
            (&self.waiting, HttpCode::TooManyWaiting)
        } else {
            (&self.requests, HttpCode::Overloaded)
        };
        let entered = Arc::clone(semaphore).try_acquire_owned();
        entered.map_err(|_| Problem::new(code, "").into())
    }

    /// Lets a request in as soon as another one is over, if that is soon.
    pub(crate) async fn enter_soon(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let entering = Arc::clone(&self.requests).acquire_owned();
        let entered = tokio::time::timeout(SOON, entering).await.ok().and_then(Result::ok);
        entered.ok_or_else(|| Problem::new(HttpCode::Overloaded, "").into())
    }

    /// Makes room for a body of this size, or says that there is none now.
    pub(crate) fn hold_body(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        if bytes <= SMALL_BODY_BYTES {
            return Ok(None);
        }
        let pieces = u32::try_from((bytes as u64).div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.large_bodies).try_acquire_many_owned(pieces);
        let full = "there is no room for a body of this size now";
        held.map(Some).map_err(|_| Problem::new(HttpCode::Overloaded, full).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_in_leaves_room_again_when_it_is_dropped() {
        let limits = Limits { requests: 1, waiting: 1, ..Limits::default() };
        let limiter = RequestLimiter::new(&limits);
        let held = limiter.enter(false).expect("room");
        assert!(limiter.enter(false).is_err());
        assert!(limiter.enter(true).is_ok(), "waiting has room of its own");
        drop(held);
        assert!(limiter.enter(false).is_ok());
    }

    #[test]
    fn large_bodies_share_a_budget_and_small_ones_are_free() {
        let limiter =
            RequestLimiter::new(&Limits { large_body_bytes: 128 * 1024, ..Limits::default() });
        assert!(limiter.hold_body(SMALL_BODY_BYTES).expect("free").is_none());
        let held = limiter.hold_body(SMALL_BODY_BYTES + 1).expect("room");
        assert!(held.is_some());
        assert!(limiter.hold_body(SMALL_BODY_BYTES + 1).is_err());
        drop(held);
        assert!(limiter.hold_body(SMALL_BODY_BYTES + 1).is_ok());
    }
}
