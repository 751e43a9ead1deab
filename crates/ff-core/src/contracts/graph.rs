//! A flow that is submitted whole: its tasks by name, and who waits for whom. It is checked and put
//! in order here, so that the store is only sent graphs that can run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::create::{CreateExecution, NewExecution};
use super::flows::{CreateFlow, DependencyKind};
use crate::ToSchema;
use crate::argument::check_range;
use crate::error::{Code, EngineError};
use crate::limits;
use crate::operation::{Nothing, Operation};
use crate::partition::PartitionConfig;
use crate::types::{ExecutionId, FlowId, IdempotencyKey};

/// The largest graph in one request.
pub const GRAPH_BODY_BYTES: usize = 64 * 1024 * 1024;

/// The largest graph in lines, which takes no room twice.
pub const GRAPH_LINES_BYTES_MAX: usize = 2 * GRAPH_BODY_BYTES;

/// Submits a whole graph.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitGraph {
    /// The flow.
    pub flow: CreateFlow,
    /// The same key in the same namespace is the same flow.
    pub key: Option<IdempotencyKey>,
    /// Its members, in any order.
    #[schema(min_items = 1)]
    pub tasks: Vec<GraphTask>,
}

/// The first line of a graph that is sent in lines; a [`GraphTask`] is each of those that follow.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphHead {
    /// The flow.
    pub flow: CreateFlow,
    /// The same key in the same namespace is the same flow.
    pub key: Option<IdempotencyKey>,
}

/// A member of a graph.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphTask {
    /// Its name in the flow.
    #[schema(value_type = crate::schema::MemberName)]
    pub name: String,
    /// What is run. It has neither an id nor an idempotency key of its own.
    pub execution: CreateExecution,
    /// For whom it waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<GraphDependency>,
    /// How many of those must be satisfied; all if absent.
    #[schema(minimum = 1)]
    pub needs: Option<u32>,
    /// Its failure is not the flow's.
    #[serde(default)]
    pub optional: bool,
    /// Once it is freed, those of `after` that nobody else needs any more are cancelled.
    #[serde(default)]
    pub cancel_rest: bool,
}

/// For whom a member of a graph waits.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphDependency {
    /// The name of the other.
    #[schema(value_type = crate::schema::MemberName)]
    pub task: String,
    /// Which outcomes of it satisfy this one; success if absent.
    pub on: Option<DependencyKind>,
    /// Its result becomes an input under this name.
    #[schema(value_type = Option<crate::schema::MemberName>)]
    pub pass: Option<String>,
}

impl GraphDependency {
    /// Waits for the success of another, and passes nothing.
    pub fn on_success(task: impl Into<String>) -> Self {
        Self { task: task.into(), on: None, pass: None }
    }

    /// Which outcomes satisfy it.
    pub(super) fn kind(&self) -> DependencyKind {
        self.on.unwrap_or(DependencyKind::SuccessOnly)
    }

    pub(super) fn check_pass(&self, field: &str) -> Result<(), EngineError> {
        if self.pass.as_deref().is_none_or(is_name) {
            return Ok(());
        }
        Err(invalid(field, "pass must be a name as those of tasks"))
    }
}

impl Operation for SubmitGraph {
    type Target = Nothing;
    type Request = Self;
    type Reply = GraphAccepted;

    const PATH: &'static str = "/v1/flows/graph";
    const NAME: &'static str = "submitGraph";
    const SUMMARY: &'static str = "Submits a whole flow: its members and who waits for whom.";
    const ANSWERS: &'static str = "All of it is there, and runs.";
    const ABOUT: &'static str = "Nothing of it runs before all of it is there. A repetition with \
        the same flow id or key finishes what broke off, and changes nothing when it is whole; with \
        another content it is refused with 409. A cycle is refused, and named. A large graph \
        may come as lines of JSON (application/x-ndjson), up to 128 MiB of them: the first is the \
        flow, with `flow` and `key`, and each that follows is one of the tasks.";
    const BODY_BYTES_MAX: usize = GRAPH_BODY_BYTES;
    const REFUSES: &'static [u16] = &[400, 404, 409, 413];
}

