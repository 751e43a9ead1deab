//! Following flows through a backend: that nothing passes unheard although pushes are lost, and
//! what is told to one who comes too late for the log.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::backend_error::BackendError;
use ff_core::contracts::{
    CancelFlow, CreateExecution, CreateFlow, FlowActivity, FlowActivityStream, FlowPosition,
    FlowState, GraphTask, SubmitGraph,
};
use ff_core::engine_backend::roles::*;
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, ExecutionKind, FlowId};
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use tokio::sync::broadcast;

const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A host that hears nothing.
struct Deaf(EmbeddedHost, broadcast::Sender<ff_script::host::Wake>);

impl Host for Deaf {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        self.0.call(function, partition, args)
    }

    fn subscribe(&self, _: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        Box::pin(std::future::ready(Ok(Subscription::new(self.1.subscribe()))))
    }

    fn follow(&self, _: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        Box::pin(std::future::ready(Ok(Subscription::new(self.1.subscribe()))))
    }

    fn name(&self) -> &'static str {
        "deaf"
    }
}

fn in_memory() -> EmbeddedHost {
    EmbeddedHost::open(EmbeddedConfig::in_memory(), &Library::current()).expect("a host")
}

async fn open<H: Host>(host: &Arc<H>) -> ScriptBackend<H> {
    let config = PartitionConfig { num_flow_partitions: 3, ..PartitionConfig::default() };
    ScriptBackend::open(Arc::clone(host), config).await.expect("opens")
}

fn kind() -> ExecutionKind {
    ExecutionKind::new("k")
}

/// A flow of so many members that wait for nobody.
async fn submitted<H: Host>(backend: &ScriptBackend<H>, members: u64) -> FlowId {
    let task = |number| GraphTask::new(format!("t{number}"), CreateExecution::new(kind()));
    let graph = SubmitGraph::new(CreateFlow::new(kind()), (0..members).map(task).collect());
    backend.submit_graph(graph).await.expect("accepted").flow_id
}

/// Fills the log of the partition that a flow lives in.
async fn fill_log<H: Host>(backend: &ScriptBackend<H>, flow_id: FlowId) {
    let home = backend.partition_config().flow_partition_of(flow_id.as_bytes());
    let new = || {
        let id = ExecutionId::from_parts(home, SystemIds.random());
        CreateExecution::new(kind()).with_id(id)
    };
    let many = (0..limits::EVENT_LOG_LENGTH + 200).map(|_| new()).collect();
    for created in backend.create_many(many).await {
        created.expect("created");
    }
}

async fn cancel<H: Host>(backend: &ScriptBackend<H>, flow_id: FlowId) {
    let request = CancelFlow { cancellation_policy: None, reason: "enough".to_owned() };
    backend.cancel_flow(flow_id, request).await.expect("cancelled");
}

async fn follow<H: Host>(
    backend: &ScriptBackend<H>,
    flow_id: FlowId,
    from: FlowPosition,
) -> FlowActivityStream {
    backend.follow_flow(flow_id, from).await.expect("follows")
}

async fn next(activity: &mut FlowActivityStream) -> Option<FlowActivity> {
    let next = poll_fn(|context| activity.as_mut().poll_next(context));
    let next = tokio::time::timeout(TIME_LIMIT, next).await.expect("something comes in time");
    next.map(|piece| piece.expect("no trouble"))
}

/// Everything up to the end, in a word each.
async fn rest(activity: &mut FlowActivityStream) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(piece) = next(activity).await {
        words.push(match piece {
            FlowActivity::Event(event) => event.kind,
            FlowActivity::Gap { .. } => "GAP".to_owned(),
            FlowActivity::End { flow, .. } => format!("END {}", flow.public_flow_state),
            other => panic!("{other:?} is new"),
        });
    }
    words
}

