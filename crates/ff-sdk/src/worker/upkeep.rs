//! The thread that keeps a worker's leases and its registration, with a runtime and a connection of
//! its own: a handler that blocks the thread it runs on must not cost what the worker holds.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Shared;
use crate::connection::Connection;
use crate::error::SdkError;

/// How often the runtime of the handlers is asked for a sign of life.
const LOOK: Duration = Duration::from_millis(500);
/// How long it may take before it counts as stalled.
const STALL: Duration = Duration::from_secs(1);

/// The thread, for as long as this lives.
pub(crate) struct Upkeep {
    runtime: Runtime,
    engine: Arc<dyn EngineBackend>,
    /// Its end ends the thread.
    _alive: oneshot::Sender<()>,
}

type Started = Result<(Runtime, Arc<dyn EngineBackend>), EngineError>;

impl Upkeep {
    /// Starts the thread, which connects once more where there is something to connect to.
    pub(crate) async fn start(connection: &Connection) -> Result<Self, SdkError> {
        let (tell, told) = oneshot::channel();
        let (alive, ended) = oneshot::channel();
        let connection = connection.clone();
        let thread = thread::Builder::new().name("ff-upkeep".to_owned());
        let started = thread.spawn(move || run(connection, tell, ended));
        started.map_err(|error| SdkError::config("worker_connect", "thread", error))?;
        let lost = EngineError::Unavailable { op: "a thread for renewals" };
        let (runtime, engine) = told.await.unwrap_or(Err(lost))?;
        Ok(Self { runtime, engine, _alive: alive })
    }

    /// The connection that belongs to the thread: to be used there, or its sockets would be served
    /// elsewhere.
    pub(crate) fn engine(&self) -> &Arc<dyn EngineBackend> {
        &self.engine
    }

    /// Runs something on the thread. It must not block.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.runtime.spawn(work)
    }
}

fn run(connection: Connection, tell: oneshot::Sender<Started>, ended: oneshot::Receiver<()>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let error = EngineError::Unavailable { op: "a runtime for renewals" }
                .in_context(error.to_string());
            // Nobody waits any more, or hears of it.
            let _ = tell.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        let engine = connection.engine_of_its_own().await;
        drop(connection);
        if tell.send(engine.map(|engine| (Runtime::current(), engine))).is_ok() {
            // It is never sent, only dropped.
            let _ = ended.await;
        }
    });
}

/// Warns when the runtime that this is called with runs nothing although tasks are in hand: their
/// handlers then block its threads.
pub(super) async fn watch(handlers: Runtime, worker: Weak<Shared>) {
    loop {
        sleep(LOOK).await;
        let Some(shared) = worker.upgrade() else { return };
        let kinds = kinds_in_hand(&shared);
        let instance = shared.config.worker_instance_id.clone();
        drop(shared);
        if kinds.is_empty() {
            continue;
        }
        let (sign, mut seen) = oneshot::channel();
        let asked = Instant::now();
        handlers.spawn(async move { sign.send(()) });
        if timeout(STALL, &mut seen).await.is_err() {
            let kinds = kinds.join(", ");
            tracing::warn!(
                %instance, %kinds,
                "the runtime is stalled: a handler blocks its threads; on_blocking runs it apart"
            );
            // It runs again, or has ended.
            let _ = seen.await;
            let stalled_ms = asked.elapsed().as_millis();
            tracing::warn!(%instance, stalled_ms, "the runtime was stalled and runs again");
        }
    }
}

fn kinds_in_hand(shared: &Shared) -> Vec<String> {
    let tasks = shared.tasks.all();
    let kinds: BTreeSet<_> = tasks.iter().map(|core| core.claimed.kind.as_str()).collect();
    kinds.into_iter().map(str::to_owned).collect()
}
