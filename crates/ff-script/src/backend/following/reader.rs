//! One who follows an execution: takes what was read for all, and reads by itself while it is
//! behind. Every frame passes by its number, so none comes twice and none is left out.

use std::collections::VecDeque;
use std::sync::Arc;

use ff_core::contracts::{Output, OutputCursor, StreamFrames};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::types::{AttemptIndex, ExecutionId};
use tokio::sync::broadcast;

use super::{BACKOFF, Followed, Following, News, Receiver, Shared, page, passes};
use crate::host::Host;

/// One who follows.
pub(super) struct Reader<H: ?Sized> {
    following: Arc<Following<H>>,
    execution_id: ExecutionId,
    /// What it holds so that somebody reads for it.
    followed: Arc<Followed>,
    news: Receiver,
    place: Place,
    /// Whether it must read by itself to catch up.
    behind: bool,
}

type Item = Result<Output, EngineError>;

impl<H: Host + ?Sized> Reader<H> {
    /// Listens, then reads what is there: nothing can fall in between.
    pub(super) async fn begin(
        following: Arc<Following<H>>,
        execution_id: ExecutionId,
        after: OutputCursor,
    ) -> Result<Self, EngineError> {
        let (followed, news) = following.join(execution_id).await?;
        let place = Place::new(after);
        let mut reader = Self { following, execution_id, followed, news, place, behind: true };
        if after == OutputCursor::End {
            let query = page(None, limits::FRAME_SEQUENCE_MAX);
            let read = reader.following.read(execution_id, query).await?;
            reader.place.skip(&read);
            reader.behind = false;
        } else {
            reader.look().await?;
        }
        Ok(reader)
    }

    /// The next piece; none behind the last one.
    pub(super) async fn step(mut self) -> Option<(Item, Self)> {
        loop {
            if let Some(piece) = self.place.pieces.pop_front() {
                return Some((Ok(piece), self));
            }
            if self.place.over {
                return None;
            }
            if let Err(error) = self.go_on().await {
                self.place.over = true;
                return Some((Err(error), self));
            }
        }
    }

    async fn go_on(&mut self) -> Result<(), EngineError> {
        let mut backoff = BACKOFF;
        while self.behind {
            match self.look().await {
                Err(error) if passes(&error) => backoff.pause().await,
                looked => return looked,
            }
        }
        match self.news.recv().await {
            Ok(News::Read(shared)) => self.behind = !self.place.take_shared(&shared),
            Ok(News::Look) | Err(broadcast::error::RecvError::Lagged(_)) => self.behind = true,
            Err(broadcast::error::RecvError::Closed) => self.join_again().await?,
        }
        Ok(())
    }

    /// Reads by itself, once.
    async fn look(&mut self) -> Result<(), EngineError> {
        let query = page(self.place.attempt, self.place.next);
        let read = self.following.read(self.execution_id, query).await?;
        self.behind = self.place.take(Shared::new(self.place.next, read));
        Ok(())
    }

    /// Whoever read for all is gone, with the runtime that it ran on.
    async fn join_again(&mut self) -> Result<(), EngineError> {
        let mut backoff = BACKOFF;
        loop {
            match self.following.join(self.execution_id).await {
                Ok((followed, news)) => {
                    (self.followed, self.news) = (followed, news);
                    self.behind = true;
                    return Ok(());
                }
                Err(error) if passes(&error) => backoff.pause().await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Where a reader is, and what it has not handed on yet: of one read at most.
struct Place {
    attempt: Option<AttemptIndex>,
    /// The frame it goes on with.
    next: u64,
    pieces: VecDeque<Output>,
    over: bool,
}

impl Place {
    fn new(after: OutputCursor) -> Self {
        let (attempt, next) = match after {
            OutputCursor::Start | OutputCursor::End => (None, 1),
            OutputCursor::Behind { attempt_index, sequence } => {
                (Some(attempt_index), (sequence + 1).min(limits::FRAME_SEQUENCE_MAX))
            }
        };
        Self { attempt, next, pieces: VecDeque::new(), over: false }
    }

    /// Goes behind all that there is.
    fn skip(&mut self, read: &StreamFrames) {
        self.attempt = read.latest_attempt;
        self.next = read.last_sequence + 1;
        let attempt_index = read.attempt_index;
        let sequence = read.last_sequence;
        self.pieces.push_back(Output::Skipped { attempt_index, sequence });
        self.end_if_over(read);
    }

    /// Takes what was read for all. False if that is not what it needs: then it must look.
    fn take_shared(&mut self, shared: &Shared) -> bool {
        let read = &shared.read;
        if read.latest_attempt.is_none() {
            self.end_if_over(read);
            return true;
        }
        if self.attempt.is_some_and(|ours| ours > read.attempt_index) {
            return true;
        }
        let begins = self.attempt.is_none() && shared.from <= 1;
        let continues = self.attempt == Some(read.attempt_index) && shared.from <= self.next;
        let sums_up = read.summary.is_some() && self.next > 1;
        if !(begins || continues) || sums_up || self.next > read.last_sequence + 1 {
            return false;
        }
        // More of it, or another attempt, is read for all next.
        self.take_frames(shared);
        true
    }

    /// Takes what it read itself. True if it is still behind.
    fn take(&mut self, shared: Shared) -> bool {
        let read = &shared.read;
        let latest = read.latest_attempt;
        let lost = self.attempt.is_some_and(|ours| latest.is_none_or(|latest| ours > latest))
            || self.next > read.last_sequence + 1 && self.attempt.is_some();
        if lost {
            // The store has lost what this reader has seen: from the beginning.
            let begun = self.attempt.is_some();
            (self.attempt, self.next) = (None, 1);
            return begun;
        }
        self.take_frames(&shared)
    }

    /// True if there is more, of this attempt or of the next.
    fn take_frames(&mut self, shared: &Shared) -> bool {
        let read = &shared.read;
        let attempt_index = read.attempt_index;
        if read.latest_attempt.is_some() && self.attempt != Some(attempt_index) {
            (self.attempt, self.next) = (Some(attempt_index), 1);
            self.pieces.push_back(Output::Attempt { attempt_index });
        }
        if let Some(document) = read.summary.clone().filter(|_| read.next > self.next) {
            let sequence = read.next - 1;
            self.pieces.push_back(Output::Summary { attempt_index, sequence, document });
        } else if read.first_sequence > self.next {
            let sequence = read.first_sequence - 1;
            self.pieces.push_back(Output::Skipped { attempt_index, sequence });
            self.next = read.first_sequence;
        }
        for frame in &shared.frames {
            if frame.sequence().is_some_and(|sequence| sequence >= self.next) {
                let frame = Arc::clone(frame);
                self.pieces.push_back(Output::Frame { attempt_index, frame });
            }
        }
        self.next = self.next.max(read.next);
        if read.has_more() {
            return true;
        }
        match read.latest_attempt.filter(|_| read.is_replaced()) {
            Some(latest) => {
                (self.attempt, self.next) = (Some(latest), 1);
                self.pieces.push_back(Output::Attempt { attempt_index: latest });
                true
            }
            None => {
                self.end_if_over(read);
                false
            }
        }
    }

    fn end_if_over(&mut self, read: &StreamFrames) {
        if !read.execution_ended || self.over {
            return;
        }
        self.over = true;
        self.pieces.push_back(Output::End {
            attempt_index: read.latest_attempt.unwrap_or_default(),
            sequence: read.last_sequence,
            closed_at: read.closed_at,
            closed_reason: read.closed_reason.clone(),
        });
    }
}
