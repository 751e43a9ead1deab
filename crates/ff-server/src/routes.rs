//! Every route: one file for each group, one row for each route.

mod approvals;
mod backups;
mod budgets;
mod claims;
mod executions;
mod flow_events;
mod flow_graph;
mod flows;
mod frame_stream;
mod grants;
mod health;
mod lanes;
mod quotas;
mod reads;
mod streams;
mod tasks;
mod waits;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use ff_api::problem::{HttpCode, Problem};
use ff_core::operation::Operation;

use crate::app::App;
use crate::approval;
use crate::extract::shorten;
use crate::middleware::{Middleware, handle};
use crate::request_id::identify;
use crate::route::Route;

pub(crate) use health::Readiness;

/// All routes, in the order of the document.
pub(crate) fn all() -> Vec<Route> {
    [
        executions::routes(),
        reads::routes(),
        flow_graph::routes(),
        flows::routes(),
        flow_events::routes(),
        streams::routes(),
        workers::routes(),
        lanes::routes(),
        quotas::routes(),
        claims::routes(),
        tasks::routes(),
        budgets::routes(),
        waits::routes(),
        approvals::routes(),
        frame_stream::routes(),
        grants::routes(),
        health::routes(),
        backups::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The router of a server.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let routed = all().into_iter().fold(Router::new(), |router, route| {
        let (series, mut treatment) =
            (app.metrics.series(route.method, route.path), route.treatment);
        treatment.open |= app.open_metrics && route.path == ff_api::raw::Metrics::PATH;
        let middleware = Arc::new(Middleware { app: Arc::clone(app), series, treatment });
        router.route(route.path, route.handler.layer(from_fn_with_state(middleware, handle)))
    });
    routed
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .with_state(Arc::clone(app))
        .layer(from_fn_with_state(Arc::clone(app), identify))
}

/// What a client asked for is repeated to it only where nothing secret can be in it: a link that
/// was cut or added to is a path that does not exist, too.
async fn no_such_path(State(app): State<Arc<App>>, request: Request) -> Response {
    let path = request.uri().path();
    let detail = match path.starts_with("/v1/") {
        true => format!("there is no path {}", shorten(path.to_owned())),
        false => "there is no such path".to_owned(),
    };
    unmatched(&app, &request, Problem::new(HttpCode::RouteNotFound, detail))
}

async fn no_such_method(State(app): State<Arc<App>>, request: Request) -> Response {
    let detail = format!("the path does not know {}", shorten(request.method().to_string()));
    unmatched(&app, &request, Problem::new(HttpCode::MethodNotAllowed, detail))
}

/// Whoever has no token learns nothing about which paths exist.
fn unmatched(app: &App, request: &Request, problem: Problem) -> Response {
    app.metrics.unmatched(problem.status);
    app.metrics.problem(&problem.code);
    let refusal = app.access.check(request, false).err().unwrap_or_else(|| problem.into());
    match approval::is_link(request.uri().path()) {
        true => approval::refuse(refusal, approval::wants_page(request.headers())),
        false => refusal.into_response(),
    }
}
