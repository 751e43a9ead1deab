//! Every call of the engine as a request.

use std::time::Duration;

use ff_api::create::{BULK_MAX, BulkCreate, Create};
use ff_api::flow::CancelFlowRequest;
use ff_api::frames::AppendFrames;
use ff_api::grant::ClaimGranted;
use ff_api::headers;
use ff_api::raw::{ReadPayload, ResultQuery};
use ff_api::task::{
    AddChildrenTask, CancelTask, CompleteTask, DelayTask, FailTask, ProgressTask, RenewTask,
    WaitChildrenTask, token_of,
};
use ff_api::worker::Register;
use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Frame, Handle, LeaseRenewal};
use ff_core::contracts::*;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::object::Object;
use ff_core::operation::{Nothing, Operation};
use ff_core::partition::PartitionConfig;
use ff_core::types::{
    AttemptIndex, ExecutionId, FlowId, GrantId, Moment, RequestId, WorkerInstanceId, WorkerSession,
};
use ff_script::ids::{IdSource, SystemIds};
use futures_core::future::BoxFuture;

use super::call::Call;
use super::work::is_without_result;
use super::{HttpBackend, follow};

impl EngineBackend for HttpBackend {
    fn partition_config(&self) -> PartitionConfig {
        self.partitions
    }

    fn name(&self) -> &'static str {
        "server"
    }
}

impl Executions for HttpBackend {
    fn create(&self, execution: CreateExecution) -> Answer<'_, Created> {
        let placed = self.place(execution);
        Box::pin(async move {
            let placed = placed?;
            let answered = self.send::<Create>(Nothing {}, placed.request).await;
            answered.map(|created| created.under_fresh_id(placed.fresh))
        })
    }

    fn create_many(
        &self,
        executions: Vec<CreateExecution>,
    ) -> BoxFuture<'_, Vec<Result<Created, EngineError>>> {
        Box::pin(self.create_all(executions))
    }

    fn cancel_execution(
        &self,
        id: ExecutionId,
        mut request: CancelExecution,
    ) -> Answer<'_, ExecutionState> {
        name(&mut request.request_id);
        self.send::<CancelExecution>(id, request)
    }

    fn revoke_lease(&self, id: ExecutionId, mut it: RevokeLease) -> Answer<'_, RevokeOutcome> {
        name(&mut it.request_id);
        self.send::<RevokeLease>(id, it)
    }

    fn change_priority(
        &self,
        id: ExecutionId,
        mut request: ChangePriority,
    ) -> Answer<'_, PriorityChange> {
        name(&mut request.request_id);
        self.send::<ChangePriority>(id, request)
    }

    fn replay(&self, id: ExecutionId, mut it: ReplayExecution) -> Answer<'_, ExecutionState> {
        name(&mut it.request_id);
        self.send::<ReplayExecution>(id, it)
    }

    fn set_tags(&self, id: ExecutionId, mut request: SetTags) -> Answer<'_, Nothing> {
        name(&mut request.request_id);
        self.send::<SetTags>(id, request)
    }
}

