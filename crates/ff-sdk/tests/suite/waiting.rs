//! Suspending, signalling, and going on.

use std::sync::Arc;

use ff_sdk::{
    Backoff, ClaimedTask, Client, Code, Condition, ConditionMatcher, Context, DeliverSignal,
    EngineError, ExecutionId, FlowFabricWorker, HandleKind, ListSuspended, PublicState,
    ResumeSignal, ResumedBy, RetryPolicy, RotateWaitpointSecretRequest, Signal, SignalOutcome,
    SuspendOutcome, SuspendRequest, TaskError, TerminalError, TimeoutBehavior, WaitpointId,
    WaitpointToken, Worker,
};
use tokio::sync::Notify;

use crate::site::{LANE, LONG, Site, claim, eventually};

const HOUR_MS: u64 = 3_600_000;

fn signal(name: &str, token: &WaitpointToken) -> Signal {
    Signal {
        signal_name: name.to_owned(),
        source_type: "tester".to_owned(),
        source_identity: "ann".to_owned(),
        waitpoint_token: token.clone(),
        ..Signal::default()
    }
}

fn names(signals: &[ResumeSignal]) -> Vec<&str> {
    signals.iter().map(|signal| signal.signal_name.as_str()).collect()
}

fn waits_for(name: &str) -> SuspendRequest {
    SuspendRequest::new(Condition::any([name]))
}

/// It waits now: where, and what opens it.
fn waiting(outcome: Result<SuspendOutcome, TerminalError>) -> (WaitpointId, WaitpointToken) {
    match outcome.expect("suspended") {
        SuspendOutcome::Suspended { waitpoint_id, waitpoint_token, .. } => {
            (waitpoint_id, waitpoint_token)
        }
        other => panic!("it does not wait: {other:?}"),
    }
}

async fn suspended(site: &Site, worker: &FlowFabricWorker) -> (ExecutionId, Waitpoint) {
    let id = site.submit("x").await;
    let outcome = claim(worker).await.suspend_with(waits_for("go")).await;
    (id, waiting(outcome))
}

type Waitpoint = (WaitpointId, WaitpointToken);

async fn deliver(client: &Client, id: ExecutionId, at: &Waitpoint, name: &str) -> SignalOutcome {
    client.deliver_signal(id, &at.0, signal(name, &at.1)).await.expect("delivered")
}

fn code(error: &ff_sdk::SdkError) -> Option<Code> {
    error.engine().and_then(EngineError::code)
}

pub(crate) async fn an_execution_goes_on_with_the_signals_that_it_waited_for(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let attempt_id = *task.attempt_id();
    assert_eq!(task.resume_signals().await.expect("readable"), []);
    let matchers = ["packed", "paid"].map(ConditionMatcher::named);
    let reason = "waiting_for_callback";
    let outcome = task.suspend(reason, &matchers, Some(HOUR_MS), TimeoutBehavior::Cancel).await;
    let at = waiting(outcome);
    assert_eq!(site.state(&id).await, PublicState::Suspended);
    assert_eq!(worker.capacity(), 1);

    let bytes: Vec<u8> = (0..=255).collect();
    let mut paid = signal("paid", &at.1);
    (paid.payload, paid.idempotency_key) = (Some(bytes.clone()), Some("invoice-7".to_owned()));
    let first = worker.deliver_signal(&id, &at.0, paid.clone()).await.expect("delivered");
    assert!(matches!(first, SignalOutcome::Accepted { .. }), "{first:?}");
    let again = worker.deliver_signal(&id, &at.0, paid).await.expect("delivered");
    assert!(matches!(again, SignalOutcome::Duplicate { .. }), "{again:?}");
    let last = deliver(&site.client, id, &at, "packed").await;
    assert!(matches!(last, SignalOutcome::TriggeredResume { .. }), "{last:?}");

    let task = claim(&worker).await;
    assert_eq!((*task.attempt_id(), task.claim_kind()), (attempt_id, HandleKind::Resumed));
    let signals = task.resume_signals().await.expect("readable");
    assert_eq!(names(&signals), ["paid", "packed"]);
    assert_eq!(signals[0].payload.as_deref(), Some(bytes.as_slice()));
    assert_eq!(signals[0].source_identity, "ann");
    task.complete(None).await.expect("completed");
}