/// The answer to a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphAccepted {
    /// The flow.
    pub flow_id: FlowId,
    /// How many members it has.
    pub node_count: u32,
    /// True if it was not whole before this request.
    pub created: bool,
}

/// A graph that can run: its members so that everybody comes behind those it waits for.
#[derive(Clone, Debug)]
pub struct PlannedGraph {
    /// The flow, with its id.
    pub flow_id: FlowId,
    /// What the flow is made from.
    pub flow: CreateFlow,
    /// Its members.
    pub nodes: Vec<PlannedNode>,
    /// Its edges, by the places of their members.
    pub edges: Vec<PlannedEdge>,
}

/// A member of a planned graph.
#[derive(Clone, Debug)]
pub struct PlannedNode {
    /// Its name.
    pub name: String,
    /// Its failure is not the flow's.
    pub optional: bool,
    /// How many of its edges must be satisfied; all if absent.
    pub needs: Option<u32>,
    /// Upstreams that nobody needs any more are cancelled when it is freed.
    pub cancel_rest: bool,
    /// What it is created from.
    pub new: NewExecution,
}

/// An edge of a planned graph.
#[derive(Clone, Debug)]
pub struct PlannedEdge {
    /// The place of who must be over first.
    pub upstream: usize,
    /// The place of who waits.
    pub downstream: usize,
    /// Which outcomes satisfy it.
    pub kind: DependencyKind,
    /// The name under which the result is passed.
    pub pass: Option<String>,
}

/// The id of a flow that a key stands for.
pub fn flow_id_of_key(namespace: &str, key: &str) -> FlowId {
    let name = [namespace.as_bytes(), &[0], key.as_bytes()].concat();
    FlowId::from_uuid(Uuid::new_v5(&Uuid::NAMESPACE_OID, &name))
}

/// The id of the member of this name: the same in every submission of the flow.
pub fn member_id(flow_id: &FlowId, name: &str, config: &PartitionConfig) -> ExecutionId {
    ExecutionId::for_flow(flow_id, Uuid::new_v5(&flow_id.as_uuid(), name.as_bytes()), config)
}

pub(super) fn invalid(field: &str, rule: impl Into<String>) -> EngineError {
    EngineError::invalid(field, rule)
}

pub(super) fn refused(code: Code, detail: String) -> EngineError {
    EngineError::Refused { code, details: vec![detail] }
}

impl SubmitGraph {
    /// A graph of these tasks.
    pub fn new(flow: CreateFlow, tasks: Vec<GraphTask>) -> Self {
        Self { flow, key: None, tasks }
    }

    /// Checks that the graph can run, as far as that shows without a store.
    pub fn check(&self) -> Result<(), EngineError> {
        self.clone().plan(Uuid::nil(), &PartitionConfig::default()).map(drop)
    }

    /// Checks the graph and puts it in order. `fresh` is the flow's id if it has none of its own.
    pub fn plan(
        mut self,
        fresh: Uuid,
        config: &PartitionConfig,
    ) -> Result<PlannedGraph, EngineError> {
        self.flow.validate()?;
        check_range("number of tasks", self.tasks.len() as u64, 1..=limits::FLOW_MEMBERS_MAX)?;
        let flow_id = self.flow_id(fresh)?;
        // Where something is wrong is told by the places that were given.
        places(&self.tasks)?;
        // The same tasks in another order are the same graph.
        self.tasks.sort_by(|one, other| one.name.cmp(&other.name));
        let places = places(&self.tasks)?;
        self.tasks.iter().try_for_each(check_needs)?;
        let edges = edges(&self.tasks, &places)?;
        let order = order(&self.tasks, &edges)?;
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, place)| rank[*place] = at);
        let mut edges: Vec<PlannedEdge> = edges
            .into_iter()
            .map(|edge| PlannedEdge {
                upstream: rank[edge.upstream],
                downstream: rank[edge.downstream],
                ..edge
            })
            .collect();
        edges.sort_by_key(|edge| (edge.downstream, edge.upstream));
        let namespace = self.flow.namespace.clone();
        let mut tasks: Vec<Option<GraphTask>> = self.tasks.drain(..).map(Some).collect();
        let nodes = order
            .iter()
            .filter_map(|place| tasks[*place].take())
            .map(|mut task| {
                if task.execution.namespace.is_none() {
                    task.execution.namespace.clone_from(&namespace);
                }
                task.planned(&flow_id, config)
            })
            .collect::<Result<_, _>>()?;
        Ok(PlannedGraph { flow_id, flow: self.flow, nodes, edges })
    }

    fn flow_id(&self, fresh: Uuid) -> Result<FlowId, EngineError> {
        let namespace = self.flow.namespace.clone().unwrap_or_default();
        match (&self.key, self.flow.flow_id) {
            (Some(_), Some(_)) => Err(invalid("key", "stands for the flow's id: give one of both")),
            (Some(key), None) => Ok(flow_id_of_key(namespace.as_str(), key.as_str())),
            (None, own) => Ok(own.unwrap_or_else(|| FlowId::from_uuid(fresh))),
        }
    }
}