impl Flows for HttpBackend {
    fn create_flow(&self, mut request: CreateFlow) -> Answer<'_, FlowCreated> {
        name_flow(&mut request.flow_id);
        self.send::<CreateFlow>(Nothing {}, request)
    }

    fn submit_graph(&self, mut request: SubmitGraph) -> Answer<'_, GraphAccepted> {
        if request.key.is_none() {
            name_flow(&mut request.flow.flow_id);
        }
        self.send::<SubmitGraph>(Nothing {}, request)
    }

    fn add_flow_member(&self, id: FlowId, it: AddFlowMember) -> Answer<'_, FlowMemberAdded> {
        self.send::<AddFlowMember>(id, it)
    }

    fn add_edge(&self, id: FlowId, it: AddEdge) -> Answer<'_, EdgeAdded> {
        self.send::<AddEdge>(id, it)
    }

    fn apply_edge(&self, id: FlowId, it: ApplyEdge) -> Answer<'_, EdgeApplied> {
        self.send::<ApplyEdge>(id, it)
    }

    fn seal_flow(&self, id: FlowId) -> Answer<'_, FlowSealed> {
        self.send::<SealFlow>(id, Nothing {})
    }

    fn set_flow_tags(&self, id: FlowId, it: SetFlowTags) -> Answer<'_, Nothing> {
        self.send::<SetFlowTags>(id, it)
    }

    fn cancel_flow(&self, id: FlowId, it: CancelFlow) -> Answer<'_, CancelFlowResult> {
        self.send::<CancelFlowRequest>(id, CancelFlowRequest::at_once(it))
    }

    fn read_cancel_receipt(
        &self,
        id: FlowId,
        query: CancelReceiptQuery,
    ) -> Answer<'_, CancelReceipt> {
        self.send::<CancelReceiptQuery>(id, query)
    }

    fn retry_stuck_members(&self, id: FlowId, it: RetryStuck) -> Answer<'_, StuckRetried> {
        self.send::<RetryStuck>(id, it)
    }

    fn describe_flow(&self, id: FlowId) -> Answer<'_, Option<FlowSnapshot>> {
        let described = self.send::<DescribeFlow>(id, Nothing {});
        Box::pin(async move { found(described.await) })
    }

    fn describe_edge(&self, edge: EdgeOf) -> Answer<'_, Option<EdgeSnapshot>> {
        let described = self.send::<DescribeEdge>(edge, Nothing {});
        Box::pin(async move { found(described.await) })
    }

    fn list_edges(&self, id: ExecutionId, query: EdgeQuery) -> Answer<'_, EdgeList> {
        self.send::<EdgeQuery>(id, query)
    }

    fn list_members(&self, id: FlowId, query: MemberQuery) -> Answer<'_, FlowMembers> {
        self.send::<MemberQuery>(id, query)
    }

    fn read_graph(&self, id: FlowId, query: GraphQuery) -> Answer<'_, FlowGraph> {
        self.send::<GraphQuery>(id, query)
    }

    fn list_flows(&self, query: FlowQuery) -> Answer<'_, ListFlowsPage> {
        self.send::<FlowQuery>(Nothing {}, query)
    }
}

/// Gives a flow an id that its caller did not, so that all sends of it are one.
fn name_flow(flow_id: &mut Option<FlowId>) {
    flow_id.get_or_insert_with(|| FlowId::from_uuid(SystemIds.ordered()));
}

/// Names a change that the caller did not name, so that all sends of it are one.
pub(super) fn name(request_id: &mut Option<RequestId>) {
    request_id.get_or_insert_with(|| RequestId::from_uuid(SystemIds.random()));
}

impl Reads for HttpBackend {
    fn describe_execution(&self, id: ExecutionId) -> Answer<'_, Option<ExecutionSnapshot>> {
        let described = self.send::<DescribeExecution>(id, Nothing {});
        Box::pin(async move { found(described.await) })
    }

    fn read_result(&self, id: ExecutionId) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            match found(self.run(Call::of::<ResultQuery>(id, &ResultQuery::default())?).await) {
                Err(error) if is_without_result(&error) => Ok(None),
                answer => Ok(answer?.map(|answered| answered.body.into())),
            }
        })
    }

    fn read_payload(&self, id: ExecutionId) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let answered = found(self.run(Call::of::<ReadPayload>(id, &Nothing {})?).await)?;
            Ok(answered.map(|answered| answered.body.into()))
        })
    }

    fn list_attempts(&self, id: ExecutionId) -> Answer<'_, Attempts> {
        self.send::<ListAttempts>(id, Nothing {})
    }

    fn read_history(&self, id: ExecutionId) -> Answer<'_, History> {
        self.send::<ReadHistory>(id, Nothing {})
    }

    fn list_executions(&self, filter: ListFilter) -> Answer<'_, ListPage> {
        self.send::<ListFilter>(Nothing {}, filter)
    }

    fn count_executions(&self) -> Answer<'_, ExecutionCounts> {
        self.send::<CountExecutions>(Nothing {}, Nothing {})
    }

    fn list_lanes(&self, query: LaneQuery) -> Answer<'_, LaneList> {
        self.send::<LaneQuery>(Nothing {}, query)
    }

    fn read_events(&self, query: EventQuery) -> Answer<'_, EventPage> {
        self.send::<EventQuery>(Nothing {}, query)
    }
}

