//! Calls that are sent again until they are answered, and the one that every holder of a lease
//! owes: handing back what it does not work on.

use std::time::Duration;

use ff_core::backend::Handle;
use ff_core::backend_error::{BackendError, Retry};
use ff_core::engine_backend::Tasks;
use ff_core::error::EngineError;
use ff_core::types::Moment;
use tokio::time::{Instant, timeout};

use crate::backoff::Backoff;

const BACKOFF: Backoff = Backoff::of_ms(10, 500);
/// A call gets at least this long, also when the deadline comes sooner.
const SHORTEST_WAIT: Duration = Duration::from_millis(250);

/// Sends a call until it is answered, or until a deadline, which may move meanwhile. `unresolved`
/// becomes true if one may have been applied although its answer was lost.
pub async fn until_answered<T, F>(
    op: &'static str,
    deadline: impl Fn() -> Instant,
    unresolved: &mut bool,
    send: impl Fn() -> F,
) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut backoff = BACKOFF;
    loop {
        let deadline = deadline();
        let limit = (deadline.saturating_duration_since(Instant::now()) / 2).max(SHORTEST_WAIT);
        let answer = timeout(limit, send()).await;
        let error = match answer.unwrap_or_else(|_| Err(BackendError::timed_out(limit).into())) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        *unresolved |= error.retry() == Retry::IfReplaySafe;
        if error.retry() == Retry::Never || Instant::now() + backoff.next() >= deadline {
            return Err(error);
        }
        tracing::debug!(op, %error, "no answer, sending it again");
        backoff.pause().await;
    }
}

/// Gives an execution back by a delay that is over at once: its attempt goes on with any worker. It
/// is tried until the lease ends, which has the same effect, only later.
pub async fn hand_back(engine: &(impl Tasks + ?Sized), handle: &Handle, lease_ends: Instant) {
    let send = || engine.delay(handle, Moment::After(0));
    if let Err(error) = until_answered("hand_back", || lease_ends, &mut false, send).await {
        let execution_id = handle.execution_id;
        tracing::warn!(%execution_id, %error, "could not hand it back; its lease will lapse");
    }
}
