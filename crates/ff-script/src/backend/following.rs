//! Following output: one subscription and one read per execution, however many follow it in this
//! process. What is read is shared by all of them; one who falls behind reads by itself. Flows,
//! which few follow, are read by each for itself (`flow`).

mod flow;
mod reader;
mod watcher;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::contracts::{OutputCursor, OutputStream, StreamFrame, StreamFrames, StreamQuery};
use ff_core::error::EngineError;
use ff_core::types::{AttemptIndex, ExecutionId};
use tokio::sync::{Notify, OnceCell, broadcast};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

pub(super) use flow::follow_flow;

use super::streams;
use crate::backoff::Backoff;
use crate::host::{Host, Subject, Subscription, Topic, Wake};
use crate::unfold::unfold;
use crate::wake::all_ended;
use reader::Reader;
use watcher::Watcher;

/// Reads that may wait for those who follow; one who is further behind reads by itself.
const QUEUE: usize = 16;
/// Frames and bytes of one read: with the queue, what an execution's followers may hold at most.
const READ_FRAMES: u64 = 256;
const READ_BYTES: u64 = 256 * 1024;
/// So often an execution is looked at although nothing was heard of it.
const SWEEP_SECONDS: u64 = 60;
/// Pauses before a failed read is tried again.
const BACKOFF: Backoff = Backoff::of_ms(50, 2_000);

/// Everything that is followed in this process.
pub(super) struct Following<H: ?Sized> {
    host: Arc<H>,
    board: Arc<Board>,
    /// Hears of ended executions and sweeps, for all of them. An end has no channel of its own (see
    /// [`Subject`]): one subscription to all of them serves whatever is followed here.
    upkeep: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl<H: Host + ?Sized> Following<H> {
    pub(super) fn new(host: Arc<H>) -> Arc<Self> {
        Arc::new(Self { host, board: Arc::default(), upkeep: tokio::sync::Mutex::default() })
    }

    /// Everything that an execution puts out behind a position.
    pub(super) async fn follow(
        self: &Arc<Self>,
        id: ExecutionId,
        after: OutputCursor,
    ) -> Result<OutputStream, EngineError> {
        let reader = Reader::begin(Arc::clone(self), id, after).await?;
        Ok(Box::pin(unfold(reader, |reader| Box::pin(reader.step()))))
    }

    /// Waits for frames of an attempt.
    pub(super) async fn tail(
        self: &Arc<Self>,
        id: ExecutionId,
        query: StreamQuery,
        wait: Duration,
    ) -> Result<StreamFrames, EngineError> {
        let deadline = Instant::now() + wait;
        let first = self.read(id, query.clone()).await?;
        if has_news(&first) || wait.is_zero() {
            return Ok(first);
        }
        let (_followed, mut news) = self.join(id).await?;
        let mut read = self.read(id, query.clone()).await?;
        while !has_news(&read) {
            read = match timeout_at(deadline, news.recv()).await {
                Err(_) => return Ok(read),
                Ok(Ok(News::Read(shared))) if shared.answers(&query) => shared.answer(&query),
                Ok(_) => self.read(id, query.clone()).await?,
            };
        }
        Ok(read)
    }

    /// What is read of an execution from now on, for as long as the first of the two is held.
    async fn join(&self, id: ExecutionId) -> Result<(Arc<Followed>, Receiver), EngineError> {
        self.keep_up().await?;
        let followed = self.board.enter(id);
        let watching = followed.watching.get_or_try_init(|| self.watch(&followed)).await?;
        let gone = "whoever read the output for all ended in this moment";
        let gone = || BackendError::new(BackendErrorKind::Transport, Retry::Safe, gone);
        let news = watching.news.upgrade().ok_or_else(gone)?.subscribe();
        Ok((followed, news))
    }

    async fn watch(&self, followed: &Followed) -> Result<Watching, EngineError> {
        let id = followed.execution_id;
        let wakes = self.host.follow(Subject::Frames(id)).await?;
        let news = broadcast::Sender::new(QUEUE);
        let weak = news.downgrade();
        let nudge = Arc::clone(&followed.nudge);
        let watcher = Watcher::begin(Arc::clone(&self.host), id, news, nudge).await?;
        Ok(Watching { task: tokio::spawn(watcher.run(wakes)), news: weak })
    }

    /// Starts the upkeep, also when the runtime that it ran on is gone.
    async fn keep_up(&self) -> Result<(), EngineError> {
        let mut upkeep = self.upkeep.lock().await;
        if upkeep.as_ref().is_none_or(JoinHandle::is_finished) {
            let ended = self.host.subscribe(Topic::Ended).await?;
            *upkeep = Some(tokio::spawn(keep_up(Arc::clone(&self.board), ended)));
        }
        Ok(())
    }

    async fn read(&self, id: ExecutionId, query: StreamQuery) -> Result<StreamFrames, EngineError> {
        streams::read(self.host.as_ref(), id, query).await
    }
}

impl<H: ?Sized> Drop for Following<H> {
    fn drop(&mut self) {
        if let Some(upkeep) = self.upkeep.get_mut() {
            upkeep.abort();
        }
    }
}

fn has_news(read: &StreamFrames) -> bool {
    read.count > 0 || read.summary.is_some() || read.is_closed()
}

/// Tells of ends, and has everything looked at now and then: a part of it every second.
async fn keep_up(board: Arc<Board>, mut ended: Subscription) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut seconds = 0;
    loop {
        tokio::select! {
            wake = ended.next() => match wake {
                Some(Wake::Message { partition, message }) => {
                    for uuid in all_ended(&message) {
                        board.nudge(ExecutionId::from_parts(partition, uuid));
                    }
                }
                Some(Wake::Missed) => board.nudge_all(|_| true),
                None => return,
            },
            _ = second.tick() => {
                seconds = (seconds + 1) % SWEEP_SECONDS;
                board.nudge_all(|id| id.uuid().as_u128() as u64 % SWEEP_SECONDS == seconds);
            }
        }
    }
}

