//! What workers say about their tasks.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use ff_api::paths;
use ff_api::task::{
    CancelTask, CompleteTask, DelayTask, FailTask, FailedTask, ProgressTask, RenewTask,
    RenewedTask, WaitChildrenTask,
};
use ff_core::argument::{check_bytes, check_range};
use ff_core::backend::{FailOutcome, Handle};
use ff_core::error::EngineError;
use ff_core::limits;

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::body::{self, Kind};
use crate::extract::{Json, OptionalJson, TaskHeader, handle, parse_json};
use crate::metrics::Outcome;
use crate::refusal::Refusal;
use crate::route::Route;

const TAG: &str = "tasks";

const COMPLETE: &str = "With the token in the header, a body of any type but application/json is \
    the result itself. A repetition with the same token is recognised and answered as the first \
    time.";

const WAIT_CHILDREN: &str = "Then its attempt goes on, with any worker; at once if it has none. A \
    repetition with the same token is recognised.";

type Done = Result<StatusCode, Refusal>;

pub(super) fn routes() -> Vec<Route> {
    vec![
        of_task(Route::post(paths::TASK_RENEW, renew))
            .says("renewTask", TAG, "Extends the lease of a task by its TTL from now.")
            .may_take::<RenewTask>()
            .answers::<RenewedTask>(200, "The lease lasts until then."),
        of_task(Route::post(paths::TASK_PROGRESS, progress))
            .says("progressTask", TAG, "Says how far a task is.")
            .takes::<ProgressTask>()
            .answers_nothing("It is noted."),
        of_task(Route::post(paths::TASK_COMPLETE, complete))
            .says("completeTask", TAG, "Ends a task with a result.")
            .explains(COMPLETE)
            .may_take::<CompleteTask>()
            .or_bytes()
            .answers_nothing("It is completed."),
        of_task(Route::post(paths::TASK_FAIL, fail))
            .says("failTask", TAG, "Ends a task's attempt as failed; its policy decides what next.")
            .takes::<FailTask>()
            .answers::<FailedTask>(200, "What follows."),
        of_task(Route::post(paths::TASK_DELAY, delay))
            .says("delayTask", TAG, "Gives a task back until a time; then its attempt goes on.")
            .takes::<DelayTask>()
            .answers_nothing("It is given back."),
        of_task(Route::post(paths::TASK_WAIT_CHILDREN, wait_children))
            .says("waitChildrenTask", TAG, "Gives a task back until its children have ended.")
            .explains(WAIT_CHILDREN)
            .may_take::<WaitChildrenTask>()
            .answers_nothing("It is given back."),
        of_task(Route::post(paths::TASK_CANCEL, cancel))
            .says("cancelTask", TAG, "Ends a task as cancelled.")
            .may_take::<CancelTask>()
            .answers_nothing("It is cancelled."),
    ]
}

fn of_task(route: Route) -> Route {
    route
        .header::<String>("FlowFabric-Task", "The task's token, unless the body has it.")
        .refuses(&[404, 409])
}

async fn renew(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    OptionalJson(request): OptionalJson<RenewTask>,
) -> Answered<RenewedTask> {
    let handle = handle(&app, header, request.task_token)?;
    check_range("lease_ttl_ms", handle.lease_ttl_ms, 1..=limits::LEASE_TTL_MS_MAX)?;
    let renewed = app.backend.renew(&handle).await;
    app.metrics.renewed(renewed.is_ok());
    ok(renewed?.into())
}

async fn progress(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Json(request, _): Json<ProgressTask>,
) -> Done {
    let handle = handle(&app, header, request.task_token)?;
    check_range("percent", request.percent.unwrap_or(0).into(), 0..=100)?;
    let message = request.message.as_ref().map_or(0, String::len);
    check_bytes("message", message, limits::PROGRESS_MESSAGE_BYTES_MAX)?;
    app.backend.progress(&handle, request.percent, request.message).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn complete(State(app): State<Arc<App>>, header: TaskHeader, request: Request) -> Done {
    let (parts, body) = request.into_parts();
    let kind = body::kind(&parts.headers);
    if kind != Kind::Json && header.0.is_none() {
        return Err(body::not_json());
    }
    let whole = body::read(&app, &parts.headers, body, body::PAYLOAD_BODY_BYTES).await?;
    let (handle, result) = match kind {
        Kind::Json => {
            let mut request: CompleteTask = parse_json(&whole.bytes)?;
            let handle = handle(&app, header, request.task_token.take())?;
            (handle, request.into_result()?)
        }
        Kind::Other | Kind::Unsaid => (handle(&app, header, None)?, Some(whole.bytes.into())),
    };
    check_result(result.as_ref().map_or(0, Vec::len))?;
    app.backend.complete(&handle, result).await?;
    Ok(ended(&app, &handle, Outcome::Completed))
}

fn check_result(bytes: usize) -> Result<(), EngineError> {
    if bytes as u64 <= limits::RESULT_BYTES_MAX {
        return Ok(());
    }
    let details = vec![bytes.to_string(), limits::RESULT_BYTES_MAX.to_string()];
    Err(EngineError::Refused { code: ff_core::error::Code::PayloadTooLarge, details })
}

async fn fail(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Json(mut request, _): Json<FailTask>,
) -> Answered<FailedTask> {
    let handle = handle(&app, header, request.task_token.take())?;
    let (reason, class) = request.into_failure()?;
    let outcome = app.backend.fail(&handle, reason, class).await?;
    let counted = match outcome {
        FailOutcome::RetryScheduled { .. } => Outcome::Retried,
        FailOutcome::TerminalFailed => Outcome::Failed,
    };
    app.metrics.outcome(&handle.lane, counted);
    ok(outcome.into())
}

async fn delay(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Json(mut request, _): Json<DelayTask>,
) -> Done {
    let handle = handle(&app, header, request.task_token.take())?;
    app.backend.delay(&handle, request.until()?).await?;
    Ok(ended(&app, &handle, Outcome::Delayed))
}

async fn wait_children(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    OptionalJson(request): OptionalJson<WaitChildrenTask>,
) -> Done {
    let handle = handle(&app, header, request.task_token)?;
    app.backend.wait_children(&handle).await?;
    Ok(ended(&app, &handle, Outcome::Delayed))
}

async fn cancel(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    OptionalJson(request): OptionalJson<CancelTask>,
) -> Done {
    let handle = handle(&app, header, request.task_token)?;
    check_bytes("reason", request.reason.len(), limits::REASON_BYTES_MAX)?;
    app.backend.cancel(&handle, &request.reason).await?;
    Ok(ended(&app, &handle, Outcome::Cancelled))
}

fn ended(app: &App, handle: &Handle, outcome: Outcome) -> StatusCode {
    app.metrics.outcome(&handle.lane, outcome);
    StatusCode::NO_CONTENT
}
