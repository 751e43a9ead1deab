//! The registry of workers.

use ff_core::contracts::{
    Disconnect, Disconnected, Heartbeat, Registered, WorkerList, WorkerRecord, WorkerRegistration,
};
use ff_core::engine_backend::{Answer, Workers};
use ff_core::error::{Code, EngineError};
use ff_core::partition::Partition;
use ff_core::types::{WorkerInstanceId, WorkerSession};

use super::reads::read_row;
use super::{FIRST, ScriptBackend};
use crate::calls::worker::{
    HeartbeatWorker, HeartbeatWorkerReply, ListWorkers, ListWorkersReply, RegisterWorker,
    RegisterWorkerReply, ReleaseWorkerLeases, ReleaseWorkerLeasesReply, UnregisterWorker,
};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};
use crate::value::Value;
use crate::wire::{Reading, Rest, Row};

/// A worker that leaves stays on the list for so long, or until its leases are handed back.
const DISCONNECT_MS: u64 = 60_000;

impl<H: Host + ?Sized> Workers for ScriptBackend<H> {
    fn register_worker(&self, registration: WorkerRegistration) -> Answer<'_, Registered> {
        Box::pin(async move {
            registration.validate()?;
            let minted = || WorkerSession::from_uuid(SystemIds.random());
            let session = registration.session.unwrap_or_else(minted);
            let call = RegisterWorker {
                worker_id: registration.worker_id,
                worker_instance_id: registration.worker_instance_id,
                session,
                capabilities: registration.capabilities,
                ttl_ms: registration.ttl_ms,
                lanes: Rest(registration.lanes),
            };
            let RegisterWorkerReply::Registered { expires_at } = self.call(FIRST, call).await?;
            Ok(Registered { session, expires_at })
        })
    }

    fn heartbeat_worker(
        &self,
        worker_instance_id: WorkerInstanceId,
        request: Heartbeat,
    ) -> Answer<'_, Registered> {
        Box::pin(async move {
            request.validate()?;
            let Heartbeat { session, ttl_ms } = request;
            let call = HeartbeatWorker { worker_instance_id, session, ttl_ms };
            let HeartbeatWorkerReply::Extended { expires_at } = self.call(FIRST, call).await?;
            Ok(Registered { session, expires_at })
        })
    }

    /// Off the list last: while it is there, no other process can have the instance id, whose
    /// leases these would be.
    fn disconnect_worker(
        &self,
        worker_instance_id: WorkerInstanceId,
        request: Disconnect,
    ) -> Answer<'_, Disconnected> {
        Box::pin(async move {
            let session = request.session;
            let leaving = Heartbeat { session, ttl_ms: DISCONNECT_MS };
            match self.heartbeat_worker(worker_instance_id.clone(), leaving).await {
                Err(error) if error.code() != Some(Code::WorkerNotFound) => return Err(error),
                _ => {}
            }
            let mut handed_back = 0;
            for partition in self.config.flow_partitions() {
                handed_back += self.release_leases(partition, &worker_instance_id).await?;
            }
            self.call(FIRST, UnregisterWorker { worker_instance_id, session }).await?;
            Ok(Disconnected { handed_back })
        })
    }

    fn list_workers(&self) -> Answer<'_, WorkerList> {
        Box::pin(async move {
            let ListWorkersReply::Workers { workers } = self.call(FIRST, ListWorkers {}).await?;
            let workers = workers.0.into_iter().map(|row| read_row(row, "worker"));
            Ok(WorkerList { workers: workers.collect::<Result<_, _>>()? })
        })
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
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
}

impl Row for WorkerRecord {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        Some(Self {
            worker_instance_id: Reading::read(values.next()?)?,
            worker_id: Reading::read(values.next()?)?,
            registered_at: Reading::read(values.next()?)?,
            expires_at: Reading::read(values.next()?)?,
            capabilities: Reading::read(values.next()?)?,
            lanes: {
                let lanes = String::read(values.next()?)?;
                lanes.lines().map(|lane| lane.parse().ok()).collect::<Option<_>>()?
            },
        })
    }
}
