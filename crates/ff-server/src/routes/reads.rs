//! Reading one execution.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ff_api::deployment::ResultQuery;
use ff_api::execution::{Execution, ExecutionState};
use ff_api::headers::OCTET_STREAM;
use ff_api::history::{Attempts, History};
use ff_api::paths;
use ff_api::problem::{HttpCode, Problem};
use ff_api::schema;
use ff_core::argument::check_range;
use ff_core::contracts::ExecutionSnapshot;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;
use tokio::time::Instant;

use crate::answer::{Answered, ok, raw};
use crate::app::App;
use crate::ended::LOOK_AGAIN;
use crate::extract::{ExecutionPath, Query};
use crate::refusal::Refusal;
use crate::route::Route;

const TAG: &str = "executions";

const RESULT: &str = "Answers the bytes that the worker gave, as they were. Until the execution \
    has ended the answer is 409 execution_not_ended; with wait_ms it comes as soon as the execution \
    ends. An execution that did not complete answers 409 with its failure.";

const HISTORY: &str = "The log of a partition is bounded: of an execution whose beginning is gone \
    the rest is answered, and complete is false.";

pub(super) fn routes() -> Vec<Route> {
    vec![
        on(Route::get(paths::EXECUTION, describe))
            .says("getExecution", TAG, "Everything about an execution but its bytes.")
            .answers::<Execution>(200, "The execution."),
        on(Route::get(paths::EXECUTION_STATE, state))
            .says("getExecutionState", TAG, "Where an execution stands, in one word.")
            .answers::<ExecutionState>(200, "The word."),
        on(Route::get(paths::EXECUTION_RESULT, result))
            .says("getExecutionResult", TAG, "The result of an execution, as raw bytes.")
            .explains(RESULT)
            .waits()
            .query::<ResultQuery>()
            .uses::<schema::WaitMs>()
            .answers_raw(OCTET_STREAM, "The result.")
            .refuses(&[409]),
        on(Route::get(paths::EXECUTION_PAYLOAD, payload))
            .says("getExecutionPayload", TAG, "The input of an execution, as raw bytes.")
            .answers_raw(OCTET_STREAM, "The input."),
        on(Route::get(paths::EXECUTION_ATTEMPTS, attempts))
            .says("listExecutionAttempts", TAG, "The attempts of an execution, oldest first.")
            .answers::<Attempts>(200, "The attempts."),
        on(Route::get(paths::EXECUTION_HISTORY, history))
            .says("getExecutionHistory", TAG, "The events of an execution, oldest first.")
            .explains(HISTORY)
            .answers::<History>(200, "The events."),
    ]
}

/// A route about one execution.
pub(super) fn on(route: Route) -> Route {
    route
        .path_parameter::<schema::ExecutionId>("execution_id", "The execution, percent-encoded.")
        .refuses(&[404])
}

fn not_found() -> EngineError {
    EngineError::refused(Code::ExecutionNotFound)
}

async fn snapshot(app: &App, id: ExecutionId) -> Result<ExecutionSnapshot, EngineError> {
    app.backend.describe_execution(id).await?.ok_or_else(not_found)
}

async fn describe(
    State(app): State<Arc<App>>,
    ExecutionPath(id): ExecutionPath,
) -> Answered<Execution> {
    ok(snapshot(&app, id).await?.into())
}

async fn state(
    State(app): State<Arc<App>>,
    ExecutionPath(execution_id): ExecutionPath,
) -> Answered<ExecutionState> {
    let public_state = snapshot(&app, execution_id).await?.public_state();
    ok(ExecutionState { execution_id, public_state })
}

async fn payload(
    State(app): State<Arc<App>>,
    ExecutionPath(id): ExecutionPath,
) -> Result<Response, Refusal> {
    let payload = app.backend.read_payload(id).await?;
    Ok(raw(payload.ok_or_else(not_found)?))
}

async fn attempts(
    State(app): State<Arc<App>>,
    ExecutionPath(id): ExecutionPath,
) -> Answered<Attempts> {
    let attempts = app.backend.list_attempts(id).await?;
    ok(Attempts { attempts: attempts.into_iter().map(Into::into).collect() })
}

async fn history(
    State(app): State<Arc<App>>,
    ExecutionPath(id): ExecutionPath,
) -> Answered<History> {
    snapshot(&app, id).await?;
    let limit = limits::LIST_LIMIT_MAX as u32;
    let (mut history, mut after) = (History::default(), None);
    // The log may grow while it is read; what comes after as many events as it holds can wait.
    for _ in 0..=limits::EVENT_LOG_LENGTH / limits::LIST_LIMIT_MAX {
        let page = app.backend.read_events(id.partition(), after, limit).await?;
        let full = page.events.len() == limit as usize;
        let own = page.events.into_iter().filter(|event| event.execution_id == id);
        history.events.extend(own.map(Into::into));
        after = page.next_cursor;
        if !full {
            break;
        }
    }
    history.complete = history.events.first().is_some_and(|event| event.kind == "created");
    ok(history)
}

async fn result(
    State(app): State<Arc<App>>,
    ExecutionPath(id): ExecutionPath,
    Query(query): Query<ResultQuery>,
) -> Result<Response, Refusal> {
    check_range("wait_ms", query.wait_ms, 0..=limits::CLAIM_WAIT_MS_MAX)?;
    let deadline = Instant::now() + Duration::from_millis(query.wait_ms);
    if query.wait_ms == 0 {
        return look(&app, id).await?.ok_or_else(|| not_ended(id));
    }
    let watch = app.ended.watch(id);
    loop {
        // Asked for before the look, so that an end in between is not missed.
        let news = watch.news();
        if let Some(answer) = look(&app, id).await? {
            return Ok(answer);
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(not_ended(id));
        }
        tokio::select! {
            () = news => {}
            () = tokio::time::sleep_until(deadline.min(now + LOOK_AGAIN)) => {}
            () = app.draining() => return Err(draining()),
        }
    }
}

/// The answer, if the execution has ended.
async fn look(app: &App, id: ExecutionId) -> Result<Option<Response>, Refusal> {
    if let Some(result) = app.backend.read_result(id).await? {
        return Ok(Some(raw(result)));
    }
    let snapshot = snapshot(app, id).await?;
    match snapshot.public_state() {
        // It completed between the two reads.
        PublicState::Completed => Ok(app.backend.read_result(id).await?.map(raw)),
        state if state.is_terminal() => Err(without_result(snapshot)),
        _ => Ok(None),
    }
}

fn without_result(snapshot: ExecutionSnapshot) -> Refusal {
    let code = match snapshot.public_state() {
        PublicState::Cancelled => HttpCode::ExecutionCancelled,
        PublicState::Expired => HttpCode::ExecutionExpired,
        PublicState::Skipped => HttpCode::ExecutionSkipped,
        _ => HttpCode::ExecutionFailed,
    };
    let reason = match (&snapshot.cancel, &snapshot.failure) {
        (Some(cancel), _) => cancel.reason.clone(),
        (None, Some(failure)) => failure.reason.clone(),
        (None, None) => String::new(),
    };
    let mut problem = Problem::new(code, reason);
    problem.failure = snapshot.failure.map(Into::into);
    problem.into()
}

fn not_ended(id: ExecutionId) -> Refusal {
    Problem::new(HttpCode::ExecutionNotEnded, format!("{id} has not ended")).into()
}

fn draining() -> Refusal {
    Problem::new(HttpCode::Draining, "").into()
}
