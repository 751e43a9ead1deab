//! Claims in two steps: a grant reserves an execution for a worker, who turns it into a task.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ff_api::grant::{ClaimForWorker, ClaimGranted, Grant, GrantExecution};
use ff_api::task::Task;
use ff_core::contracts::{GrantRequest, LeaseRequest, NextGrantRequest};
use ff_core::error::EngineError;
use ff_core::types::{ExecutionId, GrantId, LeaseId, WorkerId};

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::{Asked, On};
use crate::refusal::Refusal;
use crate::route::{Route, json};

pub(super) fn routes() -> Vec<Route> {
    vec![
        json::<ClaimForWorker, _, _>(grant_next).answers_nothing("There is no work."),
        json::<GrantExecution, _, _>(grant),
        json::<ClaimGranted, _, _>(claim),
    ]
}

async fn grant_next(
    State(app): State<Arc<App>>,
    On(worker_id, _): On<WorkerId>,
    Asked(request, _): Asked<ClaimForWorker>,
) -> Result<Response, Refusal> {
    let wanted = NextGrantRequest {
        grant_id: GrantId::from_uuid(app.ids.random()),
        lane: request.lane_id,
        worker_id,
        worker_instance_id: request.worker_instance_id,
        capabilities: request.capabilities,
        grant_ttl_ms: request.grant_ttl_ms,
    };
    Ok(match app.work.grant_next(wanted).await? {
        Some(grant) => ok(Grant::from(&grant)).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

async fn grant(
    State(app): State<Arc<App>>,
    On(execution_id, name): On<ExecutionId>,
    Asked(request, _): Asked<GrantExecution>,
) -> Answered<Grant> {
    let minted = || GrantId::from_uuid(app.ids.random());
    let wanted = GrantRequest {
        grant_id: request.grant_id.unwrap_or_else(minted),
        execution_id,
        worker_id: request.worker_id,
        worker_instance_id: request.worker_instance_id,
        capabilities: request.capabilities,
        grant_ttl_ms: request.grant_ttl_ms,
    };
    let granted = if request.reclaim {
        app.backend.issue_reclaim_grant(wanted).await.map(|grant| Grant::from(&grant))
    } else {
        app.backend.issue_claim_grant(wanted).await.map(|grant| Grant::from(&grant))
    };
    ok(granted.map_err(|error| Refusal::from(error).advise(name))?)
}

async fn claim(
    State(app): State<Arc<App>>,
    Asked(request, _): Asked<ClaimGranted>,
) -> Answered<Task> {
    let name = request.execution_id;
    let execution_id = name.resolve(&app.partitions()).map_err(EngineError::from)?;
    let minted = || LeaseId::from_uuid(app.ids.random());
    let lease = LeaseRequest {
        lease_id: request.lease_id.unwrap_or_else(minted),
        lease_ttl_ms: request.lease_ttl_ms,
    };
    lease.validate()?;
    let claimed = app.work.claim_granted(request.grant(execution_id), lease).await;
    let claimed = claimed.map_err(|error| Refusal::from(error).advise(Some(name)))?;
    app.metrics.claimed(std::slice::from_ref(&claimed));
    ok(Task::new(claimed, true))
}
