//! Reads the output of one execution for all who follow it.

use std::sync::Arc;

use ff_core::contracts::StreamFrames;
use ff_core::error::EngineError;
use ff_core::types::{AttemptIndex, ExecutionId};
use tokio::sync::{Notify, broadcast};

use super::{BACKOFF, News, Shared, page, passes};
use crate::backend::streams;
use crate::host::{Host, Subscription, Wake};

/// One who reads, and how far it is.
pub(super) struct Watcher<H: ?Sized> {
    host: Arc<H>,
    execution_id: ExecutionId,
    news: broadcast::Sender<News>,
    nudge: Arc<Notify>,
    /// The attempt it is at; none before the first.
    attempt: Option<AttemptIndex>,
    /// The frame it goes on with.
    next: u64,
    /// What it said last about the end of the attempt and of the execution.
    closed: (bool, bool),
}

impl<H: Host + ?Sized> Watcher<H> {
    /// Begins behind what is there: those who want that read it by themselves, after this.
    pub(super) async fn begin(
        host: Arc<H>,
        execution_id: ExecutionId,
        news: broadcast::Sender<News>,
        nudge: Arc<Notify>,
    ) -> Result<Self, EngineError> {
        let mut query = page(None, ff_core::limits::FRAME_SEQUENCE_MAX);
        query.limit = Some(1);
        let read = streams::read(host.as_ref(), execution_id, query).await?;
        Ok(Self {
            host,
            execution_id,
            news,
            nudge,
            attempt: read.latest_attempt,
            next: read.last_sequence + 1,
            closed: closed(&read),
        })
    }

    /// Reads whenever there may be something new, until the host is closed.
    pub(super) async fn run(mut self, mut wakes: Subscription) {
        loop {
            tokio::select! {
                wake = wakes.next() => match wake {
                    None => return,
                    Some(Wake::Message { message, .. }) if !self.is_new(&message) => {}
                    Some(_) => self.read().await,
                },
                () = self.nudge.notified() => self.read().await,
            }
        }
    }

    /// Whether a message tells of something that was not read yet: `attempt:last frame`, and
    /// `:closed` if the attempt is over.
    fn is_new(&self, message: &[u8]) -> bool {
        let text = std::str::from_utf8(message).unwrap_or_default();
        let mut parts = text.split(':').map(|part| part.parse::<u64>().ok());
        match (parts.next().flatten(), parts.next().flatten(), parts.next()) {
            (Some(attempt), Some(last), None) => {
                let ours = self.attempt.map(|attempt| u64::from(attempt.get()));
                ours.is_none_or(|ours| attempt > ours || attempt == ours && last >= self.next)
            }
            _ => true,
        }
    }

    /// Reads on to the end of what there is.
    async fn read(&mut self) {
        let mut backoff = BACKOFF;
        loop {
            let query = page(self.attempt, self.next);
            match streams::read(self.host.as_ref(), self.execution_id, query).await {
                Ok(read) => {
                    if !self.take(read) {
                        return;
                    }
                }
                Err(error) if passes(&error) => {
                    let execution_id = self.execution_id;
                    tracing::warn!(%execution_id, %error, "reading output failed, trying again");
                    backoff.pause().await;
                }
                Err(_) => {
                    // Nobody may be there to hear it.
                    let _ = self.news.send(News::Look);
                    return;
                }
            }
        }
    }

    /// Hands a read on if it says anything new. True if there is more to read.
    fn take(&mut self, read: StreamFrames) -> bool {
        let (from, first) = (self.next, self.attempt.is_none() && read.latest_attempt.is_some());
        let news = first
            || read.next > from
            || read.is_replaced()
            || is_ahead(&read, from)
            || closed(&read) != self.closed;
        self.closed = closed(&read);
        self.attempt = read.latest_attempt.and(Some(read.attempt_index));
        self.next = self.next.max(read.next).min(read.last_sequence + 1);
        let more = read.has_more();
        let replaced = read.latest_attempt.filter(|_| !more && read.is_replaced());
        if news {
            let _ = self.news.send(News::Read(Arc::new(Shared::new(from, read))));
        }
        if replaced.is_some() {
            (self.attempt, self.next, self.closed) = (replaced, 1, (false, false));
        }
        more || replaced.is_some()
    }
}

/// The store knows less than was read before: it has lost something.
fn is_ahead(read: &StreamFrames, next: u64) -> bool {
    next > read.last_sequence + 1
}

fn closed(read: &StreamFrames) -> (bool, bool) {
    (read.is_closed(), read.execution_ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_lost_is_noticed() {
        let mut read = StreamFrames::empty_open();
        read.last_sequence = 3;
        assert!(!is_ahead(&read, 4) && is_ahead(&read, 5));
    }
}
