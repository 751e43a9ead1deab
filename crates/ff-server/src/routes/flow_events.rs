//! Following a flow as events, and waiting for its end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ff_api::headers::EVENT_STREAM;
use ff_core::argument::check_range;
use ff_core::contracts::{AwaitFlow, FlowSnapshot, FollowFlow};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::FlowId;
use tokio::time::Instant;

use super::flows::{await_rest, missing};
use crate::answer::{Answered, ok};
use crate::app::App;
use crate::events;
use crate::extract::{Asked, On};
use crate::refusal::Refusal;
use crate::route::{self, Route, json};

pub(super) fn routes() -> Vec<Route> {
    let last_event = "The id of the last event that was seen, in place of after.";
    vec![
        json::<AwaitFlow, _, _>(await_end),
        route::raw::<FollowFlow, _, _>(follow)
            .answers_raw(EVENT_STREAM, "Events, until the flow ends.")
            .header::<String>("Last-Event-ID", last_event),
    ]
}

async fn follow(
    State(app): State<Arc<App>>,
    On(flow_id, _): On<FlowId>,
    headers: HeaderMap,
    Asked(query, _): Asked<FollowFlow>,
) -> Result<Response, Refusal> {
    let after = events::position(&headers, query.after)?;
    let place = app.requests.enter(true)?;
    let activity = app.backend.follow_flow(flow_id, after).await?;
    Ok(events::answer(&app, activity, place))
}

async fn await_end(
    State(app): State<Arc<App>>,
    On(flow_id, _): On<FlowId>,
    Asked(query, _): Asked<AwaitFlow>,
) -> Answered<FlowSnapshot> {
    check_range("wait_ms", query.wait_ms, 0..=limits::CLAIM_WAIT_MS_MAX)?;
    let deadline = Instant::now() + Duration::from_millis(query.wait_ms);
    let flow = await_rest(&app, flow_id, deadline).await?;
    ok(flow.ok_or_else(|| missing(Code::FlowNotFound))?)
}
