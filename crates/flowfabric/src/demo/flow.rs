//! The flow of the demo: one clip is split, its parts are encoded side by side and joined; the
//! poster fails, which is made up for.

use std::collections::BTreeMap;

use ff_sdk::{
    Client, CreateExecution, CreateFlow, DependencyKind, ExecutionKind, FlowId, FlowMember,
    FlowState, GraphDependency, GraphTask, SubmitGraph,
};

use super::summary::KindSummary;
use crate::failure::Failure;

/// The kind of the flow.
pub(super) const FLOW: &str = "media";
/// What is told about it.
pub(super) const ABOUT: &str = "tasks of a flow: split, encode three parts, join; a poster fails";
/// The task that fails.
pub(super) const POSTER: &str = "poster";
/// The task that gets what all parts gave.
pub(super) const JOIN: &str = "join";

/// A task, and how it must end.
struct Task {
    name: &'static str,
    kind: &'static str,
    after: &'static [&'static str],
    on: DependencyKind,
    ends: &'static str,
}

const fn task(
    name: &'static str,
    kind: &'static str,
    after: &'static [&'static str],
    on: DependencyKind,
    ends: &'static str,
) -> Task {
    Task { name, kind, after, on, ends }
}

const SUCCESS: DependencyKind = DependencyKind::SuccessOnly;
const FAILURE: DependencyKind = DependencyKind::FailureOnly;

const TASKS: &[Task] = &[
    task("split", "split", &[], SUCCESS, "completed"),
    task("left", "encode", &["split"], SUCCESS, "completed"),
    task("middle", "encode", &["split"], SUCCESS, "completed"),
    task("right", "encode", &["split"], SUCCESS, "completed"),
    task(JOIN, JOIN, &["left", "middle", "right"], SUCCESS, "completed"),
    task(POSTER, POSTER, &["split"], SUCCESS, "failed"),
    task("apology", "apology", &[POSTER], FAILURE, "completed"),
    task("party", "party", &[POSTER], SUCCESS, "skipped"),
];

/// How many tasks there are.
pub(super) const COUNT: u32 = TASKS.len() as u32;

/// The kinds of the tasks.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    TASKS.iter().map(|task| task.kind)
}

/// The flow, to be submitted. Each task's payload is its title.
pub(super) fn graph() -> SubmitGraph {
    let tasks = TASKS.iter().map(|task| {
        let mut execution = CreateExecution::new(ExecutionKind::new(task.kind));
        execution.payload_text = Some(format!("{FLOW}: {}", task.name));
        let pass = |name: &str| (task.name == JOIN).then(|| name.to_owned());
        let after = task.after.iter().map(|name| GraphDependency {
            pass: pass(name),
            on: Some(task.on),
            ..GraphDependency::on_success(*name)
        });
        let mut made = GraphTask::new(task.name, execution);
        (made.after, made.optional) = (after.collect(), task.name == POSTER);
        made
    });
    let mut flow = CreateFlow::new(ExecutionKind::new(FLOW));
    flow.tags.insert("demo.story".to_owned(), "media".to_owned());
    SubmitGraph::new(flow, tasks.collect())
}

/// What became of it: read back from the engine.
pub(super) async fn summary(client: &Client, id: &FlowId) -> Result<KindSummary, Failure> {
    let flow = client.describe_flow(id).await?.ok_or("the flow is gone")?;
    let members = client.members(id).await?;
    let states: BTreeMap<&str, &str> = members.iter().filter_map(named_state).collect();
    let promised: BTreeMap<&str, &str> = TASKS.iter().map(|task| (task.name, task.ends)).collect();
    let count = |state: &str| states.values().filter(|it| **it == state).count() as u32;
    Ok(KindSummary {
        kind: FLOW,
        submitted: flow.node_count,
        completed: count("completed"),
        failed: count("failed"),
        attempts: members.iter().map(|member| member.attempt_count).sum(),
        as_promised: flow.public_flow_state == FlowState::Completed
            && states == promised
            && joined_all(client, &members).await?,
    })
}

fn named_state(member: &FlowMember) -> Option<(&str, &str)> {
    Some((member.name.as_deref()?, member.public_state.as_str()))
}

/// Whether the result of the join is made of what all parts gave.
async fn joined_all(client: &Client, members: &[FlowMember]) -> Result<bool, Failure> {
    let join = members.iter().find(|member| member.name.as_deref() == Some(JOIN));
    let id = join.ok_or("the join is gone")?.execution_id;
    let result = client.connection().engine().read_result(id).await?.unwrap_or_default();
    let result = String::from_utf8_lossy(&result);
    Ok(["left", "middle", "right"].iter().all(|part| result.contains(&format!("{FLOW}: {part}"))))
}
