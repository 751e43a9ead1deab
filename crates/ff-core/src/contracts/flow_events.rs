//! What happens in a flow, followed as it happens.

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use super::flow_reads::FlowSnapshot;
use crate::ToSchema;
use crate::error::EngineError;
use crate::operation::{Method, Nothing, Operation};
use crate::types::{AttemptIndex, EventCursor, ExecutionId, FlowId, TimestampMs, WorkerInstanceId};
use crate::wire_text::serde_as_text;

/// What happens in a flow, as it happens. Trouble on the way is overcome inside: the stream pauses
/// and goes on where it was. An error is the last item, and so is [`FlowActivity::End`].
pub type FlowActivityStream = Pin<Box<dyn Stream<Item = Result<FlowActivity, EngineError>> + Send>>;

/// A piece of what one who follows a flow is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowActivity {
    /// Something happened.
    Event(FlowEvent),
    /// Events that this reader has not seen do not come: they are no longer in the log, which is
    /// bounded. What they amounted to is in the flow as it stands.
    Gap {
        /// The position from which on it goes on.
        cursor: EventCursor,
        /// The flow as it stands there, or a little later.
        flow: Box<FlowSnapshot>,
    },
    /// The flow has ended: nothing follows.
    End {
        /// The position of the end.
        cursor: EventCursor,
        /// How it ended.
        flow: Box<FlowSnapshot>,
    },
}

impl FlowActivity {
    /// Where a reader goes on that has taken this.
    pub fn cursor(&self) -> &EventCursor {
        match self {
            Self::Event(event) => &event.cursor,
            Self::Gap { cursor, .. } | Self::End { cursor, .. } => cursor,
        }
    }

    /// The event, if it is one.
    pub fn event(&self) -> Option<&FlowEvent> {
        match self {
            Self::Event(event) => Some(event),
            _ => None,
        }
    }
}

/// Something that happened to a flow, or to one of its members.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowEvent {
    /// Its position.
    pub cursor: EventCursor,
    /// What happened, in one word: `claimed`, `ended`, `freed`, `flow_sealed`.
    pub kind: String,
    /// To which member; to the flow itself if absent.
    pub execution_id: Option<ExecutionId>,
    /// The member's name in the flow.
    pub name: Option<String>,
    /// To which of its attempts.
    pub attempt_index: Option<AttemptIndex>,
    /// By which worker process its lease was held last.
    pub worker_instance_id: Option<WorkerInstanceId>,
    /// When, by the store's clock.
    pub at: TimestampMs,
    /// Why, if somebody said so.
    pub reason: Option<String>,
}

/// Where one who follows a flow begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlowPosition {
    /// With the first event: `start`.
    #[default]
    Start,
    /// With what comes from now on: `end`.
    End,
    /// Behind an event.
    Behind(EventCursor),
}

/// A text that is no position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not start, end or the position of an event as 1794768315577-0")]
pub struct FlowPositionParseError(String);

impl FromStr for FlowPosition {
    type Err = FlowPositionParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_event = |text: &str| {
            let (ms, number) = text.split_once('-')?;
            let digits = |part: &str| {
                let fits =
                    (1..=19).contains(&part.len()) && (part == "0" || !part.starts_with('0'));
                fits && part.bytes().all(|byte| byte.is_ascii_digit())
            };
            (digits(ms) && digits(number)).then(|| EventCursor::parse(text).ok()).flatten()
        };
        match text {
            "start" => Ok(Self::Start),
            "end" => Ok(Self::End),
            _ => is_event(text)
                .map(Self::Behind)
                .ok_or_else(|| FlowPositionParseError(text.chars().take(64).collect())),
        }
    }
}

impl fmt::Display for FlowPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::End => f.write_str("end"),
            Self::Behind(cursor) => write!(f, "{cursor}"),
        }
    }
}

serde_as_text!(FlowPosition, "a position in what happens in a flow");

/// From where on a flow is followed.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowFlow {
    /// The position: `start`, `end`, or that of an event as `1794768315577-0`; `start` if absent.
    #[schema(value_type = Option<String>)]
    pub after: Option<FlowPosition>,
}

impl Operation for FollowFlow {
    type Target = FlowId;
    type Request = Self;
    type Reply = Nothing;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/flows/{flow_id}/events";
    const NAME: &'static str = "followFlow";
    const SUMMARY: &'static str = "Follows what happens in a flow, as server-sent events.";
    const ANSWERS: &'static str = "Events, until the flow ends or the server is shut down.";
    const ABOUT: &'static str = "What happened already comes first, then everything as it \
        happens. The name of an event is event, for something that happened to the flow or to a \
        member; gap, with the flow as it stands, in place of events that the bounded log no longer \
        has; end, with the flow, for the last one. The id of an event is its position: sent back \
        as Last-Event-ID, the events behind it follow.";
}

/// How long to wait for the end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AwaitFlow {
    /// How long to wait; 0 if absent. The answer comes as soon as the flow has ended.
    #[serde(default)]
    #[schema(value_type = crate::schema::WaitMs)]
    pub wait_ms: u64,
}

impl Operation for AwaitFlow {
    type Target = FlowId;
    type Request = Self;
    type Reply = FlowSnapshot;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/flows/{flow_id}/end";
    const NAME: &'static str = "awaitFlow";
    const SUMMARY: &'static str = "Waits until the last member of a flow has ended.";
    const ANSWERS: &'static str = "The flow; without completed_at if the time was up before.";
    const WAITS: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text() {
        for text in ["start", "end", "0-0", "1794768315577-12"] {
            let position: FlowPosition = text.parse().expect(text);
            assert_eq!(position.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in ["", "-", "7", "0-", "-0", "01-1", "a-b", "0-1-2", "12345678901234567890-0"] {
            assert!(text.parse::<FlowPosition>().is_err(), "{text}");
        }
    }
}
