//! A backend that passes everything on, remembers what was called, and fails on demand.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Frame, Handle, LeaseRenewal};
use ff_core::contracts::*;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::operation::Nothing;
use ff_core::partition::PartitionConfig;
use ff_core::types::{
    AttemptIndex, BudgetId, ExecutionId, ExecutionKind, FlowId, LaneId, Moment, QuotaPolicyId,
    WaitpointId, WorkerInstanceId,
};
use ff_core::work_source::WorkSource;
use ff_sdk::Connection;
use futures_core::future::BoxFuture;

/// What goes wrong with a call.
#[derive(Clone)]
pub(crate) enum Fault {
    /// It is not passed on.
    Before(EngineError),
    /// It is passed on, and its answer is lost.
    After(EngineError),
    /// It never ends.
    Hang,
}

/// A backend that remembers.
pub(crate) struct Recorder {
    engine: Arc<dyn EngineBackend>,
    work: Arc<dyn WorkSource>,
    calls: Mutex<Vec<&'static str>>,
    faults: Mutex<HashMap<&'static str, VecDeque<(usize, Fault)>>>,
    too_many: Mutex<u32>,
}

impl Recorder {
    pub(crate) async fn new(connection: &Connection) -> Self {
        Self {
            engine: Arc::clone(connection.engine()),
            work: connection.work().await.expect("a work source"),
            calls: Mutex::default(),
            faults: Mutex::default(),
            too_many: Mutex::default(),
        }
    }

    /// What was called so far; not remembered any more.
    pub(crate) fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock().expect("no panic"))
    }

    /// What was called so far.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().expect("no panic").clone()
    }

    /// The next calls of this name, after those that were spoilt before, go wrong.
    pub(crate) fn fail_next(&self, call: &'static str, count: usize, fault: Fault) {
        let mut faults = self.faults.lock().expect("no panic");
        faults.entry(call).or_default().push_back((count, fault));
    }

    /// Claims bring so many more than was asked for.
    pub(crate) fn claim_too_many(&self, more: u32) {
        *self.too_many.lock().expect("no panic") = more;
    }

    fn fault(&self, call: &'static str) -> Option<Fault> {
        self.calls.lock().expect("no panic").push(call);
        let mut faults = self.faults.lock().expect("no panic");
        let planned = faults.get_mut(call)?;
        let (count, fault) = planned.front_mut()?;
        let fault = fault.clone();
        *count -= 1;
        if *count == 0 {
            planned.pop_front();
        }
        Some(fault)
    }

    fn pass<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        answer: impl FnOnce() -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        match self.fault(call) {
            None => answer(),
            Some(Fault::Before(error)) => Box::pin(std::future::ready(Err(error))),
            Some(Fault::Hang) => Box::pin(std::future::pending()),
            Some(Fault::After(error)) => {
                let answer = answer();
                Box::pin(async move {
                    answer.await?;
                    Err(error)
                })
            }
        }
    }
}

impl WorkSource for Recorder {
    fn claim(&self, mut request: WorkRequest) -> Answer<'_, Vec<Claimed>> {
        request.count += *self.too_many.lock().expect("no panic");
        self.pass("claim", || self.work.claim(request))
    }

    fn finish<'a>(
        &'a self,
        handle: &'a Handle,
        end: TaskEnd,
        next: NextTask,
    ) -> Answer<'a, Finished> {
        self.pass("finish", || self.work.finish(handle, end, next))
    }
}

/// Passes every method on.
macro_rules! pass_on {
    ($(fn $name:ident<$life:lifetime>($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name<$life>(&$life self $(, $arg: $type)*) -> Answer<$life, $answer> {
            self.pass(stringify!($name), || self.engine.$name($($arg),*))
        }
    )*};
}

impl Executions for Recorder {
    pass_on! {
        fn create<'a>(execution: CreateExecution) -> Created;
        fn cancel_execution<'a>(id: ExecutionId, request: CancelExecution) -> ExecutionState;
        fn revoke_lease<'a>(id: ExecutionId, request: RevokeLease) -> RevokeOutcome;
        fn change_priority<'a>(id: ExecutionId, request: ChangePriority) -> PriorityChange;
        fn replay<'a>(id: ExecutionId, request: ReplayExecution) -> ExecutionState;
        fn cancel_many<'a>(request: CancelMany) -> ManyChanged;
        fn replay_many<'a>(request: ReplayMany) -> ManyChanged;
        fn set_tags<'a>(id: ExecutionId, request: SetTags) -> Nothing;
    }

    fn create_many(
        &self,
        executions: Vec<CreateExecution>,
    ) -> BoxFuture<'_, Vec<Result<Created, EngineError>>> {
        self.calls.lock().expect("no panic").push("create_many");
        self.engine.create_many(executions)
    }
}

