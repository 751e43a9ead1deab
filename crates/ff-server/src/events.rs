//! Output as server-sent events: the body of an answer that lasts for as long as somebody follows.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use axum::http::{Response, StatusCode};
use ff_api::events::{HEARTBEAT, encode};
use ff_api::headers::EVENT_STREAM;
use ff_core::contracts::{Output, OutputStream};
use hyper::body::{Body as Parts, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::answer::with_type;
use crate::app::App;
use crate::lasting::Lasts;

/// A silent connection is kept alive this often: sooner than anybody in between gives it up.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
/// Events that are there already are sent together, up to so many bytes.
const TOGETHER_BYTES: usize = 64 * 1024;

/// The answer to somebody who follows, who holds a place of those that wait.
pub(crate) fn answer(
    app: &Arc<App>,
    output: OutputStream,
    place: OwnedSemaphorePermit,
) -> Response<Body> {
    let mut drain = app.drain.subscribe();
    let events = Events {
        output,
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

struct Events {
    output: OutputStream,
    heartbeat: Pin<Box<Sleep>>,
    draining: Pin<Box<dyn Future<Output = ()> + Send>>,
    over: bool,
    _place: OwnedSemaphorePermit,
}

impl Events {
    /// The events that are there.
    fn ready(&mut self, context: &mut Context<'_>) -> String {
        let mut text = String::new();
        while !self.over && text.len() < TOGETHER_BYTES {
            match self.output.as_mut().poll_next(context) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(output))) => {
                    self.over = matches!(output, Output::End { .. });
                    text.push_str(&encode(&output));
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

impl Parts for Events {
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
