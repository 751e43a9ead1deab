//! Calls about flows: graphs that are submitted whole, in one part or in several, and flows that
//! grow step by step while their members run.

use ff_core::types::{EdgeId, ExecutionId, ExecutionKind, FlowId, Namespace, TimestampMs};
use ff_script::calls::edge::{
    AddDependency, ApplyDependencyToChild, EvaluateFlowEligibility, PromoteBlockedToEligible,
    ResolveDependency, StageDependencyEdge,
};
use ff_script::calls::flow::{AddExecutionToFlow, CreateFlow, SealFlow, SetFlowTags};
use ff_script::calls::flow_cancel::{
    AckCancelMember, CancelFlow, ReadCancelReceipt, RetryStuckMembers,
};
use ff_script::calls::flow_events::ReadFlowEvents;
use ff_script::calls::flow_reads::{
    DescribeEdge, DescribeFlow, ListEdges, ListFlows, ListMembers, ReadGraph,
};
use ff_script::calls::graph::{GraphEdge, GraphNode, SubmitGraph};
use ff_script::calls::inputs::ReadInputs;
use ff_script::wire::Rest;

use super::create::{moment, new_execution};
use super::dice::Dice;
use super::graph::Graph;
use super::plan::Op;
use super::sent::Sent;
use super::view::{Fields, View};
use super::world::World;

const KINDS: [&str; 4] = ["success_only", "success_only", "failure_only", "any_outcome"];
const POLICIES: [&str; 3] = ["cancel_all", "cancel_pending", "flow_only"];

/// More than a part has room for is made of several; a plan has some dozen steps.
const NODES_MAX: u64 = 9;

/// A graph that the test submits, part by part.
#[derive(Clone, Debug)]
pub(super) struct Submission {
    head: SubmitGraph,
    nodes: Vec<GraphNode>,
    edges: Vec<GraphEdge>,
}

impl Submission {
    /// The call that brings some members and edges; all of them, it seals the flow.
    fn part(&self, nodes: std::ops::Range<usize>, edges: std::ops::Range<usize>) -> Sent {
        let seal = nodes.end == self.nodes.len() && edges.end == self.edges.len();
        let (nodes_before, edges_before) = (nodes.start as u64, edges.start as u64);
        let mut call = SubmitGraph { nodes_before, edges_before, seal, ..self.head.clone() };
        call.fill(&self.nodes[nodes], &self.edges[edges]);
        Sent::of(self.nodes[0].create.execution_id.partition(), &call)
    }
}

/// The call of a step; none if there is no flow yet that it could be about.
pub(super) fn choose(op: Op, dice: &mut Dice, world: &mut World) -> Option<Sent> {
    match op {
        Op::SubmitGraph => Some(submit(dice, world)),
        Op::GraphPart => part(dice, world),
        Op::CreateFlow => Some(create(dice, world)),
        _ => {
            let fits = |id: &FlowId| fits(op, id, world);
            let id = *dice.likely(&world.flows, fits)?;
            about(op, dice, id, world)
        }
    }
}

/// Is this a flow that the call could do something with?
fn fits(op: Op, id: &FlowId, world: &World) -> bool {
    let Some(flow) = stored(id, world).filter(|flow| flow.text("state").is_empty()) else {
        return false;
    };
    let open = flow.bytes("sealed").is_none() && flow.bytes("graph").is_none();
    match op {
        Op::Join => open,
        Op::AddEdge => open && flow.count("nodes") > 1,
        Op::SealFlow => flow.bytes("sealed").is_none(),
        Op::MendFlow => owed(id, world).is_some(),
        _ => true,
    }
}

/// A member of the flow whose end was not told to all.
fn owed<'a>(id: &FlowId, world: &'a World) -> Option<(&'a str, Fields<'a>)> {
    let graph = world.graphs.0.get(&id.to_string())?;
    let view = View::new(&world.held, graph.partition);
    let mut owed = view.ranked("due").into_iter().filter_map(|(it, _)| it.strip_prefix("e:"));
    let uuid = owed.find(|uuid| graph.members.contains_key(*uuid))?;
    Some((uuid, view.record(uuid)?))
}

fn stored<'a>(id: &FlowId, world: &'a World) -> Option<Fields<'a>> {
    let id = id.to_string();
    let graph = world.graphs.0.get(&id)?;
    View::new(&world.held, graph.partition).flow(&id)
}

