//! One `EngineBackend` over any host: encodes, sends, decodes, and decides nothing about state.

mod claim;
mod completions;
mod create;
mod outcome;
mod read;
mod worker;

pub use completions::Completions;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Handle, LeaseRenewal};
use ff_core::backend_error::Retry;
use ff_core::contracts::{
    AttemptRecord, CancelSource, ClaimGrant, ClaimRequest, Claimed, Created, EventPage,
    ExecutionSnapshot, GrantRequest, LaneDepth, LanePage, LeaseRequest, ListFilter, ListPage,
    NewExecution, NextGrant, NextGrantRequest, PriorityChange, ReclaimGrant, RevokeOutcome, Tags,
    TickReport, WorkerRecord, WorkerRegistration,
};
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::state::PublicState;
use ff_core::types::{
    EventCursor, ExecutionId, LaneId, LeaseId, Moment, RequestId, TimestampMs, WorkerInstanceId,
    WorkerSession,
};
use futures_core::future::BoxFuture;

use crate::call::{Call, open_reply};
use crate::calls::deployment::{OpenDeployment, RegisterLane};
use crate::host::Host;

/// How often a call whose answer was lost is sent again. Every call recognises its repetition.
const REPEATS_MAX: u32 = 3;

/// The partition that keeps what holds for the whole deployment.
const FIRST: Partition = Partition::flow(0);

/// The engine's API over a host that runs the function library.
pub struct ScriptBackend<H> {
    host: Arc<H>,
    config: PartitionConfig,
    lanes: RwLock<HashSet<LaneId>>,
    /// The losses of the store after which the lanes were made known.
    losses: AtomicU64,
}

impl<H: Host> ScriptBackend<H> {
    /// Opens the deployment on this host: a new one gets these partition counts, an existing one
    /// must have them, and must have been written in the format of this version.
    pub async fn open(host: Arc<H>, config: PartitionConfig) -> Result<Self, EngineError> {
        let losses = AtomicU64::new(host.losses());
        let backend = Self { host, config, lanes: RwLock::default(), losses };
        backend.open_deployment().await?;
        Ok(backend)
    }

    async fn open_deployment(&self) -> Result<(), EngineError> {
        let open = OpenDeployment {
            num_flow_partitions: self.config.num_flow_partitions,
            num_budget_partitions: self.config.num_budget_partitions,
            num_quota_partitions: self.config.num_quota_partitions,
            format: limits::STORE_FORMAT,
        };
        self.call(FIRST, open).await.map(drop)
    }

    /// The host underneath.
    pub fn host(&self) -> &Arc<H> {
        &self.host
    }

    /// Runs one typed call. A call whose answer was lost is repeated a few times.
    pub async fn call<C: Call>(
        &self,
        partition: Partition,
        mut call: C,
    ) -> Result<C::Reply, EngineError> {
        let (begun, mut repeats) = (Instant::now(), 0);
        loop {
            match self.host.call(C::FUNCTION, partition, call.encode_short()).await {
                Ok(reply) => {
                    let (status, values) = open_reply(C::CONTRACT.name, reply)?;
                    return C::decode(&status, values);
                }
                Err(error) if error.retry == Retry::IfReplaySafe && repeats < REPEATS_MAX => {
                    repeats += 1;
                    call.mark_repeated(begun.elapsed());
                }
                Err(error) => return Err(EngineError::from(error).in_context(C::CONTRACT.name)),
            }
        }
    }

    /// A call on one execution, on the partition that its id names.
    async fn call_on<C: Call>(&self, id: ExecutionId, call: C) -> Result<C::Reply, EngineError> {
        id.check(&self.config)?;
        self.call(id.partition(), call).await
    }

    /// Makes a lane known before its first use by this process.
    async fn register_lane(&self, lane: &LaneId) -> Result<(), EngineError> {
        self.forget_after_loss().await?;
        if self.lanes.read().unwrap_or_else(PoisonError::into_inner).contains(lane) {
            return Ok(());
        }
        self.call(FIRST, RegisterLane { lane: lane.clone() }).await?;
        self.lanes.write().unwrap_or_else(PoisonError::into_inner).insert(lane.clone());
        Ok(())
    }
}

impl<H: Host> ScriptBackend<H> {
    /// A store that has lost something may have lost the deployment's record and its lanes.
    async fn forget_after_loss(&self) -> Result<(), EngineError> {
        let losses = self.host.losses();
        if self.losses.load(Ordering::Relaxed) != losses {
            self.open_deployment().await?;
            self.lanes.write().unwrap_or_else(PoisonError::into_inner).clear();
            self.losses.store(losses, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<H: Host> EngineBackend for ScriptBackend<H> {
    fn create(&self, execution: NewExecution) -> Answer<'_, Created> {
        Box::pin(self.create_one(execution))
    }

    fn create_many(
        &self,
        executions: Vec<NewExecution>,
    ) -> BoxFuture<'_, Vec<Result<Created, EngineError>>> {
        Box::pin(self.create_all(executions))
    }

    fn claim_next(&self, partition: Partition, request: ClaimRequest) -> Answer<'_, Vec<Claimed>> {
        Box::pin(self.claim_from_queue(partition, request))
    }

    fn recall_claims(
        &self,
        partition: Partition,
        request: ClaimRequest,
    ) -> Answer<'_, Vec<Claimed>> {
        Box::pin(self.recall_from_partition(partition, request))
    }

