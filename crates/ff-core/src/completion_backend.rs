//! Hearing about ended executions, with a position that can be stored and resumed.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::str::FromStr;

use futures_core::Stream;

use crate::backend::{CompletionPayload, ScannerFilter};
use crate::engine_backend::Answer;
use crate::partition::Partition;
use crate::types::EventCursor;
use crate::wire_text::serde_as_text;

/// Ended executions, one after the other. Trouble on the way is overcome inside: the stream pauses
/// and goes on where it was. It ends when the backend is closed.
pub type CompletionStream = Pin<Box<dyn Stream<Item = CompletionPayload> + Send>>;

/// Tells who wants to know that executions have ended.
///
/// Delivery is at least once: after a resumption or a reconnect an event may come again, and the
/// consumer must not mind. Events of one partition come in order; those of different partitions do
/// not. The log behind it is bounded: a consumer that stays away for longer than
/// [`crate::limits::EVENT_LOG_LENGTH`] events of a partition misses the oldest ones. The next
/// completion of that partition says so ([`CompletionPayload::after_gap`]); what is missing is
/// found by listing.
pub trait CompletionBackend: Send + Sync + 'static {
    /// The end of every partition's log now. A consumer that must miss nothing stores it before it
    /// subscribes from it.
    fn completion_cursor(&self) -> Answer<'_, CompletionCursor>;

    /// Every execution that ends after a position, or from now on. Each subscription is
    /// independent; dropping the stream ends it.
    fn subscribe_completions(&self, from: Option<CompletionCursor>)
    -> Answer<'_, CompletionStream>;

    /// The same, for executions that pass a filter. An implementation that cannot filter answers
    /// that it is unavailable; it never hands out more than was asked for.
    fn subscribe_completions_filtered<'a>(
        &'a self,
        filter: &'a ScannerFilter,
        from: Option<CompletionCursor>,
    ) -> Answer<'a, CompletionStream>;
}

/// Compiles only while the trait can be used behind a pointer, as every caller does.
const _: fn(&dyn CompletionBackend) = |_| ();

/// A position in the logs of all partitions: what a consumer stores to go on later. A partition
/// it does not mention is read from the oldest event kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionCursor(BTreeMap<u16, EventCursor>);

/// The first character of the text form, so that another form can be told apart later.
const VERSION: &str = "1";

impl CompletionCursor {
    /// The position in one flow partition's log, if known.
    pub fn get(&self, partition: Partition) -> Option<&EventCursor> {
        self.0.get(&partition.index)
    }

    /// Sets the position in one flow partition's log.
    pub fn set(&mut self, partition: Partition, cursor: EventCursor) {
        self.0.insert(partition.index, cursor);
    }

    /// Moves past an event. To be called when the event has been dealt with.
    pub fn advance(&mut self, completion: &CompletionPayload) {
        self.set(completion.execution_id.partition(), completion.cursor.clone());
    }

    /// The known positions, in the order of the partitions.
    pub fn iter(&self) -> impl Iterator<Item = (Partition, &EventCursor)> {
        self.0.iter().map(|(index, cursor)| (Partition::flow(*index), cursor))
    }
}

impl fmt::Display for CompletionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSION)?;
        self.0.iter().try_for_each(|(index, cursor)| write!(f, ",{index}={cursor}"))
    }
}

/// A text that is not a stored position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("completion cursor is malformed at {0:?}; pass back a cursor unchanged")]
pub struct CompletionCursorParseError(pub String);

impl FromStr for CompletionCursor {
    type Err = CompletionCursorParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(',');
        let version = parts.next().unwrap_or_default();
        if version != VERSION {
            return Err(CompletionCursorParseError(version.to_owned()));
        }
        let mut cursor = Self::default();
        for part in parts {
            let malformed = || CompletionCursorParseError(part.to_owned());
            let (index, position) = parse_part(part).ok_or_else(malformed)?;
            if cursor.0.insert(index, position).is_some() {
                return Err(malformed());
            }
        }
        Ok(cursor)
    }
}

fn parse_part(part: &str) -> Option<(u16, EventCursor)> {
    let (index, position) = part.split_once('=')?;
    Some((Partition::parse_index(index)?, EventCursor::parse(position).ok()?))
}

serde_as_text!(CompletionCursor, "a completion cursor");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::TerminalOutcome;
    use crate::types::{ExecutionId, Namespace, TimestampMs};

    fn completion(partition: u16, cursor: &str) -> CompletionPayload {
        let partition = Partition::flow(partition);
        CompletionPayload {
            execution_id: ExecutionId::from_parts(partition, uuid::Uuid::from_u128(1)),
            outcome: TerminalOutcome::Success,
            namespace: Namespace::default(),
            produced_at: TimestampMs(1),
            flow_id: None,
            cursor: EventCursor::parse(cursor).expect("valid"),
            after_gap: false,
        }
    }

    #[test]
    fn a_cursor_remembers_the_last_event_of_each_partition() {
        let mut cursor = CompletionCursor::default();
        for (partition, position) in [(7, "12-0"), (0, "9-1"), (7, "13-0")] {
            cursor.advance(&completion(partition, position));
        }
        assert_eq!(cursor.to_string(), "1,0=9-1,7=13-0");
        assert_eq!(cursor.get(Partition::flow(7)).map(EventCursor::as_str), Some("13-0"));
        assert_eq!(cursor.get(Partition::flow(1)), None);
        assert_eq!(cursor.iter().count(), 2);
    }

    #[test]
    fn a_cursor_survives_being_stored() {
        let mut cursor = CompletionCursor::default();
        assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
        cursor.advance(&completion(255, "1700000000000-3"));
        let json = serde_json::to_string(&cursor).expect("serialises");
        assert_eq!(serde_json::from_str::<CompletionCursor>(&json).expect("its own"), cursor);
    }

    #[test]
    fn what_was_not_stored_by_us_is_refused() {
        for text in ["", "2", "1,", "1,x", "1,1", "1,01=5", "1,1=", "1,1=a b", "1,1=5,1=6"] {
            assert!(text.parse::<CompletionCursor>().is_err(), "{text:?}");
        }
    }
}
