//! A worker over implementations of our own: they see every call, and nothing goes around them.

mod recorder;

use std::sync::Arc;
use std::time::Duration;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::GrantRequest;
use ff_core::types::GrantId;
use ff_script::ids::{IdSource, SystemIds};
use ff_sdk::{
    BackendConfig, BackendErrorKind, Client, Code, Connection, EngineError, ExecutionId,
    FlowFabricWorker, LaneId, LeaseLoss, PublicState, SdkError, TaskError, Worker, WorkerConfig,
    WorkerStatus,
};
use recorder::{Fault, Recorder};
use tokio::time::{Instant, timeout};

const LANE: &str = "work";
const LONG: Duration = Duration::from_secs(30);

/// A worker over a recorder, and a client that nobody records.
struct Site {
    recorder: Arc<Recorder>,
    worker: FlowFabricWorker,
    client: Client,
}

fn config(lease_ttl_ms: u64) -> WorkerConfig {
    WorkerConfig {
        // Would fail at once if anybody dialled it.
        backend: BackendConfig::server("http://127.0.0.1:1", None),
        worker_id: "tester".parse().expect("valid"),
        worker_instance_id: "tester-1".parse().expect("valid"),
        namespace: "default".parse().expect("valid"),
        lanes: vec![LANE.parse().expect("valid")],
        capabilities: Vec::new(),
        lease_ttl_ms,
        claim_poll_interval_ms: 1_000,
        max_concurrent_tasks: 2,
    }
}

async fn recorder() -> (Arc<Recorder>, Client) {
    let connection = Connection::open(BackendConfig::embedded_in_memory()).await.expect("opens");
    let recorder = Recorder::new(&connection).await;
    (Arc::new(recorder), Client::new(&connection))
}

impl Site {
    async fn open(lease_ttl_ms: u64) -> Self {
        let (recorder, client) = recorder().await;
        let (engine, work) = (Arc::clone(&recorder), Arc::clone(&recorder));
        let worker = FlowFabricWorker::connect_with(config(lease_ttl_ms), engine, work, None).await;
        Self { recorder, worker: worker.expect("connects"), client }
    }

    async fn submit(&self) -> ExecutionId {
        let submission = self.client.submit_raw("test", "x").lane(LANE);
        submission.await.expect("submitted").execution_id()
    }

    async fn claim(&self) -> ff_sdk::ClaimedTask {
        self.submit().await;
        self.worker.claim(LONG).await.expect("answers").expect("there is work")
    }

    fn grant_request(&self) -> GrantRequest {
        GrantRequest {
            grant_id: Some(GrantId::from_uuid(SystemIds.random())),
            reclaim: false,
            worker_id: self.worker.config().worker_id.clone(),
            worker_instance_id: self.worker.config().worker_instance_id.clone(),
            capabilities: CapabilitySet::default(),
            grant_ttl_ms: 5_000,
        }
    }
}

fn lost_reply() -> EngineError {
    let kind = BackendErrorKind::Transport;
    let retry = ff_core::backend_error::Retry::IfReplaySafe;
    ff_sdk::BackendError::new(kind, retry, "the reply was lost").into()
}

#[tokio::test]
async fn each_step_is_one_call_and_no_call_goes_around_the_traits() {
    let site = Site::open(60_000).await;
    let seen = || site.recorder.take();
    assert_eq!(seen(), ["register_worker"]);

    let task = site.claim().await;
    assert_eq!(seen(), ["claim"]);
    task.renew_lease().await.expect("renewed");
    task.update_progress(1, "begun").await.expect("told");
    task.complete(None).await.expect("completed");
    assert_eq!(seen(), ["renew", "progress", "complete"]);

    site.claim().await.fail("no", "permanent").await.expect("reported");
    site.claim().await.cancel("no").await.expect("cancelled");
    site.claim().await.delay_for(Duration::from_secs(60)).await.expect("put aside");
    site.claim().await.move_to_waiting_children().await.expect("put aside");
    let task = site.worker.claim(LONG).await.expect("answers").expect("no children");
    assert_eq!(
        seen(),
        ["claim", "fail", "claim", "cancel", "claim", "delay", "claim", "wait_children", "claim"]
    );
    task.complete(None).await.expect("completed");
    seen();

    let id = site.submit().await;
    let grant = site.worker.backend().issue_claim_grant(id, site.grant_request()).await;
    let lane: LaneId = LANE.parse().expect("valid");
    let task = site.worker.claim_from_grant(lane, grant.expect("granted")).await.expect("claimed");
    site.worker.describe_execution(task.execution_id()).await.expect("readable");
    site.worker.list_lanes(None, 10).await.expect("readable");
    assert_eq!(
        seen(),
        ["issue_claim_grant", "claim_from_grant", "describe_execution", "list_lanes"]
    );
    task.complete(None).await.expect("completed");
    seen();

    drop(site.claim().await);
    site.worker.shutdown(LONG).await.expect("leaves");
    assert_eq!(seen(), ["claim", "delay", "heartbeat_worker", "disconnect_worker"]);
}