    fn issue_claim_grant(&self, request: GrantRequest) -> Answer<'_, ClaimGrant> {
        Box::pin(self.grant_claim(request))
    }

    fn grant_next(
        &self,
        partition: Partition,
        request: NextGrantRequest,
    ) -> Answer<'_, Option<NextGrant>> {
        Box::pin(self.grant_best(partition, request))
    }

    fn claim_from_grant<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        Box::pin(self.claim_granted(grant, lease))
    }

    fn claim_resumed<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        Box::pin(self.claim_paused(grant, lease))
    }

    fn issue_reclaim_grant(&self, request: GrantRequest) -> Answer<'_, ReclaimGrant> {
        Box::pin(self.grant_reclaim(request))
    }

    fn claim_from_reclaim_grant<'a>(
        &'a self,
        grant: &'a ReclaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        Box::pin(self.reclaim_granted(grant, lease))
    }

    fn renew<'a>(&'a self, handle: &'a Handle) -> Answer<'a, LeaseRenewal> {
        Box::pin(self.renew_lease(handle))
    }

    fn progress<'a>(
        &'a self,
        handle: &'a Handle,
        percent: Option<u8>,
        message: Option<String>,
    ) -> Answer<'a, ()> {
        Box::pin(self.report_progress(handle, percent, message))
    }

    fn complete<'a>(&'a self, handle: &'a Handle, result: Option<Vec<u8>>) -> Answer<'a, ()> {
        Box::pin(self.complete_attempt(handle, result.unwrap_or_default()))
    }

    fn fail<'a>(
        &'a self,
        handle: &'a Handle,
        reason: FailureReason,
        class: FailureClass,
    ) -> Answer<'a, FailOutcome> {
        Box::pin(self.fail_attempt(handle, reason, class))
    }

    fn cancel<'a>(&'a self, handle: &'a Handle, reason: &'a str) -> Answer<'a, ()> {
        Box::pin(self.cancel_attempt(handle, reason))
    }

    fn delay<'a>(&'a self, handle: &'a Handle, until: Moment) -> Answer<'a, ()> {
        Box::pin(self.delay_attempt(handle, until))
    }

    fn wait_children<'a>(&'a self, handle: &'a Handle) -> Answer<'a, ()> {
        Box::pin(self.wait_for_children(handle))
    }

    fn cancel_execution<'a>(
        &'a self,
        execution_id: ExecutionId,
        reason: &'a str,
        source: CancelSource,
        request_id: Option<RequestId>,
    ) -> Answer<'a, ()> {
        Box::pin(self.cancel_from_outside(execution_id, reason, source, request_id))
    }

    fn revoke_lease<'a>(
        &'a self,
        execution_id: ExecutionId,
        expected: Option<LeaseId>,
        reason: &'a str,
        request_id: Option<RequestId>,
    ) -> Answer<'a, RevokeOutcome> {
        Box::pin(self.revoke(execution_id, expected, reason, request_id))
    }

    fn change_priority(
        &self,
        execution_id: ExecutionId,
        priority: u16,
        request_id: Option<RequestId>,
    ) -> Answer<'_, PriorityChange> {
        Box::pin(self.set_priority(execution_id, priority, request_id))
    }

    fn replay<'a>(
        &'a self,
        execution_id: ExecutionId,
        reason: &'a str,
        requested_by: &'a str,
        request_id: Option<RequestId>,
    ) -> Answer<'a, PublicState> {
        Box::pin(self.replay_ended(execution_id, reason, requested_by, request_id))
    }

    fn set_tags(
        &self,
        execution_id: ExecutionId,
        tags: Tags,
        request_id: Option<RequestId>,
    ) -> Answer<'_, ()> {
        Box::pin(self.tag(execution_id, tags, request_id))
    }

    fn describe_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Answer<'_, Option<ExecutionSnapshot>> {
        Box::pin(self.describe(execution_id))
    }

    fn read_result(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(self.result(execution_id))
    }

    fn read_payload(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(self.payload(execution_id))
    }

    fn list_attempts(&self, execution_id: ExecutionId) -> Answer<'_, Vec<AttemptRecord>> {
        Box::pin(self.attempts(execution_id))
    }

    fn list_executions<'a>(
        &'a self,
        partition: Partition,
        filter: &'a ListFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Answer<'a, ListPage> {
        Box::pin(self.list(partition, filter, cursor, limit))
    }

    fn list_lanes(&self, after: Option<LaneId>, limit: u32) -> Answer<'_, LanePage> {
        Box::pin(self.lane_page(after, limit))
    }

    fn read_events(
        &self,
        partition: Partition,
        after: Option<EventCursor>,
        limit: u32,
    ) -> Answer<'_, EventPage> {
        Box::pin(self.events(partition, after, limit))
    }

    fn register_worker(&self, registration: WorkerRegistration) -> Answer<'_, TimestampMs> {
        Box::pin(self.register(registration))
    }

    fn heartbeat_worker<'a>(
        &'a self,
        worker_instance_id: &'a WorkerInstanceId,
        session: WorkerSession,
        ttl_ms: u64,
    ) -> Answer<'a, TimestampMs> {
        Box::pin(self.heartbeat(worker_instance_id, session, ttl_ms))
    }

    fn disconnect_worker<'a>(
        &'a self,
        worker_instance_id: &'a WorkerInstanceId,
        session: WorkerSession,
    ) -> Answer<'a, u32> {
        Box::pin(self.disconnect(worker_instance_id, session))
    }

    fn list_workers(&self) -> Answer<'_, Vec<WorkerRecord>> {
        Box::pin(self.workers())
    }

    fn lane_depths(&self, partition: Partition, lanes: Vec<LaneId>) -> Answer<'_, Vec<LaneDepth>> {
        Box::pin(self.depths(partition, lanes))
    }

    fn tick(&self, partition: Partition, max: u32) -> Answer<'_, TickReport> {
        Box::pin(self.tick_partition(partition, max))
    }

    fn partition_config(&self) -> PartitionConfig {
        self.config
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}
