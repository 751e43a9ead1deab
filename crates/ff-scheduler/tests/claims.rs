//! Where the scheduler asks, and what becomes of claims that nobody waits for.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::contracts::{Claimed, CreateExecution, NextGrant, NextGrantRequest, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, LeaseId, WorkerId, WorkerInstanceId};
use ff_scheduler::{Scheduler, SchedulerConfig, SchedulerError};
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;

const PARTITIONS: u16 = 32;

struct Site {
    backend: Arc<ScriptBackend<EmbeddedHost>>,
    scheduler: Scheduler,
}

impl Site {
    /// A store whose scheduler has looked everywhere and found nothing.
    async fn quiet() -> Self {
        let site = Self::fresh().await;
        assert!(site.claim(1, Duration::ZERO).await.is_empty());
        site
    }

    /// A store whose scheduler was not asked for anything yet.
    async fn fresh() -> Self {
        let host = EmbeddedHost::open(EmbeddedConfig::in_memory(), &Library::current());
        let host = Arc::new(host.expect("an embedded host"));
        let config =
            PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() };
        let backend = Arc::new(ScriptBackend::open(host, config).await.expect("opens"));
        let ids = Arc::new(SystemIds);
        let scheduler = Scheduler::new(Arc::clone(&backend), ids);
        Self { backend, scheduler }
    }

    fn calls(&self) -> u64 {
        self.backend.host().stats().calls
    }

    async fn create(&self, partition: u16) {
        self.create_with(partition, Vec::new()).await;
    }

    async fn create_with(&self, partition: u16, payload: Vec<u8>) {
        let execution = CreateExecution {
            lane: Some(lane()),
            ..CreateExecution::new(ExecutionKind::try_new("some").expect("valid"))
                .with_id(ExecutionId::from_parts(Partition::flow(partition), SystemIds.ordered()))
                .with_payload(payload)
        };
        self.backend.create(execution).await.expect("created");
    }

    async fn claim(&self, count: u32, max_wait: Duration) -> Vec<Claimed> {
        self.scheduler.claim(request(count, max_wait)).await.expect("answers")
    }
}

fn lane() -> LaneId {
    LaneId::try_new("default").expect("valid")
}

