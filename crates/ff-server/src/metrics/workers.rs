//! Which kinds the workers take that this server hears from. One that runs a long task asks for
//! nothing, but renews its lease.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ff_core::contracts::WorkRequest;
use ff_core::types::{ExecutionKind, WorkerInstanceId};
use tokio::time::Instant;

/// Who was not heard of for so long is gone: it renews leases and asks for work more often.
const HEARD_WITHIN: Duration = Duration::from_secs(120);
/// So many workers are known at the same time.
const WORKERS_MAX: usize = 10_000;

struct Worker {
    /// Any, if there is none.
    kinds: Vec<ExecutionKind>,
    heard_at: Instant,
}

/// The workers that this server heard of lately.
#[derive(Default)]
pub(super) struct Workers(Mutex<HashMap<WorkerInstanceId, Worker>>);

impl Workers {
    /// A worker asks for work.
    pub(super) fn asks(&self, request: &WorkRequest) {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if workers.len() >= WORKERS_MAX {
            workers.retain(|_, worker| worker.heard_at.elapsed() < HEARD_WITHIN);
        }
        let full = workers.len() >= WORKERS_MAX;
        let known = workers.get_mut(&request.worker_instance_id);
        if let Some(worker) = known.filter(|worker| worker.kinds == request.kinds) {
            worker.heard_at = Instant::now();
        } else if !full {
            let worker = Worker { kinds: request.kinds.clone(), heard_at: Instant::now() };
            workers.insert(request.worker_instance_id.clone(), worker);
        }
    }

    /// A worker says something about a task.
    pub(super) fn speaks(&self, worker: &WorkerInstanceId) {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = workers.get_mut(worker) {
            worker.heard_at = Instant::now();
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.values().filter(|worker| worker.heard_at.elapsed() < HEARD_WITHIN).count()
    }

    /// Whether somebody takes this kind.
    pub(super) fn take(&self, kind: &ExecutionKind) -> bool {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.values().any(|worker| {
            let takes = worker.kinds.is_empty() || worker.kinds.contains(kind);
            takes && worker.heard_at.elapsed() < HEARD_WITHIN
        })
    }
}
