//! A whole graph in one request: as JSON, or as lines of it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest as _, Request, State};
use ff_api::headers::NDJSON;
use ff_api::problem::{HttpCode, Problem};
use ff_core::contracts::{GRAPH_LINES_BYTES_MAX, GraphAccepted, GraphHead, GraphTask, SubmitGraph};
use ff_core::limits;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::body::PAYLOAD_BODY_BYTES;
use crate::extract::{Asked, parse_json};
use crate::lines::{self, Lines};
use crate::refusal::Refusal;
use crate::route::{Route, json};

/// Room is made for so many bytes of a graph at a time.
const ROOM_BYTES: usize = 4 << 20;

pub(super) fn routes() -> Vec<Route> {
    vec![json::<SubmitGraph, _, _>(submit).or_text(NDJSON)]
}

async fn submit(State(app): State<Arc<App>>, request: Request) -> Answered<GraphAccepted> {
    if !lines::are_given(request.headers()) {
        let Asked(graph, _room) = Asked::<SubmitGraph>::from_request(request, &app).await?;
        return ok(app.backend.submit_graph(graph).await?);
    }
    let mut reading = Reading::new(request.into_body());
    let graph = reading.graph(&app).await?;
    ok(app.backend.submit_graph(graph).await?)
}

/// A graph that is read line by line: the flow first, then its tasks.
struct Reading {
    lines: Lines,
    /// Lines and bytes that were read.
    count: usize,
    bytes: usize,
    /// The room that they take.
    rooms: Vec<OwnedSemaphorePermit>,
}

impl Reading {
    fn new(body: Body) -> Self {
        let lines = Lines::new(body, PAYLOAD_BODY_BYTES);
        Self { lines, count: 0, bytes: 0, rooms: Vec::new() }
    }

    async fn graph(&mut self, app: &App) -> Result<SubmitGraph, Refusal> {
        let Some(GraphHead { flow, key }) = self.next(app).await? else {
            return Err(Refusal::invalid("flow", "must be the first line: {\"flow\":{…}}"));
        };
        let mut graph = SubmitGraph::new(flow, Vec::new());
        graph.key = key;
        while let Some(task) = self.next::<GraphTask>(app).await? {
            if graph.tasks.len() as u64 >= limits::FLOW_MEMBERS_MAX {
                let rule = format!("must be at most {}", limits::FLOW_MEMBERS_MAX);
                return Err(Refusal::invalid("number of tasks", rule));
            }
            graph.tasks.push(task);
        }
        Ok(graph)
    }

    /// What the next line says that is not empty; none at the end.
    async fn next<T: DeserializeOwned>(&mut self, app: &App) -> Result<Option<T>, Refusal> {
        loop {
            let Some(line) = self.lines.whole().next().map(<[u8]>::to_vec) else {
                if self.lines.receive(app).await? {
                    continue;
                }
                return Ok(None);
            };
            self.lines.done(line.len());
            self.hold(app, line.len())?;
            let text = line.trim_ascii();
            if !text.is_empty() {
                let number = self.count;
                return parse_json(text).map(Some).map_err(|refusal| refusal.in_line(number));
            }
        }
    }

    /// Counts a line, and makes room for it.
    fn hold(&mut self, app: &App, bytes: usize) -> Result<(), Refusal> {
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
        if self.bytes > GRAPH_LINES_BYTES_MAX {
            let rule = format!("a graph may have at most {GRAPH_LINES_BYTES_MAX} bytes here");
            return Err(Problem::new(HttpCode::BodyTooLarge, rule).into());
        }
        while self.bytes > self.rooms.len() * ROOM_BYTES {
            self.rooms.extend(app.requests.hold_body(ROOM_BYTES)?);
        }
        Ok(())
    }
}
