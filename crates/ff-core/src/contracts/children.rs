//! Children: members that a running execution adds to its own flow.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::flows::DependencyKind;
use super::graph::{
    GraphDependency, GraphTask, PlannedEdge, PlannedNode, check_needs, edges, invalid, is_name,
    order, places, refused,
};
use crate::ToSchema;
use crate::argument::check_range;
use crate::bytes::Base64;
use crate::error::{Code, EngineError};
use crate::limits;
use crate::partition::PartitionConfig;
use crate::state::PublicState;
use crate::types::{ExecutionId, FlowId, LaneId};

/// The answer to added children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChildrenAdded {
    /// The flow that they are members of.
    pub flow_id: FlowId,
    /// All of them, in the order in which they were given.
    pub children: Vec<AddedChild>,
}

/// A child that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedChild {
    /// Its name.
    #[schema(value_type = crate::schema::MemberName)]
    pub name: String,
    /// Its id, made from its parent's and its name.
    pub execution_id: ExecutionId,
    /// False if it was there before.
    pub added: bool,
}

/// A child as its parent is told of it: how it stands, and its result.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChildResult {
    /// Its name.
    #[schema(value_type = crate::schema::MemberName)]
    pub name: String,
    /// Its id.
    pub execution_id: ExecutionId,
    /// How it ended, or where it is.
    pub public_state: PublicState,
    /// The result of one that is completed; none if it is too large for a claim: it is read as that
    /// execution's result.
    #[schema(value_type = Option<crate::schema::Base64>)]
    pub bytes_base64: Option<Base64>,
}

impl ChildResult {
    /// True if it succeeded.
    pub fn is_completed(&self) -> bool {
        self.public_state == PublicState::Completed
    }
}

/// Children that can be added: everybody comes behind those it waits for.
#[derive(Clone, Debug)]
pub struct PlannedChildren {
    /// The flow that is made if their parent is in none.
    pub flow_id: FlowId,
    /// The children.
    pub children: Vec<PlannedChild>,
}

/// A child that can be added.
#[derive(Clone, Debug)]
pub struct PlannedChild {
    /// What it is.
    pub node: PlannedNode,
    /// For whom it waits.
    pub after: Vec<PlannedWait>,
}

/// For whom a child waits.
#[derive(Clone, Debug)]
pub struct PlannedWait {
    /// Who must be over first.
    pub upstream: ExecutionId,
    /// Which outcomes satisfy it.
    pub kind: DependencyKind,
    /// The name under which the result is passed.
    pub pass: Option<String>,
}

/// The id of a parent's child of this name: the same in every attempt.
pub fn child_id(parent: &ExecutionId, name: &str, config: &PartitionConfig) -> ExecutionId {
    ExecutionId::beside(parent, Uuid::new_v5(&parent.uuid(), name.as_bytes()), config)
}

/// The flow that an execution begins when it is in none and adds children. No name has a zero byte,
/// so it is no child's.
pub fn flow_id_of_parent(parent: &ExecutionId, config: &PartitionConfig) -> FlowId {
    let fresh = Uuid::new_v5(&parent.uuid(), b"\0flow");
    FlowId::from_uuid(ExecutionId::beside(parent, fresh, config).uuid())
}

/// Checks children and puts them in order. A name that none of them has is that of a child which
/// the parent added before; other members of the flow are named by their ids. Those that name no
/// lane wait in their parent's.
pub fn plan_children(
    parent: &ExecutionId,
    lane: &LaneId,
    mut tasks: Vec<GraphTask>,
    config: &PartitionConfig,
) -> Result<PlannedChildren, EngineError> {
    parent.check(config)?;
    check_range("number of tasks", tasks.len() as u64, 1..=limits::CHILDREN_MAX)?;
    tasks.iter().try_for_each(check_needs)?;
    let mut waits = outer_waits(parent, &mut tasks, config)?;
    let places = places(&tasks)?;
    let inner = edges(&tasks, &places)?;
    let order = order(&tasks, &inner)?;
    for PlannedEdge { upstream, downstream, kind, pass } in inner {
        let upstream = child_id(parent, &tasks[upstream].name, config);
        waits[downstream].push(PlannedWait { upstream, kind, pass });
    }
    let mut tasks: Vec<Option<GraphTask>> = tasks.into_iter().map(Some).collect();
    let mut children = Vec::new();
    for place in order {
        let Some(task) = tasks[place].take() else { continue };
        let mut after = std::mem::take(&mut waits[place]);
        // The same waits in another order are the same child.
        after.sort_by_key(|wait| wait.upstream);
        check_waits(&task.name, &after)?;
        children.push(PlannedChild { node: planned(task, parent, lane, config)?, after });
    }
    Ok(PlannedChildren { flow_id: flow_id_of_parent(parent, config), children })
}

fn planned(
    mut task: GraphTask,
    parent: &ExecutionId,
    lane: &LaneId,
    config: &PartitionConfig,
) -> Result<PlannedNode, EngineError> {
    if task.execution.namespace.is_some() {
        let field = format!("tasks.{}.execution.namespace", task.name);
        return Err(invalid(&field, "is its parent's"));
    }
    task.execution.lane.get_or_insert_with(|| lane.clone());
    let id = child_id(parent, &task.name, config);
    task.planned_as(id, "its parent's id", config)
}