#[tokio::test]
async fn the_client_of_a_worker_goes_through_the_same_traits() {
    let site = Site::open(60_000).await;
    let client = site.worker.client();
    site.recorder.take();
    let id = client.submit("test", &1).lane(LANE).await.expect("submitted").execution_id();
    client.submit_many([client.submit("test", &2).lane(LANE)]).await.remove(0).expect("submitted");
    client.describe(&id).await.expect("readable");
    client.cancel(&id, "no").await.expect("cancelled");
    client.await_result_raw(&id, LONG).await.expect_err("cancelled");
    assert_eq!(
        site.recorder.take(),
        [
            "create",
            "create_many",
            "describe_execution",
            "cancel_execution",
            "read_result",
            "describe_execution"
        ]
    );
}

#[tokio::test]
async fn completions_are_listened_to_where_they_are_offered() {
    let (recorder, client) = recorder().await;
    let completion = client.connection().completion().expect("the embedded store tells");
    let (engine, work) = (Arc::clone(&recorder), Arc::clone(&recorder));
    let worker =
        FlowFabricWorker::connect_with(config(60_000), engine, work, Some(completion)).await;
    let worker = worker.expect("connects");
    assert!(worker.completion_backend().is_some());
    let id = client.submit("test", &1).lane(LANE).await.expect("submitted").execution_id();
    let task = worker.claim(LONG).await.expect("answers").expect("there is work");
    recorder.take();
    let waiter = worker.client();
    let waiting = tokio::spawn(async move { waiter.await_result_raw(&id, LONG).await });
    while !recorder.calls().contains(&"describe_execution") {
        tokio::task::yield_now().await;
    }
    let before = Instant::now();
    task.complete(Some(b"1".to_vec())).await.expect("completed");
    assert_eq!(waiting.await.expect("no panic").expect("a result"), b"1");
    assert!(
        before.elapsed() < Duration::from_secs(4),
        "by a push, not after {:?}",
        before.elapsed()
    );
}

#[tokio::test]
async fn wrong_settings_send_nothing() {
    let (recorder, _client) = recorder().await;
    let mut wrong = config(60_000);
    wrong.lanes.clear();
    let (engine, work) = (Arc::clone(&recorder), Arc::clone(&recorder));
    let refused = FlowFabricWorker::connect_with(wrong, engine, work, None).await;
    assert!(matches!(refused, Err(SdkError::Config { .. })));
    assert!(recorder.take().is_empty());
}

#[tokio::test]
async fn a_terminal_call_is_sent_again_until_it_is_answered() {
    let site = Site::open(60_000).await;
    let task = site.claim().await;
    let id = *task.execution_id();
    site.recorder.take();
    site.recorder.fail_next("complete", 3, Fault::Before(lost_reply()));
    site.recorder.fail_next("complete", 2, Fault::After(lost_reply()));
    task.complete(Some(b"1".to_vec())).await.expect("landed");
    assert_eq!(site.recorder.take(), ["complete"; 6]);
    let state = site.client.describe(&id).await.expect("readable").expect("there").public_state();
    assert_eq!(state, PublicState::Completed);
}

#[tokio::test]
async fn what_cannot_help_is_not_repeated_and_the_task_comes_back() {
    let site = Site::open(60_000).await;
    let task = site.claim().await;
    site.recorder.take();
    let wrong = EngineError::invalid("result", "is wrong");
    site.recorder.fail_next("complete", 1, Fault::Before(wrong));
    let error = task.complete(None).await.expect_err("wrong");
    assert_eq!(site.recorder.take(), ["complete"]);
    let task = error.task.expect("the lease is held");
    assert!(task.is_lease_healthy());
    task.complete(None).await.expect("landed");
}

#[tokio::test]
async fn a_lease_that_cannot_be_renewed_is_lost_at_its_deadline_and_not_before() {
    let site = Site::open(1_000).await;
    site.recorder.fail_next("renew", usize::MAX, Fault::Before(lost_reply()));
    let task = site.claim().await;
    let deadline = task.lease_deadline();
    assert_eq!(timeout(LONG, task.lost()).await.expect("noticed"), LeaseLoss::Expired);
    assert!(Instant::now() >= deadline, "not before its time");
    assert!(task.consecutive_renewal_failures() >= 2, "it was tried several times");
    assert!(!task.is_lease_healthy());
    site.recorder.take();
    let error = task.complete(None).await.expect_err("lost");
    assert_eq!(error.source.engine().and_then(EngineError::code), Some(Code::LeaseExpired));
    assert!(site.recorder.take().is_empty(), "nothing is sent after the loss");
}

