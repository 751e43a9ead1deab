//! A small deployment of its own for each test, on a host that can crash.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::backend::{CompletionPayload, Handle, ScannerFilter};
use ff_core::backend_error::BackendError;
use ff_core::capability::CapabilitySet;
use ff_core::completion_backend::{CompletionBackend, CompletionCursor, CompletionStream};
use ff_core::contracts::{ClaimRequest, CreateExecution, Disconnect, WorkerRegistration};
use ff_core::engine_backend::PartitionBackend;
use ff_core::error::{Code, EngineError};
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{
    ExecutionId, ExecutionKind, LaneId, LeaseId, Namespace, WorkerId, WorkerInstanceId,
    WorkerSession,
};
use ff_script::args::Args;
use ff_script::backend::{Completions, ScriptBackend};
use ff_script::host::{Function, Host, Subject, Subscription, Topic, Wake};
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use ff_script::value::Value;
use ff_test_valkey::{Valkey, ValkeyOptions};
use futures_core::future::BoxFuture;
use tempfile::TempDir;
use tokio::sync::broadcast;

pub(crate) const PARTITIONS: u16 = 3;
/// How long a test waits for what must come.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How long nothing more must come. What is wrong is caught often enough, not always.
const QUIET: Duration = Duration::from_millis(50);
const LEASE_MS: u64 = 600_000;

/// A deployment, and what it stands on.
pub(crate) struct Site {
    engine: Arc<dyn PartitionBackend>,
    completions: Arc<dyn CompletionBackend>,
    ground: Ground,
}

enum Ground {
    Embedded { directory: TempDir, host: Arc<EmbeddedHost> },
    Valkey { server: Box<Valkey>, host: Arc<ValkeyHost> },
}

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() }
}

async fn open<H: Host>(host: &Arc<H>) -> Arc<ScriptBackend<H>> {
    Arc::new(ScriptBackend::open(Arc::clone(host), config()).await.expect("opens"))
}

fn open_embedded(directory: &TempDir) -> Arc<EmbeddedHost> {
    let config = EmbeddedConfig::in_directory(directory.path().join("data"));
    Arc::new(EmbeddedHost::open(config, &Library::current()).expect("an embedded host"))
}

async fn connect(server: &Valkey) -> Arc<ValkeyHost> {
    let config =
        ValkeyConfig::parse(&server.url()).expect("a URL").with_flow_partitions(PARTITIONS);
    Arc::new(ValkeyHost::connect(config, Library::current()).await.expect("connects"))
}

pub(crate) async fn embedded() -> Site {
    let directory = TempDir::new().expect("a directory");
    let host = open_embedded(&directory);
    Site::on(&Arc::clone(&host), Ground::Embedded { directory, host }).await
}

pub(crate) async fn valkey() -> Site {
    let options = ValkeyOptions {
        append_only: true,
        append_fsync: Some("always".to_owned()),
        ..ValkeyOptions::default()
    };
    let server = Box::new(Valkey::start(options).expect("a server"));
    let host = connect(&server).await;
    Site::on(&Arc::clone(&host), Ground::Valkey { server, host }).await
}

impl Site {
    async fn on<H: Host>(host: &Arc<H>, ground: Ground) -> Self {
        let backend = open(host).await;
        Self { engine: backend.clone(), completions: Arc::new(Completions(backend)), ground }
    }

    /// Everything in memory is gone; what was acknowledged is there again.
    pub(crate) async fn crash(self) -> Self {
        match self.ground {
            Ground::Embedded { directory, host } => {
                host.close().await;
                let host = open_embedded(&directory);
                Self::on(&Arc::clone(&host), Ground::Embedded { directory, host }).await
            }
            Ground::Valkey { mut server, .. } => {
                server.kill9().expect("killed");
                server.restart().expect("restarted");
                let host = connect(&server).await;
                Self::on(&Arc::clone(&host), Ground::Valkey { server, host }).await
            }
        }
    }

    /// The store goes away and comes back while everybody stays connected. An embedded store lives
    /// and dies with its users.
    pub(crate) async fn bounce(&mut self) {
        if let Ground::Valkey { server, .. } = &mut self.ground {
            server.kill9().expect("killed");
            server.restart().expect("restarted");
        }
    }

    /// The same deployment for somebody whom no push reaches.
    pub(crate) async fn deaf(&self) -> DeafSite {
        let (pushes, _) = broadcast::channel(16);
        let (completions, pushes) = match &self.ground {
            Ground::Embedded { host, .. } => deaf(host, pushes).await,
            Ground::Valkey { host, .. } => deaf(host, pushes).await,
        };
        DeafSite { completions, pushes }
    }

