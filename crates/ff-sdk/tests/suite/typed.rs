//! Kinds with types, flows that are put together on them, and what is heard of those.

use std::time::{Duration, Instant};

use ff_sdk::{
    AwaitError, CancelFlowWait, Context, EngineError, FailurePolicy, Flow, FlowActivity,
    FlowPosition, FlowState, FlowTask, Input, Kind, MemberFate, PublicState, TaskError, TaskResult,
    WorkerBuilder,
};
use serde::{Deserialize, Serialize};

use crate::site::{LANE, LONG, Site, claim};

/// Less than the time after which those who wait look although they heard nothing.
const BY_PUSH: Duration = Duration::from_secs(4);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Clip {
    name: String,
    seconds: u32,
}

const SPLIT: Kind<Clip, Vec<String>> = Kind::new("split");
const COUNT: Kind<Vec<String>, usize> = Kind::new("count");
const ENCODE: Kind<u32, String> = Kind::new("encode");
const MUX: Kind<(), String> = Kind::new("mux");
const REFUSE: Kind<(), ()> = Kind::new("refuse");
const UNDO: Kind<String, String> = Kind::new("undo");
const PARTS: Input<Vec<String>> = Input::new("parts");
const SIZE: Input<usize> = Input::new("size");

fn clip() -> Clip {
    Clip { name: "cat".to_owned(), seconds: 2 }
}

async fn mux(context: Context, (): ()) -> Result<String, TaskError> {
    let (parts, size) = (context.passed(&PARTS).await?, context.passed(&SIZE).await?);
    let mut encoded = Vec::new();
    for input in context.inputs().iter().filter(|input| input.name.starts_with("encode")) {
        encoded.push(context.input::<String>(&input.name).await?.unwrap_or_default());
    }
    encoded.sort();
    Ok(format!("{} of {size}: {}", parts.len(), encoded.join(" ")))
}

fn handlers(site: &Site) -> WorkerBuilder<()> {
    site.handlers()
        .concurrency(4)
        .handle(&SPLIT, async |_, clip| -> TaskResult<_> {
            Ok((0..clip.seconds).map(|second| format!("{}-{second}", clip.name)).collect())
        })
        .handle_blocking(&COUNT, |_, parts| -> TaskResult<_> { Ok(parts.len()) })
        .handle(&ENCODE, async |_, number| -> TaskResult<_> { Ok(format!("e{number}")) })
        .handle(&MUX, mux)
        .handle(&REFUSE, |_, ()| async { Err(TaskError::fail("no")) })
        .handle(&UNDO, async |_, what| -> TaskResult<_> { Ok(format!("undid {what}")) })
}

fn in_lane<O>(task: FlowTask<O>) -> FlowTask<O> {
    task.with(|it| it.lane(LANE))
}