impl GraphTask {
    /// A task that waits for nobody.
    pub fn new(name: impl Into<String>, execution: CreateExecution) -> Self {
        let name = name.into();
        Self {
            name,
            execution,
            after: Vec::new(),
            needs: None,
            optional: false,
            cancel_rest: false,
        }
    }

    fn planned(
        self,
        flow_id: &FlowId,
        config: &PartitionConfig,
    ) -> Result<PlannedNode, EngineError> {
        let id = member_id(flow_id, &self.name, config);
        self.planned_as(id, "the flow's id", config)
    }

    /// The member of this id, which is made from what `origin` names and the task's name.
    pub(super) fn planned_as(
        self,
        id: ExecutionId,
        origin: &str,
        config: &PartitionConfig,
    ) -> Result<PlannedNode, EngineError> {
        let field = |what: &str| format!("tasks.{}.execution.{what}", self.name);
        if self.execution.execution_id.is_some() {
            let rule = format!("is made from {origin} and the name");
            return Err(invalid(&field("execution_id"), rule));
        }
        if self.execution.idempotency_key.is_some() {
            return Err(invalid(&field("idempotency_key"), "is the flow's: give it a key"));
        }
        for (what, is_given) in [
            ("debounce", self.execution.debounce.is_some()),
            ("singleton", self.execution.singleton.is_some()),
        ] {
            if is_given {
                return Err(invalid(&field(what), "is for what is no member of a flow"));
            }
        }
        let new = self.execution.under(id, config);
        let new = new.map_err(|error| match error {
            EngineError::InvalidArgument { field: part, rule } => invalid(&field(&part), rule),
            other => other,
        })?;
        let (optional, needs, cancel_rest) = (self.optional, self.needs, self.cancel_rest);
        Ok(PlannedNode { name: self.name, optional, needs, cancel_rest, new })
    }
}

/// Is this a name of a member? Printable, without what separates the parts of a key.
pub(super) fn is_name(name: &str) -> bool {
    let fits = (1..=limits::MEMBER_NAME_BYTES_MAX as usize).contains(&name.len());
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && !b"{}:".contains(&byte);
    fits && name.bytes().all(plain) && !name.starts_with(' ') && !name.ends_with(' ')
}

/// The place of each task by its name.
pub(super) fn places(tasks: &[GraphTask]) -> Result<BTreeMap<&str, usize>, EngineError> {
    let mut places = BTreeMap::new();
    for (place, task) in tasks.iter().enumerate() {
        if !is_name(&task.name) {
            let rule = "must be 1 to 128 printable characters without { } : and blanks at the ends";
            return Err(invalid(&format!("tasks[{place}].name"), rule));
        }
        if places.insert(task.name.as_str(), place).is_some() {
            return Err(invalid(&format!("tasks.{}", task.name), "is named twice"));
        }
    }
    Ok(places)
}

