//! Flows, their members and their edges, as they are read.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use super::flow_cancel::CancelFlowPolicy;
use super::flows::{DependencyKind, FailurePolicy};
use super::tags::Tags;
use crate::ToSchema;
use crate::literal::literals;
use crate::operation::{Method, Nothing, Operation};
use crate::state::PublicState;
use crate::types::{EdgeId, ExecutionId, ExecutionKind, FlowId, Namespace, TimestampMs};

literals! {
    /// Where a flow stands.
    FlowState("flow state") {
        /// It takes members, or some can run.
        Open = "open",
        /// A member runs.
        Running = "running",
        /// Members live, and none can run now.
        Blocked = "blocked",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// All ended, and no failure counts.
        Completed = "completed",
        /// All ended, and a failure counts.
        Failed = "failed",
    }

    /// How an edge stands.
    EdgeState("edge state") {
        /// Its upstream is not over.
        Pending = "pending",
        /// Its upstream ended as the edge asks for.
        Satisfied = "satisfied",
        /// Its upstream ended otherwise.
        Impossible = "impossible",
    }

    /// Which of its edges a member is asked about.
    EdgeDirection("edge direction") {
        /// Those that begin at it.
        Outgoing = "outgoing",
        /// Those that end at it.
        Incoming = "incoming",
    }
}

/// Everything about a flow but its members and edges.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct FlowSnapshot {
    /// Its id.
    pub flow_id: FlowId,
    /// What kind of flow it is.
    pub flow_kind: ExecutionKind,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// Where it stands.
    pub public_flow_state: FlowState,
    /// How often its graph has changed.
    pub graph_revision: u64,
    /// How many members it has.
    pub node_count: u32,
    /// How many edges it has.
    pub edge_count: u32,
    /// How many members are in which state.
    pub counts: BTreeMap<PublicState, u32>,
    /// True if it takes no more members but from its running members.
    pub sealed: bool,
    /// What a failed member means for the others.
    pub on_failure: FailurePolicy,
    /// When it was made.
    pub created_at: TimestampMs,
    /// When its graph last changed.
    pub last_mutation_at: TimestampMs,
    /// When its first member ran.
    pub started_at: Option<TimestampMs>,
    /// When its last member ended.
    pub completed_at: Option<TimestampMs>,
    /// When all of it expires.
    pub deadline_at: Option<TimestampMs>,
    /// When it was cancelled.
    pub cancelled_at: Option<TimestampMs>,
    /// Why.
    pub cancel_reason: Option<String>,
    /// Which members that cancels.
    pub cancellation_policy: Option<CancelFlowPolicy>,
    /// True while members are still to be cancelled.
    pub being_cancelled: bool,
    /// Members that could not be cancelled.
    pub stuck_count: u32,
    /// Labels.
    #[serde(default)]
    #[schema(value_type = crate::schema::Tags)]
    pub tags: Tags,
}

impl FlowSnapshot {
    /// A flow of which only what every flow has is known.
    #[allow(clippy::too_many_arguments, reason = "one for each field that is never absent")]
    pub fn new(
        flow_id: FlowId,
        flow_kind: ExecutionKind,
        namespace: Namespace,
        public_flow_state: FlowState,
        created_at: TimestampMs,
        last_mutation_at: TimestampMs,
    ) -> Self {
        Self {
            flow_id,
            flow_kind,
            namespace,
            public_flow_state,
            graph_revision: 0,
            node_count: 0,
            edge_count: 0,
            counts: BTreeMap::new(),
            sealed: false,
            on_failure: FailurePolicy::Continue,
            created_at,
            last_mutation_at,
            started_at: None,
            completed_at: None,
            deadline_at: None,
            cancelled_at: None,
            cancel_reason: None,
            cancellation_policy: None,
            being_cancelled: false,
            stuck_count: 0,
            tags: Tags::new(),
        }
    }

