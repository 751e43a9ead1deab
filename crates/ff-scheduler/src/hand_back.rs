//! Claims that nobody takes any more are handed back, so that no lease has to lapse because a
//! caller went away.

use std::future::Future;
use std::sync::Arc;

use ff_core::contracts::{Claimed, payload_bytes};
use ff_core::engine_backend::EngineBackend;
use ff_core::limits;
use ff_core::types::Moment;
use tokio::runtime::Handle as Runtime;
use tokio::sync::watch;

/// Calls and hand-backs that are not over: they go on although nobody waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay {
    count: Arc<watch::Sender<usize>>,
    /// Where they count too.
    whole: Option<Arc<watch::Sender<usize>>>,
}

/// One of them, until it is dropped.
pub(crate) struct OneUnderWay(UnderWay);

impl UnderWay {
    /// Those of one claim.
    pub(crate) fn part_of(whole: &Self) -> Self {
        Self { count: Arc::default(), whole: Some(Arc::clone(&whole.count)) }
    }

    pub(crate) fn one(&self) -> OneUnderWay {
        self.counts().for_each(|count| count.send_modify(|count| *count += 1));
        OneUnderWay(self.clone())
    }

    pub(crate) fn is_none(&self) -> bool {
        *self.count.borrow() == 0
    }

    /// Returns when there is none.
    pub(crate) async fn none(&self) {
        let mut changes = self.count.subscribe();
        // The sender lives as long as we do, so the wait ends only with a match.
        let _ = changes.wait_for(|count| *count == 0).await;
    }

    fn counts(&self) -> impl Iterator<Item = &watch::Sender<usize>> {
        [&self.count].into_iter().chain(&self.whole).map(AsRef::as_ref)
    }
}

impl Drop for OneUnderWay {
    fn drop(&mut self) {
        self.0.counts().for_each(|count| count.send_modify(|count| *count -= 1));
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

    pub(crate) fn is_empty(&self) -> bool {
        self.claimed.is_empty()
    }

    pub(crate) fn add(&mut self, mut found: Self) {
        self.claimed.append(&mut found.claimed);
    }

    /// How much input they have.
    pub(crate) fn bytes(&self) -> u64 {
        payload_bytes(&self.claimed)
    }

    /// Hands back what is beyond the bytes that an answer may have; the first one fits always.
    pub(crate) fn hand_back_surplus(&mut self) {
        let mut bytes = 0;
        let fitting = self.claimed.iter().take_while(|one| {
            let fits = bytes < limits::CLAIM_BYTES_MAX;
            bytes += one.payload.len() as u64;
            fits
        });
        let surplus = self.claimed.split_off(fitting.count());
        drop(Self::new(Arc::clone(&self.backend), self.under_way.clone(), surplus));
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
