//! Flows: executions that depend on each other.

use serde::{Deserialize, Serialize};

use super::flow_cancel::{
    CancelFlow, CancelFlowResult, CancelReceipt, CancelReceiptQuery, RetryStuck, StuckRetried,
};
use super::flow_events::{FlowActivityStream, FlowPosition};
use super::flow_reads::{
    EdgeList, EdgeOf, EdgeQuery, EdgeSnapshot, FlowGraph, FlowMembers, FlowQuery, FlowSnapshot,
    GraphQuery, ListFlowsPage, MemberQuery,
};
use super::flow_replay::{FailedReplayed, ReplayFailed};
use super::graph::{GraphAccepted, SubmitGraph};
use super::inputs::{InputPage, InputQuery};
use super::tags::{Tags, check_tags};
use crate::ToSchema;
use crate::argument::check_bytes;
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::literal::literals;
use crate::operation::{Method, Nothing, Operation};
use crate::types::{
    EdgeId, ExecutionId, ExecutionKind, ExecutionRef, FlowId, Moment, Namespace, TimestampMs,
};

/// Makes graphs of executions, changes and reads them.
pub trait Flows: Send + Sync {
    /// Makes an empty flow, which takes members until it is sealed. Repeating it changes nothing.
    fn create_flow(&self, request: CreateFlow) -> Answer<'_, FlowCreated>;

    /// Submits a whole graph: nothing of it runs before all of it is there. Repeating it finishes
    /// what broke off, and changes nothing when it is whole.
    fn submit_graph(&self, request: SubmitGraph) -> Answer<'_, GraphAccepted>;

    /// Makes an execution a member of an open flow.
    fn add_flow_member(
        &self,
        flow_id: FlowId,
        request: AddFlowMember,
    ) -> Answer<'_, FlowMemberAdded>;

    /// Lets one member wait for another, at once or, if it is only staged, when it is applied.
    fn add_edge(&self, flow_id: FlowId, request: AddEdge) -> Answer<'_, EdgeAdded>;

    /// Lets the downstream of a staged edge wait for it.
    fn apply_edge(&self, flow_id: FlowId, request: ApplyEdge) -> Answer<'_, EdgeApplied>;

    /// Takes no more members: the flow ends when the last one has.
    fn seal_flow(&self, flow_id: FlowId) -> Answer<'_, FlowSealed>;

    /// Adds labels to a flow or replaces their values.
    fn set_flow_tags(&self, flow_id: FlowId, request: SetFlowTags) -> Answer<'_, Nothing>;

    /// Cancels a flow. Its members are cancelled in steps that survive any crash.
    fn cancel_flow(&self, flow_id: FlowId, request: CancelFlow) -> Answer<'_, CancelFlowResult>;

    /// What a cancel meant for each member, by pages. A read.
    fn read_cancel_receipt(
        &self,
        flow_id: FlowId,
        query: CancelReceiptQuery,
    ) -> Answer<'_, CancelReceipt>;

    /// Tries members again that could not be dealt with.
    fn retry_stuck_members(&self, flow_id: FlowId, request: RetryStuck)
    -> Answer<'_, StuckRetried>;

    /// Runs members again that failed, expired or were cancelled, if no upstream stands in their
    /// way.
    fn replay_failed(&self, flow_id: FlowId, request: ReplayFailed) -> Answer<'_, FailedReplayed>;

    /// Everything about a flow but its members and edges; none if it does not exist. A read.
    fn describe_flow(&self, flow_id: FlowId) -> Answer<'_, Option<FlowSnapshot>>;

    /// One edge; none if there is no such. A read.
    fn describe_edge(&self, edge: EdgeOf) -> Answer<'_, Option<EdgeSnapshot>>;

    /// The edges that begin or end at a member. A read.
    fn list_edges(&self, execution_id: ExecutionId, query: EdgeQuery) -> Answer<'_, EdgeList>;

    /// The members of a flow. A read.
    fn list_members(&self, flow_id: FlowId, query: MemberQuery) -> Answer<'_, FlowMembers>;

    /// The members of a flow and the edges between them, by pages. A read.
    fn read_graph(&self, flow_id: FlowId, query: GraphQuery) -> Answer<'_, FlowGraph>;

