//! Flows under test: graphs from short texts, and their members by name.
//!
//! A graph is written as edges, `a -> b, b -f> c, d`: members are named by words, and come in the
//! order in which they first appear, but for those that edges put behind others. `->` is satisfied
//! by success, `-f>` by failure, `-a>` by any end, and `=>` by success, whose result it passes on.
//! `a?` is optional, `a*2` needs two of its edges.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::contracts::FlowMember;
use ff_core::limits;
use ff_core::types::{
    AttemptId, EdgeId, ExecutionId, ExecutionKind, FlowId, GrantId, LeaseId, Namespace,
};
use ff_script::calls::claim::{ClaimExecution, ClaimRow};
use ff_script::calls::create::CreateExecution;
use ff_script::calls::edge::{AddDependency, AddDependencyReply};
use ff_script::calls::flow::{AddExecutionToFlow, CreateFlow, SealFlow};
use ff_script::calls::flow_cancel::CancelFlow;
use ff_script::calls::flow_reads::{
    DescribeFlow, DescribeFlowReply, ListMembers, ListMembersReply,
};
use ff_script::calls::graph::{GraphEdge, GraphNode, SubmitGraph};
use ff_script::wire::Rest;

use crate::deployment::Deployment;
use crate::held::{Held, INSTANCE, LEASE_MS, WORKER, instance, worker};

/// A graph that is about to be submitted.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The flow it will be.
    pub flow_id: FlowId,
    /// Its members, in an order in which all edges go forward.
    pub nodes: Vec<GraphNode>,
    /// Its edges.
    pub edges: Vec<GraphEdge>,
    /// The call without members and edges.
    pub head: SubmitGraph,
}

/// A flow whose members are known by name.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The flow.
    pub id: FlowId,
    /// Its members.
    pub ids: BTreeMap<String, ExecutionId>,
}

impl Flow {
    /// A member by its name.
    pub fn id(&self, name: &str) -> ExecutionId {
        *self.ids.get(name).unwrap_or_else(|| panic!("there is no member {name}"))
    }
}

impl Graph {
    /// A member by its name.
    pub fn node(&mut self, name: &str) -> &mut GraphNode {
        let node = self.nodes.iter_mut().find(|node| node.name == name);
        node.unwrap_or_else(|| panic!("there is no member {name}"))
    }

    /// A member by its name, as it will be created.
    pub fn create(&mut self, name: &str) -> &mut CreateExecution {
        &mut self.node(name).create
    }

    /// The call that brings everything.
    pub fn whole(&self) -> SubmitGraph {
        self.part(0..self.nodes.len(), 0..self.edges.len(), true)
    }

    /// The call that brings some members and edges.
    pub fn part(
        &self,
        nodes: std::ops::Range<usize>,
        edges: std::ops::Range<usize>,
        seal: bool,
    ) -> SubmitGraph {
        let (nodes_before, edges_before) = (nodes.start as u64, edges.start as u64);
        let mut call = SubmitGraph { nodes_before, edges_before, seal, ..self.head.clone() };
        call.fill(&self.nodes[nodes], &self.edges[edges]);
        call
    }

    /// The calls that bring everything, each as much as one call may.
    pub fn parts(&self) -> Vec<SubmitGraph> {
        let most = limits::GRAPH_BATCH_MAX as usize;
        let (nodes, edges) = (self.nodes.len(), self.edges.len());
        let mut parts = Vec::new();
        for start in (0..nodes).step_by(most) {
            parts.push(self.part(start..nodes.min(start + most), 0..0, false));
        }
        for start in (0..edges).step_by(most) {
            parts.push(self.part(nodes..nodes, start..edges.min(start + most), false));
        }
        parts.push(self.part(nodes..nodes, edges..edges, true));
        parts
    }

    /// Its members by name.
    pub fn flow(&self) -> Flow {
        let named = |node: &GraphNode| (node.name.clone(), node.create.execution_id);
        Flow { id: self.flow_id, ids: self.nodes.iter().map(named).collect() }
    }

