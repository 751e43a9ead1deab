//! A store that is killed between any two batches of a large flow's submission, resolution or
//! cancel, and opened anew from what is on its disk: a repetition of the request, or the next
//! ticks, finish what broke off, each member once, and no rule is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ff_backend_embedded::{EmbeddedHost, SyncMode};
use ff_conformance::model::OnDisk;
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::capability::CapabilitySet;
use ff_core::contracts::{
    CancelFlow, ClaimRequest, Claimed, CreateExecution, CreateFlow, FlowSnapshot, GraphDependency,
    GraphTask, SubmitGraph, TickRequest,
};
use ff_core::engine_backend::{EngineBackend as _, Flows as _, PartitionBackend as _, Tasks as _};
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionKind, FlowId, LaneId, LeaseId};
use ff_script::args::Args;
use ff_script::audit;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::ids::{IdSource as _, SystemIds};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use uuid::Uuid;

/// Several batches of everything.
const MEMBERS: u32 = 300;
const TICK_ITEMS: u32 = 128;
/// More than anything takes here.
const CALLS_MAX: u64 = 1_000;

/// A host that dies after so many calls.
struct Dying {
    host: Arc<EmbeddedHost>,
    calls_left: AtomicU64,
}

impl Host for Dying {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        let left = self
            .calls_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        Box::pin(async move {
            if left.is_err() {
                let kind = BackendErrorKind::Closed;
                return Err(BackendError::new(kind, Retry::Safe, "it was killed"));
            }
            self.host.call(function, partition, args).await
        })
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.subscribe(topic)
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}

type Backend = ScriptBackend<Dying>;

/// A store that is killed now and then, and one flow in it.
struct Cut {
    disk: OnDisk,
    flow_id: FlowId,
}

impl Cut {
    fn new() -> Self {
        let disk = OnDisk::new(&Library::current(), SyncMode::Always);
        Self { disk, flow_id: FlowId::from_uuid(Uuid::from_u128(0x7_0000)) }
    }

    /// The way to the store, for so many calls.
    async fn backend(&self, calls: u64) -> Backend {
        let alive = AtomicU64::new(CALLS_MAX);
        let host = Arc::new(Dying { host: self.disk.host(), calls_left: alive });
        let config = PartitionConfig { num_flow_partitions: 4, ..PartitionConfig::default() };
        let backend = ScriptBackend::open(Arc::clone(&host), config).await.expect("it opens");
        host.calls_left.store(calls, Ordering::SeqCst);
        backend
    }

    /// It is killed, and opened anew from what is on its disk.
    async fn kill(&self) -> Backend {
        self.disk.crash().await;
        self.audit().await;
        self.backend(u64::MAX).await
    }

    async fn audit(&self) {
        let dump = self.disk.host().dump().await.expect("the store is open");
        let report = audit::audit(&dump, &audit::partition_config(&dump));
        assert!(report.is_clean(), "{report}");
    }

    async fn flow(&self, backend: &Backend) -> FlowSnapshot {
        let flow = backend.describe_flow(self.flow_id).await.expect("it can be read");
        flow.expect("there is such a flow")
    }

    /// How many members are in which state, as `1 active, 2 waiting`.
    async fn counts(&self, backend: &Backend) -> String {
        let counts = self.flow(backend).await.counts;
        let present = counts.iter().filter(|(_, count)| **count > 0);
        present.map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
    }

    fn home(&self, backend: &Backend) -> Partition {
        backend.partition_config().flow_partition_of(self.flow_id.as_bytes())
    }

    /// Ticks until nothing is due any more; false if the store dies before.
    async fn settle(&self, backend: &Backend) -> bool {
        loop {
            let Ok(report) = backend.tick(self.home(backend), TickRequest::once(TICK_ITEMS)).await
            else {
                return false;
            };
            if report.next_due_at.is_none_or(|at| at > report.now) {
                return true;
            }
        }
    }

