//! The deployment and its health: lanes, event logs, metrics, and the document of this API.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ff_api::deployment::{Deployment, Health, Liveness};
use ff_api::headers::JSON;
use ff_api::problem::{HttpCode, Problem};
use ff_api::raw::{Metrics, OpenApi, Reference};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::contracts::{CountExecutions, CountKinds, EventQuery, LaneQuery};
use ff_core::error::EngineError;
use ff_core::schema::AnyJson;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::answer::{Answered, ok, with_type};
use crate::app::App;
use crate::refusal::Refusal;
use crate::route::{Route, direct, json, raw};
use crate::{metrics, openapi, reference, store};

/// The type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4";

/// How long the store may take to answer a server that wants to be called ready.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// How long an answer is good for: the path is open, and must not make anybody ask the store.
const READY_KEPT: Duration = Duration::from_millis(500);

/// The latest answer about readiness.
pub(crate) type Readiness = Mutex<Option<(Instant, Result<(), EngineError>)>>;

pub(super) fn routes() -> Vec<Route> {
    vec![
        direct::<LaneQuery, _>(|engine, _, query| engine.list_lanes(query)),
        direct::<CountExecutions, _>(|engine, _, _| engine.count_executions()),
        direct::<CountKinds, _>(|engine, _, _| engine.count_kinds()),
        direct::<EventQuery, _>(|engine, _, query| engine.read_events(query)),
        json::<Deployment, _, _>(deployment),
        json::<Liveness, _, _>(healthz).open(),
        json::<ff_api::deployment::Readiness, _, _>(readyz).open(),
        raw::<Metrics, _, _>(metrics).answers_raw("text/plain", "The numbers."),
        raw::<OpenApi, _, _>(document).answers::<AnyJson>(200, "The document."),
        raw::<Reference, _, _>(reference).answers_raw("text/html", "The page.").open(),
    ]
}

async fn deployment(State(app): State<Arc<App>>) -> Answered<Deployment> {
    ok(Deployment {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: app.backend.name().to_owned(),
        partitions: app.partitions(),
    })
}

fn healthy(warnings: Vec<String>) -> Answered<Health> {
    ok(Health { status: "ok".to_owned(), warnings })
}

async fn healthz(State(app): State<Arc<App>>) -> Answered<Health> {
    match store::stop_reason(&app.store) {
        None => healthy(Vec::new()),
        Some(reason) => Err(unavailable(BackendErrorKind::Closed, reason).into()),
    }
}

async fn readyz(State(app): State<Arc<App>>) -> Answered<Health> {
    if app.is_draining() {
        return Err(Problem::new(HttpCode::Draining, "").into());
    }
    let mut known = app.readiness.lock().await;
    let fresh = known.as_ref().filter(|(at, _)| at.elapsed() < READY_KEPT);
    let answer = match fresh {
        Some((_, answer)) => answer.clone(),
        None => {
            let asked = ask(&app).await;
            known.insert((Instant::now(), asked)).1.clone()
        }
    };
    answer?;
    healthy(store::warnings(&app.store))
}

async fn ask(app: &App) -> Result<(), EngineError> {
    let asking = async {
        store::ready(&app.store).await?;
        let one = LaneQuery { limit: Some(1), partition: Some(0), ..LaneQuery::default() };
        app.backend.list_lanes(one).await.map(drop)
    };
    let late =
        |_| Err(unavailable(BackendErrorKind::Transport, "the store did not answer in time"));
    tokio::time::timeout(READY_WITHIN, asking).await.unwrap_or_else(late)
}

fn unavailable(kind: BackendErrorKind, message: &str) -> EngineError {
    BackendError::new(kind, Retry::Safe, message).into()
}

async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let text = metrics::render(&app).await;
    Ok(with_type(StatusCode::OK, METRICS_TYPE, Body::from(text)))
}

async fn document() -> Response {
    with_type(StatusCode::OK, JSON, Body::from(openapi::served()))
}

async fn reference() -> Response {
    reference::page()
}