impl Workers for HttpBackend {
    /// Repeated sends of one registration have one session.
    fn register_worker(&self, mut registration: WorkerRegistration) -> Answer<'_, Registered> {
        registration.session.get_or_insert_with(|| WorkerSession::from_uuid(SystemIds.random()));
        self.send::<Register>(Nothing {}, registration)
    }

    fn heartbeat_worker(&self, id: WorkerInstanceId, it: Heartbeat) -> Answer<'_, Registered> {
        self.send::<Heartbeat>(id, it)
    }

    fn disconnect_worker(&self, id: WorkerInstanceId, it: Disconnect) -> Answer<'_, Disconnected> {
        self.send::<Disconnect>(id, it)
    }

    fn list_workers(&self) -> Answer<'_, WorkerList> {
        self.send::<ListWorkers>(Nothing {}, Nothing {})
    }
}

impl Tasks for HttpBackend {
    fn renew<'a>(&'a self, handle: &'a Handle) -> Answer<'a, LeaseRenewal> {
        self.send::<RenewTask>(Nothing {}, RenewTask { task_token: token(handle) })
    }

    fn progress<'a>(
        &'a self,
        handle: &'a Handle,
        percent: Option<u8>,
        message: Option<String>,
    ) -> Answer<'a, ()> {
        self.tell::<ProgressTask>(ProgressTask { task_token: token(handle), percent, message })
    }

    /// The result travels as it is, not inside JSON.
    fn complete<'a>(&'a self, handle: &'a Handle, result: Option<Vec<u8>>) -> Answer<'a, ()> {
        let call = Call::post_bytes(CompleteTask::PATH, result.unwrap_or_default());
        let call = call.with_header(headers::TASK, &token_of(handle));
        Box::pin(async move { self.run(call).await.map(drop) })
    }

    fn fail<'a>(
        &'a self,
        handle: &'a Handle,
        reason: FailureReason,
        class: FailureClass,
    ) -> Answer<'a, FailOutcome> {
        let failed = self.send::<FailTask>(Nothing {}, FailTask::new(handle, reason, &class));
        Box::pin(async move { failed.await.map(Into::into) })
    }

    fn cancel<'a>(&'a self, handle: &'a Handle, reason: &'a str) -> Answer<'a, ()> {
        let reason = reason.to_owned();
        self.tell::<CancelTask>(CancelTask { task_token: token(handle), reason })
    }

    fn delay<'a>(&'a self, handle: &'a Handle, until: Moment) -> Answer<'a, ()> {
        self.tell::<DelayTask>(DelayTask::new(handle, until))
    }

    fn add_children<'a>(
        &'a self,
        handle: &'a Handle,
        tasks: Vec<GraphTask>,
    ) -> Answer<'a, ChildrenAdded> {
        let task_token = token(handle);
        self.send::<AddChildrenTask>(Nothing {}, AddChildrenTask { task_token, tasks })
    }

    fn wait_children<'a>(&'a self, handle: &'a Handle) -> Answer<'a, ()> {
        self.tell::<WaitChildrenTask>(WaitChildrenTask { task_token: token(handle) })
    }
}

impl Streams for HttpBackend {
    fn append_frames<'a>(
        &'a self,
        handle: &'a Handle,
        frames: Vec<Frame>,
    ) -> Answer<'a, AppendFrameOutcome> {
        Box::pin(async move {
            self.send::<AppendFrames>(Nothing {}, AppendFrames::new(handle, frames)?).await
        })
    }

    fn read_stream(&self, id: ExecutionId, query: StreamQuery) -> Answer<'_, StreamFrames> {
        self.send::<StreamQuery>(id, query)
    }

    fn tail_stream(
        &self,
        execution_id: ExecutionId,
        attempt_index: AttemptIndex,
        tail: TailStream,
    ) -> Answer<'_, StreamFrames> {
        Box::pin(async move {
            let of = AttemptOf { execution_id, attempt_index };
            let wait = Duration::from_millis(tail.wait_ms());
            self.reply::<TailStream>(Call::of::<TailStream>(of, &tail)?.waiting(wait)).await
        })
    }

    fn follow_output(&self, id: ExecutionId, after: OutputCursor) -> Answer<'_, OutputStream> {
        Box::pin(follow::follow(self.client.clone(), id, after))
    }
}

pub(super) fn token(handle: &Handle) -> Option<String> {
    Some(token_of(handle))
}

impl Grants for HttpBackend {
    fn issue_claim_grant(&self, id: ExecutionId, request: GrantRequest) -> Answer<'_, ClaimGrant> {
        let granted = self.grant(id, GrantRequest { reclaim: false, ..request });
        Box::pin(async move {
            match granted.await? {
                NextGrant::Claim(grant) | NextGrant::Resume(grant) => Ok(grant),
                NextGrant::Reclaim(_) => Err(EngineError::corrupt("grant", "grant_key", "reclaim")),
            }
        })
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

