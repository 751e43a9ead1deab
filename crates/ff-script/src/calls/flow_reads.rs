//! Flows, their members and their edges, read.

use ff_core::contracts::{
    CancelFlowPolicy, DependencyKind, EdgeState, FailurePolicy, FlowMember, FlowState, FlowSummary,
    Tags,
};
use ff_core::state::PublicState;
use ff_core::types::{EdgeId, ExecutionId, ExecutionKind, FlowId, Namespace, TimestampMs};

use crate::call::functions;
use crate::wire::{List, row};

functions! {
    /// Reads everything about a flow but its members and edges.
    read ff_describe_flow(DescribeFlow { flow_id: FlowId })
    -> DescribeFlowReply {
        "OK" => Flow {
            kind: ExecutionKind,
            namespace: Namespace,
            public_flow_state: FlowState,
            graph_revision: u64,
            node_count: u32,
            edge_count: u32,
            created_at: TimestampMs,
            last_mutation_at: TimestampMs,
            started_at: Option<TimestampMs>,
            ended_at: Option<TimestampMs>,
            sealed: bool,
            on_failure: FailurePolicy,
            deadline_at: Option<TimestampMs>,
            cancelled_at: Option<TimestampMs>,
            cancel_reason: Option<String>,
            cancellation_policy: Option<CancelFlowPolicy>,
            being_cancelled: bool,
            stuck: u32,
            counts: Vec<(PublicState, u32)>,
            tags: Tags,
        },
    }
    refuses [FlowNotFound];

    /// Reads one edge of a flow.
    read ff_describe_edge(DescribeEdge { flow_id: FlowId, edge_id: EdgeId })
    -> DescribeEdgeReply { "OK" => Edge { edge: EdgeRow }, "EMPTY" => None {} }
    refuses [FlowNotFound];

    /// Lists the edges that begin or end at a member, from a place on.
    read ff_list_edges(ListEdges {
        execution_id: ExecutionId,
        direction: String,
        from: u64,
        limit: u32,
    })
    -> ListEdgesReply {
        "OK" => Edges { flow_id: Option<FlowId>, edges: List<EdgeRow>, next_from: Option<u64> },
    }
    refuses [ExecutionNotFound];

    /// Lists the members of a flow in the order in which they came, from an ordinal on.
    read ff_list_members(ListMembers {
        flow_id: FlowId,
        state: Option<PublicState>,
        from: u64,
        limit: u32,
    })
    -> ListMembersReply { "OK" => Members { members: List<FlowMember>, next_from: Option<u64> } }
    refuses [FlowNotFound];

    /// Reads members in the order in which they came, each before the edges that begin there.
    read ff_read_graph(ReadGraph { flow_id: FlowId, cursor: Option<String>, limit: u32 })
    -> ReadGraphReply {
        "OK" => Graph {
            members: List<FlowMember>,
            edges: List<EdgeRow>,
            next_cursor: Option<String>,
        },
    }
    refuses [FlowNotFound];

    /// Lists flows of a partition by their ids, from behind one on: all, or those that owe ends.
    read ff_list_flows(ListFlows { after: Option<FlowId>, limit: u32, owing: bool })
    -> ListFlowsReply { "OK" => Flows { flows: List<FlowSummary>, next_after: Option<FlowId> } }
    refuses [];
}

/// An edge, as `lua/verb/flow_reads.lua` tells it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the values are named as in the library")]
pub struct EdgeRow {
    pub edge_id: EdgeId,
    pub upstream_execution_id: ExecutionId,
    pub downstream_execution_id: ExecutionId,
    pub dependency_kind: DependencyKind,
    pub edge_state: EdgeState,
    pub applied: bool,
    pub passes_data: bool,
    pub input_name: Option<String>,
}

row!(EdgeRow {
    edge_id,
    upstream_execution_id,
    downstream_execution_id,
    dependency_kind,
    edge_state,
    applied,
    passes_data,
    input_name,
});

row!(FlowMember {
    execution_id,
    ordinal,
    name,
    kind,
    public_state,
    optional,
    attempt_count,
    started_at,
    completed_at,
    cancelled_by,
    fenced_until,
    edge_count,
});

row!(FlowSummary {
    flow_id,
    flow_kind,
    namespace,
    status,
    node_count,
    created_at,
    completed_at,
    stuck_count,
    live_count,
    failed_count,
});
