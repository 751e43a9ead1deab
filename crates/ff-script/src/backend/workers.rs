//! The registry of workers. Each is kept in the partition that its instance id hashes to, so that
//! heartbeats load all partitions alike; who lists them asks all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ff_core::contracts::{
    Disconnect, Disconnected, Heartbeat, Registered, WorkerList, WorkerRecord, WorkerRegistration,
};
use ff_core::engine_backend::{Answer, Workers};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, ExecutionRef, WorkerInstanceId, WorkerSession};

use super::reads::read_row;
use super::{FIRST, ScriptBackend, call};
use crate::calls::worker::{
    HandBackLeases, HandBackLeasesReply, HeartbeatWorker, HeartbeatWorkerReply, ListWorkers,
    ListWorkersReply, RegisterWorker, RegisterWorkerReply, ReleaseWorkerLeases,
    ReleaseWorkerLeasesReply, UnregisterWorker,
};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};
use crate::library::fnv1a;
use crate::value::Value;
use crate::wire::{Joined, Reading, Rest, Row};

/// A worker that leaves stays on the list for so long, or until its leases are handed back.
const DISCONNECT_MS: u64 = 60_000;

/// How old a list of workers may be for those who only look.
const KEPT: Duration = Duration::from_secs(1);

/// Engines find each other at every beat, and are few: all of them are in the first partition, so
/// that it is the only one that they ask.
const ENGINES: &str = "flowfabric-engine-";

/// The list of workers as it was a moment ago.
pub(super) type Known = Mutex<Option<(Instant, Vec<WorkerRecord>)>>;

impl<H: Host + ?Sized> Workers for ScriptBackend<H> {
    fn register_worker(&self, registration: WorkerRegistration) -> Answer<'_, Registered> {
        Box::pin(async move {
            registration.validate()?;
            let minted = || WorkerSession::from_uuid(SystemIds.random());
            let session = registration.session.unwrap_or_else(minted);
            let instance = registration.worker_instance_id.clone();
            let call = registering(registration, session);
            let RegisterWorkerReply::Registered { expires_at, replaced } =
                self.call(self.home(&instance), call).await?;
            self.forget_workers();
            if replaced {
                // The new process has claimed nothing yet: what is under its name was the other's.
                self.release_all(&instance).await?;
            }
            Ok(Registered { session, expires_at, at_capacity: false })
        })
    }

    fn heartbeat_worker(
        &self,
        worker_instance_id: WorkerInstanceId,
        request: Heartbeat,
    ) -> Answer<'_, Registered> {
        Box::pin(async move {
            request.validate()?;
            let Heartbeat { session, ttl_ms, running } = request;
            let home = self.home(&worker_instance_id);
            let call = HeartbeatWorker { worker_instance_id, session, ttl_ms, running };
            let HeartbeatWorkerReply::Extended { expires_at, at_capacity } =
                self.call(home, call).await?;
            Ok(Registered { session, expires_at, at_capacity })
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
            request.validate()?;
            let session = request.session;
            let leaving = Heartbeat { session, ttl_ms: DISCONNECT_MS, running: None };
            match self.heartbeat_worker(worker_instance_id.clone(), leaving).await {
                Err(error) if error.code() != Some(Code::WorkerNotFound) => return Err(error),
                _ => {}
            }
            let handed_back = match request.executions {
                Some(executions) => self.hand_back(&worker_instance_id, executions).await?,
                None => self.release_all(&worker_instance_id).await?,
            };
            let home = self.home(&worker_instance_id);
            self.call(home, UnregisterWorker { worker_instance_id, session }).await?;
            self.forget_workers();
            Ok(Disconnected { handed_back })
        })
    }

    fn list_workers(&self) -> Answer<'_, WorkerList> {
        Box::pin(async move { Ok(WorkerList { workers: self.all_workers().await? }) })
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Where an instance is registered. It must not depend on anything but its id and the number of
    /// partitions: processes of all versions have to agree.
    pub fn home(&self, instance: &WorkerInstanceId) -> Partition {
        if is_engine(instance) {
            return FIRST;
        }
        let count = u64::from(self.config.num_flow_partitions.max(1));
        let index = fnv1a(instance.as_str().as_bytes()) % count;
        Partition::flow(u16::try_from(index).expect("less than the number of partitions"))
    }

    /// The workers that are registered in one partition.
    pub(super) async fn workers_on(
        &self,
        partition: Partition,
    ) -> Result<Vec<WorkerRecord>, EngineError> {
        listed(Arc::clone(&self.host), partition).await
    }

    async fn all_workers(&self) -> Result<Vec<WorkerRecord>, EngineError> {
        let mut workers = Vec::new();
        self.ask_all("list_workers", listed, |part| workers.extend(part)).await?;
        workers
            .sort_unstable_by(|one, other| one.worker_instance_id.cmp(&other.worker_instance_id));
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), workers.clone()));
        Ok(workers)
    }

    /// The workers, perhaps as they were a moment ago: what this process itself changed is seen at
    /// once.
    pub(super) async fn recent(&self) -> Result<Vec<WorkerRecord>, EngineError> {
        let known = self.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known.filter(|(at, _)| at.elapsed() < KEPT) {
            Some((_, workers)) => Ok(workers),
            None => self.all_workers().await,
        }
    }

    fn forget_workers(&self) {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Hands back what a worker says it holds: one call for each partition of those.
    async fn hand_back(
        &self,
        instance: &WorkerInstanceId,
        executions: Vec<ExecutionRef>,
    ) -> Result<u32, EngineError> {
        let mut by_partition: BTreeMap<Partition, Vec<ExecutionId>> = BTreeMap::new();
        for name in executions {
            let id = name.resolve(&self.config)?;
            by_partition.entry(id.partition()).or_default().push(id);
        }
        let mut all = 0;
        for (partition, ids) in by_partition {
            for some in ids.chunks(limits::RELEASE_SCAN_MAX as usize) {
                let worker_instance_id = instance.clone();
                let execution_ids = Rest(some.to_vec());
                let call = HandBackLeases { worker_instance_id, execution_ids };
                let HandBackLeasesReply::HandedBack { released } =
                    self.call(partition, call).await?;
                all += released;
            }
        }
        Ok(all)
    }

    /// Looks through all partitions for leases of an instance, and hands them back.
    async fn release_all(&self, instance: &WorkerInstanceId) -> Result<u32, EngineError> {
        let mut all = 0;
        let release = |host: Arc<H>, partition| release(host, partition, instance.clone());
        self.ask_all("release_worker_leases", release, |part: u32| all += part).await?;
        Ok(all)
    }
}