    /// What upstreams pass to a member, so many bytes at a time. A read.
    fn read_inputs(&self, execution_id: ExecutionId, query: InputQuery) -> Answer<'_, InputPage>;

    /// The flow of an execution; none if it belongs to none, or does not exist. A read.
    fn resolve_execution_flow_id(&self, execution_id: ExecutionId) -> Answer<'_, Option<FlowId>>;

    /// The flows of a partition. A read.
    fn list_flows(&self, query: FlowQuery) -> Answer<'_, ListFlowsPage>;

    /// Follows what happens in a flow, to it and to its members, until it ends. What is there
    /// already comes first, then every event as it happens.
    fn follow_flow(&self, flow_id: FlowId, after: FlowPosition) -> Answer<'_, FlowActivityStream>;
}

literals! {
    /// What a failed member means for the others.
    FailurePolicy("failure policy") {
        /// They go on.
        Continue = "continue",
        /// They are cancelled, but what the failure frees.
        FailFast = "fail_fast",
    }

    /// Which outcomes of an upstream satisfy an edge.
    DependencyKind("dependency kind") {
        /// Success.
        SuccessOnly = "success_only",
        /// Failure, expiry or cancellation, but not that it was skipped.
        FailureOnly = "failure_only",
        /// All.
        AnyOutcome = "any_outcome",
    }
}

/// Makes an empty flow.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateFlow {
    /// What kind of flow it is, for who lists them.
    pub flow_kind: ExecutionKind,
    /// Its id, if the client chooses it.
    pub flow_id: Option<FlowId>,
    /// The tenant or environment it belongs to; `default` if absent.
    pub namespace: Option<Namespace>,
    /// What a failed member means for the others; they go on if absent.
    pub on_failure: Option<FailurePolicy>,
    /// When all of it expires.
    #[schema(value_type = Option<crate::schema::Moment>)]
    pub deadline_at: Option<TimestampMs>,
    /// How long it is kept when it is over; a day if absent.
    #[schema(maximum = 31_622_400_000u64)]
    pub retention_ms: Option<u64>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schema(value_type = crate::schema::Tags)]
    pub tags: Tags,
}

impl CreateFlow {
    /// A flow of a kind, with defaults for everything else.
    pub fn new(flow_kind: ExecutionKind) -> Self {
        Self {
            flow_kind,
            flow_id: None,
            namespace: None,
            on_failure: None,
            deadline_at: None,
            retention_ms: None,
            tags: Tags::new(),
        }
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        self.deadline_at.map_or(Ok(()), |time| Moment::At(time).check("deadline_at"))?;
        check_tags(&self.tags)
    }
}

impl Operation for CreateFlow {
    type Target = Nothing;
    type Request = Self;
    type Reply = FlowCreated;

    const PATH: &'static str = "/v1/flows";
    const NAME: &'static str = "createFlow";
    const SUMMARY: &'static str = "Makes an empty flow.";
    const ANSWERS: &'static str = "It takes members until it is sealed.";
}

/// The answer to a new flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowCreated {
    /// Its id.
    pub flow_id: FlowId,
    /// True if this request made it.
    pub created: bool,
}

/// Makes an execution a member of an open flow.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddFlowMember {
    /// The execution, which must live where the flow lives.
    pub execution_id: ExecutionRef,
    /// Its name in the flow.
    #[schema(value_type = Option<crate::schema::MemberName>)]
    pub name: Option<String>,
    /// Its failure is not the flow's.
    #[serde(default)]
    pub optional: bool,
}

impl Operation for AddFlowMember {
    type Target = FlowId;
    type Request = Self;
    type Reply = FlowMemberAdded;

    const PATH: &'static str = "/v1/flows/{flow_id}/members";
    const NAME: &'static str = "addFlowMember";
    const SUMMARY: &'static str = "Makes an execution a member of an open flow.";
    const ANSWERS: &'static str = "It is a member.";
    const REFUSES: &'static [u16] = &[404, 409, 413];
}

/// The answer to a new member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowMemberAdded {
    /// The member.
    pub execution_id: ExecutionId,
    /// How many members the flow has.
    pub node_count: u32,
    /// True if this request made it one.
    pub added: bool,
}

