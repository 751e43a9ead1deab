//! A task's output, written as one long request: a line for each frame.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use ff_api::frame_stream::WriteFrames;
use ff_api::frames::NewFrame;
use ff_api::headers::{FIRST_SEQUENCE, NDJSON};
use ff_api::problem::{HttpCode, Problem};
use ff_core::backend::{Frame, Handle};
use ff_core::contracts::AppendFrameOutcome;
use ff_core::limits;
use hyper::body::Body as Parts;

use super::reads::draining;
use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::{TaskHeader, handle, header, parse_json};
use crate::refusal::Refusal;
use crate::route::{Route, json};

/// The longest line: the largest frame, every byte of it escaped, and all else that it may have.
const LINE_BYTES_MAX: usize = 6 * limits::FRAME_BYTES_MAX as usize + 4096;

pub(super) fn routes() -> Vec<Route> {
    let task = "The task's token.";
    let first = "The number of the first frame: the task's next_frame, and counted on from there.";
    let route = json::<WriteFrames, _, _>(write)
        .lasting()
        .takes_text(NDJSON)
        .header::<String>("FlowFabric-Task", task)
        .header::<String>("FlowFabric-First-Sequence", first);
    vec![route]
}

async fn write(
    State(app): State<Arc<App>>,
    task: TaskHeader,
    request: Request,
) -> Answered<AppendFrameOutcome> {
    let (parts, body) = request.into_parts();
    check_type(&parts.headers)?;
    let first = first_sequence(&parts.headers)?;
    let handle = handle(&app, task, None)?;
    let appending = append_all(&app, &handle, first, Lines::new(body));
    tokio::select! {
        appended = appending => ok(appended?),
        () = app.draining() => Err(draining()),
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(NDJSON) {
        return Ok(());
    }
    let rule = "this path takes lines of JSON: send Content-Type: application/x-ndjson";
    Err(Problem::new(HttpCode::UnsupportedMediaType, rule).about("Content-Type").into())
}

fn first_sequence(headers: &HeaderMap) -> Result<u64, Refusal> {
    let name = "FlowFabric-First-Sequence";
    let text = header(headers, FIRST_SEQUENCE)?;
    let text = text.ok_or_else(|| Refusal::invalid(name, "must be given"))?;
    let number = text.parse().ok().filter(|it| (1..=limits::FRAME_SEQUENCE_MAX).contains(it));
    number.ok_or_else(|| Refusal::invalid(name, "must be the number of a frame, from 1 on"))
}

/// Appends what arrives, as much of it together as there is. Nothing is read meanwhile, so that a
/// writer is as fast as the store.
async fn append_all(
    app: &App,
    handle: &Handle,
    first: u64,
    mut lines: Lines,
) -> Result<AppendFrameOutcome, Refusal> {
    let mut next = first;
    while let Some(mut frames) = lines.frames(app).await? {
        let count = frames.len() as u64;
        frames[0].seq = Some(next);
        app.backend.append_frames(handle, frames).await?;
        next += count;
    }
    let stream_id = format!("{}:{}", handle.execution_id, handle.attempt_index);
    Ok(AppendFrameOutcome { stream_id, frame_count: next - 1 })
}

/// A body that is read line by line.
struct Lines {
    body: Body,
    rest: Vec<u8>,
    ended: bool,
}

impl Lines {
    fn new(body: Body) -> Self {
        Self { body, rest: Vec::new(), ended: false }
    }

    /// The frames of the lines that are there, one at least; none at the end.
    async fn frames(&mut self, app: &App) -> Result<Option<Vec<Frame>>, Refusal> {
        loop {
            let frames = self.parse()?;
            if !frames.is_empty() {
                return Ok(Some(frames));
            }
            if self.ended {
                return Ok(None);
            }
            self.receive(app).await?;
        }
    }

    /// Waits for more of the body.
    async fn receive(&mut self, app: &App) -> Result<(), Refusal> {
        if self.rest.len() > LINE_BYTES_MAX {
            let rule = format!("a line may have at most {LINE_BYTES_MAX} bytes");
            return Err(Problem::new(HttpCode::BodyTooLarge, rule).into());
        }
        let silence = app.limits.header_timeout();
        match tokio::time::timeout(silence, chunk(&mut self.body)).await {
            Ok(Ok(Some(bytes))) => self.rest.extend_from_slice(&bytes),
            Ok(Ok(None)) => {
                self.ended = true;
                // The last line may lack its end.
                self.rest.push(b'\n');
            }
            Ok(Err(_)) => {
                let broken = "the body did not arrive whole; what arrived was appended";
                return Err(Problem::new(HttpCode::MalformedRequest, broken).into());
            }
            Err(_) => {
                let silent = "no line came for too long";
                return Err(Problem::new(HttpCode::RequestTimeout, silent).into());
            }
        }
        Ok(())
    }

    /// Takes as many whole lines as one append may have.
    fn parse(&mut self) -> Result<Vec<Frame>, Refusal> {
        let (mut frames, mut bytes, mut taken) = (Vec::new(), 0, 0);
        for line in self.rest.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") || frames.len() as u64 >= limits::APPEND_FRAMES_MAX {
                break;
            }
            if !line.trim_ascii().is_empty() {
                let frame = Frame::try_from(parse_json::<NewFrame>(line.trim_ascii())?)?;
                bytes += frame.bytes.len() as u64;
                if bytes > limits::APPEND_BYTES_MAX && !frames.is_empty() {
                    break;
                }
                frames.push(frame);
            }
            taken += line.len();
        }
        self.rest.drain(..taken);
        Ok(frames)
    }
}

/// The next bytes of a body; none at its end.
async fn chunk(body: &mut Body) -> Result<Option<Bytes>, axum::Error> {
    loop {
        let frame = std::future::poll_fn(|it| std::pin::Pin::new(&mut *body).poll_frame(it)).await;
        match frame.transpose()? {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}