pub(crate) async fn only_the_waitpoint_s_own_token_opens_it(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let (id, at) = suspended(&site, &worker).await;
    let (other, theirs) = suspended(&site, &worker).await;
    let tries = [(id, at.0, &theirs.1), (other, at.0, &at.1), (id, theirs.0, &at.1)];
    for (id, waitpoint_id, token) in tries {
        let refused = site.client.deliver_signal(id, &waitpoint_id, signal("go", token)).await;
        let error = refused.expect_err("refused");
        assert_eq!(code(&error), Some(Code::InvalidToken), "{error}");
        assert!(!error.to_string().contains(token.as_str()), "{error}");
    }
    assert_eq!(site.state(&id).await, PublicState::Suspended);
    deliver(&site.client, id, &at, "go").await;
    assert_eq!(*claim(&worker).await.execution_id(), id);
}

pub(crate) async fn signals_that_came_before_are_enough_and_the_task_goes_on(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let at = task.create_pending_waitpoint("answer", HOUR_MS).await.expect("opened");
    let early = DeliverSignal::to_key("answer", signal("go", &at.1));
    let early = site.client.signal(&id, early).await.expect("delivered");
    assert!(matches!(early, SignalOutcome::Buffered { .. }), "{early:?}");

    let mut request = waits_for("go");
    request.pending_waitpoint_id = Some(at.0);
    let task = already_satisfied(task.suspend_with(request).await);
    assert_eq!(names(&task.resume_signals().await.expect("readable")), ["go"]);
    assert_eq!(site.state(&id).await, PublicState::Active);
    let before = task.lease_deadline();
    eventually("a renewal", || async { task.lease_deadline() > before }).await;
    task.complete(None).await.expect("completed");
    assert_eq!(site.state(&id).await, PublicState::Completed);
}

fn already_satisfied(outcome: Result<SuspendOutcome, TerminalError>) -> ClaimedTask {
    match outcome.expect("answered") {
        SuspendOutcome::AlreadySatisfied { task, .. } => *task,
        other => panic!("it waits: {other:?}"),
    }
}

pub(crate) async fn a_refused_suspension_gives_the_task_back(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let nothing = SuspendRequest::new(Condition::count(0, ["go"]));
    let error = claim(&worker).await.suspend_with(nothing).await.expect_err("refused");
    let task = error.task.expect("the lease is still held");
    assert!(task.is_lease_healthy());
    let refused = task.create_pending_waitpoint("", HOUR_MS).await.expect_err("refused");
    assert!(refused.to_string().contains("waitpoint_key"), "{refused}");
    task.complete(None).await.expect("completed");
    assert_eq!(site.state(&id).await, PublicState::Completed);
}

