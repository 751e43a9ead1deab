//! The largest calls of the function library fit into the room that is promised to a call.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, SyncMode};
use ff_core::backend::{FailureClass, FailureReason, Handle};
use ff_core::contracts::{ClaimRequest, CreateExecution, TickReport, TickRequest};
use ff_core::engine_backend::roles::*;
use ff_core::limits;
use ff_core::partition::PartitionConfig;
use ff_core::policy::{ExecutionPolicy, RetryPolicy};
use ff_core::types::{
    ExecutionId, ExecutionKind, LaneId, LeaseId, Namespace, WorkerId, WorkerInstanceId,
};
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use support::{HOME, ManualClock, on_disk};

/// What a call may write beyond its arguments.
const ROOM: u64 = 4 << 20;
const EXECUTIONS: u64 = limits::TICK_BATCH_MAX;
const LEASE_TTL_MS: u64 = 1000;
const HOUR_MS: u64 = 3_600_000;

/// A name that is as long as it may be.
fn long(bytes: u64) -> String {
    "n".repeat(bytes as usize)
}

fn lane() -> LaneId {
    LaneId::try_new(long(limits::LANE_BYTES_MAX)).unwrap()
}

fn execution() -> CreateExecution {
    let retry_policy = Some(RetryPolicy { max_retries: 10, ..RetryPolicy::default() });
    CreateExecution {
        namespace: Some(Namespace::try_new(long(limits::NAMESPACE_BYTES_MAX)).unwrap()),
        lane: Some(lane()),
        creator: long(limits::CREATOR_BYTES_MAX),
        policy: Some(ExecutionPolicy { retry_policy, ..ExecutionPolicy::default() }),
        ..CreateExecution::new(ExecutionKind::try_new(long(limits::KIND_BYTES_MAX)).unwrap())
            .with_id(ExecutionId::from_parts(HOME, SystemIds.ordered()))
            .with_payload(b"payload".to_vec())
    }
}

/// A store with executions that are all due at once, and the largest call so far.
struct Store {
    backend: ScriptBackend<EmbeddedHost>,
    clock: Arc<ManualClock>,
    now_ms: u64,
    largest: u64,
}

impl Store {
    async fn filled(root: &std::path::Path) -> Self {
        let clock = ManualClock::at_ms(HOUR_MS);
        let config = on_disk(root, SyncMode::Off);
        let config = EmbeddedConfig { clock: Arc::clone(&clock) as _, ..config };
        let host = Arc::new(EmbeddedHost::open(config, &Library::current()).unwrap());
        let backend = ScriptBackend::open(host, PartitionConfig::default()).await.unwrap();
        let executions = (0..EXECUTIONS).map(|_| execution()).collect();
        for created in backend.create_many(executions).await {
            created.unwrap();
        }
        Self { backend, clock, now_ms: HOUR_MS, largest: 0 }
    }

    fn written(&self) -> u64 {
        self.backend.host().stats().journal_bytes
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now_ms += ms;
        self.clock.set_ms(self.now_ms);
    }

    async fn claim_all(&mut self) -> Vec<Handle> {
        let mut handles = Vec::new();
        while (handles.len() as u64) < EXECUTIONS {
            let lease_id = |_| LeaseId::from_uuid(SystemIds.random());
            let request = ClaimRequest {
                kinds: Vec::new(),
                lane: lane(),
                worker_id: WorkerId::try_new(long(limits::WORKER_BYTES_MAX)).unwrap(),
                worker_instance_id: WorkerInstanceId::try_new(long(limits::WORKER_BYTES_MAX))
                    .unwrap(),
                capabilities: Default::default(),
                namespaces: Vec::new(),
                from: Default::default(),
                lease_ttl_ms: LEASE_TTL_MS,
                lease_ids: (0..limits::CLAIM_COUNT_MAX).map(lease_id).collect(),
                retry: false,
            };
            let before = self.written();
            let claimed = self.backend.claim_next(HOME, request).await.unwrap().claimed;
            self.largest = self.largest.max(self.written() - before);
            assert!(!claimed.is_empty(), "{} of {EXECUTIONS} were claimed", handles.len());
            handles.extend(claimed.into_iter().map(|claimed| claimed.handle));
        }
        handles
    }

    async fn tick(&mut self) -> TickReport {
        let before = self.written();
        let report = self.backend.tick(HOME, TickRequest::once(EXECUTIONS as u32)).await.unwrap();
        self.largest = self.largest.max(self.written() - before);
        report
    }
}

#[tokio::test]
async fn the_largest_calls_fit_into_the_room_that_is_promised() {
    let root = tempfile::tempdir().unwrap();
    let mut store = Store::filled(root.path()).await;
    let handles = store.claim_all().await;
    let reason = FailureReason {
        message: long(limits::REASON_BYTES_MAX),
        detail: Some(vec![b'd'; limits::FAILURE_DETAIL_BYTES_MAX as usize]),
    };
    for handle in &handles {
        store.backend.fail(handle, reason.clone(), FailureClass::Transient).await.unwrap();
    }
    store.wait_ms(HOUR_MS);
    assert_eq!(u64::from(store.tick().await.promoted), EXECUTIONS);
    store.claim_all().await;
    store.wait_ms(2 * LEASE_TTL_MS);
    assert_eq!(u64::from(store.tick().await.lapsed), EXECUTIONS);
    for handle in store.claim_all().await {
        store.backend.complete(&handle, None).await.unwrap();
    }
    store.wait_ms(2 * limits::RETENTION_MS_DEFAULT);
    assert_eq!(u64::from(store.tick().await.purged), EXECUTIONS);
    println!("the largest call wrote {} bytes", store.largest);
    assert!(store.largest > 100 << 10, "these are large calls");
    assert!(store.largest <= ROOM / 2, "the largest call wrote {} bytes", store.largest);
}
