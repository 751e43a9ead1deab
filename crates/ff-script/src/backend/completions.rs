//! Completions: the ended events of all partitions as one stream, at least once, from a cursor that
//! can be stored. Wake-ups only say where to look; a slow sweep finds what a lost one missed.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ff_core::backend::{CompletionPayload, ScannerFilter};
use ff_core::completion_backend::{CompletionBackend, CompletionCursor, CompletionStream};
use ff_core::contracts::Event;
use ff_core::engine_backend::{Answer, EngineBackend, Reads};
use ff_core::error::EngineError;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::state::TerminalOutcome;
use ff_core::types::FlowId;
use futures_core::Stream;
use tokio::sync::mpsc;

use super::ScriptBackend;
use crate::host::{Host, Subscription, Topic, Wake};

/// Completions that may wait for a slow consumer; then reading pauses, nothing is dropped.
const QUEUE: usize = 1024;
/// Events read from one partition at a time.
const PAGE: u32 = 256;
/// How often all partitions are looked at although nothing was heard from them.
const SWEEP: Duration = Duration::from_secs(30);
/// Pause before a failed read is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// A backend that can be shared with the task behind a stream.
pub struct Completions<H: ?Sized = dyn Host>(pub Arc<ScriptBackend<H>>);

impl<H: Host + ?Sized> CompletionBackend for Completions<H> {
    fn completion_cursor(&self) -> Answer<'_, CompletionCursor> {
        Box::pin(end_of_logs(&self.0))
    }

    fn subscribe_completions(
        &self,
        from: Option<CompletionCursor>,
    ) -> Answer<'_, CompletionStream> {
        Box::pin(subscribe(&self.0, ScannerFilter::NOOP, from))
    }

    fn subscribe_completions_filtered<'a>(
        &'a self,
        filter: &'a ScannerFilter,
        from: Option<CompletionCursor>,
    ) -> Answer<'a, CompletionStream> {
        Box::pin(subscribe(&self.0, filter.clone(), from))
    }
}

async fn end_of_logs<H: Host + ?Sized>(
    backend: &ScriptBackend<H>,
) -> Result<CompletionCursor, EngineError> {
    let mut cursor = CompletionCursor::default();
    for partition in backend.partition_config().flow_partitions() {
        let page = backend.events_from(partition, "$".to_owned(), 1).await?;
        if let Some(position) = page.next_cursor {
            cursor.set(partition, position);
        }
    }
    Ok(cursor)
}

/// Wake-ups are subscribed to before the position is taken, so that nothing falls in between.
async fn subscribe<H: Host + ?Sized>(
    backend: &Arc<ScriptBackend<H>>,
    filter: ScannerFilter,
    from: Option<CompletionCursor>,
) -> Result<CompletionStream, EngineError> {
    let wakes = backend.host().subscribe(Topic::Ended).await?;
    let cursor = match from {
        Some(cursor) => cursor,
        None => end_of_logs(backend).await?,
    };
    let (sender, receiver) = mpsc::channel(QUEUE);
    let follower =
        Follower { backend: Arc::clone(backend), filter, cursor, gaps: BTreeSet::new(), sender };
    tokio::spawn(follower.run(wakes));
    Ok(Box::pin(Receiver(receiver)))
}

struct Receiver(mpsc::Receiver<CompletionPayload>);

impl Stream for Receiver {
    type Item = CompletionPayload;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// Follows the logs of all partitions for one subscriber.
struct Follower<H: ?Sized> {
    backend: Arc<ScriptBackend<H>>,
    filter: ScannerFilter,
    cursor: CompletionCursor,
    /// Where events were trimmed unread and the subscriber has not been told yet.
    gaps: BTreeSet<u16>,
    sender: mpsc::Sender<CompletionPayload>,
}

/// The subscriber is gone.
struct Gone;

impl<H: Host + ?Sized> Follower<H> {
    async fn run(mut self, mut wakes: Subscription) {
        let mut look = Look::Everywhere;
        while self.read(look).await.is_ok() {
            let woken = tokio::select! {
                () = self.sender.closed() => return,
                woken = tokio::time::timeout(SWEEP, wakes.next()) => woken,
            };
            look = match woken {
                Ok(None) => return,
                Ok(Some(Wake::Message { partition, .. })) => Look::At(partition),
                Ok(Some(Wake::Missed)) | Err(_) => Look::Everywhere,
            };
        }
    }

