//! Waiting for executions and flows to end: by push where the backend has one.

use std::sync::Arc;
use std::time::Duration;

use ff_core::completion_backend::CompletionBackend;
use ff_core::engine_backend::Answer;
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, FlowId};
use ff_script::endings::{EndingWatch, Endings as Pushed};
use ff_script::host::Host;
use tokio::time::sleep;

/// How often somebody looks whose backend tells nothing.
const POLL: Duration = Duration::from_millis(200);

/// How one hears of ended executions on a connection.
pub(crate) enum Endings {
    /// The backend tells of them, from the first time that somebody wants to know.
    Pushed(Pushed),
    /// The backend can be asked to wait.
    LongWait(Arc<dyn LongWait>),
    /// One must look again and again.
    Polled,
}

/// Whose end is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited {
    /// That of an execution.
    Execution(ExecutionId),
    /// That of a flow, which lives there.
    Flow(Partition, FlowId),
}

/// A backend that can be asked to answer when something has ended.
pub(crate) trait LongWait: Send + Sync {
    /// Returns when it has ended, or when the time is up; with the result of an execution that has
    /// one, and with how a flow stands.
    fn wait(&self, awaited: Awaited, limit: Duration) -> Answer<'_, Option<Vec<u8>>>;
}

impl Endings {
    #[cfg(any(feature = "embedded", feature = "valkey"))]
    pub(crate) fn of_host<H: Host + ?Sized>(host: Arc<H>) -> Self {
        Self::Pushed(Pushed::of_host(host))
    }

    pub(crate) fn of_completions(backend: Arc<dyn CompletionBackend>) -> Self {
        Self::Pushed(Pushed::of_completions(backend))
    }

    /// Listens for one end from now on: to be called before looking whether it has come.
    pub(crate) async fn watch(&self, awaited: Awaited) -> Result<Watch<'_>, EngineError> {
        Ok(match self {
            Self::Pushed(pushed) => Watch::Pushed(match awaited {
                Awaited::Execution(id) => pushed.watch(id).await?,
                Awaited::Flow(home, id) => pushed.watch_flow(home, id).await?,
            }),
            Self::LongWait(backend) => Watch::LongWait(backend.as_ref(), awaited),
            Self::Polled => Watch::Polled,
        })
    }
}

/// Somebody who waits for one end.
pub(crate) enum Watch<'a> {
    Pushed(EndingWatch),
    LongWait(&'a dyn LongWait, Awaited),
    Polled,
}

impl Watch<'_> {
    /// Returns when it is time to look, at the latest when the time is up. News of some backends
    /// bring the result along: then there is nothing left to look at.
    pub(crate) async fn news(&mut self, limit: Duration) -> Result<Option<Vec<u8>>, EngineError> {
        match self {
            Self::Pushed(watch) => watch.news(limit).await,
            Self::LongWait(backend, awaited) => return backend.wait(*awaited, limit).await,
            Self::Polled => sleep(limit.min(POLL)).await,
        }
        Ok(None)
    }
}
