//! The registry of workers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use ff_api::paths;
use ff_api::schema;
use ff_api::worker::{Disconnect, Disconnected, Heartbeat, RegisterWorker, Registered, WorkerList};
use ff_core::argument::check_range;
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::types::{WorkerInstanceId, WorkerSession};
use ff_engine::ENGINE_WORKER_ID;

use crate::answer::{self, Answered, ok};
use crate::app::App;
use crate::extract::{Json, NamePath};
use crate::route::Route;

const TAG: &str = "workers";

const REGISTER: &str = "A process that restarts and still knows its session takes over at once; \
    one that does not waits until the old registration runs out, or takes another instance id.";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(paths::WORKERS, register)
            .says("registerWorker", TAG, "Makes a worker process known, or renews that.")
            .explains(REGISTER)
            .takes::<RegisterWorker>()
            .answers::<Registered>(201, "It is known until then.")
            .refuses(&[409]),
        Route::get(paths::WORKERS, list)
            .says("listWorkers", TAG, "The connected workers, sorted by instance.")
            .answers::<WorkerList>(200, "The workers."),
        of_instance(Route::post(paths::WORKER_HEARTBEAT, heartbeat))
            .says("heartbeatWorker", TAG, "Extends a registration.")
            .takes::<Heartbeat>()
            .answers::<Registered>(200, "It is known until then.")
            .refuses(&[404, 409]),
        of_instance(Route::post(paths::WORKER_DISCONNECT, disconnect))
            .says("disconnectWorker", TAG, "Ends a registration and hands its leases back.")
            .takes::<Disconnect>()
            .answers::<Disconnected>(200, "It is unknown, and holds nothing.")
            .refuses(&[409]),
    ]
}

fn of_instance(route: Route) -> Route {
    route.path_parameter::<schema::WorkerName>(
        "worker",
        "The worker's instance id, percent-encoded.",
    )
}

async fn register(
    State(app): State<Arc<App>>,
    Json(request, _room): Json<RegisterWorker>,
) -> Answered<Registered> {
    if request.worker_id.as_str() == ENGINE_WORKER_ID {
        return Err(EngineError::invalid("worker_id", "is reserved for servers").into());
    }
    let minted = || WorkerSession::from_uuid(app.ids.random());
    let session = request.session.unwrap_or_else(minted);
    let expires_at = app.backend.register_worker(request.into_registration(session)).await?;
    Ok(answer::Json(StatusCode::CREATED, Registered { session, expires_at }))
}

async fn list(State(app): State<Arc<App>>) -> Answered<WorkerList> {
    let workers = app.backend.list_workers().await?;
    // Servers find each other by the same registry.
    let workers =
        workers.into_iter().filter(|worker| worker.worker_id.as_str() != ENGINE_WORKER_ID);
    ok(WorkerList { workers: workers.map(Into::into).collect() })
}

async fn heartbeat(
    State(app): State<Arc<App>>,
    NamePath(instance): NamePath<WorkerInstanceId>,
    Json(Heartbeat { session, ttl_ms }, _): Json<Heartbeat>,
) -> Answered<Registered> {
    check_range("ttl_ms", ttl_ms, 1..=limits::LEASE_TTL_MS_MAX)?;
    let expires_at = app.backend.heartbeat_worker(&instance, session, ttl_ms).await?;
    ok(Registered { session, expires_at })
}

async fn disconnect(
    State(app): State<Arc<App>>,
    NamePath(instance): NamePath<WorkerInstanceId>,
    Json(request, _): Json<Disconnect>,
) -> Answered<Disconnected> {
    let handed_back = app.backend.disconnect_worker(&instance, request.session).await?;
    ok(Disconnected { handed_back })
}
