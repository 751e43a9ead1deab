//! In which order work is taken that lies in many partitions: the highest priority first, and of
//! equals the oldest, but for a moment.

#[macro_use]
mod hosts;

use std::sync::Arc;

use ff_core::contracts::{Claimed, CreateExecution, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, LaneId};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use hosts::{HostKind, TestHost};
use tokio::task::JoinSet;

const PARTITIONS: u16 = 64;
/// By how much one may overtake another because they lie in different partitions.
const OVERTAKE_MS: u64 = 50;

on_every_host! {
    a_high_priority_comes_first_whatever_partition_it_lies_in
    work_that_was_there_before_anybody_asked_is_taken_in_order
    a_batch_takes_the_best_of_all_partitions
    many_who_take_at_the_same_time_keep_the_order
}

struct Site {
    backend: Arc<ScriptBackend<TestHost>>,
    scheduler: Arc<Scheduler>,
}

impl Site {
    async fn open(kind: HostKind) -> Self {
        let backend = hosts::backend(TestHost::open(kind, PARTITIONS).await, PARTITIONS).await;
        let scheduler = Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds));
        Self { backend, scheduler: Arc::new(scheduler) }
    }

    async fn pass(&self, ms: u64) {
        self.backend.host().pass(ms).await;
    }

    /// Submits several, spread over the partitions, a millisecond between them.
    async fn submit(&self, count: usize, priority: u16) {
        for number in 0..count {
            let partition = Partition::flow((number * 7) as u16 % PARTITIONS);
            let id = ExecutionId::from_parts(partition, SystemIds.ordered());
            let kind = ["a", "b", "c"][number % 3].parse().expect("valid");
            let execution =
                CreateExecution { priority: Some(priority), ..CreateExecution::new(kind) };
            self.backend.create(execution.with_id(id)).await.expect("created");
            self.pass(1).await;
        }
    }

    async fn take(&self, count: u32) -> Vec<Claimed> {
        self.scheduler.claim(request(count)).await.expect("answers")
    }

    /// Takes everything, so many at a time.
    async fn take_all(&self, all: usize, at_once: u32) -> Vec<Claimed> {
        let mut taken = Vec::new();
        while taken.len() < all {
            taken.extend(self.take(at_once).await);
        }
        taken
    }

    fn calls(&self) -> u64 {
        self.backend.host().calls()
    }
}

fn request(count: u32) -> WorkRequest {
    let lane = LaneId::default();
    WorkRequest {
        count,
        wait_ms: 10_000,
        ..WorkRequest::new(
            "worker".parse().expect("valid"),
            "worker-1".parse().expect("valid"),
            vec![lane],
            30_000,
        )
    }
}

/// By how much the worst one was overtaken, in milliseconds between submissions.
fn worst_overtake(taken: &[Claimed]) -> u64 {
    let mut latest = 0;
    let overtaken = taken.iter().map(|one| {
        latest = latest.max(one.created_at.get());
        latest - one.created_at.get()
    });
    overtaken.max().unwrap_or(0)
}

async fn a_high_priority_comes_first_whatever_partition_it_lies_in(kind: HostKind) {
    let site = Site::open(kind).await;
    assert!(site.scheduler.claim(WorkRequest { wait_ms: 0, ..request(1) }).await.is_ok());
    site.submit(400, 0).await;
    site.submit(20, 9000).await;
    let taken = site.take_all(420, 1).await;
    let first: Vec<_> = taken[..20].iter().map(|one| one.priority).collect();
    assert_eq!(first, [9000; 20]);
}

async fn work_that_was_there_before_anybody_asked_is_taken_in_order(kind: HostKind) {
    let site = Site::open(kind).await;
    site.submit(150, 0).await;
    site.pass(2 * OVERTAKE_MS).await;
    site.submit(150, 0).await;
    let taken = site.take_all(300, 1).await;
    let worst = worst_overtake(&taken);
    assert!(worst <= OVERTAKE_MS, "one was overtaken by {worst} ms");
}

async fn a_batch_takes_the_best_of_all_partitions(kind: HostKind) {
    let site = Site::open(kind).await;
    site.submit(100, 0).await;
    site.submit(30, 5).await;
    let taken = site.take_all(130, 10).await;
    assert!(taken[..30].iter().all(|one| one.priority == 5));
}

/// Those who take at the same time see what the others have taken, and ask for the next.
async fn many_who_take_at_the_same_time_keep_the_order(kind: HostKind) {
    const TAKERS: usize = 16;
    let site = Arc::new(Site::open(kind).await);
    assert!(site.scheduler.claim(WorkRequest { wait_ms: 0, ..request(1) }).await.is_ok());
    for _ in 0..4 {
        site.submit(100, 0).await;
        site.pass(2 * OVERTAKE_MS).await;
    }
    let before = site.calls();
    let mut takers = JoinSet::new();
    for _ in 0..TAKERS {
        let site = Arc::clone(&site);
        takers.spawn(async move {
            let mut taken = Vec::new();
            for _ in 0..400 / TAKERS {
                taken.extend(site.take(1).await);
            }
            taken
        });
    }
    // Each of them sees the order by itself.
    while let Some(taken) = takers.join_next().await {
        let worst = worst_overtake(&taken.expect("no panic"));
        assert!(worst <= OVERTAKE_MS, "one was overtaken by {worst} ms");
    }
    let calls = site.calls() - before;
    assert!(calls <= 440, "{calls} calls for 400 executions");
}
