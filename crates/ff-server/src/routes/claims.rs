//! Asking for work.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse as _;
use ff_api::headers::JSON;
use ff_api::task::Task;
use ff_api::worker::{Claim, ClaimedTasks};
use ff_core::contracts::{Claimed, payload_bytes};
use hyper::body::{Body as Parts, Frame};

use crate::answer::{self, with_type};
use crate::app::App;
use crate::extract::Asked;
use crate::refusal::Refusal;
use crate::route::{Route, json};

/// Payload bytes of an answer that is written as a whole.
const WHOLE_BYTES_MAX: u64 = 256 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![json::<Claim, _, _>(claim)]
}

async fn claim(
    State(app): State<Arc<App>>,
    Asked(request, _): Asked<Claim>,
) -> Result<Response<Body>, Refusal> {
    let with_text = request.payload_text;
    app.metrics.asked(&request);
    // A client that hangs up drops the claim, and the scheduler hands back what it would have got.
    let claimed = tokio::select! {
        claimed = app.work.claim(request) => claimed?,
        () = app.draining() => Vec::new(),
    };
    app.metrics.claimed(&claimed);
    if payload_bytes(&claimed) > WHOLE_BYTES_MAX {
        let answer = Answer { next: Next::Begin, tasks: claimed.into_iter(), with_text };
        return Ok(with_type(StatusCode::OK, JSON, Body::new(answer)));
    }
    let tasks = claimed.into_iter().map(|claimed| Task::new(claimed, with_text)).collect();
    Ok(answer::Json(StatusCode::OK, ClaimedTasks { tasks }).into_response())
}

/// [`ClaimedTasks`], written task by task: several copies of large payloads at a time would be too
/// much.
struct Answer {
    next: Next,
    tasks: std::vec::IntoIter<Claimed>,
    with_text: bool,
}

/// What is to be written next.
enum Next {
    Begin,
    First,
    Another,
    Nothing,
}

impl Answer {
    fn part(&mut self) -> Result<Option<Bytes>, serde_json::Error> {
        let before: &[u8] = match self.next {
            Next::Nothing => return Ok(None),
            Next::Begin => {
                self.next = Next::First;
                return Ok(Some(Bytes::from_static(b"{\"tasks\":[")));
            }
            Next::First => b"",
            Next::Another => b",",
        };
        let Some(claimed) = self.tasks.next() else {
            self.next = Next::Nothing;
            return Ok(Some(Bytes::from_static(b"]}")));
        };
        self.next = Next::Another;
        let mut text = Vec::with_capacity(claimed.payload.len() / 3 * 4 + TASK_BYTES);
        text.extend_from_slice(before);
        serde_json::to_writer(&mut text, &Task::new(claimed, self.with_text))?;
        Ok(Some(text.into()))
    }
}

/// About what a task has besides its payload.
const TASK_BYTES: usize = 2048;

impl Parts for Answer {
    type Data = Bytes;
    type Error = serde_json::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, serde_json::Error>>> {
        Poll::Ready(self.part().transpose().map(|part| part.map(Frame::data)))
    }
}
