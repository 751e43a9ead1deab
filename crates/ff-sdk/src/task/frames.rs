//! Writing an attempt's output: frames are numbered here, gathered for a moment, and appended in
//! order by one task. What is under way is bounded; a writer that is ahead of the store waits.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ff_core::backend::{Frame, FrameKind, Handle};
use ff_core::backend_error::Retry;
use ff_core::contracts::AppendFrameOutcome;
use ff_core::engine_backend::EngineBackend;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_script::backoff::Backoff;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::TaskCore;
use super::lease::Lease;
use crate::error::SdkError;

/// Frames that may be under way, and their bytes.
const QUEUE_FRAMES: usize = 1024;
const QUEUE_BYTES: usize = 1 << 20;
/// Bytes of one append.
const BATCH_BYTES: usize = 256 << 10;
/// How long a frame waits for others to travel with it.
const LINGER: Duration = Duration::from_millis(2);
const BACKOFF: Backoff = Backoff::of_ms(10, 500);

/// Writes the output of an attempt, in order. Cheap to clone.
///
/// Frames travel together where that is quicker, and are there before the attempt ends: an outcome
/// is reported after the last of them. One that is refused is told by the next call here; whoever
/// must know that all are there calls [`flush`](Self::flush).
///
/// ```
/// use ff_sdk::{Context, TaskError};
///
/// async fn speak(context: Context, words: Vec<String>) -> Result<usize, TaskError> {
///     let frames = context.frames();
///     for word in &words {
///         frames.text("token", word).await?;
///     }
///     Ok(words.len())
/// }
/// ```
#[derive(Clone)]
pub struct Frames(Arc<TaskCore>);

impl Frames {
    pub(crate) fn new(core: Arc<TaskCore>) -> Self {
        Self(core)
    }

    /// Writes a piece of text under a type of your own, such as `token`.
    pub async fn text(&self, frame_type: &str, text: impl Into<String>) -> Result<(), SdkError> {
        self.write(Frame::new(FrameKind::Event, text.into()).with_type(frame_type)).await
    }

    /// Writes a frame. Waits while too much is under way.
    pub async fn write(&self, frame: Frame) -> Result<(), SdkError> {
        let output = &self.0.output;
        output.take_error()?;
        output.send(&self.0, frame, None).await.map_err(told)
    }

    /// Returns when every frame that was written is there.
    pub async fn flush(&self) -> Result<(), SdkError> {
        self.0.output.flush().await.map_err(told)
    }
}

fn told(error: EngineError) -> SdkError {
    error.in_context("append_frame").into()
}

/// Appends one frame and waits until it is there.
pub(super) async fn append(
    core: &TaskCore,
    frame: Frame,
) -> Result<AppendFrameOutcome, EngineError> {
    let (told, hear) = oneshot::channel();
    core.output.send(core, frame, Some(told)).await?;
    hear.await.unwrap_or_else(|_| Err(gone()))
}

fn gone() -> EngineError {
    EngineError::refused(Code::StreamClosed).in_context("the attempt is over")
}

/// The output of an attempt, on this side.
#[derive(Default)]
pub(crate) struct Output {
    writer: OnceLock<Writer>,
}

struct Writer {
    queue: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
    /// Why a frame that nobody waited for was refused.
    error: Arc<Mutex<Option<EngineError>>>,
}

enum Message {
    Frame(Written),
    /// Told when everything before it is there.
    Flush(oneshot::Sender<()>),
}

struct Written {
    frame: Frame,
    made: Instant,
    told: Option<oneshot::Sender<Result<AppendFrameOutcome, EngineError>>>,
    _room: OwnedSemaphorePermit,
}

impl Output {
    async fn send(
        &self,
        core: &TaskCore,
        frame: Frame,
        told: Option<oneshot::Sender<Result<AppendFrameOutcome, EngineError>>>,
    ) -> Result<(), EngineError> {
        frame.validate()?;
        let writer = self.writer.get_or_init(|| Writer::start(core));
        // Even an empty frame takes some room.
        let bytes = u32::try_from(frame.bytes.len() + 64).unwrap_or(u32::MAX);
        let room = Arc::clone(&writer.room).acquire_many_owned(bytes).await.map_err(|_| gone())?;
        let written = Written { frame, made: Instant::now(), told, _room: room };
        writer.queue.send(Message::Frame(written)).await.map_err(|_| gone())
    }

    fn take_error(&self) -> Result<(), SdkError> {
        match self.writer.get().and_then(Writer::take_error) {
            Some(error) => Err(told(error)),
            None => Ok(()),
        }
    }

    /// Returns when everything that was written is there, or refused.
    pub(super) async fn flush(&self) -> Result<(), EngineError> {
        let Some(writer) = self.writer.get() else { return Ok(()) };
        let (told, hear) = oneshot::channel();
        writer.queue.send(Message::Flush(told)).await.map_err(|_| gone())?;
        hear.await.map_err(|_| gone())?;
        writer.take_error().map_or(Ok(()), Err)
    }
}

