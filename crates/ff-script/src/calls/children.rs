//! Children of a running execution.

use ff_core::types::{ExecutionId, FlowId};

use super::graph::{GraphEdge, GraphNode, NODE_WIDTH, encode};
use crate::call::functions;
use crate::digest::Digest;
use crate::wire::{List, Rest};

functions! {
    /// Adds members to the flow of a running execution, as its children. `flow_id` is that of the
    /// flow which is made if it is in none. The rest is as in `ff_submit_graph`.
    write ff_add_children(AddChildren {
        held,
        flow_id: FlowId,
        nodes: u64,
        node_width: u64,
        items: Rest<Vec<u8>>,
    })
    -> AddChildrenReply {
        "OK" => Added { flow_id: FlowId, added: List<ExecutionId> },
        "ALREADY_SATISFIED" => AddedBefore { flow_id: FlowId, added: List<ExecutionId> },
    }
    refuses held [IdempotencyConflict, FlowNotFound, FlowCancelled, GraphTooLarge,
        ExecutionNotInFlow, SelfReferencingEdge, CycleDetected, InvalidPolicyJson,
        InvalidCapabilities, InvalidTagKey, TooManyNeeds, QuotaPolicyNotFound];
}

impl AddChildren {
    /// Puts children and the edges to them into the arguments.
    pub fn fill(&mut self, nodes: &[GraphNode], edges: &[GraphEdge]) {
        self.nodes = nodes.len() as u64;
        self.node_width = NODE_WIDTH as u64;
        self.items = encode(nodes, edges);
    }
}

/// Tells whether two children of one name are asked for the same work. Delays and deadlines are
/// left out, as they are for single executions.
pub(crate) fn content_digest(node: &GraphNode, edges: &[GraphEdge]) -> String {
    let mut digest = Digest::default();
    node.tell(&mut digest);
    edges.iter().for_each(|edge| edge.tell(&mut digest));
    digest.hex()
}