/// Lets one member wait for another.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddEdge {
    /// The edge's id, by which a repetition is recognised.
    pub edge_id: EdgeId,
    /// Who must be over first.
    pub upstream_execution_id: ExecutionRef,
    /// Who waits.
    pub downstream_execution_id: ExecutionRef,
    /// Which outcomes satisfy it; success if absent.
    pub dependency_kind: Option<DependencyKind>,
    /// The upstream's result becomes an input of the downstream under this name.
    #[schema(value_type = Option<crate::schema::MemberName>)]
    pub data_passing_ref: Option<String>,
    /// Refused if the graph has changed since this revision.
    #[schema(maximum = 253_402_300_799_999u64)]
    pub expected_graph_revision: Option<u64>,
    /// The downstream waits only when the edge is applied.
    #[serde(default)]
    pub staged: bool,
}

impl AddEdge {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        let name = self.data_passing_ref.as_deref().unwrap_or_default();
        if !name.is_empty() && self.dependency_kind == Some(DependencyKind::FailureOnly) {
            let rule = "is for edges that success satisfies: a failure gives no result";
            return Err(EngineError::invalid("data_passing_ref", rule));
        }
        check_bytes("data_passing_ref", name.len(), limits::MEMBER_NAME_BYTES_MAX)
    }
}

impl Operation for AddEdge {
    type Target = FlowId;
    type Request = Self;
    type Reply = EdgeAdded;

    const PATH: &'static str = "/v1/flows/{flow_id}/edges";
    const NAME: &'static str = "addFlowEdge";
    const SUMMARY: &'static str = "Lets one member wait for another.";
    const ANSWERS: &'static str = "The edge is there.";
    const ABOUT: &'static str = "At once, or when it is applied if it is only staged.";
    const REFUSES: &'static [u16] = &[404, 409, 413];
}

/// The answer to a new edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgeAdded {
    /// The edge.
    pub edge_id: EdgeId,
    /// The revision of the graph since then.
    pub new_graph_revision: u64,
    /// True if this request added it.
    pub added: bool,
}

/// Lets the downstream of a staged edge wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyEdge {
    /// The edge.
    pub edge_id: EdgeId,
    /// Its downstream.
    pub downstream_execution_id: ExecutionRef,
}

impl Operation for ApplyEdge {
    type Target = FlowId;
    type Request = Self;
    type Reply = EdgeApplied;

    const PATH: &'static str = "/v1/flows/{flow_id}/edges/apply";
    const NAME: &'static str = "applyFlowEdge";
    const SUMMARY: &'static str = "Lets the downstream of a staged edge wait for it.";
    const ANSWERS: &'static str = "It waits.";
    const REFUSES: &'static [u16] = &[400, 404, 409];
}

/// The answer to an applied edge.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EdgeApplied {
    /// How many edges the downstream still waits for; none if it was applied before.
    pub unsatisfied_count: Option<u32>,
}

/// Takes no more members.
#[derive(Clone, Copy, Debug)]
pub struct SealFlow;

impl Operation for SealFlow {
    type Target = FlowId;
    type Request = Nothing;
    type Reply = FlowSealed;

    const PATH: &'static str = "/v1/flows/{flow_id}/seal";
    const NAME: &'static str = "sealFlow";
    const SUMMARY: &'static str = "Makes a flow whole.";
    const ANSWERS: &'static str = "It takes no more members, and ends when the last one has.";
}

/// The answer to a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowSealed {
    /// How many members the flow has.
    pub node_count: u32,
}

/// Adds labels to a flow or replaces their values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetFlowTags {
    /// The labels.
    #[schema(value_type = crate::schema::SomeTags)]
    pub tags: Tags,
}

impl Operation for SetFlowTags {
    type Target = FlowId;
    type Request = Self;
    type Reply = Nothing;

    const METHOD: Method = Method::Put;
    const PATH: &'static str = "/v1/flows/{flow_id}/tags";
    const NAME: &'static str = "setFlowTags";
    const SUMMARY: &'static str = "Adds labels to a flow or replaces their values.";
    const ANSWERS: &'static str = "They are set.";
    const REFUSES: &'static [u16] = &[404];
}