pub(crate) async fn signals_that_are_too_large_for_a_claim_are_read_apart(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let (id, at) = suspended(&site, &worker).await;
    let large = Signal { payload: Some(vec![7; 200 << 10]), ..signal("go", &at.1) };
    site.client.deliver_signal(id, &at.0, large).await.expect("delivered");
    let task = claim(&worker).await;
    assert!(!task.claimed().resumption.as_ref().expect("a wait ended").complete);
    let signals = task.resume_signals().await.expect("readable");
    assert_eq!(signals[0].payload.as_ref().map(Vec::len), Some(200 << 10));
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_time_or_an_operator_ends_a_wait_too(site: Site) {
    let worker = site.worker("w-1", 1).await;
    site.submit("x").await;
    let task = claim(&worker).await;
    let outcome = task.suspend("manual_pause", &[], Some(1), TimeoutBehavior::AutoResume).await;
    waiting(outcome);
    let task = claim(&worker).await;
    assert_eq!(names(&task.resume_signals().await.expect("readable")), ["timeout"]);
    waiting(task.suspend_with(waits_for("go")).await);

    let page = site.client.list_suspended(ListSuspended::default()).await.expect("listed");
    let [entry] = page.entries.as_slice() else { panic!("one waits: {page:?}") };
    assert_eq!(entry.reason, "waiting_for_signal");
    site.client.resume(entry.execution_id, "eve").await.expect("resumed");
    let task = claim(&worker).await;
    let resumption = task.claimed().resumption.clone().expect("a wait ended");
    assert_eq!((resumption.resumed_by, resumption.signals.len()), (ResumedBy::Operator, 0));
    task.complete(None).await.expect("completed");
}

pub(crate) async fn the_next_attempt_finds_the_same_signals(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let backoff = Backoff::Fixed { delay_ms: 1 };
    let retry = RetryPolicy { max_retries: 1, backoff, ..RetryPolicy::default() };
    let submission = site.client.submit_raw("test", "x").lane(LANE).retry(retry);
    let id = submission.await.expect("submitted").execution_id();
    let at = waiting(claim(&worker).await.suspend_with(waits_for("go")).await);
    deliver(&site.client, id, &at, "go").await;
    claim(&worker).await.fail("out of paper", "transient").await.expect("reported");
    let task = claim(&worker).await;
    assert_eq!(task.attempt_index().get(), 1);
    assert_eq!(names(&task.resume_signals().await.expect("readable")), ["go"]);
    task.complete(None).await.expect("completed");
}

pub(crate) async fn tokens_outlive_a_rotation(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let (id, old) = suspended(&site, &worker).await;
    let request = RotateWaitpointSecretRequest {
        new_kid: "second".to_owned(),
        new_secret_hex: "5e".repeat(32),
        grace_ms: None,
    };
    for _ in 0..2 {
        let rotated = site.client.rotate_waitpoint_secret(request.clone()).await.expect("rotated");
        assert!(rotated.rotated > 0 && rotated.failed.is_empty(), "{rotated:?}");
    }
    let open = site.client.pending_waitpoints(&id).await.expect("listed");
    assert!(open[0].waitpoint_token.as_str().starts_with("second:"));
    let new = (open[0].waitpoint_id, open[0].waitpoint_token.clone());
    for (at, name) in [(&old, "first"), (&new, "other")] {
        let outcome = deliver(&site.client, id, at, name).await;
        assert!(matches!(outcome, SignalOutcome::Accepted { .. }), "{outcome:?}");
    }
}

/// Suspends until somebody has decided.
async fn gate(context: Context, page: String) -> Result<String, TaskError> {
    let signals = context.resume_signals().await?;
    match signals.first() {
        None => Err(TaskError::suspend(waits_for("*"))),
        Some(decision) => Ok(format!("{page} {}", decision.signal_name)),
    }
}

async fn the_only_waitpoint(site: &Site, id: ExecutionId) -> Waitpoint {
    eventually("the suspension", || async { site.state(&id).await == PublicState::Suspended })
        .await;
    let open = site.client.pending_waitpoints(&id).await.expect("listed").remove(0);
    (open.waitpoint_id, open.waitpoint_token)
}

pub(crate) async fn a_handler_suspends_and_is_run_again_with_the_signals(site: Site) {
    let worker = site.handlers().on("gate", gate).build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let submission = site.client.submit("gate", "home").lane(LANE);
    let id = submission.await.expect("submitted").execution_id();
    let at = the_only_waitpoint(&site, id).await;
    deliver(&site.client, id, &at, "approved").await;
    let result: String = site.client.await_result(&id, LONG).await.expect("a result");
    assert_eq!(result, "home approved");
    assert_eq!(site.describe(&id).await.total_attempt_count, 1);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

/// What a handler that answers itself needs.
struct Own {
    client: Client,
    runs: Arc<Notify>,
}

async fn answers_itself(context: Context<Own>, (): ()) -> Result<usize, TaskError> {
    let signals = context.resume_signals().await?;
    if context.resumed_by() == Some(ResumedBy::Signal) {
        return Ok(signals.len());
    }
    let at = context.create_pending_waitpoint("own", HOUR_MS).await?;
    deliver(&context.state().client, context.execution_id(), &at, "go").await;
    context.state().runs.notify_one();
    let mut request = waits_for("go");
    request.pending_waitpoint_id = Some(at.0);
    Err(TaskError::suspend(request))
}

pub(crate) async fn a_handler_whose_signals_came_before_goes_on_at_once(site: Site) {
    let runs = Arc::new(Notify::new());
    let own = Own { client: site.client.clone(), runs: Arc::clone(&runs) };
    let builder = Worker::builder("tester").connection(&site.connection).lane(LANE);
    let worker = builder.state(own).on("own", answers_itself).build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let id = site.client.submit("own", &()).lane(LANE).await.expect("submitted").execution_id();
    assert_eq!(site.client.await_result::<usize>(&id, LONG).await.expect("a result"), 1);
    runs.notified().await;
    let snapshot = site.describe(&id).await;
    assert_eq!(snapshot.total_attempt_count, 1);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn a_suspension_that_is_refused_fails_the_attempt(site: Site) {
    let handler = |_: Context, (): ()| async {
        let never = Condition::count(0, ["go"]);
        Err::<(), _>(TaskError::suspend(SuspendRequest::new(never)))
    };
    let worker = site.handlers().on("never", handler).build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let id = site.client.submit("never", &()).lane(LANE).await.expect("submitted").execution_id();
    site.client.await_result_raw(&id, LONG).await.expect_err("failed");
    let failure = site.describe(&id).await.failure.expect("a reason");
    assert_eq!(failure.category, "invalid_suspension");
    assert!(failure.reason.starts_with("the suspension was refused: "), "{}", failure.reason);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}
