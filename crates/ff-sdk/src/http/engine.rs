//! Every call of the engine as a request.

use std::time::Duration;

use ff_api::create::Create;
use ff_api::flow::CancelFlowRequest;
use ff_api::frames::AppendFrames;
use ff_api::grant::ClaimGranted;
use ff_api::headers;
use ff_api::raw::{ReadPayload, ResultQuery};
use ff_api::task::{
    AddChildrenTask, CancelTask, CompleteTask, DelayTask, FailTask, ProgressTask, RenewTask,
    WaitChildrenTask, token_of,
};
use ff_api::usage::{ReportUsage, ReserveUsage};
use ff_api::worker::Register;
use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Frame, Handle, LeaseRenewal};
use ff_core::contracts::*;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::operation::{Nothing, Operation};
use ff_core::partition::PartitionConfig;
use ff_core::types::{
    AttemptIndex, BudgetId, ExecutionId, FlowId, GrantId, Moment, QuotaPolicyId, RequestId,
    WorkerSession,
};
use ff_script::ids::{IdSource, SystemIds};
use futures_core::future::BoxFuture;

use super::call::Call;
use super::work::is_without_result;
use super::{HttpBackend, follow};

/// Calls that are one request: their operations say where it is sent and what is answered. In
/// parentheses stands what is given: what the call is about, and what is asked, which may be a
/// change that is named here if the caller did not, so that all sends of it are one.
macro_rules! sends {
    ($($call:ident($($given:ident),*): $operation:ident;)*) => {
        $(sends! { @$($given)* $call $operation })*
    };
    (@on it $call:ident $operation:ident) => {
        fn $call(&self, on: Target<$operation>, it: $operation) -> Told<'_, $operation> {
            self.send::<$operation>(on, it)
        }
    };
    (@on named $call:ident $operation:ident) => {
        fn $call(&self, on: Target<$operation>, mut it: $operation) -> Told<'_, $operation> {
            name(&mut it.request_id);
            self.send::<$operation>(on, it)
        }
    };
    (@on $call:ident $operation:ident) => {
        fn $call(&self, on: Target<$operation>) -> Told<'_, $operation> {
            self.send::<$operation>(on, Nothing {})
        }
    };
    (@named $call:ident $operation:ident) => {
        fn $call(&self, mut it: $operation) -> Told<'_, $operation> {
            name(&mut it.request_id);
            self.send::<$operation>(Nothing {}, it)
        }
    };
    (@it $call:ident $operation:ident) => {
        fn $call(&self, it: $operation) -> Told<'_, $operation> {
            self.send::<$operation>(Nothing {}, it)
        }
    };
    (@$call:ident $operation:ident) => {
        fn $call(&self) -> Told<'_, $operation> {
            self.send::<$operation>(Nothing {}, Nothing {})
        }
    };
}
pub(super) use sends;

pub(super) type Target<O> = <O as Operation>::Target;
pub(super) type Told<'a, O> = Answer<'a, <O as Operation>::Reply>;

impl EngineBackend for HttpBackend {
    fn partition_config(&self) -> PartitionConfig {
        self.partitions
    }

    fn name(&self) -> &'static str {
        "server"
    }
}

impl Executions for HttpBackend {
    sends! {
        cancel_execution(on, named): CancelExecution;
        revoke_lease(on, named): RevokeLease;
        change_priority(on, named): ChangePriority;
        replay(on, named): ReplayExecution;
        cancel_many(named): CancelMany;
        replay_many(named): ReplayMany;
        set_tags(on, named): SetTags;
    }

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
}

impl Holds for HttpBackend {
    sends! {
        hold_execution(on, named): HoldExecution;
        release_execution(on, named): ReleaseExecution;
        list_held(it): ListHeld;
    }
}

impl Budgets for HttpBackend {
    sends! {
        describe_budget(on): DescribeBudget;
        update_budget(on, it): UpdateBudget;
        delete_budget(on): DeleteBudget;
        list_budgets(it): ListBudgets;
        reset_budget(on, named): ResetBudget;
        list_budget_usage(on, it): ListBudgetUsage;
    }

    fn create_budget(&self, mut request: CreateBudget) -> Answer<'_, BudgetCreated> {
        request.budget_id.get_or_insert_with(|| BudgetId::from_uuid(SystemIds.ordered()));
        self.send::<CreateBudget>(Nothing {}, request)
    }

    fn report_usage<'a>(
        &'a self,
        handle: &'a Handle,
        budget_id: BudgetId,
        usage: UsageDimensions,
    ) -> Answer<'a, ReportUsageResult> {
        self.send::<ReportUsage>(budget_id, ReportUsage::new(handle, &named_usage(usage)))
    }

    fn reserve_usage<'a>(
        &'a self,
        handle: &'a Handle,
        budget_id: BudgetId,
        usage: UsageDimensions,
    ) -> Answer<'a, ()> {
        let request = ReserveUsage::new(handle, &named_usage(usage));
        let sent = self.send::<ReserveUsage>(budget_id, request);
        Box::pin(async move { sent.await.map(drop) })
    }
}

