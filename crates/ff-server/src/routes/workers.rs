//! The registry of workers.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use ff_api::worker::Register;
use ff_core::contracts::{Disconnect, Heartbeat, ListWorkers};
use ff_core::error::EngineError;
use ff_core::types::WorkerInstanceId;
use ff_engine::ENGINE_WORKER_ID;

use crate::app::App;
use crate::extract::{Asked, On};
use crate::refusal::Refusal;
use crate::route::{Route, answer, direct, json};

pub(super) fn routes() -> Vec<Route> {
    vec![
        json::<Register, _, _>(register),
        json::<ListWorkers, _, _>(list),
        json::<Heartbeat, _, _>(heartbeat),
        direct::<Disconnect, _>(|engine, id, it| engine.disconnect_worker(id, it)),
    ]
}

async fn register(
    State(app): State<Arc<App>>,
    Asked(request, _room): Asked<Register>,
) -> Result<Response, Refusal> {
    if request.worker_id.as_str() == ENGINE_WORKER_ID {
        return Err(EngineError::invalid("worker_id", "is reserved for servers").into());
    }
    Ok(answer::<Register>(app.backend.register_worker(request).await?))
}

async fn heartbeat(
    State(app): State<Arc<App>>,
    On(instance, _): On<WorkerInstanceId>,
    Asked(request, _room): Asked<Heartbeat>,
) -> Result<Response, Refusal> {
    let registered = app.backend.heartbeat_worker(instance, request).await?;
    if registered.at_capacity {
        app.metrics.worker_at_capacity();
    }
    Ok(answer::<Heartbeat>(registered))
}

/// Servers find each other by the same registry; they are no workers to others.
async fn list(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let mut list = app.backend.recent_workers().await?;
    list.workers.retain(|worker| worker.worker_id.as_str() != ENGINE_WORKER_ID);
    Ok(answer::<ListWorkers>(list))
}
