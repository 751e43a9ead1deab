//! Every call of the engine as a request. What the server has no route for is unavailable.

use ff_api::action::{
    CancelExecution, ChangePriority, ChangedPriority, ReplayExecution, RevokeLease, RevokedLease,
    SetTags,
};
use ff_api::create::{BULK_MAX, BulkCreate, BulkCreated, CreateExecution, CreatedExecution};
use ff_api::deployment::LaneList;
use ff_api::execution::{Execution, ExecutionState};
use ff_api::grant::{ClaimGranted, Grant, GrantExecution};
use ff_api::history::{Attempts, EventPage as WireEventPage};
use ff_api::object::Object;
use ff_api::task::{
    CancelTask, DelayTask, FailTask, FailedTask, ProgressTask, RenewTask, RenewedTask, Task,
    WaitChildrenTask, token_of,
};
use ff_api::worker::{Disconnect, Disconnected, Heartbeat, RegisterWorker, Registered, WorkerList};
use ff_api::{headers, paths};
use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Handle, LeaseRenewal};
use ff_core::contracts::{
    AttemptRecord, CancelSource, ClaimGrant, ClaimRequest, Claimed, Created, EventPage,
    ExecutionSnapshot, GrantRequest, LaneDepth, LanePage, LeaseRequest, ListFilter, ListPage,
    NewExecution, NextGrant, NextGrantRequest, PriorityChange, ReclaimGrant, RevokeOutcome, Tags,
    TickReport, WorkerRecord, WorkerRegistration,
};
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::state::PublicState;
use ff_core::types::{
    EventCursor, ExecutionId, LaneId, LeaseId, Moment, RequestId, TimestampMs, WorkerInstanceId,
    WorkerSession,
};
use ff_script::ids::{IdSource, SystemIds};
use futures_core::future::BoxFuture;

use super::HttpBackend;
use super::call::Call;
use super::work::is_without_result;

impl HttpBackend {
    async fn create_batch(&self, batch: Vec<NewExecution>) -> Vec<Result<Created, EngineError>> {
        let count = batch.len();
        let executions = batch.into_iter().map(|new| Object(CreateExecution::from(new))).collect();
        let call = Call::post(paths::EXECUTIONS_BULK, &BulkCreate { executions });
        let answered: Result<BulkCreated, EngineError> = match call {
            Ok(call) => self.json(call).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(created) if created.results.len() == count => {
                created.results.into_iter().map(Into::into).collect()
            }
            Ok(created) => {
                let error = EngineError::corrupt(
                    "bulk answer",
                    "results",
                    created.results.len().to_string(),
                );
                vec![Err(error); count]
            }
            Err(error) => vec![Err(error); count],
        }
    }

    async fn grant(&self, request: GrantRequest, reclaim: bool) -> Result<Grant, EngineError> {
        request.validate()?;
        let body = GrantExecution {
            worker_id: request.worker_id,
            worker_instance_id: request.worker_instance_id,
            capabilities: request.capabilities,
            grant_ttl_ms: request.grant_ttl_ms,
            reclaim,
            grant_id: Some(request.grant_id),
        };
        let path = paths::fill(paths::EXECUTION_GRANT, request.execution_id);
        self.json(Call::post(path, &body)?).await
    }

    async fn exchange(
        &self,
        grant: NextGrant,
        lease: LeaseRequest,
    ) -> Result<Claimed, EngineError> {
        lease.validate()?;
        let body = ClaimGranted::new(&grant, lease.lease_ttl_ms, Some(lease.lease_id));
        let task: Task = self.json(Call::post(paths::GRANTS_CLAIM, &body)?).await?;
        task.try_into()
    }

    async fn lanes(&self, query: String) -> Result<LaneList, EngineError> {
        self.json(Call::get(format!("{}?{query}", paths::LANES))).await
    }

    async fn depths(
        &self,
        partition: Partition,
        lanes: Vec<LaneId>,
    ) -> Result<Vec<LaneDepth>, EngineError> {
        let mut depths = Vec::new();
        let mut cursor = String::new();
        loop {
            let (index, limit) = (partition.index, limits::LIST_LIMIT_MAX);
            let page = self.lanes(format!("partition={index}&limit={limit}{cursor}")).await?;
            let wanted = page.lanes.into_iter().filter(|depth| lanes.contains(&depth.lane));
            depths.extend(wanted.map(LaneDepth::from));
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={}", paths::encode(next.as_str())),
                None => return Ok(depths),
            }
        }
    }
}