/// A graph of a few members in an order in which all edges go forward.
fn submission(dice: &mut Dice, world: &mut World) -> Submission {
    let partition = world.partitions[dice.below(2) as usize];
    let (count, density) = (1 + dice.below(NODES_MAX), 15 + dice.below(50));
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for place in 0..count as usize {
        let mut create = new_execution(dice, world);
        create.execution_id = ExecutionId::from_parts(partition, dice.uuid());
        create.idempotency_key = None;
        let before = edges.len();
        for up in nodes.iter().skip(nodes.len().saturating_sub(6)) {
            edges.extend(dice.sometimes(density, |dice| edge(dice, up, create.execution_id)));
        }
        let own = (edges.len() - before) as u64;
        let needed = dice.sometimes(40, |dice| 1 + dice.below(own)).filter(|_| own > 0);
        world.ids.push(create.execution_id);
        let optional = dice.chance(15);
        let name = format!("n{place}");
        nodes.push(GraphNode { name, optional, needed, create, cancel_rest: false });
    }
    Submission { head: head(dice, world), nodes, edges }
}

fn edge(dice: &mut Dice, up: &GraphNode, downstream: ExecutionId) -> GraphEdge {
    let upstream = up.create.execution_id;
    let kind = (*dice.pick(&KINDS)).to_owned();
    // A failure has nothing to pass.
    let pass = kind != "failure_only" && dice.chance(40);
    GraphEdge { upstream, downstream, kind, pass, name: up.name.clone() }
}