pub(super) fn edges(
    tasks: &[GraphTask],
    places: &BTreeMap<&str, usize>,
) -> Result<Vec<PlannedEdge>, EngineError> {
    let mut edges = Vec::new();
    for (downstream, task) in tasks.iter().enumerate() {
        let mut seen = BTreeSet::new();
        for one in &task.after {
            let field = format!("tasks.{}.after", task.name);
            let Some(&upstream) = places.get(one.task.as_str()) else {
                return Err(invalid(&field, format!("names {:?}, which is no task", one.task)));
            };
            if upstream == downstream {
                return Err(refused(Code::SelfReferencingEdge, task.name.clone()));
            }
            if !seen.insert(upstream) {
                let twice = format!("{field} names {:?} twice", one.task);
                return Err(refused(Code::DependencyAlreadyExists, twice));
            }
            if one.pass.is_some() && one.on == Some(DependencyKind::FailureOnly) {
                let rule =
                    format!("{:?} gives no result when it fails: nothing is passed", one.task);
                return Err(invalid(&field, rule));
            }
            one.check_pass(&field)?;
            let (kind, pass) = (one.kind(), one.pass.clone());
            edges.push(PlannedEdge { upstream, downstream, kind, pass });
        }
        check_rest(task)?;
    }
    if edges.len() as u64 > limits::FLOW_EDGES_MAX {
        return Err(refused(Code::GraphTooLarge, format!("{} edges", edges.len())));
    }
    Ok(edges)
}

pub(super) fn check_needs(task: &GraphTask) -> Result<(), EngineError> {
    match task.needs {
        Some(needs) if needs == 0 || needs as usize > task.after.len() => {
            let rule =
                format!("must be 1 to {}, the number of those it waits for", task.after.len());
            Err(invalid(&format!("tasks.{}.needs", task.name), rule))
        }
        _ => Ok(()),
    }
}

/// Who needs all of those it waits for leaves nobody to cancel.
fn check_rest(task: &GraphTask) -> Result<(), EngineError> {
    let needs_all = task.needs.is_none_or(|needs| needs as usize == task.after.len());
    if task.cancel_rest && needs_all {
        let rule = "is for a task that does not need all of those it waits for";
        return Err(invalid(&format!("tasks.{}.cancel_rest", task.name), rule));
    }
    Ok(())
}

/// The places so that every edge goes forward; a cycle is named.
pub(super) fn order(tasks: &[GraphTask], edges: &[PlannedEdge]) -> Result<Vec<usize>, EngineError> {
    let mut waits = vec![0_usize; tasks.len()];
    let mut frees: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for edge in edges {
        waits[edge.downstream] += 1;
        frees[edge.upstream].push(edge.downstream);
    }
    let mut order: Vec<usize> = (0..tasks.len()).filter(|place| waits[*place] == 0).collect();
    let mut next = 0;
    while let Some(&place) = order.get(next) {
        next += 1;
        for &freed in &frees[place] {
            waits[freed] -= 1;
            if waits[freed] == 0 {
                order.push(freed);
            }
        }
    }
    if order.len() == tasks.len() {
        return Ok(order);
    }
    Err(refused(Code::CycleDetected, cycle(tasks, edges, &waits)))
}

