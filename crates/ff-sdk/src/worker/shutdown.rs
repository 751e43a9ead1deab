//! Leaving in order: no new claims, time for the tasks under way, then every lease is handed back.

use std::time::Duration;

use ff_core::backend_error::BackendError;
use ff_core::types::ExecutionId;
use tokio::time::{timeout, timeout_at};

use super::{FlowFabricWorker, Shared, WorkerStatus, registry};
use crate::deadline;
use crate::error::{Context as _, SdkError};
use crate::task;

/// How long handing back and disconnecting may take after the deadline.
const PARTING: Duration = Duration::from_secs(10);

/// What a shutdown left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Tasks that were still in somebody's hands at the deadline. Their leases were handed back:
    /// other workers go on with their attempts.
    pub handed_back: usize,
}

impl FlowFabricWorker {
    /// Stops claiming, waits for the tasks until the deadline, hands back the leases that are left
    /// and takes the worker off the registry. Doing it again does nothing.
    ///
    /// An error means that the store could not be told; leases and registration then run out by
    /// themselves.
    pub async fn shutdown(&self, deadline: Duration) -> Result<ShutdownReport, SdkError> {
        let until = deadline::after(deadline);
        let before = self.shared.status.send_replace(WorkerStatus::Draining);
        if before == WorkerStatus::Stopped {
            self.shared.status.send_replace(before);
            return Ok(ShutdownReport::default());
        }
        let drained = timeout_at(until, all_tasks_done(&self.shared)).await.is_ok();
        self.shared.permits.close();
        let left_over = if drained { Vec::new() } else { self.shared.tasks.all() };
        left_over.iter().for_each(|core| task::take_away(core, &self.shared));
        self.heartbeat.abort();
        let names = left_over.iter().map(|core| core.handle().execution_id).collect();
        let parted = timeout(PARTING, self.part(before, names)).await;
        self.shared.status.send_replace(WorkerStatus::Stopped);
        parted.unwrap_or_else(|_| Err(SdkError::Backend(BackendError::timed_out(PARTING))))?;
        Ok(ShutdownReport { handed_back: left_over.len() })
    }

    /// A worker whose place was taken has no registration to take off.
    async fn part(
        &self,
        before: WorkerStatus,
        left_over: Vec<ExecutionId>,
    ) -> Result<(), SdkError> {
        self.shared.hand_backs.all_done().await;
        if before == WorkerStatus::Lost {
            return Ok(());
        }
        registry::disconnect(&self.shared, left_over).await.context("disconnect_worker")
    }
}

/// Every task has ended, and what was dropped has been handed back.
async fn all_tasks_done(shared: &Shared) {
    let mut missing = shared.config.max_concurrent_tasks.max(1);
    let mut held = Vec::new();
    while missing > 0 {
        let batch = u32::try_from(missing).unwrap_or(u32::MAX);
        let Ok(permits) = shared.permits.acquire_many(batch).await else { return };
        held.push(permits);
        missing -= batch as usize;
    }
    shared.hand_backs.all_done().await;
}
