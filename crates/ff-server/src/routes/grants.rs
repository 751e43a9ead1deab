//! Claims in two steps: a grant reserves an execution for a worker, who turns it into a task.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ff_api::grant::ClaimGranted;
use ff_api::task::Task;
use ff_core::contracts::{Grant, GrantRequest, LeaseRequest, NextGrant, NextGrantRequest};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::types::{ExecutionId, LeaseId, WorkerId};

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::{Asked, On};
use crate::refusal::Refusal;
use crate::route::{Route, direct, json};

pub(super) fn routes() -> Vec<Route> {
    vec![
        json::<NextGrantRequest, _, _>(grant_next).answers_nothing("There is no work."),
        direct::<GrantRequest, _>(|engine, id, it| Box::pin(grant(engine, id, it))),
        json::<ClaimGranted, _, _>(claim),
    ]
}

async fn grant_next(
    State(app): State<Arc<App>>,
    On(worker_id, _): On<WorkerId>,
    Asked(request, _): Asked<NextGrantRequest>,
) -> Result<Response, Refusal> {
    Ok(match app.work.grant_next(worker_id, request).await? {
        Some(grant) => ok(Grant::from(grant)).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

async fn grant(
    engine: &dyn EngineBackend,
    execution_id: ExecutionId,
    request: GrantRequest,
) -> Result<Grant, EngineError> {
    let granted = if request.reclaim {
        NextGrant::Reclaim(engine.issue_reclaim_grant(execution_id, request).await?)
    } else {
        NextGrant::Claim(engine.issue_claim_grant(execution_id, request).await?)
    };
    Ok(granted.into())
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
    let claimed = app.work.claim_granted(request.into_grant(execution_id), lease).await;
    let claimed = claimed.map_err(|error| Refusal::from(error).advise(Some(name)))?;
    app.metrics.claimed(std::slice::from_ref(&claimed));
    ok(Task::new(claimed, true))
}
