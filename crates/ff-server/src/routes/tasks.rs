//! What workers say about their tasks.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use ff_api::create::BULK_MAX;
use ff_api::frames::AppendFrames;
use ff_api::task::{
    AddChildrenTask, BulkComplete, BulkCompleted, BulkEnd, CancelTask, CompleteTask, DelayTask,
    FailTask, FailedTask, ProgressTask, RenewTask, Task, WaitChildrenTask,
};
use ff_api::worker::ClaimedTasks;
use ff_core::argument::{check_bytes, check_payload, check_range, check_words};
use ff_core::backend::{FailOutcome, Handle, LeaseRenewal};
use ff_core::contracts::{
    AppendFrameOutcome, ChildrenAdded, Completion, Finished, NextTask, TaskEnd, TaskEnded,
};
use ff_core::error::EngineError;
use ff_core::limits;

use crate::answer::{self, Answered, ok};
use crate::app::App;
use crate::body::{self, Kind};
use crate::extract::{Asked, TaskHeader, bulk, handle, parse_json};
use crate::metrics::Outcome;
use crate::refusal::Refusal;
use crate::route::{Route, json};

type Done = Result<StatusCode, Refusal>;

pub(super) fn routes() -> Vec<Route> {
    let routes = vec![
        json::<RenewTask, _, _>(renew),
        json::<ProgressTask, _, _>(progress),
        json::<AppendFrames, _, _>(append_frames),
        json::<CompleteTask, _, _>(complete)
            .or_bytes()
            .answers::<ClaimedTasks>(200, "It is completed, and this is the task that comes next."),
        json::<FailTask, _, _>(fail),
        json::<BulkComplete, _, _>(complete_bulk),
        json::<DelayTask, _, _>(delay),
        json::<AddChildrenTask, _, _>(add_children),
        json::<WaitChildrenTask, _, _>(wait_children),
        json::<CancelTask, _, _>(cancel),
    ];
    let about = "The task's token, unless the body has it.";
    routes.into_iter().map(|route| route.header::<String>("FlowFabric-Task", about)).collect()
}

async fn renew(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(request, _): Asked<RenewTask>,
) -> Answered<LeaseRenewal> {
    let handle = handle(&app, header, request.task_token)?;
    check_range("lease_ttl_ms", handle.lease_ttl_ms, 1..=limits::LEASE_TTL_MS_MAX)?;
    let renewed = app.backend.renew(&handle).await;
    app.metrics.renewed(&handle, renewed.is_ok());
    ok(renewed?)
}

async fn progress(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(request, _): Asked<ProgressTask>,
) -> Done {
    let handle = handle(&app, header, request.task_token)?;
    check_range("percent", request.percent.unwrap_or(0).into(), 0..=100)?;
    let message = request.message.as_ref().map_or(0, String::len);
    check_bytes("message", message, limits::PROGRESS_MESSAGE_BYTES_MAX)?;
    app.backend.progress(&handle, request.percent, request.message).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn complete(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let kind = body::kind(&parts.headers);
    if kind != Kind::Json && header.0.is_none() {
        return Err(body::not_json());
    }
    let whole = body::read(&app, &parts.headers, body, body::PAYLOAD_BODY_BYTES).await?;
    let (handle, result, next) = match kind {
        Kind::Json => {
            let mut request: CompleteTask = parse_json(&whole.bytes)?;
            let handle = handle(&app, header, request.task_token.take())?;
            let next = request.next.take();
            (handle, request.into_result()?, next)
        }
        Kind::Other | Kind::Unsaid => (handle(&app, header, None)?, Some(whole.bytes.into()), None),
    };
    check_payload(result.as_ref().map_or(0, Vec::len), limits::RESULT_BYTES_MAX)?;
    let Some(next) = next else {
        app.backend.complete(&handle, result).await?;
        return Ok(ended(&app, &handle, Outcome::Completed).into_response());
    };
    let (_, tasks) = finish(&app, &handle, TaskEnd::Complete(result), next).await?;
    app.metrics.outcome(&handle, Outcome::Completed);
    Ok(answer::Json(StatusCode::OK, ClaimedTasks { tasks }).into_response())
}

async fn complete_bulk(State(app): State<Arc<App>>, request: Request) -> Answered<BulkCompleted> {
    let (bulk, _room) = bulk::<BulkComplete>(request, &app).await?;
    check_range("number of tasks", bulk.tasks.len() as u64, 1..=BULK_MAX as u64)?;
    let ends = bulk.tasks.into_iter().map(|task| completion(&app, task.0));
    let ends = ends.collect::<Result<Vec<Completion>, Refusal>>()?;
    let handles: Vec<Handle> = ends.iter().map(|end| end.handle.clone()).collect();
    let answers = app.backend.complete_many(ends).await;
    for (handle, _) in handles.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()) {
        app.metrics.outcome(handle, Outcome::Completed);
    }
    ok(BulkCompleted { results: answers.into_iter().map(BulkEnd::from).collect() })
}

