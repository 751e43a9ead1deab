//! The typed runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ff_core::contracts::ExecutionSnapshot;
use ff_sdk::{
    AwaitError, Backoff, Client, Context, ExecutionId, PublicState, RetryPolicy, SdkError,
    ShutdownHandle, ShutdownReport, TaskError, Worker,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinHandle;

use crate::site::{LANE, LONG, Site, claim, eventually};

/// A worker that runs until it is told to stop.
pub(crate) struct Running {
    stop: ShutdownHandle,
    running: JoinHandle<Result<ShutdownReport, SdkError>>,
}

impl Running {
    pub(crate) fn start<S: Send + Sync + 'static>(worker: Worker<S>) -> Self {
        let stop = worker.shutdown_handle();
        Self { stop, running: tokio::spawn(worker.run()) }
    }

    pub(crate) async fn stop(self) -> ShutdownReport {
        self.stop.shutdown();
        self.running.await.expect("no panic").expect("it could go on")
    }
}

fn retries(count: u64) -> RetryPolicy {
    let backoff = Backoff::Fixed { delay_ms: 5 };
    RetryPolicy { max_retries: count, backoff, ..RetryPolicy::default() }
}

/// Submits with retries, and waits for the end.
async fn end_of<I: Serialize>(client: &Client, kind: &str, input: &I) -> ExecutionSnapshot {
    let submission = client.submit(kind, input).lane(LANE).retry(retries(3));
    let id = submission.await.expect("submitted").execution_id();
    let _ = client.await_result_raw(&id, LONG).await;
    client.describe(&id).await.expect("readable").expect("there")
}

fn failure(snapshot: &ExecutionSnapshot) -> (u32, &str, &str) {
    assert_eq!(snapshot.public_state(), PublicState::Failed);
    let failure = snapshot.failure.as_ref().expect("a reason");
    (snapshot.total_attempt_count, &failure.category, &failure.reason)
}

async fn submit(site: &Site, kind: &str) -> ExecutionId {
    site.client.submit(kind, &()).lane(LANE).await.expect("submitted").execution_id()
}

#[derive(Serialize, Deserialize)]
struct Order {
    item: String,
    count: u32,
}

pub(crate) async fn a_handler_s_output_is_the_result(site: Site) {
    async fn order(_: Context, order: Order) -> Result<Order, TaskError> {
        Ok(Order { item: order.item.to_uppercase(), count: order.count + 1 })
    }
    let running = Running::start(site.handlers().on("order", order).build().expect("valid"));
    let order = Order { item: "shoes".to_owned(), count: 1 };
    let id =
        site.client.submit("order", &order).lane(LANE).await.expect("submitted").execution_id();
    let done: Order = site.client.await_result(&id, LONG).await.expect("a result");
    assert_eq!((done.item.as_str(), done.count), ("SHOES", 2));
    running.stop().await;
}

pub(crate) async fn handlers_share_the_state(site: Site) {
    let worker = site
        .handlers()
        .state(AtomicUsize::new(0))
        .concurrency(4)
        .on("count", |context: Context<AtomicUsize>, by: usize| async move {
            Ok::<_, TaskError>(context.state().fetch_add(by, Ordering::Relaxed) + by)
        })
        .on("read", |context: Context<AtomicUsize>, (): ()| async move {
            Ok::<_, TaskError>(context.state().load(Ordering::Relaxed))
        });
    let running = Running::start(worker.build().expect("valid"));
    let submissions = (0..20).map(|_| site.client.submit("count", &1usize).lane(LANE));
    for answer in site.client.submit_many(submissions).await {
        let id = answer.expect("submitted").execution_id();
        site.client.await_result::<usize>(&id, LONG).await.expect("counted");
    }
    let id = submit(&site, "read").await;
    assert_eq!(site.client.await_result::<usize>(&id, LONG).await.expect("a number"), 20);
    running.stop().await;
}

