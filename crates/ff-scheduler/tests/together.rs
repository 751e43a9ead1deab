//! Tasks that end at the same moment, and bring their workers the next ones.

#[macro_use]
mod hosts;

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::contracts::{Claimed, CreateExecution, Finished, NextTask, TaskEnd, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, LaneId};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use hosts::{HostKind, TestHost};
use tokio::task::JoinSet;

const PARTITIONS: u16 = 4;

on_every_host! {
    whoever_ends_with_others_takes_what_nobody_else_takes
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

    /// Submits so many to the first partitions.
    async fn submit(&self, count: u16, partitions: u16) -> BTreeSet<ExecutionId> {
        let mut ids = BTreeSet::new();
        for number in 0..count {
            let partition = Partition::flow(number % partitions);
            let id = ExecutionId::from_parts(partition, SystemIds.ordered());
            let execution = CreateExecution::new("work".parse().expect("valid")).with_id(id);
            self.backend.create(execution).await.expect("created");
            ids.insert(id);
        }
        ids
    }

    async fn claim(&self, count: u32, wait_ms: u64) -> Vec<Claimed> {
        let worker = "worker".parse().expect("valid");
        let instance = "worker-1".parse().expect("valid");
        let request = WorkRequest::new(worker, instance, vec![LaneId::default()], 30_000);
        self.scheduler.claim(WorkRequest { count, wait_ms, ..request }).await.expect("answers")
    }

    async fn state(&self, id: ExecutionId) -> PublicState {
        let described = self.backend.describe_execution(id).await.expect("answers");
        described.expect("it is there").public_state()
    }
}

async fn end(scheduler: Arc<Scheduler>, task: Claimed) -> Result<Finished, EngineError> {
    let end = TaskEnd::Complete(Some(b"done".to_vec()));
    scheduler.finish(&task.handle, end, NextTask::default()).await
}

/// Ends all of these at the same moment; gives what their workers go on with.
async fn end_all(site: &Site, tasks: Vec<Claimed>) -> Vec<Claimed> {
    let mut ending = JoinSet::new();
    for task in tasks {
        ending.spawn(end(Arc::clone(&site.scheduler), task));
    }
    let mut next = Vec::new();
    while let Some(finished) = ending.join_next().await {
        next.extend(finished.expect("no panic").expect("it ends").next);
    }
    next
}

fn ids(claimed: &[Claimed]) -> BTreeSet<ExecutionId> {
    claimed.iter().map(|one| one.handle.execution_id).collect()
}

#[tokio::test]
async fn those_of_one_partition_are_one_call() {
    let site = Site::open(HostKind::Embedded).await;
    let all = site.submit(12, 1).await;
    let first = site.claim(6, 1000).await;
    let mut taken = ids(&first);
    assert_eq!(taken.len(), 6);
    let before = site.backend.host().calls();
    let second = end_all(&site, first).await;
    assert_eq!(site.backend.host().calls() - before, 1, "six ends and six claims");
    taken.extend(ids(&second));
    assert_eq!(taken, all, "each took another one");
    let before = site.backend.host().calls();
    assert!(end_all(&site, second).await.is_empty(), "nothing is left");
    assert_eq!(site.backend.host().calls() - before, 1);
    for id in all {
        assert_eq!(site.state(id).await, PublicState::Completed);
    }
}

#[tokio::test]
async fn who_goes_away_has_ended_its_task_and_gives_back_what_it_was_given() {
    let site = Site::open(HostKind::Embedded).await;
    let all = site.submit(6, 1).await;
    let running = site.claim(3, 1000).await;
    let ended = ids(&running);
    let mut ending = JoinSet::new();
    let mut begun = running.into_iter().map(|one| end(Arc::clone(&site.scheduler), one));
    let gone = begun.next().map(|call| ending.spawn(call)).expect("three run");
    begun.for_each(|call| drop(ending.spawn(call)));
    // All have joined, and nothing was sent.
    tokio::task::yield_now().await;
    gone.abort();
    let mut taken = Vec::new();
    while let Some(finished) = ending.join_next().await {
        match finished {
            Ok(finished) => taken.extend(finished.expect("it ends").next),
            Err(stopped) => assert!(stopped.is_cancelled()),
        }
    }
    assert_eq!(taken.len(), 2);
    site.scheduler.settled().await;
    for id in &ended {
        assert_eq!(site.state(*id).await, PublicState::Completed);
    }
    let again = site.claim(3, 1000).await;
    assert_eq!(again.len(), 1, "what nobody took waits for somebody else");
    taken.extend(again);
    let mut found = ids(&taken);
    found.extend(ended);
    assert_eq!(found, all);
}

async fn whoever_ends_with_others_takes_what_nobody_else_takes(kind: HostKind) {
    let site = Site::open(kind).await;
    let all = site.submit(60, PARTITIONS).await;
    let (mut taken, mut count) = (BTreeSet::new(), 0);
    let mut running = site.claim(8, 1000).await;
    while count < all.len() {
        count += running.len();
        taken.extend(ids(&running));
        running = end_all(&site, running).await;
        if running.is_empty() && count < all.len() {
            running = site.claim(8, 1000).await;
            assert!(!running.is_empty(), "some are left: {count} were taken");
        }
    }
    assert_eq!((count, taken), (all.len(), all.clone()), "each was taken once");
    for id in all {
        assert_eq!(site.state(id).await, PublicState::Completed);
    }
}
