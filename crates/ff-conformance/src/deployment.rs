//! A deployment under test: four partitions of its own, ids from a counter, time by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use ff_core::backend_error::BackendError;
use ff_core::contracts::{
    AttemptRecord, EventPage, EventQuery, ExecutionSnapshot, ListFilter, ListPage, TickReport,
    TickRequest,
};
use ff_core::engine_backend::roles::*;
use ff_core::error::{Code, EngineError};
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{EventCursor, ExecutionId, TimestampMs};
use ff_script::args::Args;
use ff_script::audit;
use ff_script::backend::ScriptBackend;
use ff_script::call::Call;
use ff_script::dump::Dump;
use ff_script::host::Host;
use ff_script::value::Value;
use uuid::Uuid;

use crate::answer::{Answer, function};
use crate::dump;
use crate::host::{HostKind, TestHost};

/// The time at which every deployment begins.
pub const START_MS: u64 = 1_800_000_000_000;

/// Enough for every test on the shared servers to have its own.
pub const FLOW_PARTITIONS: u16 = 60_000;

/// What one tick does at most.
const TICK_ITEMS: u32 = 1000;

/// One deployment.
pub struct Deployment {
    /// The engine's API over the host.
    pub backend: ScriptBackend<TestHost>,
    /// The partitions that belong to this test. The first is where everything happens by default.
    pub partitions: [Partition; 4],
    now_ms: AtomicU64,
    ids: AtomicU64,
}

impl Deployment {
    /// A deployment on partitions that nobody else uses.
    pub async fn start(kind: HostKind) -> Self {
        Self::start_on(kind, next_partitions(kind)).await
    }

    /// A deployment on these partitions.
    pub async fn start_on(kind: HostKind, partitions: [Partition; 4]) -> Self {
        let host = TestHost::start(kind, START_MS).await;
        host.set_time(&with_shared(partitions), START_MS).await;
        let config = PartitionConfig {
            num_flow_partitions: FLOW_PARTITIONS,
            num_budget_partitions: FLOW_PARTITIONS,
            num_quota_partitions: FLOW_PARTITIONS,
        };
        host.watch(false);
        let backend = ScriptBackend::open(Arc::new(host), config).await;
        let backend = backend.expect("all tests open the same deployment");
        backend.host().watch(true);
        let (now_ms, ids) = (AtomicU64::new(START_MS), AtomicU64::new(0));
        Self { backend, partitions, now_ms, ids }
    }

    /// The host underneath.
    pub fn host(&self) -> &TestHost {
        self.backend.host()
    }

    /// Which host it is.
    pub fn kind(&self) -> HostKind {
        self.host().kind()
    }

    /// The partition where everything happens by default.
    pub fn home(&self) -> Partition {
        self.partitions[0]
    }

    /// The partition of quotas that belongs to this test.
    pub fn quotas(&self) -> Partition {
        Partition::quota(self.home().index)
    }

    /// The partition of budgets that belongs to this test.
    pub fn budgets(&self) -> Partition {
        Partition::budget(self.home().index)
    }

    /// All partitions that belong to this test.
    pub fn all_partitions(&self) -> [Partition; 6] {
        with_shared(self.partitions)
    }

    /// A fresh uuid of something that lives in the partition of quotas, or of budgets.
    pub fn new_shared_uuid(&self) -> Uuid {
        // The end of it decides the partition, so what tells it from others stands before that.
        let uuid = Uuid::from_u128(self.new_uuid().as_u128().rotate_left(16));
        self.backend.partition_config().uuid_on(self.home(), uuid)
    }

    /// Where a function is called: the home of what it is about.
    fn place_of(&self, function: &str) -> Partition {
        match function {
            function if OF_QUOTAS.contains(&function) => self.quotas(),
            function if OF_BUDGETS.contains(&function) => self.budgets(),
            _ => self.home(),
        }
    }

