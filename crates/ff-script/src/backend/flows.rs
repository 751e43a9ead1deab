//! Flows: a graph is sent in parts that the store takes in a few milliseconds each, so that a
//! repetition goes on where one broke off.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::contracts::{
    AddEdge, AddFlowMember, ApplyEdge, CancelFlow, CancelFlowPolicy, CancelFlowResult,
    CancelReceipt, CancelReceiptQuery, CreateFlow, EdgeAdded, EdgeApplied, EdgeList, EdgeOf,
    EdgeQuery, EdgeSnapshot, FailedReplayed, FlowActivityStream, FlowCreated, FlowGraph,
    FlowMemberAdded, FlowMembers, FlowPosition, FlowQuery, FlowSealed, FlowSnapshot, GraphAccepted,
    GraphQuery, InputPage, InputQuery, ListFlowsPage, MemberQuery, PlannedEdge, PlannedGraph,
    PlannedNode, ReplayFailed, RetryStuck, SetFlowTags, StuckRetried, SubmitGraph, found,
};
use ff_core::engine_backend::{Answer, Flows, Reads as _};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::operation::Nothing;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, ExecutionRef, FlowId, LaneId};

use super::ScriptBackend;
use super::flow_rows::{edge_of, member, receipt, snapshot};
use super::following::follow_flow;
use crate::calls;
use crate::calls::create::{CreateExecution, tags_json};
use crate::calls::edge::{
    AddDependency, AddDependencyReply, ApplyDependencyToChild, ApplyDependencyToChildReply,
    StageDependencyEdge,
};
use crate::calls::flow::{
    AddExecutionToFlow, AddExecutionToFlowReply, CreateFlowReply, SealFlow, SealFlowReply,
};
use crate::calls::flow_cancel::{
    CancelFlowReply, ReadCancelReceipt, RetryStuckMembers, RetryStuckMembersReply,
};
use crate::calls::flow_reads::{
    DescribeEdge, DescribeEdgeReply, DescribeFlow, ListEdges, ListEdgesReply, ListFlows,
    ListFlowsReply, ListMembers, ListMembersReply, ReadGraph, ReadGraphReply,
};
use crate::calls::graph::{GraphEdge, GraphNode, SubmitGraphReply};
use crate::calls::inputs::{ReadInputs, ReadInputsReply};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};
use crate::wire::Rest;

/// How many a page has if nothing else is said.
const PAGE: u32 = 100;

/// How many bytes of inputs are read if nothing else is said.
const INPUT_BYTES: u64 = 1 << 20;

