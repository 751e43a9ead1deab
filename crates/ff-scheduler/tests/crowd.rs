//! Hundreds of workers, each different from all others: every one of them gets the work that it may
//! take, as soon as there is some.

#[macro_use]
mod hosts;

use std::sync::Arc;
use std::time::Duration;

use ff_core::backend::Handle;
use ff_core::capability::CapabilitySet;
use ff_core::contracts::{Claimed, CreateExecution, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::Partition;
use ff_core::policy::{ExecutionPolicy, RoutingRequirements};
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, Namespace, WorkerId, WorkerInstanceId};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use hosts::{HostKind, TestHost};
use tokio::task::JoinSet;

const WORKERS: usize = 320;
const PARTITIONS: u16 = 4;
/// Longer than anything here takes, and shorter than the scheduler's own sweep.
const LONG: Duration = Duration::from_secs(60);

on_every_host! {
    hundreds_of_different_workers_each_get_the_work_that_only_they_can_do
    work_that_lies_there_already_is_found_behind_that_of_hundreds_of_others
    new_kinds_of_workers_make_none_of_those_who_wait_deaf
}

/// One worker and the work that only it can do. All wait for the lane that they share; some wait
/// for another one, too.
#[derive(Clone, Copy)]
struct Place(usize);

impl Place {
    fn all() -> impl Iterator<Item = Self> {
        (0..WORKERS).map(Self)
    }

    fn lanes(self) -> Vec<LaneId> {
        let own = self.0.is_multiple_of(8).then(|| format!("lane-{}", self.0));
        let names = own.into_iter().chain(["shared".to_owned()]);
        names.map(|name| LaneId::try_new(name).expect("valid")).collect()
    }

    /// Every other worker is known by its kind, the rest by what they can do.
    fn kind(self) -> ExecutionKind {
        let name =
            if self.0.is_multiple_of(2) { format!("kind-{}", self.0) } else { "any".to_owned() };
        ExecutionKind::try_new(name).expect("valid")
    }

    fn capabilities(self) -> CapabilitySet {
        let token = (!self.0.is_multiple_of(2)).then(|| format!("capability-{}", self.0));
        CapabilitySet::try_new(token).expect("valid")
    }

    fn request(self, max_wait: Duration) -> WorkRequest {
        WorkRequest {
            kinds: vec![self.kind()],
            namespaces: Vec::new(),
            lanes: self.lanes(),
            worker_id: WorkerId::try_new("worker").expect("valid"),
            worker_instance_id: WorkerInstanceId::try_new(format!("worker-{}", self.0))
                .expect("valid"),
            capabilities: self.capabilities(),
            lease_ttl_ms: 600_000,
            count: 1,
            wait_ms: max_wait.as_millis() as u64,
            payload_text: false,
            lease_ids: Vec::new(),
            retry: false,
        }
    }

    fn execution(self) -> CreateExecution {
        let partition = Partition::flow(self.0 as u16 % PARTITIONS);
        let required = RoutingRequirements { required_capabilities: self.capabilities() };
        CreateExecution {
            namespace: Some(Namespace::try_new(format!("team-{}", self.0 % 3)).expect("valid")),
            lane: Some(self.lanes().swap_remove(0)),
            creator: self.0.to_string(),
            policy: Some(ExecutionPolicy {
                routing_requirements: Some(required),
                ..Default::default()
            }),
            ..CreateExecution::new(self.kind())
                .with_id(ExecutionId::from_parts(partition, SystemIds.ordered()))
                .with_payload(self.0.to_string().into_bytes())
        }
    }
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

    /// Everybody waits: every lane was looked through once, by the first who asked for it.
    async fn crowd(&self) -> JoinSet<(Place, Vec<Claimed>)> {
        let before = self.backend.host().calls();
        // Whoever comes first looks through the lane that all share.
        let first = self.scheduler.claim(Place(0).request(Duration::ZERO)).await;
        assert!(first.expect("answers").is_empty());
        let mut waiting = JoinSet::new();
        for place in Place::all() {
            let scheduler = Arc::clone(&self.scheduler);
            waiting.spawn(async move {
                let claimed = scheduler.claim(place.request(LONG)).await;
                (place, claimed.expect("answers"))
            });
        }
        let looks = Place::all().filter(|place| place.lanes().len() > 1).count();
        // Each asks every partition, and once how the lanes are weighed.
        let asked = before + looks as u64 * (u64::from(PARTITIONS) + 1);
        while self.backend.host().calls() < asked {
            tokio::task::yield_now().await;
        }
        assert_eq!(self.backend.host().calls(), asked, "nobody looks where others did");
        waiting
    }

    async fn submit(&self, place: Place) {
        self.backend.create(place.execution()).await.expect("created");
    }

    async fn complete(&self, handle: &Handle) {
        self.backend.complete(handle, None).await.expect("completed");
    }
}

async fn hundreds_of_different_workers_each_get_the_work_that_only_they_can_do(kind: HostKind) {
    let site = Site::open(kind).await;
    let mut waiting = site.crowd().await;
    for place in Place::all() {
        site.submit(place).await;
    }
    while let Some(answered) = waiting.join_next().await {
        let (place, claimed) = answered.expect("no panic");
        assert_eq!(claimed.len(), 1, "worker {} waits for work that it may take", place.0);
        assert_eq!(claimed[0].payload, place.0.to_string().into_bytes(), "not its own");
        site.complete(&claimed[0].handle).await;
    }
}

async fn work_that_lies_there_already_is_found_behind_that_of_hundreds_of_others(kind: HostKind) {
    let site = Site::open(kind).await;
    for place in Place::all() {
        site.submit(place).await;
    }
    // The last one submitted is asked for first: everything else lies before it.
    for place in Place::all().collect::<Vec<_>>().into_iter().rev() {
        let claimed = site.scheduler.claim(place.request(Duration::ZERO)).await.expect("answers");
        assert_eq!(claimed.len(), 1, "worker {} found nothing", place.0);
        assert_eq!(claimed[0].payload, place.0.to_string().into_bytes(), "not its own");
    }
}

async fn new_kinds_of_workers_make_none_of_those_who_wait_deaf(kind: HostKind) {
    let site = Site::open(kind).await;
    let mut waiting = site.crowd().await;
    // More than is remembered: each of them wants so many kinds that they fill the memory for it.
    for stranger in 0..1_000 {
        let kind = |number| format!("{stranger}-{number}-{}", "x".repeat(100));
        let kinds = (0..256).map(|number| ExecutionKind::try_new(kind(number)).expect("valid"));
        let lane = if stranger < 500 { "shared" } else { "strange" };
        let request = WorkRequest {
            kinds: kinds.collect(),
            lanes: vec![LaneId::try_new(lane).expect("valid")],
            ..Place(stranger).request(Duration::ZERO)
        };
        assert!(site.scheduler.claim(request).await.expect("answers").is_empty());
    }
    for place in Place::all() {
        site.submit(place).await;
    }
    while let Some(answered) = waiting.join_next().await {
        let (place, claimed) = answered.expect("no panic");
        assert_eq!(claimed.len(), 1, "worker {} turned deaf", place.0);
    }
}