    /// Puts every member behind those that it waits for.
    fn sort(&mut self) {
        let mut waits: BTreeMap<ExecutionId, usize> = BTreeMap::new();
        let mut followers: BTreeMap<ExecutionId, Vec<ExecutionId>> = BTreeMap::new();
        for edge in &self.edges {
            *waits.entry(edge.downstream).or_default() += 1;
            followers.entry(edge.upstream).or_default().push(edge.downstream);
        }
        let place: BTreeMap<ExecutionId, usize> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.create.execution_id, at))
            .collect();
        let mut free: BTreeSet<usize> =
            place.iter().filter(|(id, _)| !waits.contains_key(id)).map(|(_, at)| *at).collect();
        let mut order = Vec::new();
        while let Some(at) = free.pop_first() {
            order.push(at);
            for id in followers.remove(&self.nodes[at].create.execution_id).unwrap_or_default() {
                let left = waits.entry(id).or_default();
                *left -= 1;
                if *left == 0 {
                    free.insert(place[&id]);
                }
            }
        }
        assert_eq!(order.len(), self.nodes.len(), "a graph has no cycle");
        self.nodes = order.into_iter().map(|at| self.nodes[at].clone()).collect();
    }

    fn add(&mut self, d: &Deployment, word: &str) -> ExecutionId {
        let (name, needed) = match word.split_once('*') {
            Some((name, count)) => (name, Some(count.parse().expect("a count"))),
            None => (word, None),
        };
        let (name, optional) = match name.strip_suffix('?') {
            Some(name) => (name, true),
            None => (name, false),
        };
        if let Some(node) = self.nodes.iter().find(|node| node.name == name) {
            return node.create.execution_id;
        }
        let create = d.create().call();
        let id = create.execution_id;
        self.nodes.push(GraphNode { name: name.to_owned(), optional, needed, create });
        id
    }
}

impl Deployment {
    /// A new graph from a text.
    pub fn graph(&self, text: &str) -> Graph {
        let flow_id = FlowId::from_uuid(self.new_uuid());
        let mut graph =
            Graph { flow_id, nodes: Vec::new(), edges: Vec::new(), head: head(flow_id) };
        for statement in text.split(',').map(str::trim).filter(|statement| !statement.is_empty()) {
            let words: Vec<&str> = statement.split_whitespace().collect();
            let mut upstream = graph.add(self, words[0]);
            let mut from = words[0];
            for pair in words[1..].chunks(2) {
                let [arrow, to] = pair else { panic!("{statement} ends in an arrow") };
                let downstream = graph.add(self, to);
                let (kind, pass) = arrow_kind(arrow);
                let name = if pass { bare(from) } else { String::new() };
                let kind = kind.to_owned();
                graph.edges.push(GraphEdge { upstream, downstream, kind, pass, name });
                (upstream, from) = (downstream, to);
            }
        }
        graph.sort();
        graph
    }

    /// Submits a graph from a text in one call, or as many as it takes.
    pub async fn flow(&self, text: &str) -> Flow {
        self.submit(&self.graph(text)).await
    }

    /// Submits a graph in one call, or as many as it takes.
    pub async fn submit(&self, graph: &Graph) -> Flow {
        let most = limits::GRAPH_BATCH_MAX as usize;
        if graph.nodes.len() <= most && graph.edges.len() <= most {
            self.call(graph.whole()).await;
        } else {
            for part in graph.parts() {
                self.call(part).await;
            }
            self.settle().await;
        }
        graph.flow()
    }

    /// Ticks until nothing is due any more.
    pub async fn settle(&self) {
        while self.tick().await.next_due_at.is_some_and(|at| at <= self.now()) {}
    }

    /// The call that creates an empty flow with a fresh id.
    pub fn create_flow(&self) -> CreateFlow {
        let head = head(FlowId::from_uuid(self.new_uuid()));
        CreateFlow {
            flow_id: head.flow_id,
            flow_kind: head.flow_kind,
            namespace: head.namespace,
            on_failure: None,
            deadline_at: None,
            retention_ms: None,
            tags_json: String::new(),
        }
    }

    /// Makes an open flow of executions with these names, one after the other.
    pub async fn open_flow(&self, names: &str) -> Flow {
        let call = self.create_flow();
        let mut flow = Flow { id: call.flow_id, ids: BTreeMap::new() };
        self.call(call).await;
        for name in names.split_whitespace() {
            let id = self.create_one().await;
            self.call(joining(&flow, id, name)).await;
            flow.ids.insert(name.to_owned(), id);
        }
        flow
    }

    /// An edge between two members, satisfied by success.
    pub fn edge(&self, flow: &Flow, from: &str, to: &str) -> AddDependency {
        AddDependency {
            flow_id: flow.id,
            edge_id: EdgeId::from_uuid(self.new_uuid()),
            upstream_execution_id: flow.id(from),
            downstream_execution_id: flow.id(to),
            dependency_kind: None,
            data_passing_ref: String::new(),
            expected_graph_revision: None,
        }
    }

    /// Adds an edge between two members, which must be new.
    pub async fn connect(&self, flow: &Flow, from: &str, to: &str) -> EdgeId {
        match self.call(self.edge(flow, from, to)).await {
            AddDependencyReply::Added { edge_id, .. } => edge_id,
            other => panic!("the edge must be new, and adding it gave {other:?}"),
        }
    }