    async fn claim(&self, backend: &Backend, count: usize) -> Vec<Claimed> {
        let request = ClaimRequest {
            lane: LaneId::new("default"),
            worker_id: "worker".parse().expect("a name"),
            worker_instance_id: "worker-1".parse().expect("a name"),
            capabilities: CapabilitySet::default(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            from: Default::default(),
            lease_ttl_ms: 60_000,
            lease_ids: (0..count).map(|_| LeaseId::from_uuid(SystemIds.random())).collect(),
            retry: false,
        };
        backend.claim_next(self.home(backend), request).await.expect("a claim").claimed
    }

    /// All wait for the first, and every second one also for the one before it.
    fn graph(&self) -> SubmitGraph {
        let kind = ExecutionKind::new("work");
        let tasks = (0..MEMBERS).map(|place| {
            let mut task = GraphTask::new(name(place), CreateExecution::new(kind.clone()));
            if place > 0 {
                task.after.push(GraphDependency::on_success(name(0)));
            }
            if place > 1 && place % 2 == 0 {
                task.after.push(GraphDependency::on_success(name(place - 1)));
            }
            task
        });
        let flow = CreateFlow { flow_id: Some(self.flow_id), ..CreateFlow::new(kind.clone()) };
        SubmitGraph::new(flow, tasks.collect())
    }

    async fn submit(&self, backend: &Backend) -> bool {
        backend.submit_graph(self.graph()).await.is_ok()
    }

    /// Submits the whole flow and completes the one that all wait for: the next call frees more.
    async fn resolving(&self) {
        let backend = self.backend(u64::MAX).await;
        assert!(self.submit(&backend).await && self.settle(&backend).await);
        for claimed in self.claim(&backend, 1).await {
            backend.complete(&claimed.handle, None).await.expect("it is held");
        }
    }

    /// Submits the whole flow, of which some run, and cancels it: the next call cancels more.
    async fn cancelling(&self) {
        self.resolving().await;
        let backend = self.backend(u64::MAX).await;
        assert!(self.settle(&backend).await);
        assert_eq!(self.claim(&backend, 75).await.len(), 75);
        let request = CancelFlow { cancellation_policy: None, reason: String::new() };
        backend.cancel_flow(self.flow_id, request).await.expect("it runs");
    }
}

fn name(place: u32) -> String {
    format!("n{place:04}")
}

const FREED: &str = "150 waiting, 149 waiting_children, 1 completed";

/// Every member runs, once.
async fn run_all(cut: &Cut, backend: &Backend) {
    let mut ran = 0;
    loop {
        assert!(cut.settle(backend).await);
        let claimed = cut.claim(backend, 100).await;
        if claimed.is_empty() {
            break;
        }
        for one in &claimed {
            backend.complete(&one.handle, None).await.expect("it is held");
        }
        ran += claimed.len();
    }
    let completed = cut.flow(backend).await;
    assert!(completed.completed_at.is_some(), "{completed:?}");
    assert_eq!((cut.counts(backend).await.as_str(), ran), ("300 completed", 299));
    cut.audit().await;
}

#[tokio::test]
async fn a_submission_that_is_cut_between_any_two_batches_is_finished_by_its_repetition() {
    let mut whole = false;
    let mut calls = 0;
    while !whole {
        let cut = Cut::new();
        whole = cut.submit(&cut.backend(calls).await).await;
        let backend = cut.kill().await;
        assert!(cut.submit(&backend).await && cut.settle(&backend).await);
        let flow = cut.flow(&backend).await;
        assert_eq!((flow.node_count, flow.edge_count, flow.sealed), (300, 448, true));
        assert_eq!(cut.counts(&backend).await, "1 waiting, 299 waiting_children", "{calls}");
        cut.audit().await;
        calls += 1;
    }
    assert!(calls > 4, "a submission of {calls} calls is not cut in the middle");
}

#[tokio::test]
async fn a_resolution_that_is_cut_between_any_two_batches_goes_on_by_itself() {
    let mut whole = false;
    let mut calls = 0;
    while !whole {
        let cut = Cut::new();
        cut.resolving().await;
        whole = cut.settle(&cut.backend(calls).await).await;
        let backend = cut.kill().await;
        assert!(cut.settle(&backend).await);
        assert_eq!(cut.counts(&backend).await, FREED, "after {calls} calls");
        run_all(&cut, &backend).await;
        calls += 1;
    }
    assert!(calls > 2, "a resolution of {calls} calls is not cut in the middle");
}

#[tokio::test]
async fn a_cancel_that_is_cut_between_any_two_batches_goes_on_by_itself() {
    let mut whole = false;
    let mut calls = 0;
    while !whole {
        let cut = Cut::new();
        cut.cancelling().await;
        whole = cut.settle(&cut.backend(calls).await).await;
        let backend = cut.kill().await;
        assert!(cut.claim(&backend, 1).await.is_empty(), "nobody is claimed from then on");
        assert!(cut.settle(&backend).await);
        assert_eq!(cut.counts(&backend).await, "1 completed, 299 cancelled", "{calls}");
        assert!(cut.flow(&backend).await.completed_at.is_some());
        cut.audit().await;
        calls += 1;
    }
    assert!(calls > 4, "a cancel of {calls} calls is not cut in the middle");
}
