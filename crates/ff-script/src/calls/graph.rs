//! Flows that are submitted whole.

use ff_core::types::{ExecutionId, ExecutionKind, FlowId, Namespace, TimestampMs};

use super::create::CreateExecution;
use crate::args::Args;
use crate::call::{Call as _, functions};
use crate::wire::{Argument as _, Rest};

functions! {
    /// Adds members and edges to a flow that is submitted whole; the last part seals it.
    /// `items` are `nodes` members, `node_width` arguments each, and then edges, five each.
    write ff_submit_graph(SubmitGraph {
        flow_id: FlowId,
        flow_kind: ExecutionKind,
        namespace: Namespace,
        on_failure: Option<String>,
        deadline_at: Option<TimestampMs>,
        retention_ms: Option<u64>,
        tags_json: String,
        digest: String,
        nodes_before: u64,
        edges_before: u64,
        seal: bool,
        nodes: u64,
        node_width: u64,
        items: Rest<Vec<u8>>,
    })
    -> SubmitGraphReply {
        "OK" => Accepted { flow_id: FlowId, node_count: u32 },
        "ALREADY_SATISFIED" => AcceptedBefore { flow_id: FlowId, node_count: u32 },
    }
    refuses [IdempotencyConflict, FlowCancelled, GraphTooLarge, StaleGraphRevision,
        ExecutionNotInFlow, SelfReferencingEdge, CycleDetected, InvalidPolicyJson,
        InvalidCapabilities, InvalidTagKey];
}

/// A member of a graph.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// Its name in the flow.
    pub name: String,
    /// Its failure is not the flow's.
    pub optional: bool,
    /// How many of its edges must be satisfied; all of them if absent.
    pub needed: Option<u64>,
    /// What it is created from.
    pub create: CreateExecution,
}

/// An edge of a graph.
#[derive(Clone, Debug)]
pub struct GraphEdge {
    /// Who must be over first.
    pub upstream: ExecutionId,
    /// Who waits.
    pub downstream: ExecutionId,
    /// Which outcomes satisfy it.
    pub kind: String,
    /// The upstream's result becomes an input.
    pub pass: bool,
    /// The name of that input.
    pub name: String,
}

/// How many arguments stand before those a member is created from.
const OWN_WIDTH: usize = 3;

/// How many arguments a member has.
const NODE_WIDTH: usize = OWN_WIDTH + CreateExecution::CONTRACT.args.len();

/// Members and then edges, as arguments.
fn encode(nodes: &[GraphNode], edges: &[GraphEdge]) -> Rest<Vec<u8>> {
    let mut items: Vec<Vec<u8>> = Vec::new();
    for node in nodes {
        let mut own = Args::with_capacity(OWN_WIDTH);
        node.name.encode(&mut own);
        node.optional.encode(&mut own);
        node.needed.encode(&mut own);
        items.extend(own.iter().map(<[u8]>::to_vec));
        items.extend(node.create.encode().iter().map(<[u8]>::to_vec));
    }
    let mut rest = Args::with_capacity(edges.len() * 5);
    for edge in edges {
        edge.upstream.encode(&mut rest);
        edge.downstream.encode(&mut rest);
        edge.kind.encode(&mut rest);
        edge.pass.encode(&mut rest);
        edge.name.encode(&mut rest);
    }
    items.extend(rest.iter().map(<[u8]>::to_vec));
    Rest(items)
}

impl SubmitGraph {
    /// Puts members and edges into the arguments.
    pub fn fill(&mut self, nodes: &[GraphNode], edges: &[GraphEdge]) {
        self.nodes = nodes.len() as u64;
        self.node_width = NODE_WIDTH as u64;
        self.items = encode(nodes, edges);
    }
}
