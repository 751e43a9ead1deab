//! Waiting for several answers at the same time.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use ff_core::error::EngineError;
use tokio::task::JoinSet;

/// Calls that are under way at the same time, of a great many: one after the other, each would wait
/// for its own sync of a busy journal.
pub(crate) const AT_ONCE_MAX: usize = 16;

/// Makes all of these calls, some at a time, and hands over each answer as it comes. Ends at the
/// first that failed, or that `answered` fails about.
pub async fn some_at_a_time<T, F>(
    op: &'static str,
    calls: impl IntoIterator<Item = F>,
    mut answered: impl FnMut(T) -> Result<(), EngineError>,
) -> Result<(), EngineError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, EngineError>> + Send + 'static,
{
    let (mut calls, mut running) = (calls.into_iter(), JoinSet::new());
    loop {
        for call in calls.by_ref().take(AT_ONCE_MAX - running.len()) {
            running.spawn(call);
        }
        let Some(answer) = running.join_next().await else { return Ok(()) };
        answered(answer.map_err(|_| EngineError::Unavailable { op })??)?;
    }
}

/// What all of these come to, in their order.
pub(crate) async fn together<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Result<F::Output, Pin<Box<F>>>> =
        futures.into_iter().map(|future| Err(Box::pin(future))).collect();
    poll_fn(|context| {
        let mut pending = false;
        for one in &mut running {
            if let Err(future) = one {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *one = Ok(output),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn answers_come_in_the_order_of_the_questions() {
        let (first, second) = (oneshot::channel::<u8>(), oneshot::channel::<u8>());
        let answers = together([first.1, second.1]);
        second.0.send(2).expect("somebody waits");
        first.0.send(1).expect("somebody waits");
        assert_eq!(answers.await, [Ok(1), Ok(2)]);
        assert!(together(std::iter::empty::<std::future::Ready<u8>>()).await.is_empty());
    }
}