impl<H: Host + ?Sized> Flows for ScriptBackend<H> {
    fn create_flow(&self, request: CreateFlow) -> Answer<'_, FlowCreated> {
        Box::pin(async move {
            request.validate()?;
            let flow_id = request.flow_id.unwrap_or_else(|| FlowId::from_uuid(SystemIds.ordered()));
            let call = create_call(flow_id, request)?;
            Ok(match self.call(self.flow_home(&flow_id), call).await? {
                CreateFlowReply::Created { flow_id } => FlowCreated { flow_id, created: true },
                CreateFlowReply::CreatedBefore { flow_id } => {
                    FlowCreated { flow_id, created: false }
                }
            })
        })
    }

    fn submit_graph(&self, request: SubmitGraph) -> Answer<'_, GraphAccepted> {
        Box::pin(async move {
            let planned = request.plan(SystemIds.ordered(), &self.config)?;
            self.send_graph(planned).await
        })
    }

    fn add_flow_member(
        &self,
        flow_id: FlowId,
        request: AddFlowMember,
    ) -> Answer<'_, FlowMemberAdded> {
        Box::pin(async move {
            let partition = self.flow_home(&flow_id);
            let AddFlowMember { execution_id, name, optional } = request;
            let execution_id = self.at_home(partition, execution_id)?;
            let call = AddExecutionToFlow { flow_id, execution_id, name, optional };
            Ok(match self.call(partition, call).await? {
                AddExecutionToFlowReply::Added { execution_id, node_count } => {
                    FlowMemberAdded { execution_id, node_count, added: true }
                }
                AddExecutionToFlowReply::AddedBefore { execution_id, node_count } => {
                    FlowMemberAdded { execution_id, node_count, added: false }
                }
            })
        })
    }

    fn add_edge(&self, flow_id: FlowId, request: AddEdge) -> Answer<'_, EdgeAdded> {
        Box::pin(async move {
            request.validate()?;
            self.send_edge(flow_id, request).await
        })
    }

    fn apply_edge(&self, flow_id: FlowId, request: ApplyEdge) -> Answer<'_, EdgeApplied> {
        Box::pin(async move {
            let ApplyEdge { edge_id, downstream_execution_id } = request;
            let home = self.flow_home(&flow_id);
            let downstream_execution_id = self.at_home(home, downstream_execution_id)?;
            let call = ApplyDependencyToChild { flow_id, edge_id, downstream_execution_id };
            Ok(match self.call(self.flow_home(&flow_id), call).await? {
                ApplyDependencyToChildReply::Applied { unsatisfied_count } => {
                    EdgeApplied { unsatisfied_count: Some(unsatisfied_count) }
                }
                ApplyDependencyToChildReply::AppliedBefore {} => {
                    EdgeApplied { unsatisfied_count: None }
                }
            })
        })
    }

    fn seal_flow(&self, flow_id: FlowId) -> Answer<'_, FlowSealed> {
        Box::pin(async move {
            let sealed = self.call(self.flow_home(&flow_id), SealFlow { flow_id }).await?;
            let node_count = match sealed {
                SealFlowReply::Sealed { node_count }
                | SealFlowReply::SealedBefore { node_count } => node_count,
            };
            Ok(FlowSealed { node_count })
        })
    }

    fn set_flow_tags(&self, flow_id: FlowId, request: SetFlowTags) -> Answer<'_, Nothing> {
        Box::pin(async move {
            let pairs = request.tags.into_iter().flat_map(|(name, value)| [name, value]).collect();
            let call = calls::flow::SetFlowTags { flow_id, pairs: Rest(pairs) };
            self.call(self.flow_home(&flow_id), call).await?;
            Ok(Nothing {})
        })
    }

    fn cancel_flow(&self, flow_id: FlowId, request: CancelFlow) -> Answer<'_, CancelFlowResult> {
        Box::pin(async move {
            request.validate()?;
            let policy = request.cancellation_policy.unwrap_or(CancelFlowPolicy::CancelAll);
            let call = calls::flow_cancel::CancelFlow {
                flow_id,
                reason: request.reason,
                policy: policy.as_str().to_owned(),
                grace_ms: None,
            };
            let (CancelFlowReply::Cancelled { policy, member_count, done, stuck }
            | CancelFlowReply::CancelledBefore { policy, member_count, done, stuck }) =
                self.call(self.flow_home(&flow_id), call).await?;
            Ok(CancelFlowResult::new(policy, member_count, done, stuck))
        })
    }

    fn read_cancel_receipt(
        &self,
        flow_id: FlowId,
        query: CancelReceiptQuery,
    ) -> Answer<'_, CancelReceipt> {
        Box::pin(async move {
            let call = ReadCancelReceipt {
                flow_id,
                fate: query.fate.map(|fate| fate.as_str().to_owned()),
                from: query.from.unwrap_or(0),
                limit: query.limit.unwrap_or(PAGE),
            };
            self.call(self.flow_home(&flow_id), call).await.map(receipt)
        })
    }

    fn retry_stuck_members(
        &self,
        flow_id: FlowId,
        request: RetryStuck,
    ) -> Answer<'_, StuckRetried> {
        Box::pin(async move {
            let call = RetryStuckMembers { flow_id, from: request.from.unwrap_or(0) };
            let RetryStuckMembersReply::Retried { tried, settled, stuck, next_from } =
                self.call(self.flow_home(&flow_id), call).await?;
            let (tried_count, settled_count, stuck_count) = (tried, settled, stuck);
            Ok(StuckRetried { tried_count, settled_count, stuck_count, next_from })
        })
    }

    fn replay_failed(&self, flow_id: FlowId, request: ReplayFailed) -> Answer<'_, FailedReplayed> {
        Box::pin(self.replay_some(flow_id, request))
    }

    fn describe_flow(&self, flow_id: FlowId) -> Answer<'_, Option<FlowSnapshot>> {
        Box::pin(async move {
            let described = self.call(self.flow_home(&flow_id), DescribeFlow { flow_id }).await;
            Ok(found(described)?.map(|flow| snapshot(flow_id, flow)))
        })
    }

    fn describe_edge(&self, edge: EdgeOf) -> Answer<'_, Option<EdgeSnapshot>> {
        Box::pin(async move {
            let EdgeOf { flow_id, edge_id } = edge;
            let call = DescribeEdge { flow_id, edge_id };
            match found(self.call(self.flow_home(&flow_id), call).await)? {
                Some(DescribeEdgeReply::Edge { edge }) => Ok(Some(edge_of(flow_id, edge))),
                Some(DescribeEdgeReply::None {}) | None => Ok(None),
            }
        })
    }

    fn list_edges(&self, execution_id: ExecutionId, query: EdgeQuery) -> Answer<'_, EdgeList> {
        Box::pin(async move {
            let call = ListEdges {
                execution_id,
                direction: query.direction.as_str().to_owned(),
                from: query.from.unwrap_or(0),
                limit: query.limit.unwrap_or(PAGE),
            };
            let ListEdgesReply::Edges { flow_id, edges, next_from } =
                self.call_on(execution_id, call).await?;
            let Some(flow_id) = flow_id else { return Ok(EdgeList::default()) };
            let edges = edges.0.into_iter().map(|row| edge_of(flow_id, row)).collect();
            Ok(EdgeList { edges, next_from })
        })
    }

    fn list_members(&self, flow_id: FlowId, query: MemberQuery) -> Answer<'_, FlowMembers> {
        Box::pin(async move {
            let call = ListMembers {
                flow_id,
                state: query.state,
                from: query.from.unwrap_or(0),
                limit: query.limit.unwrap_or(PAGE),
            };
            let ListMembersReply::Members { members, next_from } =
                self.call(self.flow_home(&flow_id), call).await?;
            Ok(FlowMembers { members: members.0.into_iter().map(member).collect(), next_from })
        })
    }

    fn read_graph(&self, flow_id: FlowId, query: GraphQuery) -> Answer<'_, FlowGraph> {
        Box::pin(async move {
            let limit = query.limit.unwrap_or(limits::LIST_LIMIT_MAX as u32);
            let call = ReadGraph { flow_id, cursor: query.cursor, limit };
            let ReadGraphReply::Graph { members, edges, next_cursor } =
                self.call(self.flow_home(&flow_id), call).await?;
            let members = members.0.into_iter().map(member).collect();
            let edges = edges.0.into_iter().map(|row| edge_of(flow_id, row));
            Ok(FlowGraph { members, edges: edges.collect(), next_cursor })
        })
    }

    fn read_inputs(&self, execution_id: ExecutionId, query: InputQuery) -> Answer<'_, InputPage> {
        Box::pin(async move {
            let bytes_max = query.bytes_max.unwrap_or(INPUT_BYTES);
            let call = ReadInputs { execution_id, from: query.from.unwrap_or(0), bytes_max };
            let ReadInputsReply::Inputs { input_count, inputs, next_from } =
                self.call_on(execution_id, call).await?;
            Ok(InputPage { input_count, inputs: inputs.0, next_from })
        })
    }

    fn resolve_execution_flow_id(&self, execution_id: ExecutionId) -> Answer<'_, Option<FlowId>> {
        let described = self.describe_execution(execution_id);
        Box::pin(async move { Ok(described.await?.and_then(|snapshot| snapshot.flow_id)) })
    }

    fn list_flows(&self, query: FlowQuery) -> Answer<'_, ListFlowsPage> {
        Box::pin(self.flow_page(query))
    }

    fn follow_flow(&self, flow_id: FlowId, after: FlowPosition) -> Answer<'_, FlowActivityStream> {
        let home = self.flow_home(&flow_id);
        Box::pin(follow_flow(Arc::clone(&self.host), home, flow_id, after))
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Where a flow lives.
    pub(super) fn flow_home(&self, flow_id: &FlowId) -> Partition {
        self.config.flow_partition_of(flow_id.as_bytes())
    }

    /// An execution joins a flow only where the flow lives.
    fn at_home(&self, home: Partition, name: ExecutionRef) -> Result<ExecutionId, EngineError> {
        let id = name.resolve(&self.config)?;
        if id.partition() == home {
            return Ok(id);
        }
        let details = vec![id.to_string(), home.to_string()];
        Err(EngineError::Refused { code: Code::PartitionMismatch, details })
    }

    async fn send_edge(&self, flow_id: FlowId, it: AddEdge) -> Result<EdgeAdded, EngineError> {
        let home = self.flow_home(&flow_id);
        let edge = AddDependency {
            flow_id,
            edge_id: it.edge_id,
            upstream_execution_id: self.at_home(home, it.upstream_execution_id)?,
            downstream_execution_id: self.at_home(home, it.downstream_execution_id)?,
            dependency_kind: it.dependency_kind.map(|kind| kind.as_str().to_owned()),
            data_passing_ref: it.data_passing_ref.unwrap_or_default(),
            expected_graph_revision: it.expected_graph_revision,
        };
        let reply = match it.staged {
            true => self.call(home, StageDependencyEdge(edge)).await?,
            false => self.call(home, edge).await?,
        };
        let added = matches!(reply, AddDependencyReply::Added { .. });
        let (AddDependencyReply::Added { edge_id, graph_revision }
        | AddDependencyReply::AddedBefore { edge_id, graph_revision }) = reply;
        Ok(EdgeAdded { edge_id, new_graph_revision: graph_revision, added })
    }

    /// Sends a graph, part by part. The last one seals it.
    async fn send_graph(&self, planned: PlannedGraph) -> Result<GraphAccepted, EngineError> {
        let partition = self.flow_home(&planned.flow_id);
        let nodes: Vec<GraphNode> =
            planned.nodes.into_iter().map(graph_node).collect::<Result<_, _>>()?;
        let lanes: BTreeSet<&LaneId> = nodes.iter().map(|node| &node.create.lane).collect();
        for lane in lanes {
            self.register_lane(lane).await?;
        }
        let edges: Vec<GraphEdge> =
            planned.edges.iter().map(|edge| graph_edge(edge, &nodes)).collect();
        let mut whole = graph_call(planned.flow_id, planned.flow)?;
        whole.digest = whole.content_digest(&nodes, &edges);
        let parts = parts(&nodes, &planned.edges);
        let (mut created, mut node_count) = (false, 0);
        for (place, part) in parts.iter().enumerate() {
            let mut call = whole.clone();
            call.nodes_before = part.nodes.start as u64;
            call.edges_before = part.edges.start as u64;
            call.seal = place + 1 == parts.len();
            call.fill(&nodes[part.nodes.clone()], &edges[part.edges.clone()]);
            match self.call(partition, call).await? {
                SubmitGraphReply::Accepted { node_count: count, .. } => {
                    (created, node_count) = (true, count);
                }
                // It is whole: what follows is there too.
                SubmitGraphReply::AcceptedBefore { node_count: count, .. } => {
                    node_count = count;
                    break;
                }
            }
        }
        Ok(GraphAccepted { flow_id: planned.flow_id, node_count, created })
    }

    async fn flow_page(&self, query: FlowQuery) -> Result<ListFlowsPage, EngineError> {
        let limit = query.limit.unwrap_or(PAGE);
        let begin = match (query.partition, &query.cursor) {
            (Some(index), _) => index,
            (None, Some(cursor)) => self.flow_home(cursor).index,
            (None, None) => 0,
        };
        let last = query.partition.unwrap_or(self.config.num_flow_partitions - 1);
        let mut after = query.cursor;
        for index in begin..=last {
            let call = ListFlows { after: after.take(), limit, owing: query.owing };
            let ListFlowsReply::Flows { flows, next_after } =
                self.call(self.config.flow_partition(index)?, call).await?;
            let flows = flows.0;
            if flows.is_empty() {
                continue;
            }
            let behind = flows.last().map(|flow| flow.flow_id).filter(|_| index < last);
            return Ok(ListFlowsPage { flows, next_cursor: next_after.or(behind) });
        }
        Ok(ListFlowsPage::default())
    }
}

