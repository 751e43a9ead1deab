//! What a worker's tasks, claims and heartbeat share.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{Claimed, NextTask, WorkRequest};
use ff_core::engine_backend::EngineBackend;
use ff_core::limits;
use ff_core::types::{ExecutionKind, LeaseId, Namespace, WorkerSession};
use ff_script::ids::IdSource;
use ff_script::in_flight::InFlight;
use tokio::runtime::Handle as Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::WorkerStatus;
use super::upkeep::Upkeep;
use crate::config::WorkerConfig;
use crate::connection::Connection;
use crate::error::SdkError;
use crate::store_clock::StoreClock;
use crate::task::TaskCore;

/// What a worker's tasks, claims and heartbeat share.
pub(crate) struct Shared {
    pub(crate) config: WorkerConfig,
    pub(crate) capabilities: CapabilitySet,
    /// Those it takes from; none: any.
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) connection: Connection,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) session: WorkerSession,
    pub(crate) started: Instant,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) clock: StoreClock,
    pub(crate) status: watch::Sender<WorkerStatus>,
    pub(crate) tasks: Tasks,
    pub(crate) hand_backs: HandBacks,
    pub(crate) upkeep: Arc<Upkeep>,
    /// The kinds it has handlers for; none: any.
    pub(crate) kinds: Mutex<Vec<ExecutionKind>>,
}

impl Shared {
    pub(crate) fn engine(&self) -> &Arc<dyn EngineBackend> {
        self.connection.engine()
    }

    /// Refuses unless the worker may take work.
    pub(crate) fn check_running(&self) -> Result<(), SdkError> {
        match &*self.status.borrow() {
            WorkerStatus::Running => Ok(()),
            other => Err(SdkError::WorkerStopped { status: *other }),
        }
    }

    /// Returns when the worker may take no more work.
    pub(crate) async fn stopped(&self) -> SdkError {
        let mut changes = self.status.subscribe();
        // The sender lives as long as we do, so the wait ends only with a match.
        let _ = changes.wait_for(|status| *status != WorkerStatus::Running).await;
        let status = *changes.borrow();
        SdkError::WorkerStopped { status }
    }

    /// The kinds it has handlers for; none: any.
    pub(crate) fn kinds(&self) -> Vec<ExecutionKind> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many tasks are in somebody's hands.
    pub(crate) fn running(&self) -> u32 {
        count(self.tasks.len())
    }

    /// How many may be.
    pub(crate) fn capacity(&self) -> u32 {
        count(self.config.max_concurrent_tasks.max(1))
    }

    /// How long the registration lasts without a heartbeat: a dead process is missed after its
    /// leases have lapsed, not before.
    pub(crate) fn registration_ttl_ms(&self) -> u64 {
        self.config.lease_ttl_ms.saturating_mul(2).min(limits::LEASE_TTL_MS_MAX)
    }

    pub(crate) fn work_request(
        &self,
        kinds: &[ExecutionKind],
        count: usize,
        max_wait: Duration,
    ) -> WorkRequest {
        let config = &self.config;
        let (worker_id, instance) = (config.worker_id.clone(), config.worker_instance_id.clone());
        let lanes = config.lanes.clone();
        WorkRequest {
            kinds: kinds.to_vec(),
            namespaces: self.namespaces.clone(),
            capabilities: self.capabilities.clone(),
            count: u32::try_from(count).unwrap_or(u32::MAX),
            wait_ms: u64::try_from(max_wait.as_millis()).unwrap_or(u64::MAX),
            ..WorkRequest::new(worker_id, instance, lanes, config.lease_ttl_ms)
        }
    }

    /// What to ask for with the end of a task: the same as a claim of one would. None while the
    /// worker takes nothing.
    pub(crate) fn next_task(&self, kinds: Vec<ExecutionKind>) -> Option<NextTask> {
        self.check_running().ok()?;
        Some(NextTask {
            lanes: self.config.lanes.clone(),
            capabilities: self.capabilities.clone(),
            kinds,
            namespaces: self.namespaces.clone(),
            lease_ttl_ms: Some(self.config.lease_ttl_ms),
            lease_id: Some(LeaseId::from_uuid(self.ids.random())),
            payload_text: false,
        })
    }

    /// Until when a lease from a call sent at this moment certainly holds. A call that waited got
    /// its lease late: then the store's clock, as last read, tells more than the call's beginning.
    pub(crate) fn lease_deadline(&self, claimed: &Claimed, sent: Instant) -> Instant {
        let ttl = Duration::from_millis(claimed.handle.lease_ttl_ms);
        let by_call = sent + ttl;
        let by_clock = self.clock.earliest(claimed.lease_expires_at).unwrap_or(by_call);
        by_call.max(by_clock.min(Instant::now() + ttl))
    }
}

/// As the registry counts tasks.
fn count(tasks: usize) -> u32 {
    let most = limits::WORKER_TASKS_MAX as usize;
    u32::try_from(tasks.min(most)).unwrap_or(u32::MAX)
}

/// The tasks that are in somebody's hands.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<LeaseId, Arc<TaskCore>>>);

impl Tasks {
    pub(crate) fn add(&self, core: &Arc<TaskCore>) {
        self.lock().insert(core.handle().fence.lease_id, Arc::clone(core));
    }

    pub(crate) fn remove(&self, id: &LeaseId) {
        self.lock().remove(id);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Those that are there now.
    pub(crate) fn all(&self) -> Vec<Arc<TaskCore>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseId, Arc<TaskCore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hand-backs under way: dropping a task cannot wait, so a shutdown waits for them.
#[derive(Debug)]
pub(crate) struct HandBacks {
    runtime: Runtime,
    in_flight: InFlight,
}

impl HandBacks {
    /// Must be called on a runtime: a task may be dropped on a thread that has none.
    pub(crate) fn on_this_runtime() -> Self {
        Self { runtime: Runtime::current(), in_flight: InFlight::default() }
    }

    pub(crate) fn spawn(&self, hand_back: impl Future<Output = ()> + Send + 'static) {
        let in_flight = self.in_flight.begin();
        self.runtime.spawn(async move {
            hand_back.await;
            drop(in_flight);
        });
    }

    /// Returns when none is under way.
    pub(crate) async fn all_done(&self) {
        self.in_flight.none().await;
    }
}
