//! Pushes that are lost and nobody notices: nothing waits beside a worker that may take it for
//! longer than until the next sweep, which tells again what lies there.

#[macro_use]
mod hosts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ff_core::backend_error::BackendError;
use ff_core::contracts::{CreateExecution, TickRequest, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, LaneId};
use ff_scheduler::Scheduler;
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::ids::{IdSource, SystemIds};
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use hosts::{HostKind, TestHost};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

const PARTITIONS: u16 = 8;
const WORKERS: usize = 300;

on_every_host! {
    nothing_waits_beside_a_worker_that_may_take_it_for_longer_than_a_sweep
    a_push_that_is_lost_with_its_connection_costs_less_than_a_second
}

/// A real store of whose pushes every other one is lost, as long as some are to be lost.
struct Lossy {
    host: Arc<TestHost>,
    to_lose: Arc<AtomicU64>,
}

impl Host for Lossy {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        self.host.call(function, partition, args)
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        Box::pin(async move {
            let mut wakes = self.host.subscribe(topic).await?;
            let (tell, told) = broadcast::channel(8192);
            let to_lose = Arc::clone(&self.to_lose);
            tokio::spawn(async move {
                let mut count = 0_u64;
                while let Some(wake) = wakes.next().await {
                    count += 1;
                    let lost = |left: u64| count.is_multiple_of(2).then(|| left.checked_sub(1))?;
                    let order = Ordering::SeqCst;
                    if to_lose.fetch_update(order, order, lost).is_err() {
                        let _ = tell.send(wake);
                    }
                }
            });
            Ok(Subscription::new(told))
        })
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}

fn request(number: usize) -> WorkRequest {
    let worker = "worker".parse().expect("valid");
    let instance = format!("w-{number}").parse().expect("valid");
    WorkRequest {
        kinds: vec![format!("kind-{number}").parse().expect("valid")],
        wait_ms: 50_000,
        ..WorkRequest::new(worker, instance, vec![LaneId::default()], 600_000)
    }
}

async fn submit<H: Host>(backend: &ScriptBackend<H>, number: usize) {
    let partition = Partition::flow(number as u16 % PARTITIONS);
    let id = ExecutionId::from_parts(partition, SystemIds.ordered());
    let kind = format!("kind-{number}").parse().expect("valid");
    backend.create(CreateExecution::new(kind).with_id(id)).await.expect("created");
}

async fn nothing_waits_beside_a_worker_that_may_take_it_for_longer_than_a_sweep(kind: HostKind) {
    let host = TestHost::open(kind, PARTITIONS).await;
    let to_lose = Arc::new(AtomicU64::new(0));
    let host = Lossy { host, to_lose: Arc::clone(&to_lose) };
    let backend = hosts::backend(Arc::new(host), PARTITIONS).await;
    let scheduler = Arc::new(Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds)));
    // Everybody has looked, and from now on hears of work by pushes alone.
    assert!(scheduler.claim(WorkRequest { wait_ms: 0, ..request(0) }).await.is_ok());
    let mut crew = JoinSet::new();
    for number in 0..WORKERS {
        let scheduler = Arc::clone(&scheduler);
        crew.spawn(async move { scheduler.claim(request(number)).await.map(|it| it.len()) });
    }
    to_lose.store(WORKERS as u64 / 3, Ordering::SeqCst);
    for number in 0..WORKERS {
        submit(&backend, number).await;
    }
    let mut taken = 0;
    while let Ok(Some(claimed)) =
        tokio::time::timeout(Duration::from_millis(500), crew.join_next()).await
    {
        taken += claimed.expect("no panic").expect("answers");
    }
    assert!(taken < WORKERS, "pushes were lost");
    for partition in (0..PARTITIONS).map(Partition::flow) {
        let sweep = TickRequest { announce: true, ..TickRequest::once(100) };
        backend.tick(partition, sweep).await.expect("ticks");
    }
    while let Some(claimed) = crew.join_next().await {
        taken += claimed.expect("no panic").expect("answers");
    }
    assert_eq!(taken, WORKERS);
}

async fn a_push_that_is_lost_with_its_connection_costs_less_than_a_second(kind: HostKind) {
    let backend = hosts::backend(TestHost::open(kind, PARTITIONS).await, PARTITIONS).await;
    let scheduler = Arc::new(Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds)));
    assert!(scheduler.claim(WorkRequest { wait_ms: 0, ..request(0) }).await.is_ok());
    for number in 0..10 {
        let waiting = {
            let scheduler = Arc::clone(&scheduler);
            tokio::spawn(async move { scheduler.claim(request(number)).await })
        };
        backend.host().lose_listeners();
        let begun = Instant::now();
        submit(&backend, number).await;
        let claimed = waiting.await.expect("no panic").expect("answers");
        assert_eq!(claimed.len(), 1);
        assert!(begun.elapsed() < Duration::from_secs(1), "it took {:?}", begun.elapsed());
    }
}