/// Engines are in the same registry; they are no workers to others.
pub(super) fn is_engine(instance: &WorkerInstanceId) -> bool {
    instance.as_str().starts_with(ENGINES)
}

fn registering(registration: WorkerRegistration, session: WorkerSession) -> RegisterWorker {
    RegisterWorker {
        worker_id: registration.worker_id,
        worker_instance_id: registration.worker_instance_id,
        session,
        capabilities: registration.capabilities,
        ttl_ms: registration.ttl_ms,
        kinds: Joined(registration.kinds),
        running: registration.running,
        capacity: registration.capacity,
        process: registration.process.unwrap_or_default(),
        replaces: registration.replaces.unwrap_or_default(),
        namespaces: Joined(registration.namespaces),
        lanes: Rest(registration.lanes),
    }
}

async fn listed<H: Host + ?Sized>(
    host: Arc<H>,
    partition: Partition,
) -> Result<Vec<WorkerRecord>, EngineError> {
    let ListWorkersReply::Workers { workers } =
        call(host.as_ref(), partition, ListWorkers {}).await?;
    workers.0.into_iter().map(|row| read_row(row, "worker")).collect()
}

async fn release<H: Host + ?Sized>(
    host: Arc<H>,
    partition: Partition,
    worker_instance_id: WorkerInstanceId,
) -> Result<u32, EngineError> {
    let (mut all, mut next) = (0, Some(0));
    while let Some(skip) = next {
        let worker_instance_id = worker_instance_id.clone();
        let asked = ReleaseWorkerLeases { worker_instance_id, skip };
        let ReleaseWorkerLeasesReply::Released { released, next_skip } =
            call(host.as_ref(), partition, asked).await?;
        (all, next) = (all + released, next_skip);
    }
    Ok(all)
}

/// In the order of `lua/verb/worker.lua`.
impl Row for WorkerRecord {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        Some(Self {
            worker_instance_id: Reading::read(values.next()?)?,
            worker_id: Reading::read(values.next()?)?,
            registered_at: Reading::read(values.next()?)?,
            expires_at: Reading::read(values.next()?)?,
            capabilities: Reading::read(values.next()?)?,
            lanes: names(values.next()?)?,
            kinds: names(values.next()?)?,
            running: Reading::read(values.next()?)?,
            capacity: Reading::read(values.next()?)?,
            heard_at: Reading::read(values.next()?)?,
            // What its process is called is for those who want its instance id.
            namespaces: names(values.nth(1)?)?,
        })
    }
}

/// Names on lines of their own.
fn names<T: std::str::FromStr>(value: Value) -> Option<Vec<T>> {
    String::read(value)?.lines().map(|name| name.parse().ok()).collect()
}