fn head(dice: &mut Dice, world: &World) -> SubmitGraph {
    let CreateFlow { flow_id, flow_kind, namespace, on_failure, deadline_at, retention_ms, .. } =
        new_flow(dice, world);
    SubmitGraph {
        flow_id,
        flow_kind,
        namespace,
        on_failure,
        deadline_at,
        retention_ms,
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

fn new_flow(dice: &mut Dice, world: &World) -> CreateFlow {
    CreateFlow {
        flow_id: FlowId::from_uuid(dice.uuid()),
        flow_kind: ExecutionKind::try_new("flow").expect("a valid name"),
        namespace: Namespace::try_new("left").expect("a valid name"),
        on_failure: dice.sometimes(30, |_| "fail_fast".to_owned()),
        deadline_at: dice.sometimes(15, |dice| TimestampMs::new(moment(dice, world).get() + 5000)),
        retention_ms: dice.sometimes(50, |dice| *dice.pick(&[0, 1000, 3_600_000])),
        tags_json: dice.sometimes(20, |_| r#"{"a.b":"c"}"#.to_owned()).unwrap_or_default(),
    }
}

/// Whole, or its first part.
fn submit(dice: &mut Dice, world: &mut World) -> Sent {
    let one = submission(dice, world);
    let (mut nodes, mut edges) = (one.nodes.len(), one.edges.len());
    if dice.chance(35) {
        nodes = dice.below(nodes as u64 + 1) as usize;
        edges = edges_within(&one, nodes, dice);
    }
    let sent = one.part(0..nodes, 0..edges);
    world.flows.push(one.head.flow_id);
    world.submissions.push(one);
    sent
}

/// Some of the edges between the members that are there.
fn edges_within(one: &Submission, nodes: usize, dice: &mut Dice) -> usize {
    let known =
        |id: ExecutionId| one.nodes[..nodes].iter().any(|node| node.create.execution_id == id);
    let within = one.edges.iter().take_while(|edge| known(edge.downstream)).count();
    within - dice.below(within as u64 + 1).min(2) as usize
}

/// The next part of a graph that came in part, or one that was sent before.
fn part(dice: &mut Dice, world: &World) -> Option<Sent> {
    let open = |one: &Submission| {
        stored(&one.head.flow_id, world).is_some_and(|flow| flow.text("sealed").is_empty())
    };
    let one = dice.likely(&world.submissions, open)?;
    let flow = stored(&one.head.flow_id, world);
    let there = |name: &str| flow.map_or(0, |flow| flow.count(name)) as usize;
    let (nodes, edges) = (there("nodes").min(one.nodes.len()), there("edges"));
    let edges = edges.min(one.edges.len());
    let (from, edges_from) = match dice.below(6) {
        0 => (0, 0),
        _ => (nodes, edges),
    };
    if dice.chance(60) {
        return Some(one.part(from..one.nodes.len(), edges_from..one.edges.len()));
    }
    let to = from + dice.below((one.nodes.len() - from) as u64 + 1) as usize;
    let edges_to = edges_within(one, to, dice).max(edges_from);
    Some(one.part(from..to, edges_from..edges_to))
}

fn create(dice: &mut Dice, world: &mut World) -> Sent {
    let call = new_flow(dice, world);
    world.flows.push(call.flow_id);
    Sent::of(world.partitions[usize::from(dice.chance(10))], &call)
}

fn about(op: Op, dice: &mut Dice, flow_id: FlowId, world: &World) -> Option<Sent> {
    let graph = world.graphs.0.get(&flow_id.to_string())?;
    let on = graph.partition;
    Some(match op {
        Op::Join => Sent::of(on, &join(dice, flow_id, graph, world)?),
        Op::AddEdge => return add_edge(dice, flow_id, graph, world),
        Op::SealFlow => Sent::of(on, &SealFlow { flow_id }),
        Op::CancelFlow => {
            let (reason, policy) = ("enough".to_owned(), (*dice.pick(&POLICIES)).to_owned());
            let grace_ms = dice.sometimes(20, |_| 500);
            Sent::of(on, &CancelFlow { flow_id, reason, policy, grace_ms })
        }
        Op::MendFlow => return mend(dice, flow_id, graph, world),
        _ => return read(dice, flow_id, graph),
    })
}

/// Somebody of the same partition, most often one that is in no flow.
fn join(
    dice: &mut Dice,
    flow_id: FlowId,
    graph: &Graph,
    world: &World,
) -> Option<AddExecutionToFlow> {
    let fits = |id: &ExecutionId| {
        let record = world.record(id).filter(|_| id.partition() == graph.partition);
        record.is_some_and(|record| !record.is_ended() && record.flow_id().is_empty())
    };
    let execution_id = *dice.likely(&world.ids, fits)?;
    let name = dice.sometimes(80, |dice| format!("j{}", dice.below(100)));
    (execution_id.partition() == graph.partition).then(|| AddExecutionToFlow {
        flow_id,
        execution_id,
        name,
        optional: dice.chance(15),
    })
}

fn member(dice: &mut Dice, graph: &Graph) -> Option<ExecutionId> {
    let uuids: Vec<&String> = graph.members.keys().collect();
    let uuid = dice.recent(&uuids)?;
    Some(ExecutionId::from_parts(graph.partition, uuid.parse().ok()?))
}

/// Adds an edge in one step or in two; now and then one that cannot be.
fn add_edge(dice: &mut Dice, flow_id: FlowId, graph: &Graph, world: &World) -> Option<Sent> {
    let staged: Vec<&super::graph::Edge> =
        graph.edges.iter().filter(|edge| !edge.applied).collect();
    if let Some(edge) = dice.recent(&staged).filter(|_| dice.chance(50)) {
        let call = ApplyDependencyToChild {
            flow_id,
            edge_id: edge.id.parse().ok()?,
            downstream_execution_id: ExecutionId::from_parts(
                graph.partition,
                edge.down.parse().ok()?,
            ),
        };
        return Some(Sent::of(graph.partition, &call));
    }
    let uuids: Vec<ExecutionId> = graph
        .members
        .keys()
        .filter_map(|uuid| Some(ExecutionId::from_parts(graph.partition, uuid.parse().ok()?)))
        .collect();
    let waits = |id: &ExecutionId| {
        world.record(id).is_some_and(|record| matches!(record.state(), "waiting" | "blocked"))
    };
    let dependency_kind = dice.sometimes(70, |dice| (*dice.pick(&KINDS)).to_owned());
    // A failure has nothing to pass.
    let passes = dependency_kind.as_deref() != Some("failure_only");
    let downstream_execution_id = *dice.likely(&uuids, waits)?;
    let call = AddDependency {
        flow_id,
        edge_id: EdgeId::from_uuid(dice.uuid()),
        upstream_execution_id: *dice.likely(&uuids, |id| *id != downstream_execution_id)?,
        downstream_execution_id,
        dependency_kind,
        data_passing_ref: dice
            .sometimes(40, |_| "in".to_owned())
            .filter(|_| passes)
            .unwrap_or_default(),
        expected_graph_revision: dice.sometimes(10, |dice| dice.below(9)),
    };
    Some(match dice.chance(70) {
        true => Sent::of(graph.partition, &call),
        false => Sent::of(graph.partition, &StageDependencyEdge(call)),
    })
}

fn edge_id(dice: &mut Dice, graph: &Graph) -> EdgeId {
    let ids: Vec<&String> = graph.edges.iter().map(|edge| &edge.id).collect();
    let known = dice.recent(&ids).and_then(|id| id.parse().ok());
    known.unwrap_or_else(|| made_id(1 + dice.below(NODES_MAX), dice.below(3)))
}

/// The id of an edge that nobody named: by its upstream's number, and its place there.
fn made_id(ordinal: u64, place: u64) -> EdgeId {
    let id = (u128::from(ordinal) << 96) + (0x8000_8000 << 48) + u128::from(place);
    EdgeId::from_uuid(uuid::Uuid::from_u128(id))
}

/// The last edge of a member that was not told yet.
fn untold(flow_id: FlowId, graph: &Graph, world: &World) -> Option<EdgeId> {
    let (uuid, record) = owed(&flow_id, world)?;
    let last = graph.edges.iter().rfind(|edge| edge.up == uuid)?;
    let made = || made_id(record.count("on"), record.count("eo").saturating_sub(1));
    Some(last.id.parse().unwrap_or_else(|_| made()))
}

/// What nobody needs while nothing goes wrong.
fn mend(dice: &mut Dice, flow_id: FlowId, graph: &Graph, world: &World) -> Option<Sent> {
    let on = graph.partition;
    let execution_id = member(dice, graph)?;
    if let Some(edge_id) = untold(flow_id, graph, world).filter(|_| dice.chance(70)) {
        return Some(Sent::of(on, &ResolveDependency { flow_id, edge_id }));
    }
    Some(match dice.below(5) {
        0 => Sent::of(on, &PromoteBlockedToEligible { execution_id }),
        2 => Sent::of(on, &RetryStuckMembers { flow_id, from: 0 }),
        1 => Sent::of(on, &AckCancelMember { flow_id, execution_id }),
        _ => {
            let edge_id = edge_id(dice, graph);
            Sent::of(on, &ResolveDependency { flow_id, edge_id })
        }
    })
}

fn read(dice: &mut Dice, flow_id: FlowId, graph: &Graph) -> Option<Sent> {
    let (on, limit) = (graph.partition, 1 + dice.below(6) as u32);
    // Only what was cancelled has a receipt.
    let receipt = graph.cancelled.is_some() && dice.chance(30);
    Some(match if receipt { 8 } else { dice.below(12) } {
        0 => {
            let pairs = Rest(vec!["team.name".to_owned(), dice.below(3).to_string()]);
            Sent::of(on, &SetFlowTags { flow_id, pairs })
        }
        1 => {
            let edge_id = edge_id(dice, graph);
            Sent::of(on, &DescribeEdge { flow_id, edge_id })
        }
        2 => {
            let direction = (*dice.pick(&["outgoing", "incoming"])).to_owned();
            let execution_id = member(dice, graph)?;
            Sent::of(on, &ListEdges { execution_id, direction, from: 0, limit })
        }
        3 => Sent::of(on, &ListMembers { flow_id, state: None, from: 0, limit }),
        4 => Sent::of(on, &ListFlows { after: None, limit, owing: dice.below(4) == 0 }),
        5 => Sent::of(on, &EvaluateFlowEligibility { execution_id: member(dice, graph)? }),
        6 => Sent::of(on, &ReadGraph { flow_id, cursor: None, limit }),
        7 => {
            let execution_id = member(dice, graph)?;
            Sent::of(on, &ReadInputs { execution_id, from: 0, bytes_max: 1 + dice.below(99) })
        }
        8 => Sent::of(on, &ReadCancelReceipt { flow_id, fate: None, from: 0, limit }),
        9 => {
            let cursor = String::new();
            Sent::of(on, &ReadFlowEvents { flow_id, cursor, limit, seek: dice.chance(50) })
        }
        _ => Sent::of(on, &DescribeFlow { flow_id }),
    })
}