/// What is followed.
#[derive(Default)]
struct Board(Mutex<HashMap<ExecutionId, Weak<Followed>>>);

impl Board {
    fn enter(self: &Arc<Self>, execution_id: ExecutionId) -> Arc<Followed> {
        // Declared before the lock, so that it is let go of after it: whoever is the last to do so
        // looks at the board.
        let known;
        let mut entries = self.lock();
        let entry = entries.entry(execution_id).or_default();
        known = entry.upgrade();
        if let Some(followed) = known.as_ref().filter(|followed| !followed.is_over()) {
            return Arc::clone(followed);
        }
        let followed = Arc::new(Followed {
            execution_id,
            board: Arc::clone(self),
            nudge: Arc::default(),
            watching: OnceCell::new(),
        });
        *entry = Arc::downgrade(&followed);
        followed
    }

    fn nudge(&self, id: ExecutionId) {
        let found = self.find(id);
        found.inspect(|followed| followed.nudge.notify_one());
    }

    /// What is found is never let go of while the board is locked.
    fn find(&self, id: ExecutionId) -> Option<Arc<Followed>> {
        self.lock().get(&id).and_then(Weak::upgrade)
    }

    fn nudge_all(&self, which: impl Fn(&ExecutionId) -> bool) {
        let chosen: Vec<Arc<Followed>> = {
            let entries = self.lock();
            let chosen = entries.iter().filter(|(id, _)| which(id));
            chosen.filter_map(|(_, followed)| followed.upgrade()).collect()
        };
        chosen.iter().for_each(|followed| followed.nudge.notify_one());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, Weak<Followed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One execution that is followed, for as long as somebody holds this.
struct Followed {
    execution_id: ExecutionId,
    board: Arc<Board>,
    /// To be looked at although nothing was heard of its frames.
    nudge: Arc<Notify>,
    watching: OnceCell<Watching>,
}

impl Followed {
    /// True if whoever read for all is gone, as with the runtime that it ran on.
    fn is_over(&self) -> bool {
        self.watching.get().is_some_and(|watching| watching.task.is_finished())
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut entries = self.board.lock();
        // Somebody else may have begun to follow it anew meanwhile.
        if entries.get(&self.execution_id).is_some_and(|entry| entry.strong_count() == 0) {
            entries.remove(&self.execution_id);
        }
    }
}

/// The task that reads for all.
struct Watching {
    task: JoinHandle<()>,
    /// Weak, so that those who follow notice when the task is gone.
    news: broadcast::WeakSender<News>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Receiver = broadcast::Receiver<News>;

/// What those who follow an execution are told.
#[derive(Clone)]
enum News {
    /// Something was read.
    Read(Arc<Shared>),
    /// Reading for all failed for good: each finds out for itself.
    Look,
}

/// A read that is shared.
struct Shared {
    /// The number of the first frame that was asked for.
    from: u64,
    frames: Vec<Arc<StreamFrame>>,
    /// All else that the store said; without the frames.
    read: StreamFrames,
}

impl Shared {
    fn new(from: u64, mut read: StreamFrames) -> Self {
        let frames = std::mem::take(&mut read.frames).into_iter().map(Arc::new).collect();
        Self { from, frames, read }
    }

    /// True if it has what is asked for.
    fn answers(&self, query: &StreamQuery) -> bool {
        let wanted = query.first_sequence();
        query.attempt_index == Some(self.read.attempt_index)
            && self.read.summary.is_none()
            && (self.from..=self.read.next).contains(&wanted)
    }

    fn answer(&self, query: &StreamQuery) -> StreamFrames {
        let (wanted, limit) = (query.first_sequence(), query.checked_limit());
        let behind = self.frames.iter().filter(|it| it.sequence().is_some_and(|n| n >= wanted));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut read = self.read.clone();
        read.frames = behind.take(limit).map(|frame| StreamFrame::clone(frame)).collect();
        read.count = read.frames.len() as u64;
        read.next = read.frames.last().and_then(StreamFrame::sequence).map_or(wanted, |it| it + 1);
        read
    }
}

/// What follows a position, as much as is read at a time.
fn page(attempt_index: Option<AttemptIndex>, from: u64) -> StreamQuery {
    StreamQuery {
        attempt_index,
        from: Some(ff_core::types::StreamCursor::at_sequence(from)),
        limit: Some(READ_FRAMES),
        bytes_max: Some(READ_BYTES),
        ..StreamQuery::default()
    }
}

/// True for trouble on the way, which passes. A store that was closed stays closed.
fn passes(error: &EngineError) -> bool {
    match error.through() {
        EngineError::Backend(error) => {
            error.retry != Retry::Never && error.kind != BackendErrorKind::Closed
        }
        _ => false,
    }
}