fn request(count: u32, max_wait: Duration) -> WorkRequest {
    WorkRequest {
        kinds: Vec::new(),
        namespaces: Vec::new(),
        lanes: vec![lane()],
        worker_id: WorkerId::try_new("worker").expect("valid"),
        worker_instance_id: WorkerInstanceId::try_new("worker-1").expect("valid"),
        capabilities: Default::default(),
        lease_ttl_ms: 30_000,
        count,
        wait_ms: max_wait.as_millis() as u64,
        payload_text: false,
        lease_ids: Vec::new(),
        retry: false,
    }
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_waiting_claim_asks_where_work_was_heard_of_and_nowhere_else() {
    let site = Site::quiet().await;
    let waiting = async {
        let claimed = site.claim(1, LONG).await;
        assert_eq!(claimed[0].handle.execution_id.partition(), Partition::flow(17));
        site.calls()
    };
    let submitting = async {
        // The lane is made known by a call of its own.
        site.create(17).await;
    };
    let before = site.calls();
    let (calls, ()) = tokio::join!(waiting, submitting);
    assert_eq!(calls - before, 3, "lane, create, claim");
}

#[tokio::test]
async fn several_executions_are_claimed_from_several_partitions() {
    let site = Site::quiet().await;
    for partition in [3, 5, 5, 7, 11, 30] {
        site.create(partition).await;
    }
    // The last push may still be on its way: what is waited for is the first one.
    let mut claimed = Vec::new();
    let before = site.calls();
    while claimed.len() < 6 {
        claimed.extend(site.claim(8, LONG).await);
    }
    assert!(site.calls() - before <= 6, "no partition is asked for what was not heard of");
}

#[tokio::test]
async fn a_claim_that_is_dropped_under_way_is_handed_back() {
    let site = Site::quiet().await;
    site.create(9).await;
    let mut before = site.calls();
    while site.calls() == before {
        let mut claim = Box::pin(site.scheduler.claim(request(1, LONG)));
        let polled = claim.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(claim);
        if polled.is_ready() {
            // The store, which is another thread, was quicker than we: once more.
            site.create(9).await;
            before = site.calls();
        }
        tokio::task::yield_now().await;
    }
    site.scheduler.settled().await;
    let again = site.claim(1, LONG).await;
    assert_eq!(again[0].handle.fence.lease_epoch.get(), 2, "another lease came before");
}

#[tokio::test]
async fn a_grant_from_an_empty_lane_asks_nobody() {
    let site = Site::quiet().await;
    let wanted = || NextGrantRequest {
        lane: lane(),
        worker_instance_id: WorkerInstanceId::try_new("worker-1").expect("valid"),
        capabilities: Default::default(),
        grant_ttl_ms: 1_000,
    };
    let worker = || WorkerId::try_new("worker").expect("valid");
    let before = site.calls();
    assert!(site.scheduler.grant_next(worker(), wanted()).await.expect("answers").is_none());
    assert_eq!(site.calls(), before);
    site.create(2).await;
    let granted = site.scheduler.grant_next(worker(), wanted()).await.expect("answers");
    assert!(granted.is_some(), "its push is waited for");
}

#[tokio::test]
async fn an_execution_is_reserved_for_a_worker_that_can_do_what_it_requires() {
    let site = Site::quiet().await;
    site.create(4).await;
    let worker = WorkerId::try_new("worker").expect("valid");
    let instance = WorkerInstanceId::try_new("worker-1").expect("valid");
    let reserve = async |capabilities: &[&str]| {
        let capabilities = capabilities.iter().map(|one| (*one).to_owned()).collect();
        let scheduler = &site.scheduler;
        scheduler.claim_for_worker(&lane(), &worker, &instance, &capabilities, 1_000).await
    };
    let wrong = reserve(&["a b"]).await.expect_err("a token without blanks");
    assert!(matches!(wrong, SchedulerError::Config(_)) && !wrong.is_retryable(), "{wrong}");
    let granted = reserve(&["gpu"]).await.expect("answers").expect("there is one");
    assert!(matches!(granted, NextGrant::Claim(_)), "{granted:?}");
    assert_eq!(reserve(&["gpu"]).await.expect("answers"), None);
}

#[test]
fn whoever_looked_first_may_be_gone_with_its_runtime() {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let (lasting, brief) = (runtime(), runtime());
    let site = lasting.block_on(Site::fresh());
    let first = brief.block_on(site.scheduler.claim(request(1, Duration::ZERO)));
    assert!(first.expect("answers").is_empty());
    drop(brief);
    lasting.block_on(async {
        let claiming = site.scheduler.claim(request(1, Duration::from_secs(10)));
        let (claimed, _) = tokio::join!(claiming, async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            site.create(3).await
        });
        assert_eq!(claimed.expect("answers").len(), 1, "it is still told of work");
    });
}

#[tokio::test]
async fn a_claim_asks_no_more_partitions_at_a_time_than_the_scheduler_is_told() {
    let site = Site::quiet().await;
    for partition in [3, 5, 7, 11] {
        site.create(partition).await;
    }
    let asking = |max_partitions_per_scan| {
        let config = SchedulerConfig { max_partitions_per_scan };
        Scheduler::with_config(Arc::clone(&site.backend), Arc::new(SystemIds), config)
    };
    let refused = asking(0).err().expect("a scheduler that asks nobody");
    assert!(refused.to_string().contains("max_partitions_per_scan"), "{refused}");
    let scheduler = asking(2).expect("runs");
    // It looks through all partitions first.
    let first = scheduler.claim(request(1, Duration::ZERO)).await.expect("answers");
    assert_eq!(first.len(), 1);
    let before = site.calls();
    let claimed = scheduler.claim(request(3, Duration::ZERO)).await.expect("answers");
    assert_eq!((claimed.len(), site.calls() - before), (2, 2), "two partitions have one each");
}

const MIB: usize = 1 << 20;

fn bytes_of(claimed: &[Claimed]) -> u64 {
    ff_core::contracts::payload_bytes(claimed)
}

