//! The typed runtime: handlers by kind, run side by side, with their outcomes reported.

mod builder;
mod context;
mod handler;
mod run;
mod task_error;
mod typed;

pub use builder::WorkerBuilder;
pub use context::Context;
pub use run::ShutdownHandle;
pub use task_error::{TaskError, TaskResult};

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ff_core::policy::ExecutionPolicy;
use ff_core::types::{ExecutionKind, Namespace};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::config::WorkerConfig;
use crate::connection::Connection;
use crate::worker::FlowFabricWorker;
use handler::Handler;

/// The category of an input that the handler's type cannot read. Not retried: it stays unreadable.
pub const INVALID_INPUT: &str = "invalid_input";
/// The category of an output that cannot be encoded or stored. Not retried.
pub const INVALID_OUTPUT: &str = "invalid_output";
/// The category of an execution of a kind that the worker has no handler for. A worker asks only
/// for kinds that it can handle, so only a broken server can bring this about. Not retried.
pub const UNKNOWN_KIND: &str = "unknown_kind";
/// The category of a suspension that the engine refuses. Not retried.
pub const INVALID_SUSPENSION: &str = "invalid_suspension";
/// The category of a delay that the engine refuses. Not retried.
pub const INVALID_DELAY: &str = "invalid_delay";
/// The category of a handler's panic.
pub const PANIC: &str = "panic";

/// A worker made of handlers: claims as much as it has room for, runs the handler of each
/// execution's kind, and reports what became of it.
///
/// * A handler's `Ok` completes the execution, its error, of any type, fails the attempt; the
///   execution's policy decides about a retry. What else may become of an attempt, it tells its
///   [`Context`]: [`delay_for`](Context::delay_for), [`suspend`](Context::suspend),
///   [`wait_children`](Context::wait_children), [`cancel`](Context::cancel).
/// * A panic is a failure of category [`PANIC`]. An input that cannot be decoded fails the
///   execution without retries, category [`INVALID_INPUT`].
/// * When it starts, it tells the policies of its [`Kind`](crate::Kind)s, which are the defaults of
///   all executions of these kinds, whoever submits them.
/// * Only executions of kinds that have a handler are taken; others wait for a worker that has one.
/// * A handler whose lease is lost is dropped at its next `await`. One that blocks its thread costs
///   no lease, but holds up the others: [`WorkerBuilder::on_blocking`] runs it apart.
/// * Only a fault of its own ends a worker: settings that the engine refuses, or an instance id
///   that another process has. Everything else is waited out.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use ff_sdk::{BackendConfig, Client, Connection, Context, TaskError, Worker};
///
/// async fn add(_: Context, (a, b): (i64, i64)) -> Result<i64, TaskError> {
///     a.checked_add(b).ok_or_else(|| TaskError::fail("too large"))
/// }
///
/// let connection = Connection::open(BackendConfig::embedded_in_memory()).await?;
/// let worker = Worker::builder("calculator").connection(&connection).on("add", add).build()?;
/// let stop = worker.shutdown_handle();
/// let running = tokio::spawn(worker.run());
///
/// let client = Client::new(&connection);
/// let id = client.submit("add", &(1, 2)).await?.execution_id();
/// let sum: i64 = client.await_result(&id, Duration::from_secs(10)).await?;
/// assert_eq!(sum, 3);
///
/// stop.shutdown();
/// running.await??;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub struct Worker<S = ()> {
    source: Source,
    config: WorkerConfig,
    /// Those it takes from; none: any.
    namespaces: Vec<Namespace>,
    kinds: Arc<Kinds<S>>,
    /// What the kinds say.
    policies: BTreeMap<ExecutionKind, ExecutionPolicy>,
    drain: Duration,
    stop: watch::Sender<bool>,
}

/// Where the work comes from.
enum Source {
    /// A connection of its own, made when it runs.
    Own,
    /// One that is shared.
    Shared(Connection),
    /// A worker that is connected already.
    Worker(FlowFabricWorker),
}

/// What the handlers share, and the handlers.
struct Kinds<S> {
    state: Arc<S>,
    by_name: HashMap<ExecutionKind, Registered<S>>,
    /// Told whenever a handler of a kind with a limit is done.
    freed: Notify,
}

/// One of the places that a kind with a limit has.
type Place = OwnedSemaphorePermit;

impl<S> Kinds<S> {
    /// The kinds that have room, and how many executions to take at most, so that none of them is
    /// taken only to wait here while another worker could run it.
    fn with_room(&self) -> (Vec<ExecutionKind>, usize) {
        let rooms = self.by_name.iter().map(|(name, kind)| {
            let room = kind.permits.as_ref().map_or(usize::MAX, |it| it.available_permits());
            (name, room)
        });
        let rooms: Vec<_> = rooms.filter(|(_, room)| *room > 0).collect();
        let most = rooms.iter().map(|(_, room)| *room).min().unwrap_or(0);
        (rooms.into_iter().map(|(name, _)| name.clone()).collect(), most)
    }

    /// The kinds that have room once a task of this one is done.
    fn with_room_after(&self, done: &ExecutionKind) -> Vec<ExecutionKind> {
        let mut kinds = self.with_room().0;
        if !kinds.contains(done) && self.by_name.contains_key(done) {
            kinds.push(done.clone());
        }
        kinds
    }

    /// Takes one of the kind's places. None if it has no limit, or if more was claimed than asked
    /// for, which only a broken server can bring about.
    fn place_for(&self, kind: &ExecutionKind) -> Option<Place> {
        let permits = self.by_name.get(kind)?.permits.as_ref()?;
        Arc::clone(permits).try_acquire_owned().ok()
    }

    /// Waits for one of the kind's places; none is needed if it has no limit.
    async fn wait_for_place(&self, kind: &ExecutionKind) -> Option<Place> {
        let permits = self.by_name.get(kind)?.permits.as_ref()?;
        Arc::clone(permits).acquire_owned().await.ok()
    }
}

/// One handler, and how many of it may run at a time.
struct Registered<S> {
    handler: Handler<S>,
    permits: Option<Arc<Semaphore>>,
}

impl Worker {
    /// Begins to put a worker together. The name is what its executions see as `worker_id`.
    pub fn builder(name: impl Into<String>) -> WorkerBuilder<()> {
        WorkerBuilder::new(name.into())
    }
}

impl<S> Worker<S> {
    /// What ends [`Worker::run`] from elsewhere.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle(self.stop.clone())
    }
}
