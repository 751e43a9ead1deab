//! Following output: an execution's as events, an attempt's by waiting.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ff_api::headers::EVENT_STREAM;
use ff_core::contracts::{
    AttemptOf, FollowOutput, ReadAttemptStream, StreamFrames, StreamQuery, TailStream,
};
use ff_core::types::{AttemptIndex, ExecutionId};

use super::reads::draining;
use crate::answer::{Answered, ok};
use crate::app::App;
use crate::events;
use crate::extract::{Asked, On};
use crate::refusal::Refusal;
use crate::route::{self, Route, direct, json};

pub(super) fn routes() -> Vec<Route> {
    let last_event = "The id of the last event that was seen, in place of after.";
    let attempt = "The number of the attempt, from 0.";
    vec![
        direct::<StreamQuery, _>(|engine, id, it| engine.read_stream(id, it)),
        route::raw::<FollowOutput, _, _>(follow)
            .answers_raw(EVENT_STREAM, "Events, until the execution ends.")
            .header::<String>("Last-Event-ID", last_event),
        direct::<ReadAttemptStream, _>(|engine, of, it| {
            engine.read_stream(of.execution_id, it.query(of.attempt_index))
        })
        .path_parameter::<AttemptIndex>("attempt_index", attempt),
        json::<TailStream, _, _>(tail).path_parameter::<AttemptIndex>("attempt_index", attempt),
    ]
}

async fn follow(
    State(app): State<Arc<App>>,
    On(id, name): On<ExecutionId>,
    headers: HeaderMap,
    Asked(query, _): Asked<FollowOutput>,
) -> Result<Response, Refusal> {
    let after = events::position(&headers, query.after)?;
    let place = app.requests.enter(true)?;
    match app.backend.follow_output(id, after).await {
        Ok(output) => Ok(events::answer(&app, output, place)),
        Err(error) => Err(Refusal::from(error).advise(name)),
    }
}

async fn tail(
    State(app): State<Arc<App>>,
    On(of, name): On<AttemptOf>,
    Asked(request, _): Asked<TailStream>,
) -> Answered<StreamFrames> {
    let tailing = app.backend.tail_stream(of.execution_id, of.attempt_index, request);
    let tailed = tokio::select! {
        tailed = tailing => tailed,
        () = app.draining() => return Err(draining()),
    };
    match tailed {
        Ok(read) => ok(read),
        Err(error) => Err(Refusal::from(error).advise(name)),
    }
}