pub(crate) async fn an_error_is_retried_as_the_policy_says(site: Site) {
    async fn flaky(context: Context, (): ()) -> Result<u32, TaskError> {
        if context.attempt() < 3 {
            let _: u32 = "x".parse()?;
        }
        Ok(context.attempt())
    }
    let running = Running::start(site.handlers().on("flaky", flaky).build().expect("valid"));
    let snapshot = end_of(&site.client, "flaky", &()).await;
    assert_eq!(snapshot.public_state(), PublicState::Completed);
    assert_eq!(snapshot.total_attempt_count, 3);
    let attempts = site.connection.engine().list_attempts(snapshot.execution_id).await;
    let first = attempts.expect("readable").attempts.remove(0);
    assert_eq!(first.failure_category.as_deref(), Some("transient"));
    assert_eq!(first.failure_reason.as_deref(), Some("invalid digit found in string"));
    running.stop().await;
}

pub(crate) async fn a_failure_that_no_retry_can_mend_is_final(site: Site) {
    let worker = site
        .handlers()
        .on("fail", |_: Context, (): ()| async { Err::<(), _>(TaskError::fail("never")) })
        .on("card", |_: Context, (): ()| async {
            Err::<(), _>(TaskError::permanent("stolen").with_category("bad_card"))
        });
    let running = Running::start(worker.build().expect("valid"));
    let snapshot = end_of(&site.client, "fail", &()).await;
    assert_eq!(failure(&snapshot), (1, "permanent", "never"));
    let snapshot = end_of(&site.client, "card", &()).await;
    assert_eq!(failure(&snapshot), (1, "bad_card", "stolen"));
    running.stop().await;
}

pub(crate) async fn a_panic_is_a_failure_of_its_own_category(site: Site) {
    let worker = site
        .handlers()
        .on("late", |_: Context, (): ()| async {
            tokio::task::yield_now().await;
            if true {
                panic!("out of {}", "cheese");
            }
            Ok::<_, TaskError>(())
        })
        .on("early", |_: Context, number: u32| {
            assert!(number > 100, "too small");
            async { Ok::<_, TaskError>(()) }
        })
        .on("fine", |_: Context, (): ()| async { Ok::<_, TaskError>("still here") });
    let running = Running::start(worker.build().expect("valid"));
    let snapshot = end_of(&site.client, "late", &()).await;
    assert_eq!(failure(&snapshot), (4, "panic", "the handler panicked: out of cheese"));
    let snapshot = end_of(&site.client, "early", &7).await;
    assert_eq!(failure(&snapshot), (4, "panic", "the handler panicked: too small"));
    assert_eq!(end_of(&site.client, "fine", &()).await.public_state(), PublicState::Completed);
    running.stop().await;
}

pub(crate) async fn input_that_cannot_be_decoded_fails_without_retries(site: Site) {
    async fn order(_: Context, _: Order) -> Result<(), TaskError> {
        Ok(())
    }
    let running = Running::start(site.handlers().on("order", order).build().expect("valid"));
    let snapshot = end_of(&site.client, "order", &"not an order").await;
    let (attempts, category, reason) = failure(&snapshot);
    assert_eq!((attempts, category), (1, "invalid_input"));
    assert!(reason.starts_with("input: invalid type: string"), "{reason}");
    running.stop().await;
}

pub(crate) async fn a_kind_without_a_handler_waits_for_a_worker_that_has_one(site: Site) {
    let nothing = |_: Context, (): ()| async { Ok::<_, TaskError>(()) };
    let running = Running::start(site.handlers().on("known", nothing).build().expect("valid"));
    let waiting = submit(&site, "other").await;
    assert_eq!(end_of(&site.client, "known", &()).await.public_state(), PublicState::Completed);
    let snapshot = site.client.describe(&waiting).await.expect("described").expect("there");
    assert_eq!(snapshot.public_state(), PublicState::Waiting);
    let other = Running::start(site.handlers().on("other", nothing).build().expect("valid"));
    site.client.await_result::<()>(&waiting, LONG).await.expect("completed");
    other.stop().await;
    running.stop().await;
}