/// Names a report that the caller did not name, so that all sends of it are one.
fn named_usage(usage: UsageDimensions) -> UsageDimensions {
    match usage.dedup_key {
        Some(_) => usage,
        None => usage.dedup_key(SystemIds.random().to_string()),
    }
}

impl Flows for HttpBackend {
    sends! {
        add_flow_member(on, it): AddFlowMember;
        add_edge(on, it): AddEdge;
        apply_edge(on, it): ApplyEdge;
        seal_flow(on): SealFlow;
        set_flow_tags(on, it): SetFlowTags;
        read_cancel_receipt(on, it): CancelReceiptQuery;
        retry_stuck_members(on, it): RetryStuck;
        replay_failed(on, named): ReplayFailed;
        list_edges(on, it): EdgeQuery;
        list_members(on, it): MemberQuery;
        read_graph(on, it): GraphQuery;
        read_inputs(on, it): InputQuery;
        list_flows(it): FlowQuery;
    }

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

    fn cancel_flow(&self, id: FlowId, it: CancelFlow) -> Answer<'_, CancelFlowResult> {
        self.send::<CancelFlowRequest>(id, CancelFlowRequest::at_once(it))
    }

    fn describe_flow(&self, id: FlowId) -> Answer<'_, Option<FlowSnapshot>> {
        let described = self.send::<DescribeFlow>(id, Nothing {});
        Box::pin(async move { found(described.await) })
    }

    fn describe_edge(&self, edge: EdgeOf) -> Answer<'_, Option<EdgeSnapshot>> {
        let described = self.send::<DescribeEdge>(edge, Nothing {});
        Box::pin(async move { found(described.await) })
    }

    fn resolve_execution_flow_id(&self, execution_id: ExecutionId) -> Answer<'_, Option<FlowId>> {
        let described = self.describe_execution(execution_id);
        Box::pin(async move { Ok(described.await?.and_then(|snapshot| snapshot.flow_id)) })
    }

    fn follow_flow(&self, id: FlowId, after: FlowPosition) -> Answer<'_, FlowActivityStream> {
        let path = FollowFlow::path(id);
        Box::pin(follow::follow(self.client.clone(), path, after.to_string()))
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
    sends! {
        explain_execution(on): Explain;
        list_attempts(on): ListAttempts;
        read_history(on): ReadHistory;
        list_executions(it): ListFilter;
        count_executions(): CountExecutions;
        count_kinds(): CountKinds;
        list_lanes(it): LaneQuery;
        read_events(it): EventQuery;
    }

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
}

impl Quotas for HttpBackend {
    sends! {
        update_quota(on, it): UpdateQuota;
        delete_quota(on): DeleteQuota;
        list_quotas(): ListQuotas;
    }

    fn create_quota(&self, mut request: CreateQuota) -> Answer<'_, QuotaCreated> {
        let minted = || QuotaPolicyId::from_uuid(SystemIds.ordered());
        request.quota_policy_id.get_or_insert_with(minted);
        self.send::<CreateQuota>(Nothing {}, request)
    }

    fn describe_quota(&self, on: QuotaPolicyId, query: QuotaQuery) -> Told<'_, DescribeQuota> {
        self.send::<DescribeQuota>(on, query)
    }

    fn list_quota_holders(
        &self,
        on: QuotaPolicyId,
        query: QuotaHoldersQuery,
    ) -> Told<'_, ListQuotaHolders> {
        self.send::<ListQuotaHolders>(on, query)
    }
}

impl Lanes for HttpBackend {
    sends! {
        describe_lane(on): DescribeLane;
        set_lane(on, it): SetLane;
    }
}

impl Kinds for HttpBackend {
    sends! {
        register_kinds(it): RegisterKinds;
        list_kinds(): ListKinds;
        describe_kind(on): DescribeKind;
        set_kind(on, it): SetKind;
        set_defaults(it): SetDefaults;
    }
}

impl Workers for HttpBackend {
    sends! {
        heartbeat_worker(on, it): Heartbeat;
        disconnect_worker(on, it): Disconnect;
        list_workers(): ListWorkers;
    }

    /// Repeated sends of one registration have one session.
    fn register_worker(&self, mut registration: WorkerRegistration) -> Answer<'_, Registered> {
        registration.session.get_or_insert_with(|| WorkerSession::from_uuid(SystemIds.random()));
        self.send::<Register>(Nothing {}, registration)
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

    fn complete_many(
        &self,
        completions: Vec<Completion>,
    ) -> BoxFuture<'_, Vec<Result<(), EngineError>>> {
        Box::pin(self.complete_all(completions))
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
    sends! {
        read_stream(on, it): StreamQuery;
    }

    fn append_frames<'a>(
        &'a self,
        handle: &'a Handle,
        frames: Vec<Frame>,
    ) -> Answer<'a, AppendFrameOutcome> {
        Box::pin(async move {
            self.send::<AppendFrames>(Nothing {}, AppendFrames::new(handle, frames)?).await
        })
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
        let path = FollowOutput::path(id);
        Box::pin(follow::follow(self.client.clone(), path, after.to_string()))
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
