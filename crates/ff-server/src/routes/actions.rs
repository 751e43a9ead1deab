//! Interventions in an execution from outside.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use ff_api::action::{
    CancelExecution, ChangePriority, ChangedPriority, ReplayExecution, RevokeLease, RevokedLease,
    SetTags,
};
use ff_api::execution::ExecutionState;
use ff_api::paths;
use ff_core::argument::{check_bytes, check_range};
use ff_core::contracts::CancelSource;
use ff_core::limits;
use ff_core::state::PublicState;

use super::reads::on;
use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::{ExecutionPath, Json, OptionalJson};
use crate::refusal::Refusal;
use crate::route::Route;

const TAG: &str = "executions";

const CANCEL: &str = "In any phase. Its worker, if it has one, loses its lease. An execution that \
    was cancelled before stays so; one that ended otherwise is refused with 409.";

pub(super) fn routes() -> Vec<Route> {
    vec![
        on(Route::post(paths::EXECUTION_CANCEL, cancel))
            .says("cancelExecution", TAG, "Cancels an execution.")
            .explains(CANCEL)
            .may_take::<CancelExecution>()
            .answers::<ExecutionState>(200, "It is cancelled.")
            .refuses(&[409]),
        on(Route::post(paths::EXECUTION_REPLAY, replay))
            .says("replayExecution", TAG, "Runs an ended execution again.")
            .may_take::<ReplayExecution>()
            .answers::<ExecutionState>(200, "It will run again.")
            .refuses(&[409]),
        on(Route::post(paths::EXECUTION_REVOKE_LEASE, revoke_lease))
            .says("revokeLease", TAG, "Takes a lease away; another worker may take over.")
            .may_take::<RevokeLease>()
            .answers::<RevokedLease>(200, "Nobody holds the execution any more.")
            .refuses(&[409]),
        on(Route::put(paths::EXECUTION_PRIORITY, change_priority))
            .says("changePriority", TAG, "Changes the priority of an execution.")
            .takes::<ChangePriority>()
            .answers::<ChangedPriority>(200, "The priority before and now.")
            .refuses(&[409]),
        on(Route::put(paths::EXECUTION_TAGS, set_tags))
            .says("setTags", TAG, "Adds labels or replaces their values.")
            .takes::<SetTags>()
            .answers_nothing("They are set.")
            .refuses(&[409]),
    ]
}

async fn cancel(
    State(app): State<Arc<App>>,
    ExecutionPath(execution_id): ExecutionPath,
    OptionalJson(request): OptionalJson<CancelExecution>,
) -> Answered<ExecutionState> {
    check_bytes("reason", request.reason.len(), limits::REASON_BYTES_MAX)?;
    let source = CancelSource::OperatorOverride;
    app.backend.cancel_execution(execution_id, &request.reason, source, request.request_id).await?;
    ok(ExecutionState { execution_id, public_state: PublicState::Cancelled })
}

async fn replay(
    State(app): State<Arc<App>>,
    ExecutionPath(execution_id): ExecutionPath,
    OptionalJson(request): OptionalJson<ReplayExecution>,
) -> Answered<ExecutionState> {
    check_bytes("reason", request.reason.len(), limits::REASON_BYTES_MAX)?;
    check_bytes("requested_by", request.requested_by.len(), limits::CREATOR_BYTES_MAX)?;
    let ReplayExecution { reason, requested_by, request_id } = &request;
    let replayed = app.backend.replay(execution_id, reason, requested_by, *request_id);
    ok(ExecutionState { execution_id, public_state: replayed.await? })
}

async fn revoke_lease(
    State(app): State<Arc<App>>,
    ExecutionPath(id): ExecutionPath,
    OptionalJson(request): OptionalJson<RevokeLease>,
) -> Answered<RevokedLease> {
    check_bytes("reason", request.reason.len(), limits::REASON_BYTES_MAX)?;
    let RevokeLease { reason, expected_lease_id, request_id } = &request;
    let revoked = app.backend.revoke_lease(id, *expected_lease_id, reason, *request_id);
    ok(revoked.await?.into())
}

async fn change_priority(
    State(app): State<Arc<App>>,
    ExecutionPath(id): ExecutionPath,
    Json(request, _): Json<ChangePriority>,
) -> Answered<ChangedPriority> {
    check_range("priority", request.priority.into(), 0..=limits::PRIORITY_MAX)?;
    ok(app.backend.change_priority(id, request.priority, request.request_id).await?.into())
}

async fn set_tags(
    State(app): State<Arc<App>>,
    ExecutionPath(id): ExecutionPath,
    Json(request, _room): Json<SetTags>,
) -> Result<StatusCode, Refusal> {
    app.backend.set_tags(id, request.tags, request.request_id).await?;
    Ok(StatusCode::NO_CONTENT)
}
