//! Large graphs, one at a time: how long it takes to submit them, to free all who wait for one, and
//! to cancel them; and what their edges take up.

use std::time::Instant;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{Claimed, WorkRequest};
use ff_sdk::{CancelFlow, FlowId, FlowSnapshot, LaneId, PublicState};

use super::load::TIME_LIMIT;
use super::shape::{Graphs, Shape};
use crate::Failure;
use crate::http_client::{HttpClient, JSON};
use crate::scenario::deployment::Deployment;
use crate::statistics::Rounds;

const MEMBERS: u32 = 10_000;
const CANCELLED: u32 = 1_000;
/// Of those that are cancelled.
const RUNNING: usize = 250;
const CLAIM_MAX: u32 = 256;
/// Fewer take no more than what else changes in a store.
const EDGES_MIN: u64 = 2_000;

/// What was found of large graphs, in milliseconds.
#[derive(Default)]
pub(super) struct Large {
    pub(super) freed_ms: Rounds,
    pub(super) cancelled_ms: Rounds,
    pub(super) submitted_ms: Rounds,
    pub(super) submitted_by_http_ms: Rounds,
}

impl Large {
    /// Measures everything once. `round` keeps what waits in one apart from the next.
    pub(super) async fn round(&mut self, on: &Deployment, round: u32) -> Result<(), Failure> {
        self.freed_ms.add(free_all(on, round).await?);
        self.cancelled_ms.add(cancel_all(on, round).await?);
        let graphs = graphs(Shape::Random, MEMBERS, "submitted", round)?;
        self.submitted_ms.add(submit(on, &graphs).await?);
        if let Some(ms) = submit_by_http(on, &graphs).await? {
            self.submitted_by_http_ms.add(ms);
        }
        Ok(())
    }
}

/// Members that no worker of other parts of the run takes.
fn graphs(shape: Shape, nodes: u32, what: &str, round: u32) -> Result<Graphs, Failure> {
    Ok(Graphs { shape, nodes, lane: LaneId::try_new(format!("{what}-{round}"))? })
}

async fn submitted(on: &Deployment, graphs: &Graphs) -> Result<FlowId, Failure> {
    Ok(on.client.submit_graph(graphs.graph(b"{}")).await?.flow_id)
}

/// From the request, with the graph in hand, to the answer.
async fn submit(on: &Deployment, graphs: &Graphs) -> Result<f64, Failure> {
    let graph = graphs.graph(b"{}");
    let start = Instant::now();
    on.client.submit_graph(graph).await?;
    Ok(ms_since(start))
}

/// The same through the server; none without one.
async fn submit_by_http(on: &Deployment, graphs: &Graphs) -> Result<Option<f64>, Failure> {
    let Some(server) = &on.server else { return Ok(None) };
    let mut http = HttpClient::connect(&server.address).await?;
    let body = serde_json::to_vec(&graphs.graph(b"{}"))?;
    let start = Instant::now();
    http.post("/v1/flows/graph", JSON, &body).await?;
    Ok(Some(ms_since(start)))
}

/// Completes the one that all others wait for, until the last of them may run.
async fn free_all(on: &Deployment, round: u32) -> Result<f64, Failure> {
    let graphs = graphs(Shape::Fanout, MEMBERS + 1, "freed", round)?;
    let flow_id = submitted(on, &graphs).await?;
    flow_when(on, &flow_id, |flow| count(flow, PublicState::Waiting) == 1).await?;
    let root = claim(on, &graphs.lane, 1).await?;
    let start = Instant::now();
    on.connection.engine().complete(&root[0].handle, None).await?;
    flow_when(on, &flow_id, |flow| count(flow, PublicState::Waiting) == MEMBERS).await?;
    Ok(ms_since(start))
}

/// Cancels a flow of which some run, until the last of them is.
async fn cancel_all(on: &Deployment, round: u32) -> Result<f64, Failure> {
    let graphs = graphs(Shape::Loose, CANCELLED, "cancelled", round)?;
    let flow_id = submitted(on, &graphs).await?;
    flow_when(on, &flow_id, |flow| count(flow, PublicState::Waiting) == CANCELLED).await?;
    claim(on, &graphs.lane, RUNNING).await?;
    let everybody = CancelFlow { cancellation_policy: None, reason: String::new() };
    let start = Instant::now();
    on.client.cancel_flow(&flow_id, everybody).await?;
    flow_when(on, &flow_id, |flow| flow.completed_at.is_some()).await?;
    Ok(ms_since(start))
}

fn count(flow: &FlowSnapshot, state: PublicState) -> u32 {
    flow.counts.get(&state).copied().unwrap_or(0)
}

async fn flow_when(
    on: &Deployment,
    flow_id: &FlowId,
    is_right: impl Fn(&FlowSnapshot) -> bool,
) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < TIME_LIMIT {
        let flow = on.client.describe_flow(flow_id).await?.ok_or("the flow is gone")?;
        if is_right(&flow) {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
    Err("a flow does not get on".into())
}

async fn claim(on: &Deployment, lane: &LaneId, wanted: usize) -> Result<Vec<Claimed>, Failure> {
    let (work, mut claimed) = (on.connection.work().await?, Vec::new());
    while claimed.len() < wanted {
        let request = WorkRequest {
            worker_id: "bench".parse()?,
            worker_instance_id: "bench-large".parse()?,
            lanes: vec![lane.clone()],
            namespaces: Vec::new(),
            capabilities: CapabilitySet::default(),
            kinds: Vec::new(),
            count: CLAIM_MAX.min(u32::try_from(wanted - claimed.len())?),
            lease_ttl_ms: 60_000,
            wait_ms: 10_000,
            payload_text: false,
            lease_ids: Vec::new(),
            retry: false,
        };
        claimed.extend(work.claim(request).await?);
    }
    Ok(claimed)
}

/// What an edge takes up: how much more flows with edges take than the same without; none where the
/// store cannot tell.
pub(super) async fn bytes_per_edge(
    on: &Deployment,
    shape: Shape,
    nodes: u32,
    flows: u32,
) -> Result<Option<f64>, Failure> {
    let Some(enough) = EDGES_MIN.checked_div(shape.edges(nodes)) else { return Ok(None) };
    let flows = flows.max(u32::try_from(enough)?);
    let with = graphs(shape, nodes, "with", 0)?;
    let without = graphs(Shape::Loose, nodes, "without", 0)?;
    // The first of its kind makes what all share.
    for graphs in [&with, &without] {
        submitted(on, graphs).await?;
    }
    let Some(loose) = memory_of(on, &without, flows).await? else { return Ok(None) };
    let Some(bound) = memory_of(on, &with, flows).await? else { return Ok(None) };
    let edges = shape.edges(nodes) * u64::from(flows);
    Ok(Some((bound - loose) / edges as f64))
}

async fn memory_of(on: &Deployment, graphs: &Graphs, flows: u32) -> Result<Option<f64>, Failure> {
    let before = on.memory_bytes().await?;
    for _ in 0..flows {
        submitted(on, graphs).await?;
    }
    let after = on.memory_bytes().await?;
    Ok(after.zip(before).map(|(after, before)| after - before))
}

fn ms_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
