//! The worker: connects, takes work, and leaves in order.

mod claim;
mod complete_many;
mod flows;
mod process;
mod registry;
mod shared;
mod shutdown;
mod upkeep;

pub(crate) use claim::new_task;
pub(crate) use shared::Shared;
pub use shutdown::ShutdownReport;
pub(crate) use upkeep::{SharedUpkeep, Upkeep};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ff_core::completion_backend::CompletionBackend;
use ff_core::contracts::{
    ExecutionSnapshot, KindsRegistered, LanePage, LaneQuery, ListSuspended, ListSuspendedPage,
    Signal, SignalOutcome,
};
use ff_core::engine_backend::EngineBackend;
use ff_core::partition::PartitionConfig;
use ff_core::policy::ExecutionPolicy;
use ff_core::types::{ExecutionKind, ExecutionRef, LaneId, Namespace, WaitpointId, WorkerSession};
use ff_core::work_source::WorkSource;
use ff_script::ids::{IdSource, SystemIds};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::client::Client;
use crate::config::WorkerConfig;
use crate::connection::Connection;
use crate::error::{Context as _, SdkError};
use crate::store_clock::StoreClock;

/// A worker process, as the engine knows it: it takes executions from its lanes and holds them
/// under leases.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use ff_sdk::{BackendConfig, FlowFabricWorker, WorkerConfig};
///
/// let worker = FlowFabricWorker::connect(WorkerConfig {
///     backend: BackendConfig::embedded_in_memory(),
///     worker_id: "mailer".parse()?,
///     worker_instance_id: "mailer-1".parse()?,
///     namespace: "default".parse()?,
///     lanes: vec!["mail".parse()?],
///     capabilities: Vec::new(),
///     lease_ttl_ms: 30_000,
///     claim_poll_interval_ms: 1_000,
///     max_concurrent_tasks: 4,
/// })
/// .await?;
/// worker.client().submit("greet", "world").lane("mail").await?;
///
/// let task = worker.claim(Duration::from_secs(5)).await?.expect("there is work");
/// assert_eq!(task.input_payload(), br#""world""#);
/// task.complete(Some(b"hello, world".to_vec())).await?;
///
/// worker.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub struct FlowFabricWorker {
    shared: Arc<Shared>,
    heartbeat: JoinHandle<()>,
}

/// Whether a worker takes work, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerStatus {
    /// It takes work.
    Running,
    /// It was told to shut down and waits for its tasks.
    Draining,
    /// It has left.
    Stopped,
    /// Another process registered under its instance id: it takes no more work.
    Lost,
}

impl fmt::Display for WorkerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "it is running",
            Self::Draining => "it is shutting down",
            Self::Stopped => "it has been shut down",
            Self::Lost => "another process has its worker_instance_id",
        })
    }
}

impl FlowFabricWorker {
    /// Checks the settings, connects and registers. Nothing is sent if a setting is wrong.
    pub async fn connect(config: WorkerConfig) -> Result<Self, SdkError> {
        config.validate()?;
        let connection = Connection::open(config.backend.clone()).await?;
        Self::connect_to(config, &connection).await
    }

    /// The same over a connection that others use too; `config.backend` is not looked at.
    pub async fn connect_to(
        config: WorkerConfig,
        connection: &Connection,
    ) -> Result<Self, SdkError> {
        let namespaces = config.namespaces();
        Self::connect_serving(config, connection, Vec::new(), namespaces).await
    }

    /// The same for a worker that has handlers for these kinds alone, and takes from these
    /// namespaces; from any if none is named.
    pub(crate) async fn connect_serving(
        config: WorkerConfig,
        connection: &Connection,
        kinds: Vec<ExecutionKind>,
        namespaces: Vec<Namespace>,
    ) -> Result<Self, SdkError> {
        let capabilities = config.validate()?;
        let ids: Arc<dyn IdSource> = Arc::new(SystemIds);
        let shared = Arc::new(Shared {
            permits: Arc::new(Semaphore::new(config.max_concurrent_tasks.max(1))),
            session: WorkerSession::from_uuid(ids.random()),
            started: Instant::now(),
            connection: connection.clone(),
            config,
            capabilities,
            namespaces,
            ids,
            clock: StoreClock::default(),
            status: watch::Sender::new(WorkerStatus::Running),
            tasks: Default::default(),
            hand_backs: shared::HandBacks::on_this_runtime(),
            upkeep: connection.upkeep().await?,
            kinds: Mutex::new(kinds),
        });
        registry::register(&shared).await?;
        let heartbeat = shared.upkeep.spawn(registry::keep(Arc::clone(&shared)));
        let watch = upkeep::watch(Runtime::current(), Arc::downgrade(&shared));
        shared.upkeep.spawn(watch);
        Ok(Self { shared, heartbeat })
    }