#[tokio::test]
async fn a_renewal_that_hangs_does_not_hide_the_loss() {
    let site = Site::open(1_000).await;
    site.recorder.fail_next("renew", usize::MAX, Fault::Hang);
    let task = site.claim().await;
    assert_eq!(timeout(LONG, task.lost()).await.expect("noticed"), LeaseLoss::Expired);
    let renewals = site.recorder.take().into_iter().filter(|call| *call == "renew").count();
    assert!(renewals >= 2, "a call that hangs leaves room for another, not {renewals}");
}

#[tokio::test]
async fn a_worker_whose_place_was_taken_stops_claiming_and_says_so() {
    let site = Site::open(1_000).await;
    let refusal = EngineError::refused(Code::WorkerInstanceInUse);
    site.recorder.fail_next("heartbeat_worker", usize::MAX, Fault::Before(refusal));
    let mut status = site.worker.status_changes();
    let lost = status.wait_for(|status| *status == WorkerStatus::Lost);
    timeout(LONG, lost).await.expect("noticed").expect("the worker lives");
    site.submit().await;
    site.recorder.take();
    let error = site.worker.claim_next().await.expect_err("lost");
    assert!(matches!(error, SdkError::WorkerStopped { status: WorkerStatus::Lost }), "{error}");
    site.worker.shutdown(LONG).await.expect("leaves");
    assert!(site.recorder.take().is_empty(), "the other process keeps its registration");
}

#[tokio::test]
async fn a_registration_that_ran_out_is_made_again() {
    let site = Site::open(1_000).await;
    site.recorder.take();
    let refusal = EngineError::refused(Code::WorkerNotFound);
    site.recorder.fail_next("heartbeat_worker", 1, Fault::Before(refusal));
    while !site.recorder.calls().contains(&"register_worker") {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.worker.status(), WorkerStatus::Running);
}

#[tokio::test]
async fn what_was_not_asked_for_is_handed_back() {
    let site = Site::open(60_000).await;
    for _ in 0..3 {
        site.submit().await;
    }
    site.recorder.claim_too_many(1);
    let tasks = site.worker.claim_many(2, LONG).await.expect("answers");
    assert_eq!((tasks.len(), site.worker.capacity()), (2, 0));
    while !site.recorder.calls().contains(&"delay") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_runtime_works_over_a_worker_that_is_connected_already() {
    let site = Site::open(60_000).await;
    let handler = |_: ff_sdk::Context, (): ()| async { Ok::<_, TaskError>("done") };
    let worker = Worker::builder("unused").worker(site.worker).on("greet", handler);
    let worker = worker.build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let id = site.client.submit("greet", &()).lane(LANE).await.expect("submitted").execution_id();
    let result: String = site.client.await_result(&id, LONG).await.expect("a result");
    assert_eq!(result, "done");
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
    assert!(site.recorder.take().contains(&"finish"));
}

#[tokio::test]
async fn a_runtime_outlasts_trouble_with_claiming() {
    let site = Site::open(60_000).await;
    site.recorder.fail_next("claim", 3, Fault::Before(lost_reply()));
    let handler = |_: ff_sdk::Context, (): ()| async { Ok::<_, TaskError>(()) };
    let worker = Worker::builder("unused").worker(site.worker).on("greet", handler);
    let worker = worker.build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let id = site.client.submit("greet", &()).lane(LANE).await.expect("submitted").execution_id();
    site.client.await_result::<()>(&id, LONG).await.expect("a result");
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

/// Polls once.
async fn is_ready<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    tokio::select! {
        biased;
        _ = future => true,
        () = std::future::ready(()) => false,
    }
}

#[tokio::test]
async fn a_writer_that_is_ahead_of_the_store_waits_and_loses_nothing() {
    const FRAME: usize = 64 << 10;
    let site = Site::open(60_000).await;
    let task = site.claim().await;
    site.recorder.fail_next("append_frames", 4, Fault::Before(lost_reply()));
    let (frames, mut written) = (task.frames(), 0);
    loop {
        let mut write = std::pin::pin!(frames.text("blob", "x".repeat(FRAME)));
        written += 1;
        if !is_ready(write.as_mut()).await {
            // As much as may be under way is: nothing was refused, and this one waits for room.
            timeout(LONG, write).await.expect("there is room again").expect("written");
            break;
        }
        assert!(written <= 16, "a mebibyte is under way at most");
    }
    assert!(written > 8, "{written}");
    frames.flush().await.expect("all are there");
    let id = *task.execution_id();
    task.complete(None).await.expect("completed");
    let (mut follow, mut seen) = (site.client.follow(&id).await.expect("follows"), 0);
    while let Some(piece) = timeout(LONG, follow.next()).await.expect("it comes") {
        seen += usize::from(piece.expect("no trouble").frame().is_some());
    }
    assert_eq!(seen, written);
}
