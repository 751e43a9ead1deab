//! What surrounds every request: access, limits, time limits, panics, counting.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ff_api::problem::{HttpCode, Problem};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::error::EngineError;
use ff_core::limits;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::approval;
use crate::metrics::Series;
use crate::refusal::{AnswerCode, Refusal};
use crate::route::Treatment;

/// What is known about a route before a request comes.
pub(crate) struct Middleware {
    pub(crate) app: Arc<App>,
    pub(crate) series: Arc<Series>,
    pub(crate) treatment: Treatment,
}

impl Middleware {
    fn time_limit(&self) -> Duration {
        let wait = if self.treatment.waits { limits::CLAIM_WAIT_MS_MAX } else { 0 };
        self.app.limits.request_timeout() + Duration::from_millis(wait)
    }

    /// Lets a request in, perhaps a moment later. Those whose clients have stalled are given up for
    /// those who have not.
    async fn enter(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let requests = &self.app.requests;
        let entered = requests.enter(self.treatment.waits);
        if entered.is_ok() || self.treatment.waits {
            return entered;
        }
        self.app.connections.cut_stalled();
        requests.enter_soon().await
    }

    async fn run(&self, request: Request, next: Next) -> Result<Response, Refusal> {
        self.app.access.check(&request, self.treatment.open || self.treatment.tokenless)?;
        if self.treatment.open {
            return guarded(next.run(request)).await;
        }
        let _entered = self.enter().await?;
        let running = guarded(next.run(request));
        if self.treatment.lasts {
            return running.await;
        }
        tokio::time::timeout(self.time_limit(), running).await.unwrap_or_else(|_| Err(too_slow()))
    }
}

/// Runs one request.
pub(crate) async fn handle(
    State(middleware): State<Arc<Middleware>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let wants_page = middleware.treatment.page.then(|| approval::wants_page(request.headers()));
    let answer = middleware.run(request, next).await;
    let answer = answer.unwrap_or_else(|refusal| match wants_page {
        Some(wants_page) => approval::refuse(refusal, wants_page),
        None => refusal.into_response(),
    });
    middleware.series.count(answer.status().as_u16(), started.elapsed());
    if let Some(AnswerCode(code)) = answer.extensions().get() {
        middleware.app.metrics.problem(code);
    }
    answer
}

/// The store may have done it all the same: the client learns that by asking again.
fn too_slow() -> Refusal {
    let message = "the request took too long; it may have been done";
    let late = BackendError::new(BackendErrorKind::Timeout, Retry::IfReplaySafe, message);
    EngineError::from(late).into()
}

/// Turns a panic into an answer. What the request had begun is dropped with it.
async fn guarded(running: impl Future<Output = Response>) -> Result<Response, Refusal> {
    let mut running = pin!(running);
    std::future::poll_fn(|context| {
        let polled = AssertUnwindSafe(|| running.as_mut().poll(context));
        match std::panic::catch_unwind(polled) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panicked(panic.as_ref()))),
        }
    })
    .await
}

fn panicked(panic: &(dyn Any + Send)) -> Refusal {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(%message, "a request panicked");
    Problem::new(HttpCode::Internal, "The server's log says more.").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_answer_that_tells_nothing() {
        let answer = guarded(async { panic!("canary") }).await.expect_err("it panicked");
        let answer = answer.into_response();
        assert_eq!(answer.status().as_u16(), 500);
        let body = axum::body::to_bytes(answer.into_body(), 10_000).await.expect("whole");
        assert!(!String::from_utf8_lossy(&body).contains("canary"));
    }
}
