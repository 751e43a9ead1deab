//! Flows: submitted whole, their members run with what others pass, awaited, read and cancelled.

use ff_sdk::{
    CancelFlow, CancelFlowWait, Client, Code, Context, CreateExecution, CreateFlow, DependencyKind,
    EdgeState, EngineError, ExecutionId, ExecutionKind, FailedReplayed, FlowId, FlowQuery,
    FlowState, GraphDependency, GraphQuery, GraphTask, MemberFate, MemberQuery, PublicState,
    ReplayFailed, StuckRetried, SubmitGraph, TaskError,
};

use crate::site::{LANE, LONG, Site, claim};

/// More than a claim brings.
const LARGE: usize = 100 << 10;

pub(crate) fn task(name: &str, kind: &str, after: &[&str]) -> GraphTask {
    let mut execution = CreateExecution::new(ExecutionKind::new(kind));
    execution.lane = Some(LANE.parse().expect("valid"));
    let mut task = GraphTask::new(name, execution);
    let pass = |name: &&str| GraphDependency {
        pass: Some((*name).to_owned()),
        ..GraphDependency::on_success(*name)
    };
    task.after = after.iter().map(pass).collect();
    task
}

pub(crate) fn graph(tasks: Vec<GraphTask>) -> SubmitGraph {
    SubmitGraph::new(CreateFlow::new(ExecutionKind::new("media")), tasks)
}

/// Two that join in a third.
fn join() -> Vec<GraphTask> {
    vec![
        task("left", "left", &[]),
        task("right", "right", &[]),
        task("join", "join", &["left", "right"]),
    ]
}

pub(crate) async fn submitted(client: &Client, graph: SubmitGraph) -> FlowId {
    let accepted = client.submit_graph(graph).await.expect("accepted");
    assert!(accepted.created);
    accepted.flow_id
}

pub(crate) async fn member(client: &Client, flow_id: &FlowId, name: &str) -> ExecutionId {
    let members = client.members(flow_id).await.expect("listed");
    let named = members.iter().find(|member| member.name.as_deref() == Some(name));
    named.unwrap_or_else(|| panic!("{name} is among {members:?}")).execution_id
}

fn code(error: &ff_sdk::SdkError) -> Option<Code> {
    error.engine().and_then(EngineError::code)
}

/// Three, one after the other.
fn chain() -> Vec<GraphTask> {
    vec![task("a", "step", &[]), task("b", "step", &["a"]), task("c", "step", &["b"])]
}

pub(crate) async fn the_end_of_a_step_brings_the_next_one(site: Site) {
    let flow_id = submitted(&site.client, graph(chain())).await;
    let worker = site.worker("w-1", 1).await;
    let first = claim(&worker).await;
    let second = first.complete_and_claim_next(Some(b"1".to_vec())).await.expect("landed");
    let second = second.expect("the step that the first one freed");
    assert_eq!(*second.execution_id(), member(&site.client, &flow_id, "b").await);
    assert_eq!(worker.capacity(), 0, "it has the room of the one before");
    let third = second.complete_and_claim_next(Some(b"2".to_vec())).await.expect("landed");
    let third = third.expect("the step that the second one freed");
    assert_eq!(third.inputs()[0].name, "b");
    let none = third.complete_and_claim_next(None).await.expect("landed");
    assert!(none.is_none(), "nothing is left");
    assert_eq!(worker.capacity(), 1);
    let flow = site.client.describe_flow(&flow_id).await.expect("described").expect("there");
    assert_eq!(flow.public_flow_state, FlowState::Completed);
    worker.shutdown(LONG).await.expect("stops");
}

