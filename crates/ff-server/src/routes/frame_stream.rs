//! A task's output, written as one long request: a line for each frame.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use ff_api::frame_stream::WriteFrames;
use ff_api::frames::NewFrame;
use ff_api::headers::{FIRST_SEQUENCE, NDJSON};
use ff_api::problem::{HttpCode, Problem};
use ff_core::backend::{Frame, Handle};
use ff_core::contracts::AppendFrameOutcome;
use ff_core::limits;

use super::reads::draining;
use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::{TaskHeader, handle, header, parse_json};
use crate::lines::{self, Lines};
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
    if !lines::are_given(&parts.headers) {
        let rule = "this path takes lines of JSON: send Content-Type: application/x-ndjson";
        let problem = Problem::new(HttpCode::UnsupportedMediaType, rule);
        return Err(problem.about("Content-Type").into());
    }
    let first = first_sequence(&parts.headers)?;
    let handle = handle(&app, task, None)?;
    let appending = append_all(&app, &handle, first, Lines::new(body, LINE_BYTES_MAX));
    tokio::select! {
        appended = appending => ok(appended?),
        () = app.draining() => Err(draining()),
    }
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
    while let Some(mut frames) = frames(&mut lines, app).await? {
        let count = frames.len() as u64;
        frames[0].seq = Some(next);
        app.backend.append_frames(handle, frames).await?;
        next += count;
    }
    let stream_id = format!("{}:{}", handle.execution_id, handle.attempt_index);
    Ok(AppendFrameOutcome { stream_id, frame_count: next - 1 })
}

/// The frames of the lines that are there, one at least; none at the end.
async fn frames(lines: &mut Lines, app: &App) -> Result<Option<Vec<Frame>>, Refusal> {
    loop {
        let frames = take(lines)?;
        if !frames.is_empty() {
            return Ok(Some(frames));
        }
        if !lines.receive(app).await? {
            return Ok(None);
        }
    }
}

/// Takes as many whole lines as one append may have.
fn take(lines: &mut Lines) -> Result<Vec<Frame>, Refusal> {
    let (mut frames, mut bytes, mut taken) = (Vec::new(), 0, 0);
    for line in lines.whole() {
        if frames.len() as u64 >= limits::APPEND_FRAMES_MAX {
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
    lines.done(taken);
    Ok(frames)
}
