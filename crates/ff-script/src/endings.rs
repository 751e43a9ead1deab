//! Waiting for executions to end. One subscription serves all who wait; a wake-up is only a hint,
//! so whoever waits looks for itself, and does so now and then although nothing was heard.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::completion_backend::{CompletionBackend, CompletionStream};
use ff_core::contracts::ExecutionSnapshot;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::{Code, EngineError};
use ff_core::partition::Partition;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, FlowId};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::host::{Host, Subscription, Topic, Wake};
use crate::wake::all_ended;

/// How long somebody who waits trusts that it would have been told.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Tells everybody who waits for an end. It listens from the first time that somebody does: to be
/// told of every end costs the store and this process, and many have nobody who waits.
pub struct Endings {
    waiting: Arc<Waiting>,
    listen: Listen,
    listener: OnceCell<JoinHandle<()>>,
}

type Listen = Box<dyn Fn(Arc<Waiting>) -> Answer<'static, JoinHandle<()>> + Send + Sync>;

impl Endings {
    /// Hands on the wake-ups of a host until it is closed.
    pub fn of_host<H: Host + ?Sized>(host: Arc<H>) -> Self {
        Self::new(move |waiting| {
            let host = Arc::clone(&host);
            Box::pin(async move {
                let wakes = host.subscribe(Topic::Ended).await?;
                Ok(tokio::spawn(hear_wakes(wakes, waiting)))
            })
        })
    }

    /// Hands on completions until their stream ends.
    pub fn of_completions(backend: Arc<dyn CompletionBackend>) -> Self {
        Self::new(move |waiting| {
            let backend = Arc::clone(&backend);
            Box::pin(async move {
                let completions = backend.subscribe_completions(None).await?;
                Ok(tokio::spawn(hear_completions(completions, waiting)))
            })
        })
    }

    fn new(
        listen: impl Fn(Arc<Waiting>) -> Answer<'static, JoinHandle<()>> + Send + Sync + 'static,
    ) -> Self {
        let (waiting, listener) = (Arc::default(), OnceCell::new());
        Self { waiting, listen: Box::new(listen), listener }
    }

    /// Begins to wait for an execution: to be called before looking whether it has ended.
    pub async fn watch(&self, execution_id: ExecutionId) -> Result<EndingWatch, EngineError> {
        self.listener.get_or_try_init(|| (self.listen)(Arc::clone(&self.waiting))).await?;
        Ok(self.waiting.watch(execution_id))
    }

    /// The same for a flow, whose end is told in its partition as that of an execution is.
    pub async fn watch_flow(
        &self,
        home: Partition,
        flow_id: FlowId,
    ) -> Result<EndingWatch, EngineError> {
        self.watch(ExecutionId::from_parts(home, flow_id.as_uuid())).await
    }
}

impl Drop for Endings {
    fn drop(&mut self) {
        self.listener.get().into_iter().for_each(JoinHandle::abort);
    }
}

/// How an execution ended.
pub enum Ended {
    /// With this result.
    Completed(Vec<u8>),
    /// Otherwise, as it says itself.
    Otherwise(Box<ExecutionSnapshot>),
}

/// Looks how an execution ended; none if it has not. A result is one call, everything else needs a
/// second one.
pub async fn how_ended(
    engine: &dyn EngineBackend,
    id: ExecutionId,
) -> Result<Option<Ended>, EngineError> {
    if let Some(result) = engine.read_result(id).await? {
        return Ok(Some(Ended::Completed(result)));
    }
    let missing = || EngineError::refused(Code::ExecutionNotFound);
    let snapshot = engine.describe_execution(id).await?.ok_or_else(missing)?;
    match snapshot.public_state() {
        // It completed between the two calls.
        PublicState::Completed => Ok(engine.read_result(id).await?.map(Ended::Completed)),
        state if state.is_terminal() => Ok(Some(Ended::Otherwise(Box::new(snapshot)))),
        _ => Ok(None),
    }
}

async fn hear_wakes(mut wakes: Subscription, waiting: Arc<Waiting>) {
    while let Some(wake) = wakes.next().await {
        let ended = ended(&wake);
        if ended.is_empty() {
            waiting.tell(None);
        }
        ended.into_iter().for_each(|id| waiting.tell(Some(id)));
    }
    waiting.tell(None);
}

/// The executions that a wake-up tells of; an empty list if some may have been missed.
fn ended(wake: &Wake) -> Vec<ExecutionId> {
    let Wake::Message { partition, message } = wake else { return Vec::new() };
    let uuids = all_ended(message).into_iter();
    uuids.map(|uuid| ExecutionId::from_parts(*partition, uuid)).collect()
}