impl Grants for Recorder {
    pass_on! {
        fn issue_claim_grant<'a>(id: ExecutionId, request: GrantRequest) -> ClaimGrant;
        fn claim_from_grant<'a>(grant: &'a ClaimGrant, lease: LeaseRequest) -> Claimed;
        fn claim_resumed<'a>(grant: &'a ClaimGrant, lease: LeaseRequest) -> Claimed;
        fn issue_reclaim_grant<'a>(id: ExecutionId, request: GrantRequest) -> ReclaimGrant;
        fn claim_from_reclaim_grant<'a>(grant: &'a ReclaimGrant, lease: LeaseRequest) -> Claimed;
    }
}

impl Tasks for Recorder {
    pass_on! {
        fn renew<'a>(handle: &'a Handle) -> LeaseRenewal;
        fn progress<'a>(handle: &'a Handle, percent: Option<u8>, message: Option<String>) -> ();
        fn complete<'a>(handle: &'a Handle, result: Option<Vec<u8>>) -> ();
        fn fail<'a>(handle: &'a Handle, reason: FailureReason, class: FailureClass) -> FailOutcome;
        fn cancel<'a>(handle: &'a Handle, reason: &'a str) -> ();
        fn delay<'a>(handle: &'a Handle, until: Moment) -> ();
        fn add_children<'a>(handle: &'a Handle, tasks: Vec<GraphTask>) -> ChildrenAdded;
        fn wait_children<'a>(handle: &'a Handle) -> ();
    }

    fn complete_many(
        &self,
        completions: Vec<Completion>,
    ) -> BoxFuture<'_, Vec<Result<(), EngineError>>> {
        self.calls.lock().expect("no panic").push("complete_many");
        self.engine.complete_many(completions)
    }
}

impl Streams for Recorder {
    pass_on! {
        fn append_frames<'a>(handle: &'a Handle, frames: Vec<Frame>) -> AppendFrameOutcome;
        fn read_stream<'a>(id: ExecutionId, query: StreamQuery) -> StreamFrames;
        fn tail_stream<'a>(id: ExecutionId, of: AttemptIndex, tail: TailStream) -> StreamFrames;
        fn follow_output<'a>(id: ExecutionId, after: OutputCursor) -> OutputStream;
    }
}

impl Suspensions for Recorder {
    pass_on! {
        fn suspend<'a>(handle: &'a Handle, request: SuspendRequest) -> SuspendOutcome;
        fn create_waitpoint<'a>(handle: &'a Handle, request: CreateWaitpoint) -> PendingWaitpoint;
        fn close_waitpoint<'a>(handle: &'a Handle, id: WaitpointId, reason: &'a str) -> ();
        fn observe_signals<'a>(handle: &'a Handle) -> Vec<ResumeSignal>;
    }
}

impl Signals for Recorder {
    pass_on! {
        fn deliver_signal<'a>(id: ExecutionId, request: DeliverSignal) -> SignalOutcome;
        fn resume_execution<'a>(id: ExecutionId, request: ResumeExecution) -> ExecutionState;
        fn pending_waitpoints<'a>(id: ExecutionId) -> OpenWaitpoints;
        fn list_approvals<'a>(id: ExecutionId) -> ApprovalList;
        fn list_suspended<'a>(query: ListSuspended) -> ListSuspendedPage;
        fn rotate_waitpoint_secret<'a>(
            request: RotateWaitpointSecretRequest
        ) -> RotateWaitpointSecretResponse;
    }
}

impl Holds for Recorder {
    pass_on! {
        fn hold_execution<'a>(id: ExecutionId, request: HoldExecution) -> ExecutionState;
        fn release_execution<'a>(id: ExecutionId, request: ReleaseExecution) -> ExecutionState;
        fn list_held<'a>(query: ListHeld) -> ListHeldPage;
    }
}

impl Budgets for Recorder {
    pass_on! {
        fn create_budget<'a>(request: CreateBudget) -> BudgetCreated;
        fn describe_budget<'a>(id: BudgetId) -> BudgetRecord;
        fn update_budget<'a>(id: BudgetId, request: UpdateBudget) -> BudgetRecord;
        fn delete_budget<'a>(id: BudgetId) -> BudgetDeleted;
        fn list_budgets<'a>(query: ListBudgets) -> BudgetPage;
        fn reset_budget<'a>(id: BudgetId, request: ResetBudget) -> BudgetReset;
        fn list_budget_usage<'a>(id: BudgetId, query: ListBudgetUsage) -> BudgetUsagePage;
        fn report_usage<'a>(
            handle: &'a Handle, id: BudgetId, usage: UsageDimensions
        ) -> ReportUsageResult;
        fn reserve_usage<'a>(handle: &'a Handle, id: BudgetId, usage: UsageDimensions) -> ();
    }
}