    pub(crate) async fn cursor(&self) -> CompletionCursor {
        self.completions.completion_cursor().await.expect("a position")
    }

    pub(crate) async fn subscribe(&self, from: Option<CompletionCursor>) -> Heard {
        Heard(self.completions.subscribe_completions(from).await.expect("subscribed"))
    }

    pub(crate) async fn subscribe_to(&self, filter: &ScannerFilter) -> Heard {
        let stream = self.completions.subscribe_completions_filtered(filter, None).await;
        Heard(stream.expect("subscribed"))
    }

    /// Submits so many executions and ends them, on all partitions in turn.
    pub(crate) async fn end(&self, count: usize) -> Vec<ExecutionId> {
        self.end_in(&Namespace::default(), count).await
    }

    pub(crate) async fn end_in(&self, namespace: &Namespace, count: usize) -> Vec<ExecutionId> {
        let mut ended = Vec::new();
        for number in 0..count {
            let partition = u16::try_from(number).expect("few") % PARTITIONS;
            ended.extend(self.end_there(namespace, partition, 1).await);
        }
        ended
    }

    pub(crate) async fn end_on(&self, partition: u16, count: usize) -> Vec<ExecutionId> {
        self.end_there(&Namespace::default(), partition, count).await
    }

    async fn end_there(
        &self,
        namespace: &Namespace,
        partition: u16,
        count: usize,
    ) -> Vec<ExecutionId> {
        let lane = "ending";
        self.submit(namespace, lane, partition, count).await;
        let handles = self.claim("ender", lane, partition, count).await;
        for handle in &handles {
            self.engine.complete(handle, None).await.expect("completed");
        }
        handles.into_iter().map(|handle| handle.execution_id).collect()
    }

    async fn submit(&self, namespace: &Namespace, lane: &str, partition: u16, count: usize) {
        let new = || CreateExecution {
            namespace: Some(namespace.clone()),
            lane: Some(LaneId::try_new(lane).expect("valid")),
            ..CreateExecution::new(ExecutionKind::try_new("some").expect("valid"))
                .with_id(ExecutionId::from_parts(Partition::flow(partition), SystemIds.ordered()))
        };
        let created = self.engine.create_many((0..count).map(|_| new()).collect()).await;
        assert!(created.iter().all(Result::is_ok), "{created:?}");
    }

    async fn claim(&self, instance: &str, lane: &str, partition: u16, count: usize) -> Vec<Handle> {
        let mut handles = Vec::new();
        while handles.len() < count {
            let batch = (count - handles.len()).min(ff_core::limits::CLAIM_COUNT_MAX as usize);
            let lease_id = |_| LeaseId::from_uuid(SystemIds.random());
            let request = ClaimRequest {
                kinds: Vec::new(),
                lane: LaneId::try_new(lane).expect("valid"),
                worker_id: WorkerId::try_new("worker").expect("valid"),
                worker_instance_id: WorkerInstanceId::try_new(instance).expect("valid"),
                capabilities: CapabilitySet::default(),
                namespaces: Vec::new(),
                from: Default::default(),
                lease_ttl_ms: LEASE_MS,
                lease_ids: (0..batch).map(lease_id).collect(),
                retry: false,
            };
            let claimed = self.engine.claim_next(Partition::flow(partition), request).await;
            let claimed = claimed.expect("claimed").claimed;
            assert!(!claimed.is_empty(), "there is less than {count}");
            handles.extend(claimed.into_iter().map(|claimed| claimed.handle));
        }
        handles
    }

    /// Executions in the hands of this worker process.
    pub(crate) async fn hold(
        &self,
        instance: &str,
        partition: u16,
        count: usize,
    ) -> Vec<ExecutionId> {
        self.submit(&Namespace::default(), "holding", partition, count).await;
        let handles = self.claim(instance, "holding", partition, count).await;
        handles.into_iter().map(|handle| handle.execution_id).collect()
    }

    /// What was handed back, in the hands of another one.
    pub(crate) async fn hold_again(&self, partition: u16, count: usize) -> Vec<ExecutionId> {
        let handles = self.claim("another", "holding", partition, count).await;
        handles.into_iter().map(|handle| handle.execution_id).collect()
    }