async fn hear_completions(mut completions: CompletionStream, waiting: Arc<Waiting>) {
    while let Some(next) = poll_fn(|context| completions.as_mut().poll_next(context)).await {
        waiting.tell((!next.after_gap).then_some(next.execution_id));
        // A flow may have ended with its member.
        if let Some(flow_id) = next.flow_id {
            let home = next.execution_id.partition();
            waiting.tell(Some(ExecutionId::from_parts(home, flow_id.as_uuid())));
        }
    }
    waiting.tell(None);
}

/// Who waits for what.
#[derive(Default)]
struct Waiting(Mutex<HashMap<ExecutionId, watch::Sender<()>>>);

impl Waiting {
    fn watch(self: &Arc<Self>, execution_id: ExecutionId) -> EndingWatch {
        let news = self.lock().entry(execution_id).or_default().subscribe();
        EndingWatch { waiting: Arc::clone(self), execution_id, news }
    }

    /// Tells those who wait for one execution, or for any.
    fn tell(&self, ended: Option<ExecutionId>) {
        let waiting = self.lock();
        match ended {
            Some(id) => waiting.get(&id).into_iter().for_each(|news| news.send_replace(())),
            None => waiting.values().for_each(|news| news.send_replace(())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for one execution to end.
pub struct EndingWatch {
    waiting: Arc<Waiting>,
    execution_id: ExecutionId,
    news: watch::Receiver<()>,
}

impl EndingWatch {
    /// Returns when it is time to look, at the latest when the time is up. What happened since the
    /// last time, or since the watch began, counts.
    pub async fn news(&mut self, limit: Duration) {
        // Nobody who could tell is as good as nothing that was told.
        let _ = timeout(limit.min(LOOK_AGAIN), self.news.changed()).await;
    }
}

impl Drop for EndingWatch {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        // This one still counts.
        if waiting.get(&self.execution_id).is_some_and(|news| news.receiver_count() == 1) {
            waiting.remove(&self.execution_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::broadcast;
    use tokio::time::Instant;
    use uuid::Uuid;

    const LONG: Duration = Duration::from_secs(60);

    fn id(number: u128) -> ExecutionId {
        ExecutionId::from_parts(Partition::flow(7), Uuid::from_u128(number))
    }

    fn wake(number: u128) -> Wake {
        let message = Uuid::from_u128(number).to_string().into_bytes();
        Wake::Message { partition: Partition::flow(7), message }
    }

    async fn time_to_news(watch: &mut EndingWatch) -> Duration {
        let before = Instant::now();
        watch.news(LONG).await;
        before.elapsed()
    }

    #[test]
    fn a_wake_up_names_its_executions() {
        assert_eq!(ended(&wake(1)), [id(1)]);
        let two = format!("{} {}", Uuid::from_u128(1), Uuid::from_u128(2)).into_bytes();
        let message = |message| Wake::Message { partition: Partition::flow(7), message };
        assert_eq!(ended(&message(two)), [id(1), id(2)]);
        assert_eq!(ended(&message(b"of another form".to_vec())), []);
        assert_eq!(ended(&Wake::Missed), []);
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_is_told_of_their_own_execution_also_before_they_wait() {
        let waiting = Arc::new(Waiting::default());
        let (mut one, mut same) = (waiting.watch(id(1)), waiting.watch(id(1)));
        let mut other = waiting.watch(id(2));
        waiting.tell(Some(id(1)));
        assert_eq!(time_to_news(&mut one).await, Duration::ZERO);
        assert_eq!(time_to_news(&mut same).await, Duration::ZERO);
        assert_eq!(time_to_news(&mut other).await, LOOK_AGAIN, "not meant, so it looks for itself");
        waiting.tell(None);
        assert_eq!(time_to_news(&mut other).await, Duration::ZERO);
        drop((one, other));
        assert_eq!(waiting.lock().len(), 1, "somebody still waits for the first one");
        drop(same);
        assert!(waiting.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn wake_ups_are_handed_on_and_their_end_is_news() {
        let (wakes, receiver) = broadcast::channel(8);
        let subscription = Mutex::new(Some(Subscription::new(receiver)));
        let endings = Endings::new(move |waiting| {
            let subscribed = subscription.lock().expect("no panic").take().expect("once");
            Box::pin(async { Ok(tokio::spawn(hear_wakes(subscribed, waiting))) })
        });
        let mut watch = endings.watch(id(1)).await.expect("listens");
        wakes.send(wake(1)).expect("somebody listens");
        assert_eq!(time_to_news(&mut watch).await, Duration::ZERO);
        drop(wakes);
        assert_eq!(time_to_news(&mut watch).await, Duration::ZERO);
    }
}