impl Flows for Recorder {
    pass_on! {
        fn create_flow<'a>(request: CreateFlow) -> FlowCreated;
        fn submit_graph<'a>(request: SubmitGraph) -> GraphAccepted;
        fn add_flow_member<'a>(id: FlowId, request: AddFlowMember) -> FlowMemberAdded;
        fn add_edge<'a>(id: FlowId, request: AddEdge) -> EdgeAdded;
        fn apply_edge<'a>(id: FlowId, request: ApplyEdge) -> EdgeApplied;
        fn seal_flow<'a>(id: FlowId) -> FlowSealed;
        fn set_flow_tags<'a>(id: FlowId, request: SetFlowTags) -> Nothing;
        fn cancel_flow<'a>(id: FlowId, request: CancelFlow) -> CancelFlowResult;
        fn read_cancel_receipt<'a>(id: FlowId, query: CancelReceiptQuery) -> CancelReceipt;
        fn retry_stuck_members<'a>(id: FlowId, request: RetryStuck) -> StuckRetried;
        fn replay_failed<'a>(id: FlowId, request: ReplayFailed) -> FailedReplayed;
        fn describe_flow<'a>(id: FlowId) -> Option<FlowSnapshot>;
        fn describe_edge<'a>(edge: EdgeOf) -> Option<EdgeSnapshot>;
        fn list_edges<'a>(id: ExecutionId, query: EdgeQuery) -> EdgeList;
        fn list_members<'a>(id: FlowId, query: MemberQuery) -> FlowMembers;
        fn read_graph<'a>(id: FlowId, query: GraphQuery) -> FlowGraph;
        fn read_inputs<'a>(id: ExecutionId, query: InputQuery) -> InputPage;
        fn resolve_execution_flow_id<'a>(id: ExecutionId) -> Option<FlowId>;
        fn list_flows<'a>(query: FlowQuery) -> ListFlowsPage;
        fn follow_flow<'a>(id: FlowId, after: FlowPosition) -> FlowActivityStream;
    }
}

impl Reads for Recorder {
    pass_on! {
        fn explain_execution<'a>(id: ExecutionId) -> Explanation;
        fn describe_execution<'a>(id: ExecutionId) -> Option<ExecutionSnapshot>;
        fn read_result<'a>(id: ExecutionId) -> Option<Vec<u8>>;
        fn read_payload<'a>(id: ExecutionId) -> Option<Vec<u8>>;
        fn list_attempts<'a>(id: ExecutionId) -> Attempts;
        fn read_history<'a>(id: ExecutionId) -> History;
        fn list_executions<'a>(filter: ListFilter) -> ListPage;
        fn count_executions<'a>() -> ExecutionCounts;
        fn count_kinds<'a>() -> KindCounts;
        fn list_lanes<'a>(query: LaneQuery) -> LaneList;
        fn read_events<'a>(query: EventQuery) -> EventPage;
    }
}

impl Lanes for Recorder {
    pass_on! {
        fn describe_lane<'a>(lane: LaneId) -> LaneDepth;
        fn set_lane<'a>(lane: LaneId, request: SetLane) -> LaneChanged;
    }
}

impl Quotas for Recorder {
    pass_on! {
        fn create_quota<'a>(request: CreateQuota) -> QuotaCreated;
        fn describe_quota<'a>(id: QuotaPolicyId, query: QuotaQuery) -> QuotaRecord;
        fn update_quota<'a>(id: QuotaPolicyId, request: UpdateQuota) -> QuotaCreated;
        fn delete_quota<'a>(id: QuotaPolicyId) -> QuotaDeleted;
        fn list_quotas<'a>() -> QuotaList;
        fn list_quota_holders<'a>(id: QuotaPolicyId, query: QuotaHoldersQuery) -> QuotaHolders;
    }
}

impl Kinds for Recorder {
    pass_on! {
        fn register_kinds<'a>(request: RegisterKinds) -> KindsRegistered;
        fn list_kinds<'a>() -> KindList;
        fn describe_kind<'a>(kind: ExecutionKind) -> KindRecord;
        fn set_kind<'a>(kind: ExecutionKind, request: SetKind) -> KindChanged;
        fn set_defaults<'a>(request: SetDefaults) -> KindChanged;
    }
}

impl Workers for Recorder {
    pass_on! {
        fn register_worker<'a>(registration: WorkerRegistration) -> Registered;
        fn heartbeat_worker<'a>(instance: WorkerInstanceId, request: Heartbeat) -> Registered;
        fn disconnect_worker<'a>(instance: WorkerInstanceId, request: Disconnect) -> Disconnected;
        fn list_workers<'a>() -> WorkerList;
    }
}

impl EngineBackend for Recorder {
    fn partition_config(&self) -> PartitionConfig {
        self.engine.partition_config()
    }

    fn name(&self) -> &'static str {
        "recorder"
    }
}