#[tokio::test]
async fn who_follows_gets_everything_from_the_first_event_to_the_end() {
    let backend = open(&Arc::new(in_memory())).await;
    let flow_id = submitted(&backend, 1).await;
    let mut early = follow(&backend, flow_id, FlowPosition::Start).await;
    let mut now = follow(&backend, flow_id, FlowPosition::End).await;
    cancel(&backend, flow_id).await;
    let end = ["flow_cancelled", "ended", "flow_ended", "END cancelled"];
    assert_eq!(rest(&mut now).await, end);
    let begin = ["flow_created", "created", "flow_sealed"];
    assert_eq!(rest(&mut early).await, [&begin[..], &end[..]].concat());
    let mut late = follow(&backend, flow_id, FlowPosition::Start).await;
    assert_eq!(rest(&mut late).await, [&begin[..], &end[..]].concat());
    let mut past = follow(&backend, flow_id, FlowPosition::End).await;
    assert_eq!(rest(&mut past).await, ["END cancelled"]);
}

#[tokio::test]
async fn one_who_takes_over_goes_on_behind_the_last_event() {
    let backend = open(&Arc::new(in_memory())).await;
    let flow_id = submitted(&backend, 1).await;
    let mut first = follow(&backend, flow_id, FlowPosition::Start).await;
    let seen = next(&mut first).await.expect("an event");
    drop(first);
    cancel(&backend, flow_id).await;
    let mut second = follow(&backend, flow_id, FlowPosition::Behind(seen.cursor().clone())).await;
    let expected =
        ["created", "flow_sealed", "flow_cancelled", "ended", "flow_ended", "END cancelled"];
    assert_eq!(rest(&mut second).await, expected);
}

#[tokio::test]
async fn who_comes_too_late_for_the_log_is_told_how_the_flow_stands() {
    let backend = open(&Arc::new(in_memory())).await;
    let flow_id = submitted(&backend, 2).await;
    let mut slow = follow(&backend, flow_id, FlowPosition::Start).await;
    assert!(matches!(next(&mut slow).await, Some(FlowActivity::Event(_))));
    while let Some(FlowActivity::Event(event)) = next(&mut slow).await {
        if event.kind == "flow_sealed" {
            break;
        }
    }
    fill_log(&backend, flow_id).await;
    let mut late = follow(&backend, flow_id, FlowPosition::Start).await;
    let Some(FlowActivity::Gap { flow, .. }) = next(&mut late).await else { panic!("a gap") };
    assert_eq!((flow.node_count, flow.public_flow_state), (2, FlowState::Open));
    cancel(&backend, flow_id).await;
    let end = ["flow_cancelled", "ended", "ended", "flow_ended", "END cancelled"];
    assert_eq!(rest(&mut late).await, end);
    assert_eq!(rest(&mut slow).await, ["GAP", "END cancelled"], "it has not read in between");
}

#[tokio::test(start_paused = true)]
async fn what_no_push_told_of_is_found_by_looking_again() {
    let backend = open(&Arc::new(Deaf(in_memory(), broadcast::Sender::new(1)))).await;
    let flow_id = submitted(&backend, 1).await;
    let mut follower = follow(&backend, flow_id, FlowPosition::End).await;
    cancel(&backend, flow_id).await;
    // With no limit: where time is paused, it jumps on while a thread of the store works.
    let next = poll_fn(|context| follower.as_mut().poll_next(context)).await;
    let event = next.expect("an event").expect("no trouble");
    assert_eq!(event.event().map(|event| event.kind.as_str()), Some("flow_cancelled"));
}

#[tokio::test]
async fn a_flow_that_does_not_exist_is_refused_and_a_closed_store_ends_the_following() {
    let host = Arc::new(in_memory());
    let backend = open(&host).await;
    let nowhere = FlowId::from_uuid(SystemIds.random());
    assert!(backend.follow_flow(nowhere, FlowPosition::Start).await.is_err());
    let flow_id = submitted(&backend, 1).await;
    let mut follower = follow(&backend, flow_id, FlowPosition::End).await;
    host.close().await;
    let last = poll_fn(|context| follower.as_mut().poll_next(context));
    let last = tokio::time::timeout(TIME_LIMIT, last).await.expect("it ends in time");
    assert!(last.expect("an error").is_err());
    assert!(poll_fn(|context| follower.as_mut().poll_next(context)).await.is_none());
}