/// All edges of a child travel with it.
fn check_waits(name: &str, after: &[PlannedWait]) -> Result<(), EngineError> {
    let most = limits::GRAPH_BATCH_MAX;
    if after.len() as u64 > most {
        let detail = format!("{name} waits for {}, {most} are the most", after.len());
        return Err(refused(Code::GraphTooLarge, detail));
    }
    let distinct: BTreeSet<ExecutionId> = after.iter().map(|wait| wait.upstream).collect();
    if distinct.len() < after.len() {
        return Err(invalid(&format!("tasks.{name}.after"), "names one of them twice"));
    }
    Ok(())
}

/// Takes out of each task those it waits for that are none of these tasks.
fn outer_waits(
    parent: &ExecutionId,
    tasks: &mut [GraphTask],
    config: &PartitionConfig,
) -> Result<Vec<Vec<PlannedWait>>, EngineError> {
    let names: BTreeSet<String> = tasks.iter().map(|task| task.name.clone()).collect();
    let mut waits = Vec::new();
    for task in tasks {
        let after = std::mem::take(&mut task.after);
        let (inner, outer) = after.into_iter().partition(|one| names.contains(&one.task));
        task.after = inner;
        let field = format!("tasks.{}.after", task.name);
        let outer: Vec<GraphDependency> = outer;
        let own = outer.iter().map(|one| outer_wait(parent, one, &field, config));
        waits.push(own.collect::<Result<_, _>>()?);
    }
    Ok(waits)
}

fn outer_wait(
    parent: &ExecutionId,
    one: &GraphDependency,
    field: &str,
    config: &PartitionConfig,
) -> Result<PlannedWait, EngineError> {
    one.check_pass(field)?;
    let upstream = if is_name(&one.task) {
        child_id(parent, &one.task, config)
    } else {
        let rule = "must be names of children, or whole ids of members of the flow";
        one.task.parse().map_err(|_| invalid(field, rule))?
    };
    if upstream.partition() != parent.partition() {
        return Err(refused(Code::PartitionMismatch, upstream.to_string()));
    }
    Ok(PlannedWait { upstream, kind: one.kind(), pass: one.pass.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::CreateExecution;
    use crate::types::ExecutionKind;

    fn config() -> PartitionConfig {
        PartitionConfig::default()
    }

    fn parent() -> ExecutionId {
        ExecutionId::solo(Uuid::from_u128(7), &config())
    }

    fn task(name: &str, after: &[&str]) -> GraphTask {
        let kind = ExecutionKind::try_new("work").expect("a valid name");
        let mut task = GraphTask::new(name, CreateExecution::new(kind));
        task.after = after.iter().map(|up| GraphDependency::on_success(*up)).collect();
        task
    }

    fn plan(tasks: Vec<GraphTask>) -> Result<PlannedChildren, EngineError> {
        let lane = LaneId::try_new("media").expect("a valid name");
        plan_children(&parent(), &lane, tasks, &config())
    }

    fn refusal(tasks: Vec<GraphTask>) -> String {
        plan(tasks).expect_err("it is refused").to_string()
    }

    #[test]
    fn children_come_behind_those_they_wait_for_and_live_with_their_parent() {
        let tasks = vec![task("b", &["a"]), task("a", &[])];
        let planned = plan(tasks).expect("no cycle");
        let names: Vec<&str> =
            planned.children.iter().map(|child| child.node.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let first = &planned.children[0].node.new;
        assert_eq!(first.execution_id, child_id(&parent(), "a", &config()));
        assert_eq!(first.execution_id.partition(), parent().partition());
        assert_eq!(first.request.lane, Some("media".parse().expect("a lane")), "as its parent");
        assert_eq!(planned.children[1].after[0].upstream, first.execution_id);
        let home = config().flow_partition_of(planned.flow_id.as_bytes());
        assert_eq!(home, parent().partition());
    }

    #[test]
    fn who_is_not_among_them_was_added_before_or_is_named_by_its_id() {
        let member = ExecutionId::beside(&parent(), Uuid::from_u128(9), &config());
        let planned = plan(vec![task("b", &["earlier", &member.to_string()])]).expect("no cycle");
        let mut right = vec![child_id(&parent(), "earlier", &config()), member];
        right.sort();
        let upstreams: Vec<ExecutionId> =
            planned.children[0].after.iter().map(|wait| wait.upstream).collect();
        assert_eq!(upstreams, right);
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        assert!(refusal(vec![task("a", &["b"]), task("b", &["a"])]).contains("a"));
        assert!(refusal(vec![task("a", &["a"])]).contains("self_referencing_edge"));
        assert!(refusal(vec![task("a", &[]), task("a", &[])]).contains("tasks.a"));
        assert!(refusal(vec![task("a", &["x", "x"])]).contains("tasks.a.after"));
        assert!(refusal(vec![task("a", &["{x"])]).contains("tasks.a.after"));
        assert!(refusal(Vec::new()).contains("number of tasks"));
        let far = format!("{{fp:{}}}:{}", parent().partition().index ^ 1, Uuid::from_u128(1));
        assert!(refusal(vec![task("a", &[&far])]).contains("partition_mismatch"));
        let mut other = task("a", &[]);
        other.execution.namespace = Some("other".parse().expect("a namespace"));
        assert!(refusal(vec![other]).contains("tasks.a.execution.namespace"));
        let many: Vec<String> = (0..129).map(|number| format!("x{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(refusal(vec![task("a", &many)]).contains("graph_too_large"));
    }
}