impl Writer {
    fn start(core: &TaskCore) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE_FRAMES);
        let error = Arc::new(Mutex::new(None));
        let appender = Appender {
            engine: Arc::clone(core.engine()),
            handle: core.handle().clone(),
            lease: Arc::clone(&core.lease),
            next: core.claimed.next_frame,
            error: Arc::clone(&error),
        };
        tokio::spawn(appender.run(messages));
        Self { queue, room: Arc::new(Semaphore::new(QUEUE_BYTES)), error }
    }

    fn take_error(&self) -> Option<EngineError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Appends frames until nobody can write any more.
struct Appender {
    engine: Arc<dyn EngineBackend>,
    handle: Handle,
    lease: Arc<Lease>,
    /// The number of the next frame.
    next: u64,
    error: Arc<Mutex<Option<EngineError>>>,
}

/// What is appended together.
#[derive(Default)]
struct Batch {
    frames: Vec<Written>,
    bytes: usize,
    flushed: Vec<oneshot::Sender<()>>,
}

impl Batch {
    fn take(&mut self, message: Message) {
        match message {
            Message::Frame(written) => {
                self.bytes += written.frame.bytes.len();
                self.frames.push(written);
            }
            Message::Flush(told) => self.flushed.push(told),
        }
    }

    fn is_full(&self) -> bool {
        self.frames.len() as u64 >= limits::APPEND_FRAMES_MAX || self.bytes >= BATCH_BYTES
    }

    /// True if somebody waits for it to be there.
    fn is_awaited(&self) -> bool {
        !self.flushed.is_empty() || self.frames.iter().any(|written| written.told.is_some())
    }
}

impl Appender {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(first) = messages.recv().await {
            let mut batch = Batch::default();
            batch.take(first);
            gather(&mut batch, &mut messages).await;
            self.append_all(batch.frames).await;
            batch.flushed.into_iter().for_each(|told| {
                // Whoever gave up waiting need not know.
                let _ = told.send(());
            });
        }
    }

    /// Appends frames together; if they are refused, one by one, so that one does not cost others.
    async fn append_all(&mut self, mut frames: Vec<Written>) {
        if frames.len() > 1 {
            let plain = frames.iter().map(|written| written.frame.clone()).collect();
            if let Ok(outcome) = self.append(plain, frames[0].made).await {
                let later = (0..frames.len() as u64).rev();
                frames.into_iter().zip(later).for_each(|(written, later)| {
                    let frame_count = outcome.frame_count - later;
                    written.tell(Ok(AppendFrameOutcome { frame_count, ..outcome.clone() }));
                });
                return;
            }
        }
        for written in frames.drain(..) {
            let appended = self.append(vec![written.frame.clone()], written.made).await;
            if let (Err(error), None) = (&appended, &written.told) {
                let execution_id = self.handle.execution_id;
                tracing::warn!(%execution_id, %error, "a frame was not appended");
                let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| error.clone());
            }
            written.tell(appended);
        }
    }

    /// Appends frames; repeated while the lease may still be held, which adds nothing twice.
    async fn append(
        &mut self,
        mut frames: Vec<Frame>,
        made: Instant,
    ) -> Result<AppendFrameOutcome, EngineError> {
        let count = frames.len() as u64;
        frames[0].seq = Some(self.next);
        let mut backoff = BACKOFF;
        loop {
            let waited = u64::try_from(made.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut aged = frames.clone();
            aged.iter_mut().for_each(|frame| {
                let age_ms = frame.age_ms.saturating_add(waited);
                frame.age_ms = age_ms.min(limits::FRAME_AGE_MS_MAX);
            });
            let error = match self.engine.append_frames(&self.handle, aged).await {
                Ok(outcome) => {
                    self.next += count;
                    return Ok(outcome);
                }
                Err(error) => error,
            };
            if error.retry() == Retry::Never || self.lease.loss().is_some() {
                return Err(error);
            }
            backoff.pause().await;
        }
    }
}

impl Written {
    fn tell(self, appended: Result<AppendFrameOutcome, EngineError>) {
        if let Some(told) = self.told {
            // Whoever gave up waiting need not know.
            let _ = told.send(appended);
        }
    }
}

/// Takes what is there already; if nobody waits, also what comes within a moment.
async fn gather(batch: &mut Batch, messages: &mut mpsc::Receiver<Message>) {
    let deadline = Instant::now() + LINGER;
    while !batch.is_full() {
        let message = match messages.try_recv() {
            Ok(message) => message,
            Err(_) if batch.is_awaited() => return,
            Err(_) => match timeout_at(deadline, messages.recv()).await {
                Ok(Some(message)) => message,
                _ => return,
            },
        };
        batch.take(message);
    }
}
