//! The engine fires timers by itself, soon after they are due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::contracts::{CreateExecution, TickRequest, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::PartitionConfig;
use ff_core::policy::ExecutionPolicy;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, TimestampMs, WorkerId, WorkerInstanceId};
use ff_engine::{Engine, EngineConfig};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: 4, ..PartitionConfig::default() }
}

async fn open() -> Arc<ScriptBackend<EmbeddedHost>> {
    let host = EmbeddedHost::open(EmbeddedConfig::in_memory(), &Library::current());
    let host = Arc::new(host.expect("an embedded host"));
    Arc::new(ScriptBackend::open(host, config()).await.expect("opens"))
}

fn new_execution(policy: ExecutionPolicy, delay_until: Option<TimestampMs>) -> CreateExecution {
    CreateExecution {
        policy: Some(policy),
        delay_until,
        ..CreateExecution::new(ExecutionKind::try_new("timed").expect("valid"))
            .with_id(ExecutionId::solo(SystemIds.ordered(), &config()))
    }
}

fn request(lease_ttl_ms: u64) -> WorkRequest {
    WorkRequest {
        kinds: Vec::new(),
        namespaces: Vec::new(),
        lanes: vec![LaneId::try_new("default").expect("valid")],
        worker_id: WorkerId::try_new("worker").expect("valid"),
        worker_instance_id: WorkerInstanceId::try_new("worker-1").expect("valid"),
        capabilities: Default::default(),
        lease_ttl_ms,
        count: 1,
        wait_ms: 5_000,
        payload_text: false,
        lease_ids: Vec::new(),
        retry: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_worker_gets_a_delayed_execution_when_its_time_comes() {
    let backend = open().await;
    let scheduler = Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds));
    let engine = Engine::start(Arc::clone(&backend), EngineConfig::default()).await.expect("runs");
    let first = ff_core::partition::Partition::flow(0);
    let now = backend.tick(first, TickRequest::once(1)).await.expect("ticks").now;
    let started = Instant::now();
    let new = new_execution(ExecutionPolicy::default(), Some(now.plus_millis(300)));
    let id = backend.create(new).await.expect("created").execution_id();

    let claimed = scheduler.claim(request(5_000)).await.expect("answers").pop().expect("claimed");
    let waited = started.elapsed();
    assert_eq!(claimed.handle.execution_id, id);
    assert!(waited >= Duration::from_millis(250), "not before its time, but after {waited:?}");
    assert!(waited < Duration::from_millis(1_500), "soon after its time, not after {waited:?}");
    assert_eq!(engine.shutdown().await.promoted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_that_kills_every_worker_ends_as_failed_by_itself() {
    let backend = open().await;
    let scheduler = Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds));
    let engine = Engine::start(Arc::clone(&backend), EngineConfig::default()).await.expect("runs");
    let policy = ExecutionPolicy { max_reclaim_count: Some(2), ..ExecutionPolicy::default() };
    let new = new_execution(policy, None);
    let id = backend.create(new).await.expect("created").execution_id();

    for attempt in 0..3 {
        let claimed = scheduler.claim(request(30)).await.expect("answers").pop().expect("claimed");
        assert_eq!(claimed.handle.attempt_index.get(), attempt);
    }
    let ended = async {
        loop {
            let snapshot = backend.describe_execution(id).await.expect("readable").expect("there");
            if snapshot.public_state() == PublicState::Failed {
                return snapshot;
            }
            tokio::task::yield_now().await;
        }
    };
    let snapshot = tokio::time::timeout(Duration::from_secs(5), ended).await.expect("it ends");
    assert_eq!(snapshot.failure.expect("a reason").reason, "max_reclaims_exceeded");
    assert_eq!(engine.shutdown().await.lapsed(), 3);
}
