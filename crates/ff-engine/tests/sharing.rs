//! Engines on one store share its partitions, and take over from one that dies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::contracts::{CreateExecution, TickRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, ExecutionKind, TimestampMs};
use ff_engine::{ENGINE_WORKER_ID, Engine, EngineConfig};
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;

const PARTITIONS: u16 = 64;
const SWEEP: Duration = Duration::from_millis(100);
const BEAT: Duration = Duration::from_millis(50);
const TIME_LIMIT: Duration = Duration::from_secs(20);

type Backend = Arc<ScriptBackend<EmbeddedHost>>;

async fn open() -> Backend {
    let host = EmbeddedHost::open(EmbeddedConfig::in_memory(), &Library::current());
    let host = Arc::new(host.expect("an embedded host"));
    let config = PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() };
    Arc::new(ScriptBackend::open(host, config).await.expect("opens"))
}

async fn start(backend: &Backend) -> Engine {
    let config = EngineConfig { sweep: SWEEP, beat: BEAT, ..EngineConfig::default() };
    Engine::start_sharing(Arc::clone(backend), config, &SystemIds).await.expect("runs")
}

/// Looks until it is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < TIME_LIMIT, "never: {what}");
        tokio::task::yield_now().await;
    }
}

async fn until_shared(engines: [&Engine; 2]) {
    until("the partitions are shared", || {
        let [one, other] = engines.map(|engine| engine.stats().partitions());
        one > 0 && other > 0 && one + other == u64::from(PARTITIONS)
    })
    .await;
}

/// How often a partition is ticked in the time in which it should be ticked once.
async fn ticks_in_each_sweep(backend: &Backend, [one, other]: [&Engine; 2]) -> f64 {
    let ticks = || one.stats().ticks() + other.stats().ticks();
    let (before, started) = (ticks(), Instant::now());
    // An engine that ticked everything would do so twelve times.
    let enough = one.stats().ticks() + 12 * one.stats().partitions();
    until("one of them has swept its part", || one.stats().ticks() >= enough).await;
    let sweeps = started.elapsed().as_secs_f64() / SWEEP.as_secs_f64();
    let all = backend.partition_config().partitions().count();
    (ticks() - before) as f64 / all as f64 / sweeps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_tick_each_partition_once() {
    let backend = open().await;
    let (one, other) = (start(&backend).await, start(&backend).await);
    until_shared([&one, &other]).await;
    // A machine that stands still for a while makes each believe that the other is gone.
    let mut each = f64::MAX;
    for _ in 0..3 {
        each = each.min(ticks_in_each_sweep(&backend, [&one, &other]).await);
    }
    assert!(each < 1.6, "{each} ticks of a partition in each sweep");

    let (left, stayed) = (one.shutdown().await, &other);
    assert!(left.ticks() > 0);
    let all = || stayed.stats().partitions() == u64::from(PARTITIONS);
    until("the other takes it all", all).await;
    let workers = backend.list_workers().await.expect("listed");
    assert!(workers.workers.iter().all(|worker| worker.worker_id.as_str() == ENGINE_WORKER_ID));
    other.shutdown().await;
}

#[test]
fn the_timers_of_a_killed_engine_fire() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let doomed_runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let backend = runtime.block_on(open());
    let engine = runtime.block_on(start(&backend));
    let doomed = doomed_runtime.block_on(start(&backend));
    runtime.block_on(until_shared([&engine, &doomed]));
    let ids = runtime.block_on(delay_everywhere(&backend, 200));
    // Nothing of it runs any more; its registration is still there.
    std::mem::forget(doomed);
    doomed_runtime.shutdown_background();
    runtime.block_on(async {
        let started = Instant::now();
        for id in ids {
            until_waiting(&backend, id, started).await;
        }
        let all = || engine.stats().partitions() == u64::from(PARTITIONS);
        until("the dead one is missed", all).await;
    });
}

/// One delayed execution in every partition.
async fn delay_everywhere(backend: &Backend, millis: u64) -> Vec<ExecutionId> {
    let now = backend.tick(Partition::flow(0), TickRequest::once(1)).await.expect("ticks").now;
    let mut ids = Vec::new();
    for partition in backend.partition_config().flow_partitions() {
        let new = delayed(partition, now.plus_millis(millis));
        ids.push(backend.create(new).await.expect("created").execution_id());
    }
    ids
}

async fn until_waiting(backend: &Backend, id: ExecutionId, started: Instant) {
    loop {
        let snapshot = backend.describe_execution(id).await.expect("readable").expect("there");
        if snapshot.public_state() == PublicState::Waiting {
            return;
        }
        assert!(started.elapsed() < TIME_LIMIT, "the timer of {id} never fires");
    }
}

fn delayed(partition: Partition, until: TimestampMs) -> CreateExecution {
    CreateExecution {
        delay_until: Some(until),
        ..CreateExecution::new(ExecutionKind::try_new("timed").expect("valid"))
            .with_id(ExecutionId::from_parts(partition, SystemIds.ordered()))
    }
}
