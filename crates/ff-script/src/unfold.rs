//! A stream made of a state and a step that is taken again and again.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::future::BoxFuture;

/// What a step gives: an item and the state for the next step, or nothing, which is the end.
pub type Stepping<S, T> = BoxFuture<'static, Option<(T, S)>>;

/// The stream of what the steps give.
pub fn unfold<S, T>(state: S, step: fn(S) -> Stepping<S, T>) -> impl Stream<Item = T> + Send
where
    S: Send + Unpin + 'static,
    T: Send + 'static,
{
    Unfold { step, now: Now::Before(state) }
}

struct Unfold<S, T> {
    step: fn(S) -> Stepping<S, T>,
    now: Now<S, T>,
}

enum Now<S, T> {
    Before(S),
    During(Stepping<S, T>),
    Over,
}

impl<S: Unpin, T> Stream for Unfold<S, T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut stepping = match std::mem::replace(&mut self.now, Now::Over) {
            Now::Before(state) => (self.step)(state),
            Now::During(stepping) => stepping,
            Now::Over => return Poll::Ready(None),
        };
        match stepping.as_mut().poll(context) {
            Poll::Pending => {
                self.now = Now::During(stepping);
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some((item, state))) => {
                self.now = Now::Before(state);
                Poll::Ready(Some(item))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_gives_what_its_steps_give_and_stays_at_its_end() {
        let step = |n: u32| -> Stepping<u32, u32> {
            Box::pin(async move {
                tokio::task::yield_now().await;
                (n < 3).then_some((n, n + 1))
            })
        };
        let mut numbers = Box::pin(unfold(0, step));
        let mut next = async || std::future::poll_fn(|it| numbers.as_mut().poll_next(it)).await;
        assert_eq!([next().await, next().await, next().await], [Some(0), Some(1), Some(2)]);
        assert_eq!([next().await, next().await], [None, None]);
    }
}