    /// Nobody joins any more.
    pub async fn seal(&self, flow: &Flow) {
        self.call(SealFlow { flow_id: flow.id }).await;
    }

    /// A claim of one member, which must be granted first.
    pub fn member_claim(&self, id: ExecutionId, grant_id: GrantId) -> ClaimExecution {
        ClaimExecution {
            execution_id: id,
            worker_id: worker(WORKER),
            worker_instance_id: instance(INSTANCE),
            lane: None,
            grant_id,
            lease_id: LeaseId::from_uuid(self.new_uuid()),
            lease_ttl_ms: LEASE_MS,
            attempt_id: AttemptId::from_uuid(self.new_uuid()),
        }
    }

    /// Claims a member by its name.
    pub async fn take(&self, flow: &Flow, name: &str) -> Held {
        let grant = self.claim_grant_call(flow.id(name));
        self.call(grant.clone()).await;
        let claim = self.member_claim(grant.execution_id, grant.grant_id);
        Held::from(ClaimRow::from(self.call(claim).await))
    }

    /// Claims members by their names and completes them, each with its name as the result.
    pub async fn complete(&self, flow: &Flow, names: &str) {
        for name in names.split_whitespace() {
            let held = self.take(flow, name).await;
            self.call(held.complete(name.as_bytes())).await;
        }
    }

    /// Claims members by their names and fails them for good.
    pub async fn fail(&self, flow: &Flow, names: &str) {
        for name in names.split_whitespace() {
            let held = self.take(flow, name).await;
            self.call(held.fail("boom", "transient")).await;
        }
    }

    /// Cancels a flow.
    pub fn cancelling(&self, flow: &Flow, policy: &str) -> CancelFlow {
        let (reason, policy) = ("enough".to_owned(), policy.to_owned());
        CancelFlow { flow_id: flow.id, reason, policy, grace_ms: None }
    }

    /// The members of a flow, in the order in which they came.
    pub async fn members(&self, flow: &Flow) -> Vec<FlowMember> {
        let (mut rows, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let call = ListMembers { flow_id: flow.id, state: None, from: at, limit: 1000 };
            let ListMembersReply::Members { members, next_from } = self.call(call).await;
            rows.extend(members.0);
            from = next_from;
        }
        rows
    }

    /// The states of all members, as `a completed, b waiting`.
    pub async fn states(&self, flow: &Flow) -> String {
        let rows = self.members(flow).await;
        let line = |row: &FlowMember| {
            format!("{} {}", row.name.clone().unwrap_or_default(), row.public_state)
        };
        rows.iter().map(line).collect::<Vec<_>>().join(", ")
    }

    /// Everything about a flow.
    pub async fn described(&self, flow: &Flow) -> DescribeFlowReply {
        self.call(DescribeFlow { flow_id: flow.id }).await
    }

    /// The state of a flow, and how many members are in which state, as
    /// `running: 1 active, 2 waiting`.
    pub async fn flow_state(&self, flow: &Flow) -> String {
        let DescribeFlowReply::Flow { public_flow_state, counts, .. } = self.described(flow).await;
        let mut parts = Vec::new();
        for (state, count) in counts {
            if count > 0 {
                parts.push(format!("{count} {state}"));
            }
        }
        parts.sort();
        format!("{public_flow_state}: {}", parts.join(", "))
    }
}

/// The call that makes an execution a member.
pub fn joining(flow: &Flow, execution_id: ExecutionId, name: &str) -> AddExecutionToFlow {
    AddExecutionToFlow {
        flow_id: flow.id,
        execution_id,
        name: Some(name.to_owned()),
        optional: false,
    }
}

fn head(flow_id: FlowId) -> SubmitGraph {
    SubmitGraph {
        flow_id,
        flow_kind: ExecutionKind::try_new("tests").expect("a valid name"),
        namespace: Namespace::try_new("tests").expect("a valid name"),
        on_failure: None,
        deadline_at: None,
        retention_ms: None,
        tags_json: String::new(),
        digest: "digest".to_owned(),
        nodes_before: 0,
        edges_before: 0,
        seal: false,
        nodes: 0,
        node_width: 1,
        items: Rest(Vec::new()),
    }
}

pub(crate) fn arrow_kind(arrow: &str) -> (&'static str, bool) {
    match arrow {
        "->" => ("success_only", false),
        "=>" => ("success_only", true),
        "-f>" => ("failure_only", false),
        "-a>" => ("any_outcome", false),
        other => panic!("{other} is no arrow"),
    }
}

/// A name without what is said about the member.
fn bare(word: &str) -> String {
    let name = word.split('*').next().unwrap_or(word);
    name.trim_end_matches('?').to_owned()
}