fn create_call(flow_id: FlowId, it: CreateFlow) -> Result<calls::flow::CreateFlow, EngineError> {
    Ok(calls::flow::CreateFlow {
        flow_id,
        flow_kind: it.flow_kind,
        namespace: it.namespace.unwrap_or_default(),
        on_failure: it.on_failure.map(|policy| policy.as_str().to_owned()),
        deadline_at: it.deadline_at,
        retention_ms: it.retention_ms,
        tags_json: tags_json(&it.tags)?,
    })
}

/// The flow of a graph, without its members and edges.
fn graph_call(flow_id: FlowId, it: CreateFlow) -> Result<calls::graph::SubmitGraph, EngineError> {
    let flow = create_call(flow_id, it)?;
    Ok(calls::graph::SubmitGraph {
        flow_id,
        flow_kind: flow.flow_kind,
        namespace: flow.namespace,
        on_failure: flow.on_failure,
        deadline_at: flow.deadline_at,
        retention_ms: flow.retention_ms,
        tags_json: flow.tags_json,
        digest: String::new(),
        nodes_before: 0,
        edges_before: 0,
        seal: false,
        nodes: 0,
        node_width: 1,
        items: Rest(Vec::new()),
    })
}

pub(super) fn graph_node(node: PlannedNode) -> Result<GraphNode, EngineError> {
    Ok(GraphNode {
        name: node.name,
        optional: node.optional,
        needed: node.needs.map(u64::from),
        create: CreateExecution::try_from(node.new)?,
        cancel_rest: node.cancel_rest,
    })
}