/// The names of a cycle among those that still wait: who goes against the edges comes round.
fn cycle(tasks: &[GraphTask], edges: &[PlannedEdge], waits: &[usize]) -> String {
    let before: BTreeMap<usize, usize> = edges
        .iter()
        .filter(|edge| waits[edge.upstream] > 0 && waits[edge.downstream] > 0)
        .map(|edge| (edge.downstream, edge.upstream))
        .collect();
    let mut path: Vec<usize> = before.keys().next().copied().into_iter().collect();
    while let Some(&up) = path.last().and_then(|last| before.get(last)) {
        if let Some(start) = path.iter().position(|seen| *seen == up) {
            path.drain(..start);
            path.push(up);
            break;
        }
        path.push(up);
    }
    let names: Vec<&str> = path.iter().rev().map(|place| tasks[*place].name.as_str()).collect();
    names.join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ExecutionKind;

    fn kind() -> ExecutionKind {
        ExecutionKind::try_new("work").expect("a valid name")
    }

    /// A graph by its edges, as in `a>b b>c`.
    fn graph(text: &str) -> SubmitGraph {
        let mut tasks: Vec<GraphTask> = Vec::new();
        let mut at = |name: &str| {
            tasks.iter().position(|task| task.name == name).unwrap_or_else(|| {
                tasks.push(GraphTask::new(name, CreateExecution::new(kind())));
                tasks.len() - 1
            })
        };
        let mut edges = Vec::new();
        for edge in text.split_whitespace() {
            let (up, down) = edge.split_once('>').expect("an edge");
            let (_, down) = (at(up), at(down));
            edges.push((down, up.to_owned()));
        }
        for (down, task) in edges {
            tasks[down].after.push(GraphDependency { task, on: None, pass: None });
        }
        SubmitGraph::new(CreateFlow::new(kind()), tasks)
    }

    fn plan(graph: SubmitGraph) -> Result<PlannedGraph, EngineError> {
        graph.plan(Uuid::from_u128(7), &PartitionConfig::default())
    }

    #[test]
    fn everybody_comes_behind_those_it_waits_for() {
        let planned = plan(graph("d>e c>d b>c a>b a>e")).expect("no cycle");
        let names: Vec<&str> = planned.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        assert!(planned.edges.iter().all(|edge| edge.upstream < edge.downstream));
    }

    #[test]
    fn the_order_in_which_tasks_are_given_does_not_matter() {
        let names = |text: &str| -> Vec<String> {
            let planned = plan(graph(text)).expect("no cycle");
            planned.nodes.into_iter().map(|node| node.name).collect()
        };
        assert_eq!(names("a>c b>c a>d"), names("a>d b>c a>c"));
    }

    #[test]
    fn a_cycle_is_named_by_its_members() {
        let Err(EngineError::Refused { code, details }) = plan(graph("a>b b>c c>d d>b")) else {
            panic!("a cycle is refused");
        };
        assert_eq!(code, Code::CycleDetected);
        let mut names: Vec<&str> = details[0].split(" -> ").collect();
        assert_eq!(names.first(), names.last());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names, ["b", "c", "d"]);
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        let mut twice = graph("a>b");
        twice.tasks[0].name = "b".to_owned();
        assert!(plan(twice).is_err_and(|error| error.to_string().contains("tasks.b")));
        let mut unknown = graph("a>b");
        unknown.tasks[1].after[0].task = "x".to_owned();
        assert!(plan(unknown).is_err_and(|error| error.to_string().contains("tasks.b.after")));
        let mut itself = graph("a>b");
        itself.tasks[1].after[0].task = "b".to_owned();
        let code = |error: EngineError| error.to_string();
        assert!(plan(itself).map(drop).map_err(code).is_err());
        let mut needs = graph("a>b");
        needs.tasks[1].needs = Some(2);
        assert!(plan(needs).is_err_and(|error| error.to_string().contains("tasks.b.needs")));
        let mut rest = graph("a>b");
        rest.tasks[1].cancel_rest = true;
        assert!(plan(rest).is_err_and(|error| error.to_string().contains("tasks.b.cancel_rest")));
        let mut passes = graph("a>b");
        passes.tasks[1].after[0].on = Some(DependencyKind::FailureOnly);
        passes.tasks[1].after[0].pass = Some("a".to_owned());
        assert!(plan(passes).is_err_and(|error| error.to_string().contains("gives no result")));
    }

    #[test]
    fn the_same_name_in_the_same_flow_is_the_same_execution() {
        let ids = |planned: &PlannedGraph| -> Vec<ExecutionId> {
            planned.nodes.iter().map(|node| node.new.execution_id).collect()
        };
        let first = plan(graph("a>b")).expect("no cycle");
        let second = plan(graph("a>b")).expect("no cycle");
        assert_eq!(ids(&first), ids(&second));
        assert_ne!(ids(&first)[0], ids(&first)[1]);
        let mut keyed = graph("a>b");
        keyed.key = Some(IdempotencyKey::try_new("order-7").expect("a valid key"));
        let keyed = plan(keyed).expect("no cycle");
        assert_eq!(keyed.flow_id, flow_id_of_key("default", "order-7"));
    }
}