pub(crate) async fn a_result_that_the_store_refuses_is_a_failure(site: Site) {
    let worker = site
        .handlers()
        .on_raw("large", |_: Context, _| async { Ok::<_, TaskError>(vec![b'x'; (8 << 20) + 1]) })
        .on("strange", |_: Context, (): ()| async {
            Ok::<_, TaskError>(std::collections::BTreeMap::from([(vec![1u8], 1u8)]))
        });
    let running = Running::start(worker.build().expect("valid"));
    let snapshot = end_of(&site.client, "large", &()).await;
    let (attempts, category, reason) = failure(&snapshot);
    assert_eq!((attempts, category), (1, "invalid_output"), "{reason}");
    let snapshot = end_of(&site.client, "strange", &()).await;
    let (attempts, category, reason) = failure(&snapshot);
    assert_eq!((attempts, category), (1, "invalid_output"), "{reason}");
    running.stop().await;
}

pub(crate) async fn a_raw_handler_sees_the_bytes(site: Site) {
    let worker = site.handlers().on_raw("reverse", |_: Context, mut bytes: Vec<u8>| async move {
        bytes.reverse();
        Ok::<_, TaskError>(bytes)
    });
    let running = Running::start(worker.build().expect("valid"));
    let bytes: Vec<u8> = (0..=255).collect();
    let submission = site.client.submit_raw("reverse", bytes.clone()).lane(LANE);
    let id = submission.await.expect("submitted").execution_id();
    let result = site.client.await_result_raw(&id, LONG).await.expect("a result");
    assert_eq!(result, bytes.into_iter().rev().collect::<Vec<_>>());
    running.stop().await;
}

/// How many run at a time, and how many did at most.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    async fn pass(&self, meanwhile: impl Future<Output: Sized>) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        meanwhile.await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

pub(crate) async fn no_more_run_at_a_time_than_the_worker_and_the_kind_allow(site: Site) {
    type Gauges = Arc<(Gauge, Gauge, Barrier)>;
    let gauges: Gauges = Arc::new((Gauge::default(), Gauge::default(), Barrier::new(2)));
    let worker = site
        .handlers()
        .state(Arc::clone(&gauges))
        .concurrency(4)
        .on("free", |context: Context<Gauges>, (): ()| async move {
            // Each waits for another one: they do run side by side.
            context.state().0.pass(context.state().2.wait()).await;
            Ok::<_, TaskError>(())
        })
        .on("narrow", |context: Context<Gauges>, (): ()| async move {
            context.state().1.pass(tokio::time::sleep(Duration::from_millis(10))).await;
            Ok::<_, TaskError>(())
        })
        .concurrency_of("narrow", 1);
    let running = Running::start(worker.build().expect("valid"));
    let mut ids = Vec::new();
    for kind in ["free", "narrow"] {
        let submissions = (0..12).map(|_| site.client.submit(kind, &()).lane(LANE));
        ids.extend(site.client.submit_many(submissions).await);
    }
    for id in ids {
        let id = id.expect("submitted").execution_id();
        site.client.await_result::<()>(&id, LONG).await.expect("done");
    }
    running.stop().await;
    let (free, narrow) = (&gauges.0, &gauges.1);
    assert!((2..=4).contains(&free.most()), "{} at a time", free.most());
    assert_eq!(narrow.most(), 1);
}

pub(crate) async fn what_a_full_kind_has_no_room_for_is_left_to_others(site: Site) {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let seen = (Arc::clone(&started), Arc::clone(&go_on));
    let busy = site.handlers().concurrency(4).concurrency_of("narrow", 1);
    let busy = busy.on("narrow", move |_: Context, (): ()| {
        let (started, go_on) = seen.clone();
        async move {
            started.notify_one();
            go_on.notified().await;
            Ok::<_, TaskError>(1)
        }
    });
    let busy = Running::start(busy.build().expect("valid"));
    let first = submit(&site, "narrow").await;
    started.notified().await;
    let second = submit(&site, "narrow").await;
    let idle =
        site.handlers().on("narrow", |_: Context, (): ()| async move { Ok::<_, TaskError>(2) });
    let idle = Running::start(idle.build().expect("valid"));
    let by: i32 = site.client.await_result(&second, LONG).await.expect("the other runs it");
    assert_eq!(by, 2);
    go_on.notify_one();
    let by: i32 = site.client.await_result(&first, LONG).await.expect("done");
    assert_eq!(by, 1);
    idle.stop().await;
    let third = submit(&site, "narrow").await;
    go_on.notify_one();
    let by: i32 = site.client.await_result(&third, LONG).await.expect("there is room again");
    assert_eq!(by, 1);
    busy.stop().await;
}