/// One of several ends.
fn completion(app: &App, mut task: CompleteTask) -> Result<Completion, Refusal> {
    if task.next.is_some() {
        return Err(Refusal::invalid("next", "is for the end of one task"));
    }
    let handle = handle(app, TaskHeader(None), task.task_token.take())?;
    let result = task.into_result()?;
    check_payload(result.as_ref().map_or(0, Vec::len), limits::RESULT_BYTES_MAX)?;
    Ok(Completion { handle, result })
}

/// Ends a task and takes the next one. A server that is about to stop hands nothing out.
async fn finish(
    app: &App,
    handle: &Handle,
    end: TaskEnd,
    next: NextTask,
) -> Result<(TaskEnded, Vec<Task>), Refusal> {
    next.validate()?;
    if app.is_draining() {
        return Ok((finish_only(app, handle, end).await?, Vec::new()));
    }
    let with_text = next.payload_text;
    let Finished { ended, next } = app.work.finish(handle, end, next).await?;
    app.metrics.claimed(next.as_slice());
    Ok((ended, next.map(|claimed| Task::new(claimed, with_text)).into_iter().collect()))
}

async fn finish_only(app: &App, handle: &Handle, end: TaskEnd) -> Result<TaskEnded, EngineError> {
    match end {
        TaskEnd::Complete(result) => {
            app.backend.complete(handle, result).await.map(|()| TaskEnded::Completed)
        }
        TaskEnd::Fail(reason, class) => {
            app.backend.fail(handle, reason, class).await.map(TaskEnded::Failed)
        }
    }
}

async fn append_frames(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(mut request, _): Asked<AppendFrames>,
) -> Answered<AppendFrameOutcome> {
    let handle = handle(&app, header, request.task_token.take())?;
    ok(app.backend.append_frames(&handle, request.into_frames()?).await?)
}

async fn fail(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(mut request, _): Asked<FailTask>,
) -> Answered<FailedTask> {
    let handle = handle(&app, header, request.task_token.take())?;
    let next = request.next.take();
    let (reason, class) = request.into_failure()?;
    let end = TaskEnd::Fail(reason, class);
    let (ended, tasks) = match next {
        Some(next) => finish(&app, &handle, end, next).await?,
        None => (finish_only(&app, &handle, end).await?, Vec::new()),
    };
    let outcome = match ended {
        TaskEnded::Failed(outcome) => outcome,
        TaskEnded::Completed => {
            return Err(EngineError::corrupt("fail", "ended", "completed").into());
        }
    };
    let counted = match outcome {
        FailOutcome::RetryScheduled { .. } => Outcome::Retried,
        FailOutcome::TerminalFailed => Outcome::Failed,
    };
    app.metrics.outcome(&handle, counted);
    ok(FailedTask { tasks, ..outcome.into() })
}

async fn delay(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(mut request, _): Asked<DelayTask>,
) -> Done {
    let handle = handle(&app, header, request.task_token.take())?;
    app.backend.delay(&handle, request.until()?).await?;
    Ok(ended(&app, &handle, Outcome::Delayed))
}

async fn add_children(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(mut request, _): Asked<AddChildrenTask>,
) -> Answered<ChildrenAdded> {
    let handle = handle(&app, header, request.task_token.take())?;
    ok(app.backend.add_children(&handle, request.tasks).await?)
}

async fn wait_children(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(request, _): Asked<WaitChildrenTask>,
) -> Done {
    let handle = handle(&app, header, request.task_token)?;
    app.backend.wait_children(&handle).await?;
    Ok(ended(&app, &handle, Outcome::Delayed))
}

async fn cancel(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(request, _): Asked<CancelTask>,
) -> Done {
    let handle = handle(&app, header, request.task_token)?;
    check_words(&request.reason, "")?;
    app.backend.cancel(&handle, &request.reason).await?;
    Ok(ended(&app, &handle, Outcome::Cancelled))
}

fn ended(app: &App, handle: &Handle, outcome: Outcome) -> StatusCode {
    app.metrics.outcome(handle, outcome);
    StatusCode::NO_CONTENT
}