    fn issue_reclaim_grant(
        &self,
        id: ExecutionId,
        request: GrantRequest,
    ) -> Answer<'_, ReclaimGrant> {
        let granted = self.grant(id, GrantRequest { reclaim: true, ..request });
        Box::pin(async move {
            match granted.await? {
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
}

impl HttpBackend {
    /// Checks a submission and gives it an id, so that its repetition is the same one.
    fn place(&self, execution: CreateExecution) -> Result<Placed, EngineError> {
        let is_fresh = execution.execution_id.is_none();
        let new = execution.place(SystemIds.ordered(), &self.partitions)?;
        let (fresh, bytes) = (is_fresh.then_some(new.execution_id), new.payload.len());
        Ok(Placed { fresh, bytes, request: new.into() })
    }

    /// Sends what is right, and answers in the order of the request.
    async fn create_all(
        &self,
        executions: Vec<CreateExecution>,
    ) -> Vec<Result<Created, EngineError>> {
        let (mut placed, mut wrong) = (Vec::with_capacity(executions.len()), Vec::new());
        for (position, execution) in executions.into_iter().enumerate() {
            match self.place(execution) {
                Ok(execution) => placed.push(execution),
                Err(error) => wrong.push((position, error)),
            }
        }
        let mut answers = Vec::with_capacity(placed.len());
        for batch in batches(placed) {
            answers.extend(self.create_batch(batch).await);
        }
        for (position, error) in wrong {
            answers.insert(position, Err(error));
        }
        answers
    }

    async fn create_batch(&self, batch: Vec<Placed>) -> Vec<Result<Created, EngineError>> {
        let fresh: Vec<Option<ExecutionId>> = batch.iter().map(|placed| placed.fresh).collect();
        let executions = batch.into_iter().map(|placed| Object(placed.request)).collect();
        match self.send::<BulkCreate>(Nothing {}, BulkCreate { executions }).await {
            Ok(created) if created.results.len() == fresh.len() => {
                let answers = created.results.into_iter().map(Result::from).zip(fresh);
                answers.map(|(it, fresh)| it.map(|it| it.under_fresh_id(fresh))).collect()
            }
            Ok(created) => {
                let found = created.results.len().to_string();
                vec![Err(EngineError::corrupt("bulk answer", "results", found)); fresh.len()]
            }
            Err(error) => vec![Err(error); fresh.len()],
        }
    }

    async fn grant(
        &self,
        execution_id: ExecutionId,
        mut request: GrantRequest,
    ) -> Result<NextGrant, EngineError> {
        request.validate()?;
        request.grant_id.get_or_insert_with(|| GrantId::from_uuid(SystemIds.random()));
        let worker = (request.worker_id.clone(), request.worker_instance_id.clone());
        let grant = self.send::<GrantRequest>(execution_id, request).await?;
        Ok(grant.into_next(worker.0, worker.1))
    }

    async fn exchange(
        &self,
        grant: NextGrant,
        lease: LeaseRequest,
    ) -> Result<Claimed, EngineError> {
        lease.validate()?;
        self.send::<ClaimGranted>(Nothing {}, ClaimGranted::new(grant, lease)).await?.try_into()
    }

    /// Asks for something that answers nothing.
    pub(super) fn tell<O>(&self, request: O::Request) -> Answer<'_, ()>
    where
        O: Operation<Target = Nothing, Reply = Nothing>,
    {
        let told = self.send::<O>(Nothing {}, request);
        Box::pin(async move { told.await.map(drop) })
    }
}

/// A submission with an id.
struct Placed {
    request: CreateExecution,
    /// The id, if it was made here.
    fresh: Option<ExecutionId>,
    /// How large its input is.
    bytes: usize,
}

/// As many as one request may carry, by number and by size.
fn batches(executions: Vec<Placed>) -> Vec<Vec<Placed>> {
    const BYTES_MAX: usize = 4 << 20;
    let mut batches: Vec<Vec<Placed>> = Vec::new();
    let mut bytes = 0;
    for new in executions {
        match batches.last_mut() {
            Some(batch) if batch.len() < BULK_MAX && bytes + new.bytes <= BYTES_MAX => {
                bytes += new.bytes;
                batch.push(new);
            }
            _ => {
                bytes = new.bytes;
                batches.push(vec![new]);
            }
        }
    }
    batches
}
