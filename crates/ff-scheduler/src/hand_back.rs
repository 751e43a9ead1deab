//! Claims that nobody takes any more are handed back, so that no lease has to lapse because a
//! caller went away.

use std::future::Future;
use std::sync::Arc;

use ff_core::contracts::Claimed;
use ff_core::engine_backend::EngineBackend;
use ff_core::types::Moment;
use tokio::runtime::Handle as Runtime;
use tokio::sync::watch;

/// Calls and hand-backs that are not over: they go on although nobody waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<watch::Sender<usize>>);

/// One of them, until it is dropped.
pub(crate) struct OneUnderWay(UnderWay);

impl UnderWay {
    pub(crate) fn one(&self) -> OneUnderWay {
        self.0.send_modify(|count| *count += 1);
        OneUnderWay(self.clone())
    }

    /// Returns when there is none.
    pub(crate) async fn none(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives as long as we do, so the wait ends only with a match.
        let _ = changes.wait_for(|count| *count == 0).await;
    }
}

impl Drop for OneUnderWay {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// Lets something go on by itself, if there is still a runtime to do so.
pub(crate) fn go_on(something: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Runtime::try_current() {
        runtime.spawn(something);
    }
}

/// Executions on their way to a caller.
pub(crate) struct Claims {
    backend: Arc<dyn EngineBackend>,
    under_way: UnderWay,
    claimed: Vec<Claimed>,
}

impl Claims {
    pub(crate) fn new(
        backend: Arc<dyn EngineBackend>,
        under_way: UnderWay,
        claimed: Vec<Claimed>,
    ) -> Self {
        Self { backend, under_way, claimed }
    }

    pub(crate) fn len(&self) -> usize {
        self.claimed.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claimed.is_empty()
    }

    pub(crate) fn add(&mut self, mut found: Self) {
        self.claimed.append(&mut found.claimed);
    }

    /// The caller has them now.
    pub(crate) fn keep(mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let claimed = std::mem::take(&mut self.claimed);
        if !claimed.is_empty() {
            go_on(hand_back(Arc::clone(&self.backend), self.under_way.one(), claimed));
        }
    }
}

/// A time that has come gives the execution back at once; its attempt goes on with another worker.
async fn hand_back(backend: Arc<dyn EngineBackend>, _one: OneUnderWay, claimed: Vec<Claimed>) {
    for task in claimed {
        let given = backend.delay(&task.handle, Moment::After(0)).await;
        if let Err(error) = given {
            let id = task.handle.execution_id;
            tracing::warn!(%id, %error, "could not hand back what nobody took; its lease will lapse");
        }
    }
}