    /// Has all of it ended, or is all that lives of a cancelled one stuck?
    pub fn is_at_rest(&self) -> bool {
        let live = self.counts.iter().filter(|(state, _)| !state.is_terminal());
        let live: u32 = live.map(|(_, count)| *count).sum();
        let is_cancelled = self.public_flow_state == FlowState::Cancelled && !self.being_cancelled;
        self.completed_at.is_some() || is_cancelled && live <= self.stuck_count
    }
}

/// Reads a flow.
#[derive(Clone, Copy, Debug)]
pub struct DescribeFlow;

impl Operation for DescribeFlow {
    type Target = FlowId;
    type Request = Nothing;
    type Reply = FlowSnapshot;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/flows/{flow_id}";
    const NAME: &'static str = "describeFlow";
    const SUMMARY: &'static str = "Reads everything about a flow but its members and edges.";
    const ANSWERS: &'static str = "The flow.";
}

/// An edge of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeOf {
    /// The flow.
    pub flow_id: FlowId,
    /// The edge.
    pub edge_id: EdgeId,
}

impl Display for EdgeOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.flow_id)
    }
}

/// Reads an edge.
#[derive(Clone, Copy, Debug)]
pub struct DescribeEdge;

impl Operation for DescribeEdge {
    type Target = EdgeOf;
    type Request = Nothing;
    type Reply = EdgeSnapshot;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/flows/{flow_id}/edges/{edge_id}";
    const NAME: &'static str = "describeFlowEdge";
    const SUMMARY: &'static str = "Reads an edge of a flow.";
    const ANSWERS: &'static str = "The edge.";

    fn path(target: EdgeOf) -> String {
        crate::operation::fill(&crate::operation::fill(Self::PATH, target.flow_id), target.edge_id)
    }
}

/// Who waits for whom.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct EdgeSnapshot {
    /// Its id.
    pub edge_id: EdgeId,
    /// Its flow.
    pub flow_id: FlowId,
    /// Who must be over first.
    pub upstream_execution_id: ExecutionId,
    /// Who waits.
    pub downstream_execution_id: ExecutionId,
    /// Which outcomes satisfy it.
    pub dependency_kind: DependencyKind,
    /// How it stands.
    pub edge_state: EdgeState,
    /// True if the downstream waits for it; false while it is only staged.
    pub applied: bool,
    /// The name under which the upstream's result becomes an input.
    pub data_passing_ref: Option<String>,
}

impl EdgeSnapshot {
    /// An edge that passes nothing.
    pub fn new(
        EdgeOf { flow_id, edge_id }: EdgeOf,
        upstream_execution_id: ExecutionId,
        downstream_execution_id: ExecutionId,
        dependency_kind: DependencyKind,
        edge_state: EdgeState,
    ) -> Self {
        Self {
            edge_id,
            flow_id,
            upstream_execution_id,
            downstream_execution_id,
            dependency_kind,
            edge_state,
            applied: true,
            data_passing_ref: None,
        }
    }
}

/// Which edges of a member to list.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EdgeQuery {
    /// Those that begin at it, or those that end at it.
    pub direction: EdgeDirection,
    /// Where to go on: `next_from` of the page before.
    #[schema(maximum = 500_000)]
    pub from: Option<u64>,
    /// How many; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl Operation for EdgeQuery {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = EdgeList;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/edges";
    const NAME: &'static str = "listExecutionEdges";
    const GROUP: &'static str = "flows";
    const SUMMARY: &'static str = "Lists the edges that begin or end at a member of a flow.";
    const ANSWERS: &'static str = "The edges.";
}

/// Edges of a member.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgeList {
    /// The edges.
    pub edges: Vec<EdgeSnapshot>,
    /// Where to go on, if there may be more.
    pub next_from: Option<u64>,
}

