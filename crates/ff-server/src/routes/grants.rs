//! Claims in two steps: a grant reserves an execution for a worker, who turns it into a task.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ff_api::grant::{ClaimForWorker, ClaimGranted, Grant, GrantExecution};
use ff_api::paths;
use ff_api::schema;
use ff_api::task::Task;
use ff_core::contracts::{GrantRequest, LeaseRequest, NextGrantRequest};
use ff_core::error::EngineError;
use ff_core::types::{GrantId, LeaseId, WorkerId};

use super::reads::on;
use crate::answer::{Answered, ok};
use crate::app::App;
use crate::claiming;
use crate::extract::{ExecutionPath, Json, NamePath};
use crate::refusal::Refusal;
use crate::route::Route;

const TAG: &str = "grants";

const NEXT: &str = "Looks for the best execution of the lane that the worker could take, in the \
    partitions that may have one, each in its turn. An unused grant ends by itself.";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(paths::WORKER_CLAIM, grant_next)
            .says("claimForWorker", TAG, "Reserves the next execution of a lane for a worker.")
            .explains(NEXT)
            .path_parameter::<schema::WorkerName>("worker", "The kind of worker, percent-encoded.")
            .takes::<ClaimForWorker>()
            .answers::<Grant>(200, "It is reserved.")
            .answers_nothing("There is no work.")
            .refuses(&[409]),
        on(Route::post(paths::EXECUTION_GRANT, grant))
            .says("grantExecution", TAG, "Reserves one execution for a worker.")
            .takes::<GrantExecution>()
            .answers::<Grant>(200, "It is reserved.")
            .refuses(&[409]),
        Route::post(paths::GRANTS_CLAIM, claim)
            .says("claimGranted", TAG, "Turns a grant into a task.")
            .takes::<ClaimGranted>()
            .answers::<Task>(200, "The task.")
            .refuses(&[404, 409]),
    ]
}

async fn grant_next(
    State(app): State<Arc<App>>,
    NamePath(worker_id): NamePath<WorkerId>,
    Json(request, _): Json<ClaimForWorker>,
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
    ExecutionPath(execution_id): ExecutionPath,
    Json(request, _): Json<GrantExecution>,
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
    if request.reclaim {
        return ok(Grant::from(&app.backend.issue_reclaim_grant(wanted).await?));
    }
    ok(Grant::from(&app.backend.issue_claim_grant(wanted).await?))
}

async fn claim(
    State(app): State<Arc<App>>,
    Json(request, _): Json<ClaimGranted>,
) -> Answered<Task> {
    request.execution_id.check(&app.partitions()).map_err(EngineError::from)?;
    let minted = || LeaseId::from_uuid(app.ids.random());
    let lease = LeaseRequest {
        lease_id: request.lease_id.unwrap_or_else(minted),
        lease_ttl_ms: request.lease_ttl_ms,
    };
    lease.validate()?;
    let claimed = claiming::claim_granted(&app, request.grant(), lease).await?;
    app.metrics.claimed(std::slice::from_ref(&claimed));
    ok(Task::new(claimed, true))
}
