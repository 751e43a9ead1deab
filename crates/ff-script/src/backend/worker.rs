//! Workers: their registry, and what waits for them.

use ff_core::contracts::{LaneDepth, WorkerRecord, WorkerRegistration};
use ff_core::error::{Code, EngineError};
use ff_core::partition::Partition;
use ff_core::types::{LaneId, TimestampMs, WorkerInstanceId, WorkerSession};

use super::read::{columns, read_row};
use super::{FIRST, ScriptBackend};
use crate::calls::worker::{
    HeartbeatWorker, HeartbeatWorkerReply, LaneDepths, LaneDepthsReply, ListWorkers,
    ListWorkersReply, RegisterWorker, RegisterWorkerReply, ReleaseWorkerLeases,
    ReleaseWorkerLeasesReply, UnregisterWorker,
};
use crate::host::Host;
use crate::value::Value;
use crate::wire::{Reading, Rest};

/// A worker that leaves stays on the list for so long, or until its leases are handed back.
const DISCONNECT_MS: u64 = 60_000;

impl<H: Host> ScriptBackend<H> {
    pub(super) async fn register(
        &self,
        registration: WorkerRegistration,
    ) -> Result<TimestampMs, EngineError> {
        registration.validate()?;
        let call = RegisterWorker {
            worker_id: registration.worker_id,
            worker_instance_id: registration.worker_instance_id,
            session: registration.session,
            capabilities: registration.capabilities,
            ttl_ms: registration.ttl_ms,
            lanes: Rest(registration.lanes),
        };
        let RegisterWorkerReply::Registered { expires_at } = self.call(FIRST, call).await?;
        Ok(expires_at)
    }

    pub(super) async fn heartbeat(
        &self,
        worker_instance_id: &WorkerInstanceId,
        session: WorkerSession,
        ttl_ms: u64,
    ) -> Result<TimestampMs, EngineError> {
        let worker_instance_id = worker_instance_id.clone();
        let call = HeartbeatWorker { worker_instance_id, session, ttl_ms };
        let HeartbeatWorkerReply::Extended { expires_at } = self.call(FIRST, call).await?;
        Ok(expires_at)
    }

    /// Off the list last: while it is there, no other process can have the instance id, whose
    /// leases these would be.
    pub(super) async fn disconnect(
        &self,
        worker_instance_id: &WorkerInstanceId,
        session: WorkerSession,
    ) -> Result<u32, EngineError> {
        match self.heartbeat(worker_instance_id, session, DISCONNECT_MS).await {
            Err(error) if error.code() != Some(Code::WorkerNotFound) => return Err(error),
            _ => {}
        }
        let mut handed_back = 0;
        for partition in self.config.flow_partitions() {
            handed_back += self.release_leases(partition, worker_instance_id).await?;
        }
        let call = UnregisterWorker { worker_instance_id: worker_instance_id.clone(), session };
        self.call(FIRST, call).await?;
        Ok(handed_back)
    }

    async fn release_leases(
        &self,
        partition: Partition,
        worker_instance_id: &WorkerInstanceId,
    ) -> Result<u32, EngineError> {
        let (mut all, mut next) = (0, Some(0));
        while let Some(skip) = next {
            let call = ReleaseWorkerLeases { worker_instance_id: worker_instance_id.clone(), skip };
            let ReleaseWorkerLeasesReply::Released { released, next_skip } =
                self.call(partition, call).await?;
            (all, next) = (all + released, next_skip);
        }
        Ok(all)
    }

    pub(super) async fn workers(&self) -> Result<Vec<WorkerRecord>, EngineError> {
        let ListWorkersReply::Workers { workers } = self.call(FIRST, ListWorkers {}).await?;
        workers.0.into_iter().map(|row| read_row(row, "worker", worker)).collect()
    }

    pub(super) async fn depths(
        &self,
        partition: Partition,
        lanes: Vec<LaneId>,
    ) -> Result<Vec<LaneDepth>, EngineError> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let LaneDepthsReply::Depths { depths } =
            self.call(partition, LaneDepths { lanes: Rest(lanes) }).await?;
        depths.0.into_iter().map(|row| read_row(row, "lane depth", depth)).collect()
    }
}

fn worker(parts: Vec<Value>) -> Option<WorkerRecord> {
    let [instance, worker_id, registered_at, expires_at, capabilities, lanes] = columns(parts)?;
    let lanes = String::read(lanes)?;
    Some(WorkerRecord {
        worker_instance_id: Reading::read(instance)?,
        worker_id: Reading::read(worker_id)?,
        registered_at: Reading::read(registered_at)?,
        expires_at: Reading::read(expires_at)?,
        capabilities: Reading::read(capabilities)?,
        lanes: lanes.lines().map(|lane| lane.parse().ok()).collect::<Option<_>>()?,
    })
}

fn depth(parts: Vec<Value>) -> Option<LaneDepth> {
    let [lane, waiting, head_created_at] = columns(parts)?;
    Some(LaneDepth {
        lane: Reading::read(lane)?,
        waiting: Reading::read(waiting)?,
        head_created_at: Reading::read(head_created_at)?,
    })
}
