//! The thread that claims for the workers of a connection, and keeps their leases and
//! registrations, with a runtime and connections of its own: a handler that blocks the thread it
//! runs on must not cost what its worker holds, nor what is on its way to it. One thread for all of
//! them: each that listens for work hears of everything, and makes the others wait for their turn.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::work_source::WorkSource;
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Shared;
use crate::connection::{Another, Connection};
use crate::error::SdkError;

/// How often the runtime of the handlers is asked for a sign of life.
const LOOK: Duration = Duration::from_millis(500);
/// How long it may take before it counts as stalled.
const STALL: Duration = Duration::from_secs(1);

/// The thread of a connection, while one of its workers is there.
#[derive(Default)]
pub(crate) struct SharedUpkeep(Mutex<Weak<Upkeep>>);

impl SharedUpkeep {
    /// The thread that is there, or another one.
    pub(crate) async fn of(&self, connection: &Connection) -> Result<Arc<Upkeep>, SdkError> {
        let mut shared = self.0.lock().await;
        if let Some(upkeep) = shared.upgrade() {
            return Ok(upkeep);
        }
        let upkeep = Arc::new(Upkeep::start(connection).await?);
        *shared = Arc::downgrade(&upkeep);
        Ok(upkeep)
    }
}

/// The thread, for as long as this lives.
pub(crate) struct Upkeep {
    runtime: Runtime,
    another: Another,
    /// Its end ends the thread.
    _alive: oneshot::Sender<()>,
}

type Started = Result<(Runtime, Another), EngineError>;

impl Upkeep {
    /// Starts the thread, which connects once more where there is something to connect to.
    async fn start(connection: &Connection) -> Result<Self, SdkError> {
        let (tell, told) = oneshot::channel();
        let (alive, ended) = oneshot::channel();
        let connecting = connection.another().await?;
        let thread = thread::Builder::new().name("ff-upkeep".to_owned());
        let started = thread.spawn(move || run(connecting, tell, ended));
        started.map_err(|error| SdkError::config("worker_connect", "thread", error))?;
        let lost = EngineError::Unavailable { op: "the thread that renews" };
        let (runtime, another) = told.await.unwrap_or(Err(lost))?;
        Ok(Self { runtime, another, _alive: alive })
    }

    /// The connection that belongs to the thread: to be used there, or its sockets would be served
    /// elsewhere.
    pub(crate) fn engine(&self) -> &Arc<dyn EngineBackend> {
        &self.another.engine
    }

    /// Where work comes from, in the same way.
    pub(crate) fn work(&self) -> &Arc<dyn WorkSource> {
        &self.another.work
    }

    /// Runs something on the thread to its end, or until the caller goes away.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let mut running = Dropped(self.runtime.spawn(work));
        match (&mut running.0).await {
            Ok(done) => done,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => unreachable!("the thread lives as long as this, and nobody else aborts"),
            },
        }
    }

    /// Runs something on the thread. It must not block.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.runtime.spawn(work)
    }
}

/// Ends with whoever waits for it.
struct Dropped<T>(JoinHandle<T>);

impl<T> Drop for Dropped<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn run(
    connecting: Answer<'static, Another>,
    tell: oneshot::Sender<Started>,
    ended: oneshot::Receiver<()>,
) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let why = format!("there is no runtime for renewals: {error}");
            let error = BackendError::new(BackendErrorKind::Transport, Retry::Never, why);
            // Nobody waits any more, or hears of it.
            let _ = tell.send(Err(error.into()));
            return;
        }
    };
    runtime.block_on(async {
        let another = connecting.await;
        if tell.send(another.map(|another| (Runtime::current(), another))).is_ok() {
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