pub(crate) async fn a_member_is_given_what_it_waited_for(site: Site) {
    let flow_id = submitted(&site.client, graph(join())).await;
    let worker = site
        .handlers()
        .on("left", |_: Context, (): ()| async { Ok::<_, TaskError>("x".repeat(LARGE)) })
        .on("right", |_: Context, (): ()| async { Ok::<_, TaskError>(7_u32) })
        .on("join", |context: Context, (): ()| async move {
            let mut names: Vec<&str> = context.inputs().iter().map(|it| it.name.as_str()).collect();
            names.sort_unstable();
            let names = names.join("+");
            let brought = context.inputs().iter().filter(|it| it.bytes_base64.is_some()).count();
            let left: String = context.input("left").await?.expect("it is passed");
            let right: u32 = context.input("right").await?.expect("it is passed");
            let all = context.all_inputs().await?;
            assert!(all.len() == 2 && all.iter().all(|it| it.bytes_base64.is_some()), "{all:?}");
            let none: Option<u32> = context.input("nobody").await?;
            Ok::<_, TaskError>(format!("{names} {brought} {} {right} {none:?}", left.len()))
        })
        .build()
        .expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let flow = site.client.await_flow(&flow_id, LONG).await.expect("answered").expect("a flow");
    assert_eq!(flow.public_flow_state, FlowState::Completed);
    assert_eq!(flow.counts[&PublicState::Completed], 3);
    assert!(flow.started_at.is_some() && flow.completed_at.is_some());
    let join = member(&site.client, &flow_id, "join").await;
    let said: String = site.client.await_result(&join, LONG).await.expect("a result");
    assert_eq!(said, format!("left+right 1 {LARGE} 7 None"));
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn the_only_result_that_is_passed_is_the_payload(site: Site) {
    let worker = site.worker("w-1", 1).await;
    submitted(&site.client, graph(vec![task("a", "x", &[]), task("b", "x", &["a"])])).await;
    claim(&worker).await.complete(Some(b"of a".to_vec())).await.expect("completed");
    let task = claim(&worker).await;
    assert_eq!(task.input_payload(), b"of a");
    assert_eq!(task.inputs()[0].name, "a");
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_repeated_submission_adds_nothing_and_another_one_is_refused(site: Site) {
    let keyed = |tasks| {
        let mut graph = graph(tasks);
        graph.key = Some("clip-7".parse().expect("a key"));
        graph
    };
    let flow_id = submitted(&site.client, keyed(join())).await;
    let again = site.client.submit_graph(keyed(join())).await.expect("accepted");
    assert_eq!((again.flow_id, again.node_count, again.created), (flow_id, 3, false));
    assert_eq!(site.client.members(&flow_id).await.expect("listed").len(), 3);
    let mut other = join();
    other[0].execution.payload_text = Some("another clip".to_owned());
    let refused = site.client.submit_graph(keyed(other)).await.expect_err("refused");
    assert_eq!(code(&refused), Some(Code::IdempotencyConflict), "{refused}");
    let mut other = join();
    other[2].after[0].on = Some(DependencyKind::AnyOutcome);
    let refused = site.client.submit_graph(keyed(other)).await.expect_err("refused");
    assert_eq!(code(&refused), Some(Code::IdempotencyConflict), "{refused}");
}

pub(crate) async fn a_cycle_is_refused_and_named(site: Site) {
    let tasks = vec![task("a", "x", &["b"]), task("b", "x", &["a"])];
    let refused = site.client.submit_graph(graph(tasks)).await.expect_err("refused");
    assert_eq!(code(&refused), Some(Code::CycleDetected));
    assert!(refused.to_string().contains("a -> b -> a"), "{refused}");
    let flows = site.client.list_flows(FlowQuery::default()).await.expect("listed");
    assert!(flows.flows.is_empty(), "{flows:?}");
}

pub(crate) async fn edges_are_read_from_both_ends(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let flow_id = submitted(&site.client, graph(join())).await;
    let join = member(&site.client, &flow_id, "join").await;
    let incoming = worker.list_incoming_edges(&join).await.expect("listed");
    assert_eq!(incoming.len(), 2);
    assert_eq!(incoming[0].data_passing_ref.as_deref(), Some("left"));
    assert!(incoming.iter().all(|edge| edge.downstream_execution_id == join && edge.applied));
    assert!(worker.list_outgoing_edges(&join).await.expect("listed").is_empty());
    let first = claim(&worker).await;
    let upstream = *first.execution_id();
    first.complete(None).await.expect("completed");
    let outgoing = worker.list_outgoing_edges(&upstream).await.expect("listed");
    assert_eq!((outgoing.len(), outgoing[0].edge_state), (1, EdgeState::Satisfied));
    let described = worker.describe_edge(&flow_id, &outgoing[0].edge_id).await.expect("read");
    assert_eq!(described.as_ref(), Some(&outgoing[0]));
    let alone = site.submit("x").await;
    let flow_of = site.client.resolve_execution_flow_id(alone).await;
    assert_eq!(flow_of.expect("read"), None);
    let flow_of = site.client.resolve_execution_flow_id(join).await;
    assert_eq!(flow_of.expect("read"), Some(flow_id));
    assert!(worker.list_incoming_edges(&alone).await.expect("listed").is_empty());
}

pub(crate) async fn what_does_not_exist_is_no_error_of_a_read(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let flow_id: FlowId = "00000000-0000-4000-8000-000000000000".parse().expect("an id");
    let edge_id = "00000000-0000-4000-8000-000000000001".parse().expect("an id");
    assert_eq!(worker.describe_flow(&flow_id).await.expect("read"), None);
    assert_eq!(site.client.await_flow(&flow_id, LONG).await.expect("read"), None);
    assert_eq!(worker.describe_edge(&flow_id, &edge_id).await.expect("read"), None);
    let there = submitted(&site.client, graph(join())).await;
    assert_eq!(worker.describe_edge(&there, &edge_id).await.expect("read"), None);
    let flow = worker.describe_flow(&there).await.expect("read").expect("a flow");
    assert_eq!((flow.node_count, flow.edge_count, flow.sealed), (3, 2, true));
}

pub(crate) async fn a_cancelled_flow_tells_what_became_of_each(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let flow_id = submitted(&site.client, graph(join())).await;
    let task = claim(&worker).await;
    let request = CancelFlow { cancellation_policy: None, reason: "a mistake".to_owned() };
    let cancelled = site.client.cancel_flow(&flow_id, request.clone()).await.expect("cancelled");
    assert_eq!(cancelled.member_count(), 3);
    let flow = site.client.await_flow(&flow_id, LONG).await.expect("answered").expect("a flow");
    assert_eq!(flow.public_flow_state, FlowState::Cancelled);
    assert_eq!(flow.cancel_reason.as_deref(), Some("a mistake"));
    let members = site.client.members(&flow_id).await.expect("listed");
    assert!(members.iter().all(|member| member.cancelled_by.is_some()), "{members:?}");
    let fenced: Vec<ExecutionId> =
        members.iter().filter(|it| it.fenced_until.is_some()).map(|it| it.execution_id).collect();
    assert_eq!(fenced, [*task.execution_id()]);
    let again = site.client.cancel_flow(&flow_id, request.clone()).await.expect("cancelled before");
    assert!(again.is_done());
    let wait = CancelFlowWait::WaitTimeout(LONG);
    let receipt = site.client.cancel_flow_with_receipt(&flow_id, request, wait).await;
    let receipt = receipt.expect("a receipt");
    assert!(receipt.done && receipt.stuck_count == 0 && receipt.next_from.is_none());
    let fates: Vec<MemberFate> = receipt.members.iter().map(|member| member.fate).collect();
    assert_eq!(fates.iter().filter(|fate| **fate == MemberFate::Fenced).count(), 1);
    assert_eq!(fates.iter().filter(|fate| **fate == MemberFate::Stopped).count(), 2);
    assert_eq!(site.client.cancel_receipt(&flow_id).await.expect("read"), receipt);
    let tried = site.client.retry_stuck_members(&flow_id).await.expect("nothing to try");
    assert_eq!(tried, StuckRetried::default());
    drop(task);
}

pub(crate) async fn what_failed_in_a_flow_runs_again(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let flow_id = submitted(&site.client, graph(join())).await;
    for _ in 0..2 {
        claim(&worker).await.fail("boom", "permanent").await.expect("failed");
    }
    let flow = site.client.await_flow(&flow_id, LONG).await.expect("answered").expect("a flow");
    assert_eq!(flow.public_flow_state, FlowState::Failed);
    let request = ReplayFailed { limit: Some(1), ..ReplayFailed::default() };
    let again = site.client.replay_failed(&flow_id, request).await.expect("replayed");
    assert_eq!((again.replayed.len(), again.refused.len()), (2, 0), "{again:?}");
    for _ in 0..3 {
        claim(&worker).await.complete(None).await.expect("completed");
    }
    let flow = site.client.await_flow(&flow_id, LONG).await.expect("answered").expect("a flow");
    assert_eq!(flow.public_flow_state, FlowState::Completed);
    let none = site.client.replay_failed(&flow_id, ReplayFailed::default()).await;
    assert_eq!(none.expect("nothing failed"), FailedReplayed::default());
}

pub(crate) async fn a_whole_graph_is_read_at_once(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let flow_id = submitted(&site.client, graph(join())).await;
    let done = claim(&worker).await;
    let first = *done.execution_id();
    done.complete(None).await.expect("completed");
    let whole = site.client.graph(&flow_id).await.expect("read");
    let names: Vec<&str> = whole.members.iter().filter_map(|it| it.name.as_deref()).collect();
    assert_eq!(names, ["left", "right", "join"]);
    assert_eq!((whole.edges.len(), &whole.next_cursor), (2, &None));
    for edge in &whole.edges {
        let is_first = edge.upstream_execution_id == first;
        assert_eq!(edge.edge_state == EdgeState::Satisfied, is_first, "{edge:?}");
        assert!(edge.applied && edge.data_passing_ref.is_some());
    }
    let query = GraphQuery { cursor: None, limit: Some(1) };
    let page = site.client.read_graph(&flow_id, query).await.expect("read");
    assert_eq!((page.members.len(), page.edges.len()), (1, 0));
    assert!(page.next_cursor.is_some());
}

pub(crate) async fn members_and_flows_are_listed_in_pages(site: Site) {
    let flow_id = submitted(&site.client, graph(join())).await;
    let second = submitted(&site.client, graph(vec![task("a", "x", &[])])).await;
    let (mut names, mut from) = (Vec::new(), None);
    loop {
        let query = MemberQuery { state: None, from, limit: Some(2) };
        let page = site.client.list_members(&flow_id, query).await.expect("listed");
        names.extend(page.members.into_iter().filter_map(|member| member.name));
        from = page.next_from;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(names, ["left", "right", "join"]);
    let blocked = Some(PublicState::WaitingChildren);
    let query = MemberQuery { state: blocked, from: None, limit: None };
    let page = site.client.list_members(&flow_id, query).await.expect("listed");
    assert_eq!(page.members.len(), 1);
    let (mut flows, mut cursor) = (Vec::new(), None);
    loop {
        let query = FlowQuery { cursor, limit: Some(1), ..FlowQuery::default() };
        let page = site.client.list_flows(query).await.expect("listed");
        flows.extend(page.flows.iter().map(|flow| flow.flow_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    flows.sort();
    let mut expected = vec![flow_id, second];
    expected.sort();
    assert_eq!(flows, expected);
}