    /// Writes so many events, none of which is an end.
    pub(crate) async fn fill_log(&self, partition: u16, events: u64) {
        let each = ff_core::limits::CLAIM_COUNT_MAX;
        let count = usize::try_from(each).expect("small");
        self.submit(&Namespace::default(), "filling", partition, count).await;
        let session = self.new_session();
        // Every round claims them all and hands them all back.
        for _ in 0..events.div_ceil(2 * each) {
            self.claim("filler", "filling", partition, count).await;
            let handed_back = self.disconnect("filler", session).await;
            assert_eq!(handed_back, Ok(u32::try_from(each).expect("small")));
        }
    }

    pub(crate) fn new_session(&self) -> WorkerSession {
        WorkerSession::from_uuid(SystemIds.random())
    }

    pub(crate) async fn register(&self, instance: &str) -> WorkerSession {
        let session = self.new_session();
        let worker_id = WorkerId::try_new("worker").expect("valid");
        let instance = WorkerInstanceId::try_new(instance).expect("valid");
        let mut registration = WorkerRegistration::new(worker_id, instance, LEASE_MS);
        registration.session = Some(session);
        self.engine.register_worker(registration).await.expect("registered");
        session
    }

    pub(crate) async fn disconnect(
        &self,
        instance: &str,
        session: WorkerSession,
    ) -> Result<u32, Code> {
        let instance = WorkerInstanceId::try_new(instance).expect("valid");
        let answer =
            self.engine.disconnect_worker(instance, Disconnect { session, executions: None }).await;
        answer
            .map(|disconnected| disconnected.handed_back)
            .map_err(|error: EngineError| error.code().expect("a refusal"))
    }

    pub(crate) async fn workers(&self) -> Vec<String> {
        let listed = self.engine.list_workers().await.expect("listed").workers;
        listed.into_iter().map(|worker| worker.worker_instance_id.to_string()).collect()
    }
}

/// A subscription.
pub(crate) struct Heard(CompletionStream);

impl Heard {
    pub(crate) async fn next(&mut self) -> CompletionPayload {
        let next = poll_fn(|context| self.0.as_mut().poll_next(context)).await;
        next.expect("the store is open")
    }

    /// The next so many.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<CompletionPayload> {
        let mut heard = Vec::new();
        for _ in 0..count {
            let next = tokio::time::timeout(TIME_LIMIT, self.next()).await;
            heard.push(next.unwrap_or_else(|_| panic!("only {} of {count} came", heard.len())));
        }
        heard
    }

    /// Everything until all of these have come.
    pub(crate) async fn until(
        &mut self,
        wanted: &std::collections::BTreeSet<ExecutionId>,
    ) -> Vec<CompletionPayload> {
        let mut heard: Vec<CompletionPayload> = Vec::new();
        while !wanted.iter().all(|id| heard.iter().any(|heard| heard.execution_id == *id)) {
            heard.extend(self.take(1).await);
        }
        heard
    }

    /// Nothing more comes.
    pub(crate) async fn quiet(&mut self) {
        let more = tokio::time::timeout(QUIET, self.next()).await;
        assert!(more.is_err(), "there is more: {more:?}");
    }
}

/// Somebody whom no push reaches.
pub(crate) struct DeafSite {
    completions: Arc<dyn CompletionBackend>,
    pushes: broadcast::Sender<Wake>,
}

impl DeafSite {
    pub(crate) async fn subscribe(&self, from: Option<CompletionCursor>) -> Heard {
        Heard(self.completions.subscribe_completions(from).await.expect("subscribed"))
    }

    /// As after a reconnect.
    pub(crate) fn say_missed(&self) {
        self.pushes.send(Wake::Missed).expect("somebody listens");
    }
}

async fn deaf<H: Host>(
    host: &Arc<H>,
    pushes: broadcast::Sender<Wake>,
) -> (Arc<dyn CompletionBackend>, broadcast::Sender<Wake>) {
    let deaf = Arc::new(Deaf { host: Arc::clone(host), pushes: pushes.clone() });
    (Arc::new(Completions(open(&deaf).await)), pushes)
}

/// A host whose pushes all get lost.
struct Deaf<H> {
    host: Arc<H>,
    pushes: broadcast::Sender<Wake>,
}

impl<H: Host> Host for Deaf<H> {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        self.host.call(function, partition, args)
    }

    fn subscribe(&self, _: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        let subscription = Subscription::new(self.pushes.subscribe());
        Box::pin(std::future::ready(Ok(subscription)))
    }

    fn follow(&self, _: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        let subscription = Subscription::new(self.pushes.subscribe());
        Box::pin(std::future::ready(Ok(subscription)))
    }

    fn name(&self) -> &'static str {
        "deaf"
    }
}