pub(crate) async fn a_call_by_kind_gives_the_kind_s_result(site: Site) {
    let worker = handlers(&site).build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let call = site.client.call(&SPLIT, clip()).with(|it| it.lane(LANE)).timeout(LONG);
    assert_eq!(call.await.expect("a result"), ["cat-0", "cat-1"]);
    let failed = site.client.call(&REFUSE, ()).with(|it| it.lane(LANE)).await;
    assert!(matches!(failed, Err(AwaitError::Failed(_))), "{failed:?}");
    let id = site.client.submit(&SPLIT, &clip()).lane(LANE).await.expect("submitted");
    let parts = site.client.await_result_of(&SPLIT, id.execution_id(), LONG).await;
    assert_eq!(parts.expect("a result").len(), 2);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn a_flow_with_types_gives_the_results_of_its_tasks(site: Site) {
    let worker = handlers(&site).build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let mut flow = Flow::new("media").key("cat").tag("team.owner", "pets");
    let split = in_lane(flow.task("split", &SPLIT, clip()));
    let count = in_lane(flow.task_from("count", &COUNT, &split));
    let encoded: Vec<FlowTask<String>> = (0..3)
        .map(|n| in_lane(flow.task(format!("encode {n}"), &ENCODE, n)).after(&split))
        .collect();
    let mux = in_lane(flow.task("mux", &MUX, ()))
        .after_all([&count, &encoded])
        .pass(&split, &PARTS)
        .pass(&count, &SIZE)
        .pass_all(&encoded);
    let running_flow = site.client.submit_flow(flow).await.expect("accepted");
    assert!(running_flow.is_new());
    assert_eq!(running_flow.result(&count).await.expect("a result"), 2);
    assert_eq!(running_flow.result(&mux).await.expect("a result"), "2 of 2: e0 e1 e2");
    let ended = running_flow.await_end(LONG).await.expect("it is there");
    assert_eq!((ended.public_flow_state, ended.node_count), (FlowState::Completed, 6));
    assert_eq!(ended.tags.get("team.owner").map(String::as_str), Some("pets"));
    let by_id = site.client.flow(&running_flow.id());
    assert_eq!(by_id.result_of(&ENCODE, "encode 1").await.expect("a result"), "e1");
    assert!(matches!(by_id.result(&count).await, Err(AwaitError::Sdk(_))), "its flow is unknown");
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn failures_free_those_who_wait_for_them(site: Site) {
    let worker = handlers(&site).build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let mut flow = Flow::new("saga").on_failure(FailurePolicy::FailFast);
    let book = in_lane(flow.task("book", &ENCODE, 7));
    let charge = in_lane(flow.task("charge", &REFUSE, ())).after(&book).optional();
    let undo = in_lane(flow.task("undo", &UNDO, "booking".to_owned())).after(&charge.failed());
    let never = in_lane(flow.task("send", &ENCODE, 8)).after(&charge);
    let any = in_lane(flow.task("any", &ENCODE, 9)).after_any([&never, &undo, &charge.ended()]);
    let two = in_lane(flow.task("two", &ENCODE, 10)).after_count(2, [&book, &undo, &never]);
    let saga = site.client.submit_flow(flow).await.expect("accepted");
    assert_eq!(saga.result(&undo).await.expect("a result"), "undid booking");
    assert!(matches!(saga.result(&never).await, Err(AwaitError::Skipped)));
    assert!(matches!(saga.result(&charge).await, Err(AwaitError::Failed(_))));
    assert_eq!(saga.result(&any).await.expect("a result"), "e9");
    assert_eq!(saga.result(&two).await.expect("a result"), "e10");
    let ended = saga.await_end(LONG).await.expect("it is there");
    assert_eq!(ended.public_flow_state, FlowState::Completed, "who failed is optional");
    assert_eq!(ended.counts[&PublicState::Skipped], 1);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn what_is_wrong_with_a_flow_is_named_and_nothing_is_sent(site: Site) {
    let refused = async |flow: Flow| match site.client.submit_flow(flow).await {
        Err(error) => error.to_string(),
        Ok(flow) => panic!("{flow:?} was accepted"),
    };
    let message = refused(Flow::new("a:b")).await;
    assert!(message.starts_with("config: flow.kind: must be printable"), "{message}");
    let message = refused(Flow::new("x").key("")).await;
    assert!(message.contains("idempotency_key: must not be empty"), "{message}");
    let mut flow = Flow::new("x");
    flow.task("a", &ENCODE, 1).with(|it| it.lane("a:b"));
    let message = refused(flow).await;
    assert!(message.contains("lane must be printable"), "{message}");
    let mut other = Flow::new("x");
    let foreign = other.task("b", &ENCODE, 1);
    let mut flow = Flow::new("x");
    flow.task("a", &ENCODE, 1).after(&foreign);
    let message = refused(flow).await;
    assert!(message.contains("tasks.a.after names \"b\", a task of another flow"), "{message}");
    let mut flow = Flow::new("x");
    let split = flow.task("split", &SPLIT, clip());
    let more = flow.task("more", &ENCODE, 1);
    flow.task_from("count", &COUNT, &split).pass(&more, "more");
    let message = refused(flow).await;
    assert!(message.contains("tasks.count.pass must be said once"), "{message}");
    let mut flow = Flow::new("x");
    let first = flow.task("a", &ENCODE, 1);
    let second = flow.task("b", &ENCODE, 1).after(&first);
    first.after(&second);
    let message = refused(flow).await;
    assert!(message.contains("a -> b -> a"), "{message}");
    let mut flow = Flow::new("x");
    flow.task("a", &ENCODE, 1);
    flow.task("a", &ENCODE, 2);
    let message = refused(flow).await;
    assert!(message.contains("is named twice"), "{message}");
    assert!(refused(Flow::new("x")).await.contains("number of tasks"));
}

pub(crate) async fn the_end_of_a_flow_is_heard_by_push(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let mut flow = Flow::new("one");
    let task = in_lane(flow.task("a", &MUX, ()));
    let handle = site.client.submit_flow(flow).await.expect("accepted");
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { (handle.await_end(LONG).await, Instant::now()) }
    });
    let early = handle.await_end(Duration::from_millis(1)).await.expect("it is there");
    assert_eq!(early.completed_at, None, "the time was up");
    let claimed = claim(&worker).await;
    let ended_at = Instant::now();
    claimed.complete(Some(b"\"done\"".to_vec())).await.expect("completed");
    let (ended, heard_at) = waiting.await.expect("no panic");
    assert!(ended.expect("it is there").completed_at.is_some());
    let took = heard_at.duration_since(ended_at);
    assert!(took < BY_PUSH, "{took:?}");
    assert_eq!(handle.result(&task).await.expect("a result"), "done");
}

pub(crate) async fn a_flow_is_cancelled_with_a_receipt(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let mut flow = Flow::new("two");
    let first = in_lane(flow.task("a", &ENCODE, 1));
    in_lane(flow.task("b", &ENCODE, 2)).after(&first);
    let handle = site.client.submit_flow(flow).await.expect("accepted");
    claim(&worker).await.complete(None).await.expect("completed");
    let wait = CancelFlowWait::WaitTimeout(LONG);
    let receipt = handle.cancel_with_receipt("enough", wait).await.expect("cancelled");
    let fates: Vec<(Option<&str>, MemberFate)> =
        receipt.members.iter().map(|member| (member.name.as_deref(), member.fate)).collect();
    assert_eq!(fates, [(Some("a"), MemberFate::HadEnded), (Some("b"), MemberFate::Stopped)]);
}

pub(crate) async fn who_follows_a_flow_sees_everything_that_happens_in_it(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let mut flow = Flow::new("two");
    let first = in_lane(flow.task("a", &ENCODE, 1));
    in_lane(flow.task("b", &ENCODE, 2)).after(&first);
    let handle = site.client.submit_flow(flow).await.expect("accepted");
    let mut activity = handle.follow().await.expect("follows");
    let mut words = Vec::new();
    for name in ["a", "b"] {
        claim(&worker).await.complete(None).await.expect("completed");
        loop {
            let piece = activity.next().await.expect("it goes on").expect("no trouble");
            let FlowActivity::Event(event) = piece else { panic!("{piece:?}") };
            if let Some(id) = event.execution_id {
                let name = event.name.as_deref().expect("every member has a name");
                assert_eq!(id, handle.execution_named(name));
            }
            let told = event.name.unwrap_or_else(|| "-".to_owned());
            words.push(format!("{} {told}", event.kind));
            if words.last().is_some_and(|word| *word == format!("ended {name}")) {
                break;
            }
        }
    }
    let position = activity.position().clone();
    let last = activity.next().await.expect("the end of the flow").expect("no trouble");
    assert_eq!(last.event().map(|event| event.kind.as_str()), Some("flow_ended"));
    let end = activity.next().await.expect("the end").expect("no trouble");
    let FlowActivity::End { flow, .. } = &end else { panic!("{end:?}") };
    assert_eq!(flow.public_flow_state, FlowState::Completed);
    assert!(activity.next().await.is_none());
    words.retain(|word| !word.starts_with("granted"));
    assert_eq!(
        words,
        [
            "flow_created -",
            "created a",
            "created b",
            "flow_sealed -",
            "claimed a",
            "ended a",
            "freed b",
            "claimed b",
            "ended b"
        ]
    );
    let mut again = site.client.follow_flow_from(&handle.id(), position).await.expect("follows");
    let same = again.next().await.expect("an event").expect("no trouble");
    assert_eq!(same, last);
    let mut now = site.client.follow_flow_from(&handle.id(), FlowPosition::End).await.expect("so");
    let only = now.next().await.expect("the end").expect("no trouble");
    assert!(matches!(only, FlowActivity::End { .. }), "{only:?}");
    let nobody = "00000000-0000-4000-8000-000000000000".parse().expect("an id");
    let refused = site.client.follow_flow(&nobody).await.expect_err("there is none");
    let code = refused.engine().and_then(EngineError::code);
    assert_eq!(code, Some(ff_sdk::Code::FlowNotFound), "{refused}");
}
