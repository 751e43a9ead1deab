//! Somebody who submits executions and works on them.

use std::sync::Arc;

use ff_core::backend::Handle;
use ff_core::capability::CapabilitySet;
use ff_core::contracts::{
    ANY_SIGNAL, ClaimRequest, Condition, CreateExecution, DeliverSignal, Signal, SignalOutcome,
    SuspendOutcome, SuspendRequest, TakeFrom, TickRequest,
};
use ff_core::engine_backend::PartitionBackend;
use ff_core::error::Code;
use ff_core::need::Need;
use ff_core::partition::Partition;
use ff_core::policy::ExecutionPolicy;
use ff_core::types::{
    ExecutionId, ExecutionKind, LaneId, LeaseId, Namespace, WaitpointId, WaitpointToken, WorkerId,
    WorkerInstanceId,
};

use crate::Failure;
use crate::arguments::LoadOptions;
use crate::ids::Ids;
use crate::store::Store;

/// Usual for workers, and long enough for any run's slowest call.
const LEASE_TTL_MS: u64 = 30_000;

/// What suspended executions wait for.
const GO_ON: &str = "go_on";

/// In form a token, and nobody's.
const WRONG_TOKEN: &str = "k1:0000000000000000000000000000000000000000";

/// What a signal is refused by.
#[derive(Clone, Copy)]
pub(crate) enum Refusal {
    /// Its token, after a digest.
    ByToken,
    /// Its name, which no signal can have, before anything is read.
    ByName,
}

/// One submitter and worker. Works on groups of executions that one claim can take together.
pub(crate) struct Worker {
    backend: Arc<dyn PartitionBackend>,
    ids: Ids,
    partitions: u16,
    names: Names,
    payload: Vec<u8>,
    result: Vec<u8>,
    group: usize,
    lease_ttl_ms: u64,
    policy: Option<ExecutionPolicy>,
}

#[derive(Clone)]
struct Names {
    namespace: Namespace,
    lane: LaneId,
    kind: ExecutionKind,
    worker_id: WorkerId,
    worker_instance_id: WorkerInstanceId,
}

impl Names {
    /// The queue that the executions wait in, which whoever claims for workers names.
    fn need(&self) -> Need {
        let (namespace, kind) = (self.namespace.clone(), self.kind.clone());
        Need { namespace, kind, capabilities: CapabilitySet::default() }
    }
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
            lease_ttl_ms: LEASE_TTL_MS,
            policy: None,
        })
    }

    /// The same, whose leases last so long.
    pub(crate) fn with_lease_ttl(mut self, lease_ttl_ms: u64) -> Self {
        self.lease_ttl_ms = lease_ttl_ms;
        self
    }

    /// The same, whose executions are kept so long when they have ended.
    pub(crate) fn with_retention(mut self, retention_ms: u64) -> Self {
        let retention_ms = Some(retention_ms);
        self.policy = Some(ExecutionPolicy { retention_ms, ..ExecutionPolicy::default() });
        self
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

    fn execution(&mut self, partition: Partition) -> CreateExecution {
        CreateExecution {
            namespace: Some(self.names.namespace.clone()),
            lane: Some(self.names.lane.clone()),
            policy: self.policy.clone(),
            ..CreateExecution::new(self.names.kind.clone())
                .with_id(ExecutionId::from_parts(partition, self.ids.uuid()))
                .with_payload(self.payload.clone())
        }
    }

    /// Claims a whole group. Who claims as many as it created always finds enough: somebody else
    /// may take what it created, but never more than that other one created.
    pub(crate) async fn claim_group(
        &mut self,
        partition: Partition,
    ) -> Result<Vec<Handle>, Failure> {
        let claimed = self.claim_some(partition).await?;
        if claimed.len() != self.group {
            let (wanted, found) = (self.group, claimed.len());
            return Err(format!("a claim on {partition} found {found} of {wanted}").into());
        }
        Ok(claimed)
    }

    /// Claims a group, or what is left of one.
    pub(crate) async fn claim_some(
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
            namespaces: Vec::new(),
            from: TakeFrom { need: Some(self.names.need()), score_max: None },
            lease_ttl_ms: self.lease_ttl_ms,
            lease_ids,
            retry: false,
        };
        let claimed = self.backend.claim_next(partition, request).await?.claimed;
        Ok(claimed.into_iter().map(|claimed| claimed.handle).collect())
    }

    /// Suspends an execution until it is told to go on; answers where, and the right to tell it.
    pub(crate) async fn suspend(
        &self,
        handle: &Handle,
    ) -> Result<(WaitpointId, WaitpointToken), Failure> {
        let request = SuspendRequest::new(Condition::any([GO_ON]));
        match self.backend.suspend(handle, request).await? {
            SuspendOutcome::Suspended { waitpoint_id, waitpoint_token, .. } => {
                Ok((waitpoint_id, waitpoint_token))
            }
            other => Err(format!("nothing was signalled, but {other:?}").into()),
        }
    }

    /// Tells an execution to go on.
    pub(crate) async fn signal(
        &self,
        execution_id: ExecutionId,
        waitpoint_id: WaitpointId,
        waitpoint_token: WaitpointToken,
    ) -> Result<(), Failure> {
        let signal_name = GO_ON.to_owned();
        let signal = Signal { signal_name, waitpoint_token, ..Signal::default() };
        let request = DeliverSignal::to_waitpoint(waitpoint_id, signal);
        match self.backend.deliver_signal(execution_id, request).await? {
            SignalOutcome::TriggeredResume { .. } => Ok(()),
            other => Err(format!("a signal that was waited for did this: {other:?}").into()),
        }
    }

    /// Sends a signal without the right to, which is to be refused.
    pub(crate) async fn refused_signal(
        &self,
        execution_id: ExecutionId,
        waitpoint_id: WaitpointId,
        refusal: Refusal,
    ) -> Result<(), Failure> {
        let (signal_name, expected) = match refusal {
            Refusal::ByToken => (GO_ON, Code::InvalidToken),
            Refusal::ByName => (ANY_SIGNAL, Code::InvalidInput),
        };
        let waitpoint_token = WaitpointToken::new(WRONG_TOKEN);
        let signal_name = signal_name.to_owned();
        let signal = Signal { signal_name, waitpoint_token, ..Signal::default() };
        let request = DeliverSignal::to_waitpoint(waitpoint_id, signal);
        match self.backend.deliver_signal(execution_id, request).await {
            Err(error) if error.code() == Some(expected) => Ok(()),
            other => Err(format!("a signal that is to be refused did this: {other:?}").into()),
        }
    }

    /// Does what is due in a partition.
    pub(crate) async fn tick(&self, partition: Partition, batch: u32) -> Result<(), Failure> {
        self.backend.tick(partition, TickRequest::once(batch)).await?;
        Ok(())
    }

    /// Ends an execution in success.
    pub(crate) async fn complete(&self, handle: &Handle) -> Result<(), Failure> {
        Ok(self.backend.complete(handle, Some(self.result.clone())).await?)
    }
}