    /// A fresh uuid. They grow, and are the same in every run.
    pub fn new_uuid(&self) -> Uuid {
        let number = self.ids.fetch_add(1, Ordering::SeqCst) + 1;
        Uuid::from_u128(0xF10F_AB00_0000_4000_8000_0000_0000_0000 + u128::from(number))
    }

    /// A fresh id in the first partition.
    pub fn new_id(&self) -> ExecutionId {
        ExecutionId::from_parts(self.home(), self.new_uuid())
    }

    /// The time, by the store's clock.
    pub fn now(&self) -> TimestampMs {
        TimestampMs::new(self.now_ms.load(Ordering::SeqCst))
    }

    /// Sets the time, in either direction.
    pub async fn set_time(&self, ms: u64) {
        self.now_ms.store(ms, Ordering::SeqCst);
        self.host().set_time(&self.all_partitions(), ms).await;
    }

    /// Lets time pass.
    pub async fn advance(&self, ms: u64) {
        self.set_time(self.now().get() + ms).await;
    }

    /// Runs a typed call on the first partition.
    pub async fn try_call<C: Call>(&self, call: C) -> Result<C::Reply, EngineError> {
        self.backend.call(self.place_of(C::CONTRACT.name), call).await
    }

    /// Runs a typed call that must not be refused.
    #[track_caller]
    pub fn call<C: Call>(&self, call: C) -> impl Future<Output = C::Reply> {
        let caller = std::panic::Location::caller();
        async move {
            let name = C::CONTRACT.name;
            let reply = self.try_call(call).await;
            reply.unwrap_or_else(|error| panic!("{name} at {caller}: {error}"))
        }
    }

    /// Runs a typed call that must be refused; gives the code.
    #[track_caller]
    pub fn refused<C: Call>(&self, call: C) -> impl Future<Output = Code> {
        let caller = std::panic::Location::caller();
        async move { self.refusal_at(call, caller).await.0 }
    }

    /// Runs a typed call that must be refused; gives the code and its details.
    #[track_caller]
    pub fn refusal<C: Call>(&self, call: C) -> impl Future<Output = (Code, Vec<String>)> {
        self.refusal_at(call, std::panic::Location::caller())
    }

    async fn refusal_at<C: Call>(
        &self,
        call: C,
        caller: &std::panic::Location<'_>,
    ) -> (Code, Vec<String>) {
        let name = C::CONTRACT.name;
        match self.try_call(call).await.map(drop) {
            Err(EngineError::Refused { code, details }) => (code, details),
            other => panic!("{name} at {caller} must be refused, and gave {other:?}"),
        }
    }

    /// Runs a function by name on the first partition with arguments of any kind.
    pub async fn raw(&self, name: &str, args: &[&[u8]]) -> Answer {
        self.raw_on(self.place_of(name), name, args).await
    }

    /// Runs a function by name with arguments of any kind. Panics if the host reports an error:
    /// whatever the arguments, the library must have an answer.
    pub async fn raw_on(&self, partition: Partition, name: &str, args: &[&[u8]]) -> Answer {
        match self.try_raw_on(partition, name, args).await {
            Ok(reply) => Answer::open(reply),
            Err(error) => panic!("{name} raised an error: {error}"),
        }
    }

    /// Runs a function by name; gives what the host gave.
    pub async fn try_raw_on(
        &self,
        partition: Partition,
        name: &str,
        args: &[&[u8]],
    ) -> Result<Value, BackendError> {
        let args: Args = args.iter().copied().collect();
        self.host().call(function(name), partition, args).await
    }

