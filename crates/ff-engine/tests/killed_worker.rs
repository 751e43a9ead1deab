//! A worker process is killed with -9 in the middle of an execution, and nobody helps: the lease
//! lapses, the execution is claimed again as a new attempt, and it completes.
//!
//! The worker is this very test binary, started again with `FF_TEST_WORKER_URL` set.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::backend::HandleKind;
use ff_core::contracts::{Claimed, CreateExecution, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::PartitionConfig;
use ff_core::state::{AttemptLifecycle, PublicState};
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, WorkerId, WorkerInstanceId};
use ff_engine::{Engine, EngineConfig};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use ff_test_valkey::{Valkey, ValkeyOptions};

const LEASE_TTL_MS: u64 = 400;
const WORKER_URL: &str = "FF_TEST_WORKER_URL";

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: 8, ..PartitionConfig::default() }
}

async fn connect(url: &str) -> Arc<ScriptBackend<ValkeyHost>> {
    let valkey = ValkeyConfig::parse(url).expect("a valid url").with_flow_partitions(8);
    let host = ValkeyHost::connect(valkey, Library::current()).await.expect("connects");
    Arc::new(ScriptBackend::open(Arc::new(host), config()).await.expect("opens"))
}

async fn claim_one(backend: &Arc<ScriptBackend<ValkeyHost>>, worker: &str) -> Option<Claimed> {
    let scheduler = Scheduler::new(Arc::clone(backend), Arc::new(SystemIds));
    let request = WorkRequest {
        kinds: Vec::new(),
        namespaces: Vec::new(),
        lanes: vec![LaneId::try_new("default").expect("valid")],
        worker_id: WorkerId::try_new(worker).expect("valid"),
        worker_instance_id: WorkerInstanceId::try_new(worker).expect("valid"),
        capabilities: Default::default(),
        lease_ttl_ms: LEASE_TTL_MS,
        count: 1,
        wait_ms: 10_000,
        payload_text: false,
        lease_ids: Vec::new(),
        retry: false,
    };
    scheduler.claim(request).await.expect("claims").pop()
}

fn new_execution() -> CreateExecution {
    CreateExecution {
        creator: "test".to_owned(),
        ..CreateExecution::new(ExecutionKind::try_new("sleepy").expect("valid"))
            .with_id(ExecutionId::solo(SystemIds.ordered(), &config()))
            .with_payload(b"please finish me".to_vec())
    }
}

/// What the worker process does: claim, say so, and never come back.
async fn work_forever(url: &str) {
    let backend = connect(url).await;
    let claimed = claim_one(&backend, "doomed").await.expect("there is work");
    println!("claimed {}", claimed.handle.execution_id);
    std::future::pending::<()>().await;
}

/// Starts a worker process, waits until it holds the lease, and kills it with -9.
fn start_and_kill_worker(url: &str) {
    let binary = std::env::current_exe().expect("the test binary");
    let mut worker = Command::new(binary)
        .args(["--exact", "a_killed_worker_s_execution_completes_without_help", "--nocapture"])
        .env(WORKER_URL, url)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the worker starts");
    let output = BufReader::new(worker.stdout.take().expect("piped"));
    let claimed = output.lines().map_while(Result::ok).find(|line| line.contains("claimed {fp:"));
    assert!(claimed.is_some(), "the worker must claim before it is killed");
    worker.kill().expect("kill -9");
    worker.wait().expect("it is dead");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_s_execution_completes_without_help() {
    if let Ok(url) = std::env::var(WORKER_URL) {
        return work_forever(&url).await;
    }
    let valkey = Valkey::start(ValkeyOptions::default()).expect("a Valkey server");
    let backend = connect(&valkey.url()).await;
    let engine = Engine::start(Arc::clone(&backend), EngineConfig::default()).await.expect("runs");
    let new = new_execution();
    let id = backend.create(new).await.expect("created").execution_id();

    let url = valkey.url();
    tokio::task::spawn_blocking(move || start_and_kill_worker(&url)).await.expect("killed");
    let rescued = claim_one(&backend, "survivor").await.expect("claimable again by itself");
    assert_eq!(rescued.handle.execution_id, id);
    assert_eq!(rescued.handle.kind, HandleKind::Reclaimed);
    assert_eq!(rescued.handle.fence.lease_epoch.get(), 2);
    assert_eq!(rescued.payload, b"please finish me");
    backend.complete(&rescued.handle, Some(b"done".to_vec())).await.expect("completed");

    let snapshot = backend.describe_execution(id).await.expect("readable").expect("there");
    assert_eq!(snapshot.public_state(), PublicState::Completed);
    assert_eq!(snapshot.reclaim_count, 1);
    let attempts = backend.list_attempts(id).await.expect("readable");
    let states: Vec<AttemptLifecycle> =
        attempts.attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [AttemptLifecycle::InterruptedReclaimed, AttemptLifecycle::EndedSuccess]);
    assert_eq!(engine.shutdown().await.lapsed(), 1);
}
