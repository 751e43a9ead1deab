//! Flows, their members and their edges, read.

use std::collections::BTreeMap;

use ff_core::contracts::Tags;
use ff_core::state::PublicState;
use ff_core::types::{EdgeId, ExecutionId, ExecutionKind, FlowId, Namespace, TimestampMs};

use crate::call::functions;
use crate::value::Value;
use crate::wire::{List, Reading};

functions! {
    /// Reads everything about a flow but its members and edges.
    read ff_describe_flow(DescribeFlow { flow_id: FlowId })
    -> DescribeFlowReply {
        "OK" => Flow {
            kind: ExecutionKind,
            namespace: Namespace,
            public_flow_state: String,
            graph_revision: u64,
            node_count: u32,
            edge_count: u32,
            created_at: TimestampMs,
            last_mutation_at: TimestampMs,
            started_at: Option<TimestampMs>,
            ended_at: Option<TimestampMs>,
            sealed: bool,
            on_failure: String,
            deadline_at: Option<TimestampMs>,
            cancelled_at: Option<TimestampMs>,
            cancel_reason: Option<String>,
            cancellation_policy: Option<String>,
            being_cancelled: bool,
            stuck: u32,
            counts: StateCounts,
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
    -> ListMembersReply { "OK" => Members { members: List<MemberRow>, next_from: Option<u64> } }
    refuses [FlowNotFound];

    /// Reads members in the order in which they came, each before the edges that begin there.
    read ff_read_graph(ReadGraph { flow_id: FlowId, cursor: Option<String>, limit: u32 })
    -> ReadGraphReply {
        "OK" => Graph {
            members: List<MemberRow>,
            edges: List<EdgeRow>,
            next_cursor: Option<String>,
        },
    }
    refuses [FlowNotFound];

    /// Lists flows of a partition by their ids, from behind one on: all, or those that owe ends.
    read ff_list_flows(ListFlows { after: Option<FlowId>, limit: u32, owing: bool })
    -> ListFlowsReply { "OK" => Flows { flows: List<FlowRow>, next_after: Option<FlowId> } }
    refuses [];
}

/// How many members are in which state: words and numbers in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateCounts(pub BTreeMap<PublicState, u32>);

impl Reading for StateCounts {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let mut values = values.into_iter();
        let mut counts = BTreeMap::new();
        while let Some(word) = values.next() {
            counts.insert(Reading::read(word)?, Reading::read(values.next()?)?);
        }
        Some(Self(counts))
    }
}

/// Declares what the rows of a listing hold, in order.
macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the values are named as in the library")]
        pub struct $name { $(pub $field: $type),* }

        impl Reading for $name {
            fn read(value: Value) -> Option<Self> {
                let Value::Array(values) = value else { return None };
                let mut values = values.into_iter();
                Some(Self { $($field: Reading::read(values.next()?)?),* })
            }
        }
    )*};
}

pub(crate) use rows;

rows! {
    /// An edge, as `lua/verb/flow_reads.lua` tells it.
    EdgeRow {
        edge_id: EdgeId,
        upstream_execution_id: ExecutionId,
        downstream_execution_id: ExecutionId,
        dependency_kind: String,
        edge_state: String,
        applied: bool,
        passes_data: bool,
        input_name: Option<String>,
    }
    /// A member of a flow.
    MemberRow {
        execution_id: ExecutionId,
        ordinal: u64,
        name: Option<String>,
        kind: ExecutionKind,
        public_state: PublicState,
        optional: bool,
        attempt_count: u32,
        started_at: Option<TimestampMs>,
        ended_at: Option<TimestampMs>,
        cancelled_by: Option<String>,
        lease_expires_at: Option<TimestampMs>,
        edge_count: u64,
    }
    /// A flow in a listing.
    FlowRow {
        flow_id: FlowId,
        kind: ExecutionKind,
        namespace: Namespace,
        public_flow_state: String,
        node_count: u32,
        created_at: TimestampMs,
        ended_at: Option<TimestampMs>,
        stuck: u32,
        live: u32,
        bad: u32,
    }
}
