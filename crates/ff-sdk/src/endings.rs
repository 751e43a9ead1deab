//! Waiting for executions to end: by push where the backend has one. News are hints; whoever waits
//! looks for itself, and does so now and then although nothing was heard.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::backend::CompletionPayload;
use ff_core::completion_backend::{CompletionBackend, CompletionStream};
use ff_core::engine_backend::Answer;
use ff_core::error::EngineError;
use ff_core::types::ExecutionId;
use ff_script::host::{Host, Subscription, Topic, Wake};
use tokio::sync::{Notify, OnceCell};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How often somebody who waits looks although nothing was heard.
const SWEEP: Duration = Duration::from_secs(5);
/// How often somebody looks whose backend has no news.
const POLL: Duration = Duration::from_millis(200);

/// News of ended executions, for all who wait on one connection.
pub(crate) struct Endings {
    source: Source,
    listening: OnceCell<Listening>,
}

enum Source {
    /// The wake-ups of a host.
    Wakes(Box<dyn Fn() -> Answer<'static, Subscription> + Send + Sync>),
    /// The completions of a backend.
    Completions(Arc<dyn CompletionBackend>),
    /// A backend that waits itself.
    LongWait(Arc<dyn LongWait>),
    /// None.
    Unheard,
}

/// A backend that can be asked to answer when an execution has ended.
pub(crate) trait LongWait: Send + Sync {
    /// Returns when it has ended, or when the time is up; with its result if it has one.
    fn wait(&self, execution_id: ExecutionId, limit: Duration) -> Answer<'_, Option<Vec<u8>>>;
}

impl Endings {
    fn new(source: Source) -> Self {
        Self { source, listening: OnceCell::new() }
    }

    pub(crate) fn from_host<H: Host>(host: Arc<H>) -> Self {
        Self::new(Source::Wakes(Box::new(move || {
            let host = Arc::clone(&host);
            Box::pin(async move { Ok(host.subscribe(Topic::Ended).await?) })
        })))
    }

    pub(crate) fn from_completions(completions: Arc<dyn CompletionBackend>) -> Self {
        Self::new(Source::Completions(completions))
    }

    pub(crate) fn from_long_wait(backend: Arc<dyn LongWait>) -> Self {
        Self::new(Source::LongWait(backend))
    }

    pub(crate) fn unheard() -> Self {
        Self::new(Source::Unheard)
    }

    /// Listens for one execution from now on: to be called before looking whether it has ended.
    pub(crate) async fn watch(&self, execution_id: ExecutionId) -> Result<Watch<'_>, EngineError> {
        let board = match &self.source {
            Source::LongWait(backend) => {
                return Ok(Watch::LongWait { backend: backend.as_ref(), execution_id });
            }
            Source::Unheard => return Ok(Watch::Unheard),
            Source::Wakes(_) | Source::Completions(_) => {
                &self.listening.get_or_try_init(|| self.listen()).await?.board
            }
        };
        Ok(Watch::Board { board, execution_id, news: board.enter(execution_id) })
    }

    async fn listen(&self) -> Result<Listening, EngineError> {
        let board = Arc::new(Board::default());
        let listener = match &self.source {
            Source::Wakes(subscribe) => {
                tokio::spawn(hear_wakes(subscribe().await?, Arc::clone(&board)))
            }
            Source::Completions(backend) => {
                let completions = backend.subscribe_completions(None).await?;
                tokio::spawn(hear_completions(completions, Arc::clone(&board)))
            }
            Source::LongWait(_) | Source::Unheard => unreachable!("there is nothing to listen to"),
        };
        Ok(Listening { board, listener })
    }
}

