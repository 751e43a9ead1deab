//! The trait that workers, the server and the engine program against. A worker built on any
//! implementation has the whole API: nothing reaches around it.

use futures_core::future::BoxFuture;

use crate::backend::{FailOutcome, FailureClass, FailureReason, Handle, LeaseRenewal};
use crate::contracts::{
    AttemptRecord, CancelSource, ClaimGrant, ClaimRequest, Claimed, Created, EventPage,
    ExecutionSnapshot, GrantRequest, LaneDepth, LanePage, LeaseRequest, ListFilter, ListPage,
    NewExecution, NextGrant, NextGrantRequest, PriorityChange, ReclaimGrant, RevokeOutcome, Tags,
    TickReport, WorkerRecord, WorkerRegistration,
};
use crate::error::EngineError;
use crate::partition::{Partition, PartitionConfig};
use crate::state::PublicState;
use crate::types::{
    EventCursor, ExecutionId, LaneId, LeaseId, Moment, RequestId, TimestampMs, WorkerInstanceId,
    WorkerSession,
};

/// What a call answers in the end.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, EngineError>>;

/// A place where executions live.
///
/// Every change is atomic: it happened as a whole or not at all. Every call may be repeated when
/// its answer was lost: terminal calls recognise their own fence, claims their own lease id. A
/// backend that cannot do something answers [`EngineError::Unavailable`].
pub trait EngineBackend: Send + Sync + 'static {
    /// Submits an execution. Repeating it answers [`Created::Duplicate`] and changes nothing.
    fn create(&self, execution: NewExecution) -> Answer<'_, Created>;

    /// Submits several, each on its own: one refusal does not affect the others. Answers in the
    /// order of the request. Repeating it is safe as for [`EngineBackend::create`].
    fn create_many(
        &self,
        executions: Vec<NewExecution>,
    ) -> BoxFuture<'_, Vec<Result<Created, EngineError>>>;

    /// Takes up to as many executions of a lane on one partition as there are lease ids: highest
    /// priority first, then oldest, fresh and interrupted ones alike. Repeating it with `retry` and
    /// the same lease ids answers the same executions.
    fn claim_next(&self, partition: Partition, request: ClaimRequest) -> Answer<'_, Vec<Claimed>>;

    /// What an earlier, unanswered send of a claim took on one partition: the executions that its
    /// worker instance holds under its lease ids. Takes nothing new. A read.
    fn recall_claims(
        &self,
        partition: Partition,
        request: ClaimRequest,
    ) -> Answer<'_, Vec<Claimed>>;

    /// Reserves a waiting execution for one worker. Repeating it for the same worker instance
    /// answers the same grant.
    fn issue_claim_grant(&self, request: GrantRequest) -> Answer<'_, ClaimGrant>;

    /// Reserves the best execution of a lane on one partition that the worker could take, if there
    /// is one. An unused reservation ends by itself.
    fn grant_next(
        &self,
        partition: Partition,
        request: NextGrantRequest,
    ) -> Answer<'_, Option<NextGrant>>;

    /// Starts a new attempt on a reserved execution. Refuses with `use_claim_resumed_execution`,
    /// keeping the grant, if an interrupted attempt is to go on instead. Repeating it with the same
    /// lease id answers the same lease.
    fn claim_from_grant<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed>;

    /// Goes on with the interrupted attempt of a reserved execution. Repeating it with the same
    /// lease id answers the same lease.
    fn claim_resumed<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed>;

    /// Reserves an execution whose lease lapsed or was revoked. Repeating it for the same worker
    /// instance answers the same grant.
    fn issue_reclaim_grant(&self, request: GrantRequest) -> Answer<'_, ReclaimGrant>;

    /// Takes over such an execution with a new attempt. Repeating it with the same lease id answers
    /// the same lease.
    fn claim_from_reclaim_grant<'a>(
        &'a self,
        grant: &'a ReclaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed>;

    /// Extends the lease by its TTL from now; never shortens it. Repeating it is harmless.
    fn renew<'a>(&'a self, handle: &'a Handle) -> Answer<'a, LeaseRenewal>;

    /// Says how far the work is. What is absent stays as it was. Repeating it is harmless.
    fn progress<'a>(
        &'a self,
        handle: &'a Handle,
        percent: Option<u8>,
        message: Option<String>,
    ) -> Answer<'a, ()>;

    /// Ends the execution successfully, with a result or without. A repetition with the same handle
    /// is recognised and answered as the first time.
    fn complete<'a>(&'a self, handle: &'a Handle, result: Option<Vec<u8>>) -> Answer<'a, ()>;

    /// Ends the attempt as failed; the policy decides between a retry and the end. A repetition
    /// with the same handle is recognised and answered as the first time.
    fn fail<'a>(
        &'a self,
        handle: &'a Handle,
        reason: FailureReason,
        class: FailureClass,
    ) -> Answer<'a, FailOutcome>;

    /// Ends the execution as cancelled, by the holder of its lease. A repetition with the same
    /// handle is recognised.
    fn cancel<'a>(&'a self, handle: &'a Handle, reason: &'a str) -> Answer<'a, ()>;

    /// Gives the execution back until a time; then the same attempt goes on, with any worker. A
    /// repetition with the same handle is recognised.
    fn delay<'a>(&'a self, handle: &'a Handle, until: Moment) -> Answer<'a, ()>;

    /// Gives the execution back until its children have ended; then the same attempt goes on, with
    /// any worker. At once if it has none. A repetition with the same handle is recognised.
    fn wait_children<'a>(&'a self, handle: &'a Handle) -> Answer<'a, ()>;

    /// Cancels an execution from outside, in any phase. Changes from outside carry a request id: a
    /// repetition with the same one has no second effect, whatever others did in between. Without
    /// one, the backend makes one for the call.
    fn cancel_execution<'a>(
        &'a self,
        execution_id: ExecutionId,
        reason: &'a str,
        source: CancelSource,
        request_id: Option<RequestId>,
    ) -> Answer<'a, ()>;

    /// Takes a lease away; another worker may take over. With an expected lease only that one.
    /// Repeating it answers that it has been done.
    fn revoke_lease<'a>(
        &'a self,
        execution_id: ExecutionId,
        expected: Option<LeaseId>,
        reason: &'a str,
        request_id: Option<RequestId>,
    ) -> Answer<'a, RevokeOutcome>;

    /// Changes the priority of an execution that has not ended.
    fn change_priority(
        &self,
        execution_id: ExecutionId,
        priority: u16,
        request_id: Option<RequestId>,
    ) -> Answer<'_, PriorityChange>;

    /// Runs an ended execution again; one that has not ended is refused.
    fn replay<'a>(
        &'a self,
        execution_id: ExecutionId,
        reason: &'a str,
        requested_by: &'a str,
        request_id: Option<RequestId>,
    ) -> Answer<'a, PublicState>;

    /// Adds labels or replaces their values.
    fn set_tags(
        &self,
        execution_id: ExecutionId,
        tags: Tags,
        request_id: Option<RequestId>,
    ) -> Answer<'_, ()>;

    /// Everything about an execution at one moment; none if it does not exist. A read.
    fn describe_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Answer<'_, Option<ExecutionSnapshot>>;

    /// The result of a completed execution; none if there is none. A read.
    fn read_result(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>>;

    /// The input of an execution; none if the execution does not exist. A read.
    fn read_payload(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>>;

    /// The attempts of an execution, oldest first. A read.
    fn list_attempts(&self, execution_id: ExecutionId) -> Answer<'_, Vec<AttemptRecord>>;

    /// The executions of one partition that pass a filter, page by page. A read.
    fn list_executions<'a>(
        &'a self,
        partition: Partition,
        filter: &'a ListFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Answer<'a, ListPage>;

    /// The lanes that were ever used, of all partitions, by name, after a given one. A read.
    fn list_lanes(&self, after: Option<LaneId>, limit: u32) -> Answer<'_, LanePage>;

    /// The events of one partition after a position, or from the oldest one kept. A read.
    fn read_events(
        &self,
        partition: Partition,
        after: Option<EventCursor>,
        limit: u32,
    ) -> Answer<'_, EventPage>;

    /// Makes a worker process known, or renews that. A live process with the same instance id and
    /// another session is in the way: refused with `worker_instance_in_use`.
    fn register_worker(&self, registration: WorkerRegistration) -> Answer<'_, TimestampMs>;

    /// Extends a registration. Refused with `worker_not_found` if it ran out: register again.
    fn heartbeat_worker<'a>(
        &'a self,
        worker_instance_id: &'a WorkerInstanceId,
        session: WorkerSession,
        ttl_ms: u64,
    ) -> Answer<'a, TimestampMs>;

    /// Takes a worker off the list and hands its leases back at once; their attempts go on with
    /// any other worker. Answers how many. Repeating it is harmless.
    fn disconnect_worker<'a>(
        &'a self,
        worker_instance_id: &'a WorkerInstanceId,
        session: WorkerSession,
    ) -> Answer<'a, u32>;

    /// The connected workers. A read.
    fn list_workers(&self) -> Answer<'_, Vec<WorkerRecord>>;

    /// How much waits in these lanes of one partition. A read.
    fn lane_depths(&self, partition: Partition, lanes: Vec<LaneId>) -> Answer<'_, Vec<LaneDepth>>;

    /// Does what is due in one partition, at most `max` things, by the store's clock. Repeating it
    /// is harmless: what was done is no longer due.
    fn tick(&self, partition: Partition, max: u32) -> Answer<'_, TickReport>;

    /// How many partitions the deployment has.
    fn partition_config(&self) -> PartitionConfig;

    /// A short name for messages.
    fn name(&self) -> &'static str;
}

/// Compiles only while the trait can be used behind a pointer, as every caller does.
const _: fn(&dyn EngineBackend) = |_| ();
