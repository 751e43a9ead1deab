//! A process that dies between any two steps of a claim, with its scheduler or as the worker that
//! was given the task: whatever it had begun is claimed again and completes.

#[macro_use]
mod hosts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ff_core::backend_error::BackendError;
use ff_core::contracts::{CreateExecution, NextTask, TaskEnd, TickRequest, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::Partition;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, LaneId};
use ff_scheduler::Scheduler;
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::ids::{IdSource, SystemIds};
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use hosts::{HostKind, TestHost};
use tokio::sync::Notify;

const PARTITIONS: u16 = 3;
const EXECUTIONS: usize = 6;

/// The lease of whoever dies, which others wait for.
const LEASE_MS: u64 = 300;

/// More calls than the work takes: looks, claims and ends.
const CALLS_MAX: u64 = 40;

on_every_host! { whoever_dies_at_any_call_of_its_claims_all_work_is_done_by_others }

/// A store as a process sees it that dies at one of its calls: just before it is sent, or when it
/// was carried out and the answer is on its way.
struct Dying {
    host: Arc<TestHost>,
    calls_left: AtomicU64,
    is_done: bool,
    dead: Arc<Notify>,
}

impl Host for Dying {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        Box::pin(async move {
            let (order, less) = (Ordering::SeqCst, |left: u64| left.checked_sub(1));
            let left = self.calls_left.fetch_update(order, order, less);
            if matches!(left, Ok(2..)) {
                return self.host.call(function, partition, args).await;
            }
            if left == Ok(1) && self.is_done {
                let _ = self.host.call(function, partition, args).await;
            }
            self.dead.notify_one();
            std::future::pending().await
        })
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.subscribe(topic)
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}

fn request(worker: &str, count: u32, lease_ttl_ms: u64) -> WorkRequest {
    let instance = worker.parse().expect("valid");
    let (worker, lanes) = ("worker".parse().expect("valid"), vec![LaneId::default()]);
    WorkRequest { count, wait_ms: 20, ..WorkRequest::new(worker, instance, lanes, lease_ttl_ms) }
}

/// Works until there is nothing more to do: a batch, each task of which brings the next one.
async fn work(scheduler: &Scheduler, worker: &str, lease_ttl_ms: u64) {
    loop {
        let claimed = scheduler.claim(request(worker, 2, lease_ttl_ms)).await.expect("answers");
        if claimed.is_empty() {
            return;
        }
        for one in claimed {
            let mut task = Some(one);
            while let Some(running) = task {
                let end = TaskEnd::Complete(Some(b"done".to_vec()));
                let finished = scheduler.finish(&running.handle, end, NextTask::default()).await;
                task = finished.ok().and_then(|finished| finished.next);
            }
        }
    }
}

/// One process dies at its call of this number, and another goes on. Answers whether it got so far.
async fn survived(host: Arc<TestHost>, calls: u64, is_done: bool) -> bool {
    let backend = hosts::backend(Arc::clone(&host), PARTITIONS).await;
    let mut ids = Vec::new();
    for number in 0..EXECUTIONS {
        let partition = Partition::flow(number as u16 % PARTITIONS);
        let id = ExecutionId::from_parts(partition, SystemIds.ordered());
        let execution = CreateExecution::new("work".parse().expect("valid")).with_id(id);
        backend.create(execution).await.expect("created");
        ids.push(id);
    }
    let dead = Arc::new(Notify::new());
    let calls_left = AtomicU64::new(u64::MAX);
    let dying = Dying { host, calls_left, is_done, dead: Arc::clone(&dead) };
    let dying = hosts::backend(Arc::new(dying), PARTITIONS).await;
    dying.host().calls_left.store(calls, Ordering::SeqCst);
    let scheduler = Scheduler::new(dying, Arc::new(SystemIds));
    let died = tokio::select! {
        () = dead.notified() => true,
        () = work(&scheduler, "dying", LEASE_MS) => false,
    };
    // What it would hand back now, it hands back to nobody.
    drop(scheduler);
    let scheduler = Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds));
    if died {
        backend.host().pass(LEASE_MS).await;
    }
    for id in ids {
        while state_of(&backend, id).await != PublicState::Completed {
            for partition in backend.partition_config().flow_partitions() {
                backend.tick(partition, TickRequest::once(100)).await.expect("ticked");
            }
            work(&scheduler, "living", 600_000).await;
        }
    }
    died
}

async fn state_of(backend: &ScriptBackend<TestHost>, id: ExecutionId) -> PublicState {
    let shown = backend.describe_execution(id).await.expect("answers").expect("it is there");
    shown.public_state()
}

async fn whoever_dies_at_any_call_of_its_claims_all_work_is_done_by_others(kind: HostKind) {
    let host = TestHost::open(kind, PARTITIONS).await;
    let mut latest = 0;
    for calls in 1..=CALLS_MAX {
        for is_done in [false, true] {
            if survived(Arc::clone(&host), calls, is_done).await {
                latest = calls;
            }
        }
    }
    // Looks, a claim or two in each partition, and the ends.
    assert!(latest > u64::from(PARTITIONS) + EXECUTIONS as u64, "they died at {latest} at most");
    assert!(latest < CALLS_MAX, "all calls are among those that were cut");
}
