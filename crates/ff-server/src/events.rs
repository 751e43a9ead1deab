//! What is followed, as server-sent events: the body of an answer that lasts for as long as
//! somebody follows.

use std::fmt::Display;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Response, StatusCode};
use ff_api::events::{HEARTBEAT, Told, encode};
use ff_api::headers::{EVENT_STREAM, LAST_EVENT_ID};
use ff_core::error::EngineError;
use futures_core::Stream;
use hyper::body::{Body as Parts, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::answer::with_type;
use crate::app::App;
use crate::extract::header;
use crate::lasting::Lasts;
use crate::refusal::Refusal;

/// A silent connection is kept alive this often: sooner than anybody in between gives it up.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
/// Events that are there already are sent together, up to so many bytes.
const TOGETHER_BYTES: usize = 64 * 1024;

/// The position that a client goes on from: its `Last-Event-ID`, or what it asked for; the first
/// one if it has seen nothing yet.
pub(crate) fn position<P>(headers: &HeaderMap, asked: Option<P>) -> Result<P, Refusal>
where
    P: FromStr<Err: Display> + Default,
{
    let Some(text) = header(headers, LAST_EVENT_ID)?.filter(|text| !text.is_empty()) else {
        return Ok(asked.unwrap_or_default());
    };
    text.parse().map_err(|error| Refusal::invalid("Last-Event-ID", format!("is wrong: {error}")))
}

/// What is told, as it comes.
type Tellings<T> = Pin<Box<dyn Stream<Item = Result<T, EngineError>> + Send>>;

/// The answer to somebody who follows, who holds a place of those that wait.
pub(crate) fn answer<T: Told + 'static>(
    app: &Arc<App>,
    told: Tellings<T>,
    place: OwnedSemaphorePermit,
) -> Response<Body> {
    let mut drain = app.drain.subscribe();
    let events = Events {
        told,
        heartbeat: Box::pin(tokio::time::sleep(HEARTBEAT_EVERY)),
        draining: Box::pin(async move {
            // A server that is gone drains, too.
            let _ = drain.wait_for(|draining| *draining).await;
        }),
        over: false,
        _place: place,
    };
    let mut answer = with_type(StatusCode::OK, EVENT_STREAM, Body::new(events));
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    answer.extensions_mut().insert(Lasts);
    answer
}

struct Events<T> {
    told: Tellings<T>,
    heartbeat: Pin<Box<Sleep>>,
    draining: Pin<Box<dyn Future<Output = ()> + Send>>,
    over: bool,
    _place: OwnedSemaphorePermit,
}

impl<T: Told> Events<T> {
    /// The events that are there.
    fn ready(&mut self, context: &mut Context<'_>) -> String {
        let mut text = String::new();
        while !self.over && text.len() < TOGETHER_BYTES {
            match self.told.as_mut().poll_next(context) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(told))) => {
                    self.over = told.is_last();
                    text.push_str(&encode(&told));
                }
                // Whoever connects again is told why.
                Poll::Ready(Some(Err(_)) | None) => self.over = true,
            }
        }
        text
    }

    fn beat(&mut self) {
        self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT_EVERY);
    }
}

impl<T: Told> Parts for Events<T> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let text = self.ready(context);
        if !text.is_empty() {
            self.beat();
            return Poll::Ready(Some(Ok(Frame::data(text.into()))));
        }
        if self.over || self.draining.as_mut().poll(context).is_ready() {
            self.over = true;
            return Poll::Ready(None);
        }
        if self.heartbeat.as_mut().poll(context).is_ready() {
            self.beat();
            // Asked again at once, so that the new heartbeat is waited for.
            context.waker().wake_by_ref();
            let beat = Bytes::from_static(HEARTBEAT.as_bytes());
            return Poll::Ready(Some(Ok(Frame::data(beat))));
        }
        Poll::Pending
    }
}