    /// From now on it has handlers for these kinds alone; the registry is told.
    pub(crate) async fn serve_only(&self, kinds: Vec<ExecutionKind>) -> Result<(), SdkError> {
        *self.shared.kinds.lock().unwrap_or_else(PoisonError::into_inner) = kinds;
        registry::register(&self.shared).await
    }

    /// The same over implementations of your own. Every call goes through them; nothing is dialled.
    /// Without `completion`, waiting for results falls back to asking now and then.
    pub async fn connect_with(
        config: WorkerConfig,
        engine: Arc<dyn EngineBackend>,
        work: Arc<dyn WorkSource>,
        completion: Option<Arc<dyn CompletionBackend>>,
    ) -> Result<Self, SdkError> {
        let connection = Connection::from_parts(engine, work, completion);
        Self::connect_to(config, &connection).await
    }

    /// The backend that every call goes through.
    pub fn backend(&self) -> &Arc<dyn EngineBackend> {
        self.shared.engine()
    }

    /// Where completions can be subscribed to, if the backend can tell of them.
    pub fn completion_backend(&self) -> Option<Arc<dyn CompletionBackend>> {
        self.shared.connection.completion()
    }

    /// The settings it was made with.
    pub fn config(&self) -> &WorkerConfig {
        &self.shared.config
    }

    /// How many partitions the deployment has.
    pub fn partition_config(&self) -> PartitionConfig {
        self.shared.engine().partition_config()
    }

    /// The connection, to share it with others.
    pub fn connection(&self) -> &Connection {
        &self.shared.connection
    }

    /// A client over the same connection, which submits in this worker's namespace.
    pub fn client(&self) -> Client {
        Client::new(&self.shared.connection).with_namespace(self.shared.config.home())
    }

    /// Tells the defaults of kinds that this worker serves: what a submission leaves unsaid is
    /// taken from them. Of workers that differ the one that started last wins, unless an operator
    /// has pinned something else; the answer says what became of each.
    pub async fn register_kinds(
        &self,
        kinds: BTreeMap<ExecutionKind, ExecutionPolicy>,
    ) -> Result<KindsRegistered, SdkError> {
        registry::register_kinds(&self.shared, kinds).await
    }

    /// Whether it takes work.
    pub fn status(&self) -> WorkerStatus {
        *self.shared.status.borrow()
    }

    /// The status, and a way to wait for its changes.
    pub fn status_changes(&self) -> watch::Receiver<WorkerStatus> {
        self.shared.status.subscribe()
    }

    /// Everything about an execution at one moment; none if it does not exist.
    pub async fn describe_execution(
        &self,
        execution: impl Into<ExecutionRef>,
    ) -> Result<Option<ExecutionSnapshot>, SdkError> {
        self.client().describe(execution).await
    }

    /// Gives a signal to a waitpoint of an execution: see [`Client::deliver_signal`].
    pub async fn deliver_signal(
        &self,
        execution: impl Into<ExecutionRef>,
        waitpoint_id: &WaitpointId,
        signal: Signal,
    ) -> Result<SignalOutcome, SdkError> {
        self.client().deliver_signal(execution, waitpoint_id, signal).await
    }

    /// What is suspended: see [`Client::list_suspended`].
    pub async fn list_suspended(
        &self,
        query: ListSuspended,
    ) -> Result<ListSuspendedPage, SdkError> {
        self.client().list_suspended(query).await
    }

    /// The lanes in use or with settings, by name, after a given one.
    pub async fn list_lanes(
        &self,
        cursor: Option<LaneId>,
        limit: u32,
    ) -> Result<LanePage, SdkError> {
        // How much waits in them is not asked for: one partition's depths are the cheapest.
        let query = LaneQuery { cursor, limit: Some(limit), partition: Some(0) };
        self.shared.engine().list_lanes(query).await.map(Into::into).context("list_lanes")
    }
}

impl Drop for FlowFabricWorker {
    /// Stops claiming. Tasks that are still held keep their leases; the registration runs out by
    /// itself. [`FlowFabricWorker::shutdown`] leaves in order.
    fn drop(&mut self) {
        self.heartbeat.abort();
        self.shared.status.send_if_modified(|status| {
            let running = *status == WorkerStatus::Running;
            if running {
                *status = WorkerStatus::Stopped;
            }
            running
        });
    }
}

impl fmt::Debug for FlowFabricWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowFabricWorker")
            .field("worker_instance_id", &self.shared.config.worker_instance_id)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
