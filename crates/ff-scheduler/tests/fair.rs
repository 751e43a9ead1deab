//! Fair lanes over many partitions: who submits thousands does not delay another's one.

#[macro_use]
mod hosts;

use std::sync::Arc;

use ff_core::contracts::{Claimed, CreateExecution, LaneOrder, SetLane, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, LaneId};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use hosts::{HostKind, TestHost};

const PARTITIONS: u16 = 64;

on_every_host! {
    who_submits_thousands_does_not_delay_another_s_one
    batches_do_not_delay_another_s_one_either
    those_who_submit_much_share_evenly_or_by_weight
    who_comes_to_a_quiet_partition_gets_no_more_than_its_share
}

struct Site {
    backend: Arc<ScriptBackend<TestHost>>,
    scheduler: Scheduler,
}

impl Site {
    async fn open(kind: HostKind, lane: SetLane) -> Self {
        let backend = hosts::backend(TestHost::open(kind, PARTITIONS).await, PARTITIONS).await;
        backend.set_lane(LaneId::default(), lane).await.expect("set");
        let scheduler = Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds));
        Self { backend, scheduler }
    }

    /// A tenant submits several, spread over the partitions.
    async fn submit(&self, tenant: &str, count: usize) {
        for number in 0..count {
            let partition = Partition::flow((number * 7) as u16 % PARTITIONS);
            self.submit_to(tenant, partition).await;
        }
    }

    async fn submit_to(&self, tenant: &str, partition: Partition) {
        let id = ExecutionId::from_parts(partition, SystemIds.ordered());
        let execution = CreateExecution {
            namespace: Some(tenant.parse().expect("valid")),
            ..CreateExecution::new("work".parse().expect("valid"))
        };
        self.backend.create(execution.with_id(id)).await.expect("created");
    }

    /// Whose executions are taken, in this order, so many at a time.
    async fn take(&self, all: usize, at_once: u32) -> Vec<String> {
        let mut taken: Vec<Claimed> = Vec::new();
        while taken.len() < all {
            let claimed = self.scheduler.claim(request(at_once)).await.expect("answers");
            assert!(!claimed.is_empty(), "there is more");
            taken.extend(claimed);
        }
        taken.into_iter().map(|one| one.namespace.to_string()).collect()
    }
}

fn fair() -> SetLane {
    SetLane { order: Some(LaneOrder::Fair), ..SetLane::default() }
}

fn request(count: u32) -> WorkRequest {
    let (worker, instance) = ("worker".parse().expect("valid"), "w-1".parse().expect("valid"));
    let lanes = vec![LaneId::default()];
    WorkRequest { count, wait_ms: 10_000, ..WorkRequest::new(worker, instance, lanes, 30_000) }
}

fn first_of(taken: &[String], tenant: &str) -> usize {
    taken.iter().position(|one| one == tenant).expect("it was taken")
}

async fn who_submits_thousands_does_not_delay_another_s_one(kind: HostKind) {
    let site = Site::open(kind, fair()).await;
    site.submit("many", 4_000).await;
    // Wherever it lies, and however far the partitions are.
    for partition in [0, 63, 17, 40, 5, 32, 62, 1] {
        site.take(85, 1).await;
        site.submit_to("one", Partition::flow(partition)).await;
        // Some are taken while the push is on its way; a turn of all partitions would be 64.
        let taken = site.take(15, 1).await;
        assert!(first_of(&taken, "one") < 15, "in partition {partition}: {taken:?}");
    }
}

async fn batches_do_not_delay_another_s_one_either(kind: HostKind) {
    let site = Site::open(kind, fair()).await;
    site.submit("many", 4_000).await;
    site.take(500, 10).await;
    site.submit_to("one", Partition::flow(33)).await;
    let taken = site.take(20, 10).await;
    assert!(first_of(&taken, "one") < 20, "{taken:?}");
}

async fn those_who_submit_much_share_evenly_or_by_weight(kind: HostKind) {
    let weights = [("b".to_owned(), 3)].into();
    let weighed = SetLane { weights: Some(weights), ..fair() };
    for (lane, low, high) in [(fair(), 280, 320), (weighed, 430, 470)] {
        let site = Site::open(kind, lane).await;
        site.submit("a", 1_000).await;
        site.submit("b", 1_000).await;
        let taken = site.take(600, 1).await;
        let second = taken.iter().filter(|tenant| *tenant == "b").count();
        assert!((low..=high).contains(&second), "{second} of 600");
    }
}

/// A partition that had nothing to do while others were served is told how far they are.
async fn who_comes_to_a_quiet_partition_gets_no_more_than_its_share(kind: HostKind) {
    let site = Site::open(kind, fair()).await;
    let quiet = Partition::flow(PARTITIONS - 1);
    for _ in 0..400 {
        site.submit_to("many", Partition::flow(0)).await;
    }
    site.take(300, 1).await;
    site.submit_to("late", quiet).await;
    while site.take(1, 1).await != ["late"] {}
    for _ in 0..50 {
        site.submit_to("late", quiet).await;
    }
    site.take(10, 1).await;
    let taken = site.take(40, 1).await;
    let late = taken.iter().filter(|tenant| *tenant == "late").count();
    assert!((15..=25).contains(&late), "{late} of 40");
}