    async fn read(&mut self, look: Look) -> Result<(), Gone> {
        for partition in look.partitions(self.backend.partition_config()) {
            while let Err(error) = self.drain(partition).await? {
                tracing::warn!(%partition, %error, "reading the event log failed, trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Hands on everything new in one partition.
    async fn drain(&mut self, partition: Partition) -> Result<Result<(), EngineError>, Gone> {
        loop {
            let after = self.cursor.get(partition).cloned();
            let page = match self.backend.events(partition, after, PAGE).await {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            if page.truncated && self.gaps.insert(partition.index) {
                tracing::warn!(%partition, "events were trimmed before this subscriber read them");
            }
            let full = page.events.len() == PAGE as usize;
            for event in page.events {
                match self.hand_on(&event).await {
                    Ok(()) => self.cursor.set(partition, event.cursor),
                    Err(HandOn::Gone) => return Err(Gone),
                    Err(HandOn::Failed(error)) => return Ok(Err(error)),
                }
            }
            if !full {
                return Ok(Ok(()));
            }
        }
    }

    async fn hand_on(&mut self, event: &Event) -> Result<(), HandOn> {
        let Some(mut completion) = completion(event) else { return Ok(()) };
        if self.passes(&completion).await.map_err(HandOn::Failed)? {
            completion.after_gap = self.gaps.remove(&completion.execution_id.partition().index);
            self.sender.send(completion).await.map_err(|_| HandOn::Gone)?;
        }
        Ok(())
    }

    async fn passes(&self, completion: &CompletionPayload) -> Result<bool, EngineError> {
        let Some((name, _)) = &self.filter.instance_tag else {
            return Ok(self.filter.matches(Some(&completion.namespace), None));
        };
        let snapshot = self.backend.describe_execution(completion.execution_id).await?;
        let tag = snapshot.and_then(|snapshot| snapshot.tags.get(name).cloned());
        Ok(self.filter.matches(Some(&completion.namespace), tag.as_deref()))
    }
}

enum HandOn {
    Gone,
    Failed(EngineError),
}

enum Look {
    Everywhere,
    At(Partition),
}

impl Look {
    fn partitions(&self, config: PartitionConfig) -> Vec<Partition> {
        match self {
            Self::Everywhere => config.flow_partitions().collect(),
            Self::At(partition) => vec![*partition],
        }
    }
}

/// The outcome by the word that events have for it.
fn outcome_of(word: &str) -> Option<TerminalOutcome> {
    if word == "completed" { Some(TerminalOutcome::Success) } else { word.parse().ok() }
}

/// The completion that an `ended` event tells of: its reason is `outcome:cause:namespace`, with
/// `:flow` behind that for a member of a flow.
fn completion(event: &Event) -> Option<CompletionPayload> {
    if event.kind != "ended" {
        return None;
    }
    let mut parts = event.reason.as_deref()?.splitn(4, ':');
    let (outcome, _cause, namespace) = (parts.next()?, parts.next()?, parts.next()?);
    Some(CompletionPayload {
        execution_id: event.execution_id?,
        outcome: outcome_of(outcome)?,
        namespace: namespace.parse().ok()?,
        produced_at: event.at,
        flow_id: parts.next().and_then(|id| FlowId::parse(id).ok()),
        cursor: event.cursor.clone(),
        after_gap: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::types::{EventCursor, TimestampMs};

    fn ended(reason: &str) -> Event {
        Event {
            cursor: EventCursor::parse("7-0").expect("a cursor"),
            kind: "ended".to_owned(),
            execution_id: "{fp:3}:00000000-0000-4000-8000-000000000003".parse().ok(),
            flow_id: None,
            attempt_index: None,
            lease_epoch: None,
            worker_instance_id: None,
            at: TimestampMs::new(7),
            reason: Some(reason.to_owned()),
        }
    }

    #[test]
    fn the_end_of_a_member_names_its_flow() {
        let flow = "00000000-0000-4000-8000-000000000007";
        let member = completion(&ended(&format!("completed:completed:tests:{flow}")));
        let member = member.expect("an end");
        assert_eq!(member.flow_id.map(|id| id.to_string()).as_deref(), Some(flow));
        assert_eq!(member.namespace.as_str(), "tests");
        let alone = completion(&ended("completed:completed:tests")).expect("an end");
        assert_eq!((alone.flow_id, alone.namespace.as_str()), (None, "tests"));
    }
}
