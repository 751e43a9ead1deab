//! Reading one execution.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ff_api::headers::OCTET_STREAM;
use ff_api::problem::{HttpCode, Problem};
use ff_api::raw::{ReadPayload, ResultQuery};
use ff_core::argument::check_range;
use ff_core::contracts::{
    DescribeExecution, ExecutionSnapshot, ExecutionState, Explain, ListAttempts, ReadHistory,
    ReadState,
};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;
use ff_script::endings::{Ended, how_ended};
use tokio::time::Instant;

use crate::answer::raw;
use crate::app::App;
use crate::extract::{Asked, On};
use crate::refusal::Refusal;
use crate::route::{self, Route, direct};

pub(super) fn routes() -> Vec<Route> {
    vec![
        direct::<DescribeExecution, _>(|engine, id, _| Box::pin(snapshot(engine, id))),
        direct::<ReadState, _>(|engine, id, _| Box::pin(state(engine, id))),
        route::raw::<ResultQuery, _, _>(result).answers_raw(OCTET_STREAM, "The result."),
        route::raw::<ReadPayload, _, _>(payload).answers_raw(OCTET_STREAM, "The input."),
        direct::<Explain, _>(|engine, id, _| engine.explain_execution(id)),
        direct::<ListAttempts, _>(|engine, id, _| engine.list_attempts(id)),
        direct::<ReadHistory, _>(|engine, id, _| engine.read_history(id)),
    ]
}

fn not_found() -> EngineError {
    EngineError::refused(Code::ExecutionNotFound)
}

async fn snapshot(
    engine: &dyn EngineBackend,
    id: ExecutionId,
) -> Result<ExecutionSnapshot, EngineError> {
    engine.describe_execution(id).await?.ok_or_else(not_found)
}

async fn state(
    engine: &dyn EngineBackend,
    execution_id: ExecutionId,
) -> Result<ExecutionState, EngineError> {
    let public_state = snapshot(engine, execution_id).await?.public_state;
    Ok(ExecutionState { execution_id, public_state })
}

async fn payload(
    State(app): State<Arc<App>>,
    On(id, name): On<ExecutionId>,
) -> Result<Response, Refusal> {
    match app.backend.read_payload(id).await?.ok_or_else(not_found) {
        Ok(payload) => Ok(raw(payload)),
        Err(error) => Err(Refusal::from(error).advise(name)),
    }
}

async fn result(
    State(app): State<Arc<App>>,
    On(id, name): On<ExecutionId>,
    Asked(query, _): Asked<ResultQuery>,
) -> Result<Response, Refusal> {
    await_result(&app, id, query).await.map_err(|refusal| refusal.advise(name))
}

async fn await_result(app: &App, id: ExecutionId, query: ResultQuery) -> Result<Response, Refusal> {
    check_range("wait_ms", query.wait_ms, 0..=limits::CLAIM_WAIT_MS_MAX)?;
    let deadline = Instant::now() + Duration::from_millis(query.wait_ms);
    if query.wait_ms == 0 {
        return look(app, id).await?.ok_or_else(|| not_ended(id));
    }
    let mut watch = app.endings.watch(id).await?;
    loop {
        if let Some(answer) = look(app, id).await? {
            return Ok(answer);
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(not_ended(id));
        }
        tokio::select! {
            () = watch.news(deadline - now) => {}
            () = app.draining() => return Err(draining()),
        }
    }
}

/// The answer, if the execution has ended.
async fn look(app: &App, id: ExecutionId) -> Result<Option<Response>, Refusal> {
    match how_ended(app.backend.as_ref(), id).await? {
        None => Ok(None),
        Some(Ended::Completed(result)) => Ok(Some(raw(result))),
        Some(Ended::Otherwise(snapshot)) => Err(without_result(*snapshot)),
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
    problem.failure = snapshot.failure;
    problem.into()
}

fn not_ended(id: ExecutionId) -> Refusal {
    Problem::new(HttpCode::ExecutionNotEnded, format!("{id} has not ended")).into()
}

pub(super) fn draining() -> Refusal {
    Problem::new(HttpCode::Draining, "").into()
}