    /// A page of the executions of the home partition.
    pub async fn list_page(
        &self,
        filter: &ListFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Result<ListPage, EngineError> {
        let (partition, limit) = (Some(self.home().index), Some(limit));
        let filter = ListFilter { partition, cursor, limit, ..filter.clone() };
        self.backend.list_executions(filter).await
    }

    /// Some events of the home partition.
    pub async fn read_events(&self, after: Option<EventCursor>, limit: u32) -> EventPage {
        let query = EventQuery { partition: self.home().index, after, limit: Some(limit) };
        self.backend.read_events(query).await.expect("the log can be read")
    }

    /// Executes what is due in the first partition.
    pub async fn tick(&self) -> TickReport {
        let report = self.backend.tick(self.home(), TickRequest::once(TICK_ITEMS)).await;
        report.expect("a tick is never refused")
    }

    /// Everything about an execution that must exist. Its state vector must be a legal one.
    pub async fn describe(&self, id: ExecutionId) -> ExecutionSnapshot {
        let snapshot = self.try_describe(id).await;
        snapshot.unwrap_or_else(|| panic!("{id} does not exist"))
    }

    /// Everything about an execution, if it exists. Its state vector must be a legal one.
    pub async fn try_describe(&self, id: ExecutionId) -> Option<ExecutionSnapshot> {
        let snapshot = self.backend.describe_execution(id).await.expect("it can be read");
        if let Some(snapshot) = &snapshot {
            assert!(snapshot.state.is_legal(), "{id} is in an illegal state {:?}", snapshot.state);
        }
        snapshot
    }

    /// The attempts of an execution, oldest first.
    pub async fn attempts(&self, id: ExecutionId) -> Vec<AttemptRecord> {
        self.backend.list_attempts(id).await.expect("the attempts can be read").attempts
    }

    /// Everything this test's partitions hold.
    pub async fn dump(&self) -> Dump {
        self.host().dump(&self.all_partitions()).await
    }

    /// The same in a form that does not depend on the host.
    pub async fn portable_dump(&self) -> Dump {
        dump::portable(self.dump().await, &self.all_partitions())
    }

    /// Checks that all records and indexes agree.
    pub async fn audit(&self) {
        // What concerns the whole deployment belongs in the first partition, which all tests
        // share. The tests of these functions use their own, so the audit is shown that one there.
        let mut dump = dump::moved(self.dump().await, self.home(), Partition::flow(0));
        dump.retain(|key, _| !key.ends_with(b":deployment"));
        let report = audit::audit(&dump, &self.backend.partition_config());
        assert!(report.is_clean(), "the store is not in order: {report}");
    }

    /// Checks that everything is in order, and makes room for others.
    pub async fn finish(&self) {
        self.audit().await;
        self.clear().await;
    }

    /// Removes everything that this test has stored.
    pub async fn clear(&self) {
        self.host().clear(&self.all_partitions()).await;
    }
}

/// Functions that are called on partitions of quotas.
const OF_QUOTAS: [&str; 10] = [
    "ff_create_quota_policy",
    "ff_update_quota_policy",
    "ff_delete_quota_policy",
    "ff_describe_quota_policy",
    "ff_list_quota_holders",
    "ff_check_admission_and_record",
    "ff_release_admission",
    "ff_forget_admission",
    "ff_await_gates",
    "ff_settle_openings",
];

/// Functions that are called on partitions of budgets.
pub const OF_BUDGETS: [&str; 13] = [
    "ff_create_budget",
    "ff_update_budget",
    "ff_delete_budget",
    "ff_reset_budget",
    "ff_raise_budget",
    "ff_describe_budget",
    "ff_list_budgets",
    "ff_list_budget_usage",
    "ff_report_usage_and_check",
    "ff_reserve_usage",
    "ff_check_budget_and_reserve",
    "ff_release_budget",
    "ff_forget_usage",
];

/// These partitions, and those of quotas and budgets beside the first.
fn with_shared(partitions: [Partition; 4]) -> [Partition; 6] {
    let [first, second, third, fourth] = partitions;
    let index = first.index;
    [first, second, third, fourth, Partition::quota(index), Partition::budget(index)]
}

fn next_partitions(kind: HostKind) -> [Partition; 4] {
    static NEXT: [AtomicU16; 3] = [const { AtomicU16::new(4) }; 3];
    let first = NEXT[kind as usize].fetch_add(4, Ordering::SeqCst);
    assert!(first < FLOW_PARTITIONS, "all partitions are taken");
    [0, 1, 2, 3].map(|offset| Partition::flow(first + offset))
}