/// Which members of a flow to list.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberQuery {
    /// Only those in this state.
    pub state: Option<PublicState>,
    /// Where to go on: `next_from` of the page before.
    #[schema(maximum = 100_000)]
    pub from: Option<u64>,
    /// How many to look at; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl Operation for MemberQuery {
    type Target = FlowId;
    type Request = Self;
    type Reply = FlowMembers;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/flows/{flow_id}/members";
    const NAME: &'static str = "listFlowMembers";
    const SUMMARY: &'static str = "Lists the members of a flow in the order in which they came.";
    const ANSWERS: &'static str = "The members.";
}

/// Members of a flow.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowMembers {
    /// The members.
    pub members: Vec<FlowMember>,
    /// Where to go on, if there may be more.
    pub next_from: Option<u64>,
}

/// A member of a flow.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowMember {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its name in the flow.
    pub name: Option<String>,
    /// Its number in the flow.
    pub ordinal: u64,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// Where it stands.
    pub public_state: PublicState,
    /// Its failure is not the flow's.
    pub optional: bool,
    /// How many attempts were begun.
    pub attempt_count: u32,
    /// How many edges begin at it.
    pub edge_count: u64,
    /// When its first attempt began.
    pub started_at: Option<TimestampMs>,
    /// When it ended.
    pub completed_at: Option<TimestampMs>,
    /// Who cancelled it.
    pub cancelled_by: Option<String>,
    /// Until when the worker of one that was cancelled while it ran may not know of it.
    pub fenced_until: Option<TimestampMs>,
}

/// Which part of a flow's graph to read.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphQuery {
    /// Where to go on: `next_cursor` of the page before.
    #[schema(value_type = Option<crate::schema::GraphCursor>)]
    pub cursor: Option<String>,
    /// How many members and edges in all; 1000 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl Operation for GraphQuery {
    type Target = FlowId;
    type Request = Self;
    type Reply = FlowGraph;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/flows/{flow_id}/graph";
    const NAME: &'static str = "readFlowGraph";
    const SUMMARY: &'static str = "Reads the members of a flow and who waits for whom.";
    const ANSWERS: &'static str =
        "Members in the order in which they came, and the edges that begin at them.";
}

/// A flow's graph, or a part of it.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowGraph {
    /// Its members, in the order in which they came.
    pub members: Vec<FlowMember>,
    /// Its edges, in the order of those at which they begin.
    pub edges: Vec<EdgeSnapshot>,
    /// Where to go on, if there may be more.
    pub next_cursor: Option<String>,
}

/// Which flows to list.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowQuery {
    /// Only those of this partition; the first with flows behind the cursor if absent.
    #[schema(value_type = Option<crate::schema::PartitionIndex>)]
    pub partition: Option<u16>,
    /// Only those that owe an end to members: they are being cancelled, or some could not be.
    #[serde(default)]
    pub owing: bool,
    /// Those behind this one: `next_cursor` of the page before.
    pub cursor: Option<FlowId>,
    /// How many; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl Operation for FlowQuery {
    type Target = Nothing;
    type Request = Self;
    type Reply = ListFlowsPage;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/flows";
    const NAME: &'static str = "listFlows";
    const SUMMARY: &'static str = "Lists flows, partition by partition.";
    const ANSWERS: &'static str = "The flows.";
}

/// Flows of a partition.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListFlowsPage {
    /// The flows.
    pub flows: Vec<FlowSummary>,
    /// Where to go on, if there may be more.
    pub next_cursor: Option<FlowId>,
}

/// A flow in a listing.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowSummary {
    /// Its id.
    pub flow_id: FlowId,
    /// What kind of flow it is.
    pub flow_kind: ExecutionKind,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// Where it stands.
    pub status: FlowState,
    /// How many members it has.
    pub node_count: u32,
    /// How many of them have not ended.
    #[serde(default)]
    pub live_count: u32,
    /// How many ended so that the flow fails.
    #[serde(default)]
    pub failed_count: u32,
    /// Members that could not be cancelled.
    #[serde(default)]
    pub stuck_count: u32,
    /// When it was made.
    pub created_at: TimestampMs,
    /// When its last member ended.
    pub completed_at: Option<TimestampMs>,
}
