//! Somebody who submits executions and works on them.

use std::sync::Arc;

use ff_core::backend::Handle;
use ff_core::capability::CapabilitySet;
use ff_core::contracts::{ClaimRequest, NewExecution, Tags};
use ff_core::engine_backend::EngineBackend;
use ff_core::partition::Partition;
use ff_core::policy::ExecutionPolicy;
use ff_core::types::{
    ExecutionId, ExecutionKind, LaneId, LeaseId, Namespace, WorkerId, WorkerInstanceId,
};

use crate::Failure;
use crate::arguments::LoadOptions;
use crate::ids::Ids;
use crate::store::Store;

/// Usual for workers, and long enough for any run's slowest call.
const LEASE_TTL_MS: u64 = 30_000;

/// One submitter and worker. Works on groups of executions that one claim can take together.
pub(crate) struct Worker {
    backend: Arc<dyn EngineBackend>,
    ids: Ids,
    partitions: u16,
    names: Names,
    payload: Vec<u8>,
    result: Vec<u8>,
    group: usize,
}

#[derive(Clone)]
struct Names {
    namespace: Namespace,
    lane: LaneId,
    kind: ExecutionKind,
    worker_id: WorkerId,
    worker_instance_id: WorkerInstanceId,
}

impl Worker {
    /// A worker that takes `group` executions by one claim.
    pub(crate) fn new(store: &Store, load: &LoadOptions, group: u16) -> Result<Self, Failure> {
        let names = Names {
            namespace: Namespace::try_new("bench")?,
            lane: LaneId::try_new("bench")?,
            kind: ExecutionKind::try_new("bench")?,
            worker_id: WorkerId::try_new("bench")?,
            worker_instance_id: WorkerInstanceId::try_new("bench-1")?,
        };
        Ok(Self {
            backend: Arc::clone(&store.backend),
            ids: Ids::new(),
            partitions: store.partitions(),
            names,
            payload: vec![b'p'; usize::try_from(load.payload)?],
            result: vec![b'r'; usize::try_from(load.result)?],
            group: usize::from(group),
        })
    }

    /// As many workers.
    pub(crate) fn several(
        store: &Store,
        load: &LoadOptions,
        group: u16,
    ) -> Result<Vec<Self>, Failure> {
        (0..load.concurrency).map(|_| Self::new(store, load, group)).collect()
    }

    /// Creates a group of executions, one by one, on a partition that it answers.
    pub(crate) async fn create_group(&mut self) -> Result<Partition, Failure> {
        let partition = Partition::flow(self.ids.below(self.partitions));
        for _ in 0..self.group {
            let execution = self.execution(partition);
            self.backend.create(execution).await?;
        }
        Ok(partition)
    }

    /// Creates executions with few calls.
    pub(crate) async fn create_many(
        &mut self,
        partition: Partition,
        count: u64,
    ) -> Result<(), Failure> {
        let executions = (0..count).map(|_| self.execution(partition)).collect();
        for created in self.backend.create_many(executions).await {
            created?;
        }
        Ok(())
    }

    fn execution(&mut self, partition: Partition) -> NewExecution {
        NewExecution {
            execution_id: ExecutionId::from_parts(partition, self.ids.uuid()),
            namespace: self.names.namespace.clone(),
            lane: self.names.lane.clone(),
            kind: self.names.kind.clone(),
            priority: 0,
            creator: String::new(),
            policy: ExecutionPolicy::default(),
            payload: self.payload.clone(),
            delay_until: None,
            deadline_at: None,
            tags: Tags::new(),
            idempotency_key: None,
        }
    }

    /// Claims a whole group. Who claims as many as it created always finds enough: somebody else
    /// may take what it created, but never more than that other one created.
    pub(crate) async fn claim_group(
        &mut self,
        partition: Partition,
    ) -> Result<Vec<Handle>, Failure> {
        let lease_ids = (0..self.group).map(|_| LeaseId::from_uuid(self.ids.uuid())).collect();
        let request = ClaimRequest {
            kinds: Vec::new(),
            lane: self.names.lane.clone(),
            worker_id: self.names.worker_id.clone(),
            worker_instance_id: self.names.worker_instance_id.clone(),
            capabilities: CapabilitySet::default(),
            lease_ttl_ms: LEASE_TTL_MS,
            lease_ids,
            retry: false,
        };
        let claimed = self.backend.claim_next(partition, request).await?;
        if claimed.len() != self.group {
            let (wanted, found) = (self.group, claimed.len());
            return Err(format!("a claim on {partition} found {found} of {wanted}").into());
        }
        Ok(claimed.into_iter().map(|claimed| claimed.handle).collect())
    }

    /// Ends an execution in success.
    pub(crate) async fn complete(&self, handle: &Handle) -> Result<(), Failure> {
        Ok(self.backend.complete(handle, Some(self.result.clone())).await?)
    }
}
