//! Handlers behind one face: bytes in, bytes or a failure out.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polling, Poll};

use futures_core::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::task_error::TaskError;
use super::{INVALID_INPUT, INVALID_OUTPUT, PANIC};
use crate::json;

/// A handler of any input and output.
pub(super) type Handler<S> =
    Arc<dyn Fn(Context<S>) -> BoxFuture<'static, Result<Vec<u8>, TaskError>> + Send + Sync>;

/// A handler with JSON in and out.
pub(super) fn typed<S, I, O, E, F, Fut>(handler: F) -> Handler<S>
where
    S: Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    E: Into<TaskError> + 'static,
    F: Fn(Context<S>, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
{
    Arc::new(move |context| match decode(context.payload()) {
        Err(error) => Box::pin(std::future::ready(Err(error))),
        Ok(input) => {
            let running = handler(context, input);
            Box::pin(async move { encode(&running.await.map_err(E::into)?) })
        }
    })
}

/// A handler with JSON in and out that blocks its thread, and so gets one where it may.
pub(super) fn blocking<S, I, O, E, F>(handler: F) -> Handler<S>
where
    S: Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    E: Into<TaskError> + 'static,
    F: Fn(Context<S>, I) -> Result<O, E> + Send + Sync + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |context| {
        let (handler, span) = (Arc::clone(&handler), tracing::Span::current());
        let work = move || {
            let _entered = span.enter();
            let input = decode(context.payload())?;
            encode(&handler(context, input).map_err(E::into)?)
        };
        Box::pin(async move {
            match tokio::task::spawn_blocking(work).await {
                Ok(outcome) => outcome,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => Err(panicked(panic.as_ref())),
                    Err(ended) => Err(TaskError::retry(ended)),
                },
            }
        })
    })
}

fn decode<I: DeserializeOwned>(payload: &[u8]) -> Result<I, TaskError> {
    json::decode(payload)
        .map_err(|error| TaskError::fail(format!("input: {error}")).with_category(INVALID_INPUT))
}

fn encode<O: Serialize>(output: &O) -> Result<Vec<u8>, TaskError> {
    serde_json::to_vec(output)
        .map_err(|error| TaskError::fail(format!("output: {error}")).with_category(INVALID_OUTPUT))
}

/// A handler with bytes in and out.
pub(super) fn raw<S, E, F, Fut>(handler: F) -> Handler<S>
where
    S: Send + Sync + 'static,
    E: Into<TaskError> + 'static,
    F: Fn(Context<S>, Vec<u8>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<u8>, E>> + Send + 'static,
{
    Arc::new(move |context| {
        let input = context.payload().to_vec();
        let running = handler(context, input);
        Box::pin(async move { running.await.map_err(E::into) })
    })
}

/// Runs a handler; a panic, also one before its first `await`, is a failure.
pub(super) async fn run<S>(handler: Handler<S>, context: Context<S>) -> Result<Vec<u8>, TaskError>
where
    S: Send + Sync + 'static,
{
    let started = std::panic::catch_unwind(AssertUnwindSafe(|| handler(context)));
    match started {
        Ok(running) => CatchPanic(running).await,
        Err(panic) => Err(panicked(panic.as_ref())),
    }
}

/// A future whose panics are failures. It is dropped after one and never polled again.
struct CatchPanic(BoxFuture<'static, Result<Vec<u8>, TaskError>>);

impl Future for CatchPanic {
    type Output = Result<Vec<u8>, TaskError>;

    fn poll(mut self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let running = self.0.as_mut();
        std::panic::catch_unwind(AssertUnwindSafe(|| running.poll(polling)))
            .unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic.as_ref()))))
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> TaskError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    TaskError::of_category(PANIC, format!("the handler panicked: {text}"))
}