/// What does not exist is no error for a read.
fn found<T>(answer: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Some(Code::ExecutionNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Names a change that the caller did not name, so that all sends of it are one.
fn named(request_id: Option<RequestId>) -> Option<RequestId> {
    Some(request_id.unwrap_or_else(|| RequestId::from_uuid(SystemIds.random())))
}

fn token(handle: &Handle) -> Option<String> {
    Some(token_of(handle))
}

fn unavailable<T: Send + 'static>(op: &'static str) -> Answer<'static, T> {
    Box::pin(std::future::ready(Err(EngineError::Unavailable { op })))
}

impl EngineBackend for HttpBackend {
    fn create(&self, execution: NewExecution) -> Answer<'_, Created> {
        Box::pin(async move {
            let call = Call::post(paths::EXECUTIONS, &CreateExecution::from(execution))?;
            Ok(self.json::<CreatedExecution>(call).await?.into())
        })
    }

    fn create_many(
        &self,
        executions: Vec<NewExecution>,
    ) -> BoxFuture<'_, Vec<Result<Created, EngineError>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(executions.len());
            for batch in batches(executions) {
                answers.extend(self.create_batch(batch).await);
            }
            answers
        })
    }

    /// A server looks for work on all partitions: see [`super::work`].
    fn claim_next(&self, _: Partition, _: ClaimRequest) -> Answer<'_, Vec<Claimed>> {
        unavailable("claim_next on one partition through a server")
    }

    /// The same: a server looks for what an unanswered claim took, see [`super::work`].
    fn recall_claims(&self, _: Partition, _: ClaimRequest) -> Answer<'_, Vec<Claimed>> {
        unavailable("recall_claims on one partition through a server")
    }

    fn issue_claim_grant(&self, request: GrantRequest) -> Answer<'_, ClaimGrant> {
        Box::pin(async move {
            let (worker, instance) =
                (request.worker_id.clone(), request.worker_instance_id.clone());
            match self.grant(request, false).await?.into_next(worker, instance) {
                NextGrant::Claim(grant) | NextGrant::Resume(grant) => Ok(grant),
                NextGrant::Reclaim(_) => Err(EngineError::corrupt("grant", "grant_key", "reclaim")),
            }
        })
    }

    /// The same: a server grants for the whole deployment.
    fn grant_next(&self, _: Partition, _: NextGrantRequest) -> Answer<'_, Option<NextGrant>> {
        unavailable("grant_next on one partition through a server")
    }

    fn claim_from_grant<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        Box::pin(self.exchange(NextGrant::Claim(grant.clone()), lease))
    }

    fn claim_resumed<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        Box::pin(self.exchange(NextGrant::Resume(grant.clone()), lease))
    }

    fn issue_reclaim_grant(&self, request: GrantRequest) -> Answer<'_, ReclaimGrant> {
        Box::pin(async move {
            let (worker, instance) =
                (request.worker_id.clone(), request.worker_instance_id.clone());
            match self.grant(request, true).await?.into_next(worker, instance) {
                NextGrant::Reclaim(grant) => Ok(grant),
                _ => Err(EngineError::corrupt("grant", "grant_key", "not a reclaim")),
            }
        })
    }

    fn claim_from_reclaim_grant<'a>(
        &'a self,
        grant: &'a ReclaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        Box::pin(self.exchange(NextGrant::Reclaim(grant.clone()), lease))
    }

    fn renew<'a>(&'a self, handle: &'a Handle) -> Answer<'a, LeaseRenewal> {
        Box::pin(async move {
            let body = RenewTask { task_token: token(handle) };
            Ok(self.json::<RenewedTask>(Call::post(paths::TASK_RENEW, &body)?).await?.into())
        })
    }

    fn progress<'a>(
        &'a self,
        handle: &'a Handle,
        percent: Option<u8>,
        message: Option<String>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let body = ProgressTask { task_token: token(handle), percent, message };
            self.done(Call::post(paths::TASK_PROGRESS, &body)?).await
        })
    }

    /// The result travels as it is, not inside JSON.
    fn complete<'a>(&'a self, handle: &'a Handle, result: Option<Vec<u8>>) -> Answer<'a, ()> {
        Box::pin(async move {
            let call = Call::post_bytes(paths::TASK_COMPLETE, result.unwrap_or_default());
            self.done(call.with_header(headers::TASK, &token_of(handle))).await
        })
    }

    fn fail<'a>(
        &'a self,
        handle: &'a Handle,
        reason: FailureReason,
        class: FailureClass,
    ) -> Answer<'a, FailOutcome> {
        Box::pin(async move {
            let call = Call::post(paths::TASK_FAIL, &FailTask::new(handle, reason, &class))?;
            Ok(self.json::<FailedTask>(call).await?.into())
        })
    }

    fn cancel<'a>(&'a self, handle: &'a Handle, reason: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let body = CancelTask { task_token: token(handle), reason: reason.to_owned() };
            self.done(Call::post(paths::TASK_CANCEL, &body)?).await
        })
    }

    fn delay<'a>(&'a self, handle: &'a Handle, until: Moment) -> Answer<'a, ()> {
        Box::pin(async move {
            let body = DelayTask::new(handle, until);
            self.done(Call::post(paths::TASK_DELAY, &body)?).await
        })
    }

    fn wait_children<'a>(&'a self, handle: &'a Handle) -> Answer<'a, ()> {
        Box::pin(async move {
            let body = WaitChildrenTask { task_token: token(handle) };
            self.done(Call::post(paths::TASK_WAIT_CHILDREN, &body)?).await
        })
    }

    /// Whoever cancels through a server is an operator to the engine.
    fn cancel_execution<'a>(
        &'a self,
        execution_id: ExecutionId,
        reason: &'a str,
        source: CancelSource,
        request_id: Option<RequestId>,
    ) -> Answer<'a, ()> {
        if source != CancelSource::OperatorOverride {
            return unavailable("cancel_execution by another than an operator");
        }
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION_CANCEL, execution_id);
            let body = CancelExecution { reason: reason.to_owned(), request_id: named(request_id) };
            self.json::<ExecutionState>(Call::post(path, &body)?).await.map(drop)
        })
    }

    fn revoke_lease<'a>(
        &'a self,
        execution_id: ExecutionId,
        expected: Option<LeaseId>,
        reason: &'a str,
        request_id: Option<RequestId>,
    ) -> Answer<'a, RevokeOutcome> {
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION_REVOKE_LEASE, execution_id);
            let (reason, request_id) = (reason.to_owned(), named(request_id));
            let body = RevokeLease { reason, expected_lease_id: expected, request_id };
            self.json::<RevokedLease>(Call::post(path, &body)?).await?.try_into()
        })
    }

    fn change_priority(
        &self,
        execution_id: ExecutionId,
        priority: u16,
        request_id: Option<RequestId>,
    ) -> Answer<'_, PriorityChange> {
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION_PRIORITY, execution_id);
            let call =
                Call::put(path, &ChangePriority { priority, request_id: named(request_id) })?;
            Ok(self.json::<ChangedPriority>(call).await?.into())
        })
    }

    fn replay<'a>(
        &'a self,
        execution_id: ExecutionId,
        reason: &'a str,
        requested_by: &'a str,
        request_id: Option<RequestId>,
    ) -> Answer<'a, PublicState> {
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION_REPLAY, execution_id);
            let (reason, requested_by) = (reason.to_owned(), requested_by.to_owned());
            let body = ReplayExecution { reason, requested_by, request_id: named(request_id) };
            let call = Call::post(path, &body)?;
            Ok(self.json::<ExecutionState>(call).await?.public_state)
        })
    }

    fn set_tags(
        &self,
        execution_id: ExecutionId,
        tags: Tags,
        request_id: Option<RequestId>,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION_TAGS, execution_id);
            self.done(Call::put(path, &SetTags { tags, request_id: named(request_id) })?).await
        })
    }

    fn describe_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Answer<'_, Option<ExecutionSnapshot>> {
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION, execution_id);
            let described = found(self.json::<Execution>(Call::get(path)).await)?;
            Ok(described.map(Into::into))
        })
    }

    fn read_result(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION_RESULT, execution_id);
            match found(self.run(Call::get(path)).await) {
                Err(error) if is_without_result(&error) => Ok(None),
                answer => Ok(answer?.map(|answered| answered.body.into())),
            }
        })
    }

    fn read_payload(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION_PAYLOAD, execution_id);
            let answered = found(self.run(Call::get(path)).await)?;
            Ok(answered.map(|answered| answered.body.into()))
        })
    }

    fn list_attempts(&self, execution_id: ExecutionId) -> Answer<'_, Vec<AttemptRecord>> {
        Box::pin(async move {
            let path = paths::fill(paths::EXECUTION_ATTEMPTS, execution_id);
            let answered: Attempts = self.json(Call::get(path)).await?;
            Ok(answered.attempts.into_iter().map(Into::into).collect())
        })
    }

    fn list_executions<'a>(
        &'a self,
        partition: Partition,
        filter: &'a ListFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Answer<'a, ListPage> {
        self.list_one(partition, filter, cursor, limit)
    }

    fn list_lanes(&self, after: Option<LaneId>, limit: u32) -> Answer<'_, LanePage> {
        Box::pin(async move {
            let cursor = after.map(|lane| format!("&cursor={}", paths::encode(lane.as_str())));
            let page = self.lanes(format!("limit={limit}{}", cursor.unwrap_or_default())).await?;
            let lanes = page.lanes.into_iter().map(|depth| depth.lane).collect();
            Ok(LanePage { lanes, next_cursor: page.next_cursor })
        })
    }

    fn read_events(
        &self,
        partition: Partition,
        after: Option<EventCursor>,
        limit: u32,
    ) -> Answer<'_, EventPage> {
        Box::pin(async move {
            let after = after.map(|cursor| format!("&after={}", paths::encode(cursor.as_str())));
            let (index, after) = (partition.index, after.unwrap_or_default());
            let path = format!("{}?partition={index}&limit={limit}{after}", paths::EVENTS);
            Ok(self.json::<WireEventPage>(Call::get(path)).await?.into())
        })
    }

    fn register_worker(&self, registration: WorkerRegistration) -> Answer<'_, TimestampMs> {
        Box::pin(async move {
            let call = Call::post(paths::WORKERS, &RegisterWorker::from(registration))?;
            Ok(self.json::<Registered>(call).await?.expires_at)
        })
    }

    fn heartbeat_worker<'a>(
        &'a self,
        worker_instance_id: &'a WorkerInstanceId,
        session: WorkerSession,
        ttl_ms: u64,
    ) -> Answer<'a, TimestampMs> {
        Box::pin(async move {
            let path = paths::fill(paths::WORKER_HEARTBEAT, worker_instance_id);
            let call = Call::post(path, &Heartbeat { session, ttl_ms })?;
            Ok(self.json::<Registered>(call).await?.expires_at)
        })
    }

    fn disconnect_worker<'a>(
        &'a self,
        worker_instance_id: &'a WorkerInstanceId,
        session: WorkerSession,
    ) -> Answer<'a, u32> {
        Box::pin(async move {
            let path = paths::fill(paths::WORKER_DISCONNECT, worker_instance_id);
            let call = Call::post(path, &Disconnect { session })?;
            Ok(self.json::<Disconnected>(call).await?.handed_back)
        })
    }

    fn list_workers(&self) -> Answer<'_, Vec<WorkerRecord>> {
        Box::pin(async move {
            let listed: WorkerList = self.json(Call::get(paths::WORKERS.to_owned())).await?;
            Ok(listed.workers.into_iter().map(Into::into).collect())
        })
    }

    fn lane_depths(&self, partition: Partition, lanes: Vec<LaneId>) -> Answer<'_, Vec<LaneDepth>> {
        Box::pin(self.depths(partition, lanes))
    }

    /// A server ticks by itself.
    fn tick(&self, _: Partition, _: u32) -> Answer<'_, TickReport> {
        unavailable("tick through a server")
    }

    fn partition_config(&self) -> PartitionConfig {
        self.partitions
    }

    fn name(&self) -> &'static str {
        "server"
    }
}

/// As many as one request may carry, by number and by size.
fn batches(executions: Vec<NewExecution>) -> Vec<Vec<NewExecution>> {
    const BYTES_MAX: usize = 4 << 20;
    let mut batches: Vec<Vec<NewExecution>> = Vec::new();
    let mut bytes = 0;
    for new in executions {
        let size = new.payload.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BULK_MAX && bytes + size <= BYTES_MAX => {
                bytes += size;
                batch.push(new);
            }
            _ => {
                bytes = size;
                batches.push(vec![new]);
            }
        }
    }
    batches
}