#[tokio::test]
async fn what_one_claim_brings_is_bounded_over_all_partitions() {
    let site = Site::quiet().await;
    for partition in 0..PARTITIONS {
        site.create_with(partition, vec![7; MIB]).await;
    }
    let mut left = usize::from(PARTITIONS);
    while left > 0 {
        let claimed = site.claim(left as u32, Duration::from_secs(30)).await;
        assert!(!claimed.is_empty(), "{left} are left");
        assert!(bytes_of(&claimed) <= limits::CLAIM_BYTES_MAX, "{} in one", bytes_of(&claimed));
        assert!(
            claimed.iter().all(|one| one.handle.fence.lease_epoch.0 == 1),
            "none was handed back"
        );
        left -= claimed.len();
    }
}

#[tokio::test]
async fn an_answer_stays_bounded_when_payloads_grow_all_at_once() {
    let site = Site::quiet().await;
    for partition in 0..PARTITIONS {
        site.create_with(partition, vec![7; 1]).await;
    }
    let small = site.claim(PARTITIONS.into(), Duration::from_secs(30)).await;
    assert_eq!(small.len(), usize::from(PARTITIONS), "small ones come in one answer");
    for partition in 0..PARTITIONS {
        site.create_with(partition, vec![7; MIB]).await;
    }
    let mut left = usize::from(PARTITIONS);
    while left > 0 {
        let claimed = site.claim(256, Duration::from_secs(30)).await;
        assert!(bytes_of(&claimed) <= limits::CLAIM_BYTES_MAX, "{} in one", bytes_of(&claimed));
        left -= claimed.len();
        site.scheduler.settled().await;
    }
}

/// The same request under lease ids of one's own.
fn under_leases(request: &WorkRequest, retry: bool) -> WorkRequest {
    let id = |number: u32| {
        LeaseId::parse(&format!("550e8400-e29b-41d4-a716-{number:012}")).expect("an id")
    };
    let lease_ids = (0..request.count).map(id).collect();
    WorkRequest { lease_ids, retry, ..request.clone() }
}

#[tokio::test]
async fn a_claim_that_is_asked_for_again_is_given_what_it_took() {
    let site = Site::quiet().await;
    for partition in 0..4 {
        site.create(partition).await;
    }
    let wanted = request(3, Duration::from_secs(30));
    let mut took = Vec::new();
    while took.len() < 3 {
        let mut asked = under_leases(&wanted, false);
        asked.lease_ids = asked.lease_ids.split_off(took.len());
        asked.count = asked.lease_ids.len() as u32;
        took.extend(site.scheduler.claim(asked).await.expect("answers"));
    }
    // Another server, which has never seen the claim.
    let backend = Arc::clone(&site.backend);
    let other = Scheduler::new(backend, Arc::new(SystemIds));
    for scheduler in [&site.scheduler, &other] {
        let again = scheduler.claim(under_leases(&wanted, true)).await.expect("answers");
        let handles = |of: &[Claimed]| {
            let mut handles: Vec<_> = of.iter().map(|one| one.handle.fence).collect();
            handles.sort_by_key(|fence| fence.lease_id);
            handles
        };
        assert_eq!(handles(&again), handles(&took), "the same leases, and no other");
    }
    let rest = site.claim(4, Duration::ZERO).await;
    assert_eq!(rest.len(), 1, "nothing was taken twice");
}

#[tokio::test]
async fn a_repetition_ends_the_claim_that_it_repeats() {
    let site = Arc::new(Site::quiet().await);
    let wanted = request(1, Duration::from_secs(60));
    let first = tokio::spawn({
        let (site, wanted) = (Arc::clone(&site), wanted.clone());
        async move { site.scheduler.claim(under_leases(&wanted, false)).await }
    });
    tokio::task::yield_now().await;
    let second = tokio::spawn({
        let site = Arc::clone(&site);
        async move { site.scheduler.claim(under_leases(&wanted, true)).await }
    });
    let first = first.await.expect("no panic").expect("answers");
    assert!(first.is_empty(), "nobody waits for it any more");
    site.create(0).await;
    assert_eq!(second.await.expect("no panic").expect("answers").len(), 1);
}