fn graph_edge(edge: &PlannedEdge, nodes: &[GraphNode]) -> GraphEdge {
    let upstream = &nodes[edge.upstream];
    GraphEdge {
        upstream: upstream.create.execution_id,
        downstream: nodes[edge.downstream].create.execution_id,
        kind: edge.kind.as_str().to_owned(),
        pass: edge.pass.is_some(),
        name: edge.pass.clone().unwrap_or_else(|| upstream.name.clone()),
    }
}

/// What is sent in one call: members and edges by their places.
struct Part {
    nodes: std::ops::Range<usize>,
    edges: std::ops::Range<usize>,
}

/// Bytes of one part: keeps the store's longest pause far below a lease.
pub(super) const PART_BYTES_MAX: usize = 1 << 20;

/// So many members at a time, and edges as soon as both of their ends are there: they come by the
/// places of those who wait, who come behind those they wait for.
fn parts(nodes: &[GraphNode], edges: &[PlannedEdge]) -> Vec<Part> {
    let most = limits::GRAPH_BATCH_MAX as usize;
    let (mut parts, mut node, mut edge) = (Vec::new(), 0, 0);
    while node < nodes.len() || edge < edges.len() {
        let (first_node, first_edge) = (node, edge);
        let mut bytes = 0;
        while node < nodes.len() && node - first_node < most && bytes < PART_BYTES_MAX {
            bytes += nodes[node].create.payload.len();
            node += 1;
        }
        while edge < edges.len() && edge - first_edge < most && edges[edge].downstream < node {
            edge += 1;
        }
        parts.push(Part { nodes: first_node..node, edges: first_edge..edge });
    }
    parts
}