struct Listening {
    board: Arc<Board>,
    listener: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn hear_wakes(mut wakes: Subscription, board: Arc<Board>) {
    while let Some(wake) = wakes.next().await {
        match ended(&wake) {
            Some(execution_id) => board.tell(&execution_id),
            None => board.tell_all(),
        }
    }
}

/// The execution that a wake-up tells of; none if some may have been missed.
fn ended(wake: &Wake) -> Option<ExecutionId> {
    let Wake::Message { partition, message } = wake else { return None };
    let uuid = std::str::from_utf8(message).ok()?;
    ExecutionId::parse(&format!("{partition}:{uuid}")).ok()
}

async fn hear_completions(mut completions: CompletionStream, board: Arc<Board>) {
    while let Some(completion) = next(&mut completions).await {
        match completion.after_gap {
            true => board.tell_all(),
            false => board.tell(&completion.execution_id),
        }
    }
}

async fn next(stream: &mut CompletionStream) -> Option<CompletionPayload> {
    poll_fn(|context| stream.as_mut().poll_next(context)).await
}

/// Who waits for what.
#[derive(Default)]
pub(crate) struct Board(Mutex<HashMap<ExecutionId, Entry>>);

struct Entry {
    news: Arc<Notify>,
    waiting: usize,
}

impl Board {
    fn enter(&self, execution_id: ExecutionId) -> Arc<Notify> {
        let mut entries = self.lock();
        let entry = entries
            .entry(execution_id)
            .or_insert_with(|| Entry { news: Arc::new(Notify::new()), waiting: 0 });
        entry.waiting += 1;
        Arc::clone(&entry.news)
    }

    fn leave(&self, execution_id: &ExecutionId) {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(execution_id) {
            entry.waiting -= 1;
            if entry.waiting == 0 {
                entries.remove(execution_id);
            } else {
                // The permit that this one may have taken was meant for the next one too.
                entry.news.notify_one();
            }
        }
    }

    fn tell(&self, execution_id: &ExecutionId) {
        if let Some(entry) = self.lock().get(execution_id) {
            entry.news.notify_one();
        }
    }

    fn tell_all(&self) {
        self.lock().values().for_each(|entry| entry.news.notify_one());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for one execution to end.
pub(crate) enum Watch<'a> {
    Board { board: &'a Board, execution_id: ExecutionId, news: Arc<Notify> },
    LongWait { backend: &'a dyn LongWait, execution_id: ExecutionId },
    Unheard,
}

impl Watch<'_> {
    /// Returns when it is time to look, at the latest when the time is up. News of some backends
    /// bring the result along: then there is nothing left to look at.
    pub(crate) async fn news(&self, limit: Duration) -> Result<Option<Vec<u8>>, EngineError> {
        match self {
            Self::Board { news, .. } => {
                let _ = timeout(limit.min(SWEEP), news.notified()).await;
                Ok(None)
            }
            Self::LongWait { backend, execution_id } => backend.wait(*execution_id, limit).await,
            Self::Unheard => {
                sleep(limit.min(POLL)).await;
                Ok(None)
            }
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Self::Board { board, execution_id, .. } = self {
            board.leave(execution_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::partition::Partition;

    const ID: &str = "{fp:7}:550e8400-e29b-41d4-a716-446655440000";

    fn id() -> ExecutionId {
        ExecutionId::parse(ID).expect("an id")
    }

    #[test]
    fn a_wake_up_names_its_execution() {
        let message = b"550e8400-e29b-41d4-a716-446655440000".to_vec();
        let wake = Wake::Message { partition: Partition::flow(7), message };
        assert_eq!(ended(&wake), Some(id()));
        assert_eq!(ended(&Wake::Missed), None);
    }

    #[tokio::test(start_paused = true)]
    async fn news_that_come_before_the_wait_are_not_lost() {
        let board = Board::default();
        let watch = Watch::Board { board: &board, execution_id: id(), news: board.enter(id()) };
        board.tell(&id());
        let before = tokio::time::Instant::now();
        watch.news(Duration::from_secs(60)).await.expect("no trouble");
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn two_who_wait_for_the_same_both_hear_of_it() {
        let board = Board::default();
        let watch = || Watch::Board { board: &board, execution_id: id(), news: board.enter(id()) };
        let (one, two) = (watch(), watch());
        board.tell(&id());
        let before = tokio::time::Instant::now();
        one.news(Duration::from_secs(60)).await.expect("no trouble");
        drop(one);
        two.news(Duration::from_secs(60)).await.expect("no trouble");
        assert_eq!(before.elapsed(), Duration::ZERO);
        drop(two);
        assert!(board.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_by_a_look_now_and_then() {
        let board = Board::default();
        let watch = Watch::Board { board: &board, execution_id: id(), news: board.enter(id()) };
        let before = tokio::time::Instant::now();
        watch.news(Duration::from_secs(60)).await.expect("no trouble");
        assert_eq!(before.elapsed(), SWEEP);
    }
}