/// Tells when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

pub(crate) async fn a_handler_is_dropped_when_its_lease_is_lost(site: Site) {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let seen = (Arc::clone(&started), Arc::clone(&dropped));
    let worker = site.handlers().on("hang", move |context: Context, (): ()| {
        let (started, dropped) = seen.clone();
        async move {
            let _guard = Dropped(dropped);
            started.notify_one();
            assert!(!context.is_cancelled());
            std::future::pending::<Result<(), TaskError>>().await
        }
    });
    let running = Running::start(worker.build().expect("valid"));
    let id = submit(&site, "hang").await;
    started.notified().await;
    site.client.cancel(&id, "no longer wanted").await.expect("cancelled");
    tokio::time::timeout(LONG, dropped.notified()).await.expect("the handler is dropped");
    running.stop().await;
}

pub(crate) async fn a_stopped_worker_finishes_what_it_has_begun(site: Site) {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let seen = (Arc::clone(&started), Arc::clone(&go_on));
    let worker = site.handlers().on("slow", move |_: Context, (): ()| {
        let (started, go_on) = seen.clone();
        async move {
            started.notify_one();
            go_on.notified().await;
            Ok::<_, TaskError>("finished")
        }
    });
    let running = Running::start(worker.build().expect("valid"));
    let id = submit(&site, "slow").await;
    started.notified().await;
    running.stop.shutdown();
    go_on.notify_one();
    assert_eq!(running.stop().await.handed_back, 0);
    let result: String = site.client.await_result(&id, LONG).await.expect("a result");
    assert_eq!(result, "finished");
}

pub(crate) async fn handlers_that_do_not_end_in_time_are_handed_back(site: Site) {
    let started = Arc::new(Notify::new());
    let seen = Arc::clone(&started);
    let worker =
        site.handlers().drain_timeout(Duration::ZERO).on("hang", move |_: Context, (): ()| {
            let started = Arc::clone(&seen);
            async move {
                started.notify_one();
                std::future::pending::<Result<(), TaskError>>().await
            }
        });
    let running = Running::start(worker.build().expect("valid"));
    let id = submit(&site, "hang").await;
    started.notified().await;
    assert_eq!(running.stop().await.handed_back, 1);
    let other = site.worker("w-2", 1).await;
    let task = claim(&other).await;
    assert_eq!((*task.execution_id(), task.attempt_index().get()), (id, 0));
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_handler_reports_progress_and_knows_its_attempt(site: Site) {
    let worker = site.handlers().on("tell", |context: Context, (): ()| async move {
        context.progress(50, "half way").await?;
        let owner = context.tags().get("team.owner").cloned().unwrap_or_default();
        let epoch = context.fence().lease_epoch.get();
        Ok::<_, TaskError>((
            context.execution_id(),
            context.attempt(),
            epoch,
            owner,
            context.kind().to_owned(),
        ))
    });
    let running = Running::start(worker.build().expect("valid"));
    let submission = site.client.submit("tell", &()).lane(LANE).tag("team.owner", "ann");
    let id = submission.await.expect("submitted").execution_id();
    let told: Result<(ExecutionId, u32, u64, String, String), AwaitError> =
        site.client.await_result(&id, LONG).await;
    assert_eq!(told.expect("a result"), (id, 1, 1, "ann".to_owned(), "tell".to_owned()));
    eventually("progress", || async {
        site.describe(&id).await.progress.is_some_and(|progress| progress.percent == Some(50))
    })
    .await;
    running.stop().await;
}