#[cfg(test)]
mod tests {
    use ff_core::contracts::{CreateExecution as Submission, GraphDependency, GraphTask};
    use ff_core::partition::PartitionConfig;
    use ff_core::types::ExecutionKind;
    use uuid::Uuid;

    use super::*;

    fn kind() -> ExecutionKind {
        ExecutionKind::try_new("work").expect("a valid name")
    }

    /// So many members, each behind the five before it.
    fn planned(count: usize) -> PlannedGraph {
        let name = |place: usize| format!("t{place}");
        let tasks = (0..count).map(|place| {
            let mut task = GraphTask::new(name(place), Submission::new(kind()));
            let before = place.saturating_sub(5)..place;
            task.after = before.map(|up| GraphDependency::on_success(name(up))).collect();
            task
        });
        let graph = SubmitGraph::new(CreateFlow::new(kind()), tasks.collect());
        graph.plan(Uuid::from_u128(7), &PartitionConfig::default()).expect("no cycle")
    }

    #[test]
    fn parts_follow_each_other_and_no_edge_comes_before_its_ends() {
        let planned = planned(1_000);
        let edges = planned.edges;
        let nodes: Vec<GraphNode> =
            planned.nodes.into_iter().map(|node| graph_node(node).expect("it fits")).collect();
        let parts = parts(&nodes, &edges);
        let (mut node, mut edge) = (0, 0);
        for part in &parts {
            assert_eq!((part.nodes.start, part.edges.start), (node, edge));
            (node, edge) = (part.nodes.end, part.edges.end);
            assert!(part.nodes.len().max(part.edges.len()) as u64 <= limits::GRAPH_BATCH_MAX);
            assert!(edges[part.edges.clone()].iter().all(|edge| edge.downstream < node));
        }
        assert_eq!((node, edge), (nodes.len(), edges.len()));
        assert_eq!(parts.len(), edges.len().div_ceil(limits::GRAPH_BATCH_MAX as usize));
    }
}
