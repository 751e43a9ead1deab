//! Following the output of an execution: from attempt to attempt, to its end.

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use futures_core::Stream;
use serde::{Deserialize, Serialize};

use super::StreamFrame;
use crate::ToSchema;
use crate::error::EngineError;
use crate::limits;
use crate::operation::{Method, Nothing, Operation};
use crate::types::{AttemptIndex, ExecutionId, TimestampMs};
use crate::wire_text::serde_as_text;

/// The output of an execution, as it comes. Trouble on the way is overcome inside: the stream
/// pauses and goes on where it was. An error is the last item, and so is [`Output::End`].
pub type OutputStream = Pin<Box<dyn Stream<Item = Result<Output, EngineError>> + Send>>;

/// A piece of what an execution puts out. Every frame comes once, in order; behind the last
/// [`Output::Attempt`] stands the whole output of the attempt that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// The output of an attempt begins. It replaces that of all attempts before.
    Attempt {
        /// Which one.
        attempt_index: AttemptIndex,
    },
    /// What all frames up to here sum up to, in place of them: the stream has merge patches, and
    /// this reader begins or has missed some.
    Summary {
        /// Of which attempt.
        attempt_index: AttemptIndex,
        /// The number of the last frame in it.
        sequence: u64,
        /// The JSON document.
        document: String,
    },
    /// Frames that this reader has not seen do not come: more was written than the policy keeps,
    /// or it asked for what comes from now on.
    Skipped {
        /// Of which attempt.
        attempt_index: AttemptIndex,
        /// The number of the last one of them.
        sequence: u64,
    },
    /// A frame.
    Frame {
        /// Of which attempt.
        attempt_index: AttemptIndex,
        /// The frame, shared by all who follow it in this process.
        frame: Arc<StreamFrame>,
    },
    /// The execution has ended: nothing follows.
    End {
        /// The latest attempt.
        attempt_index: AttemptIndex,
        /// The number of its last frame; 0 if it wrote none.
        sequence: u64,
        /// When its output was closed.
        closed_at: Option<TimestampMs>,
        /// How it ended: `attempt_success`, `attempt_failure`, `attempt_cancelled` or
        /// `attempt_interrupted`; none if there was no attempt.
        closed_reason: Option<String>,
    },
}

impl Output {
    /// Where a reader goes on that has taken this.
    pub fn cursor(&self) -> OutputCursor {
        let (attempt_index, sequence) = match self {
            Self::Attempt { attempt_index } => (*attempt_index, 0),
            Self::Frame { attempt_index, frame } => {
                (*attempt_index, frame.sequence().unwrap_or_default())
            }
            Self::Summary { attempt_index, sequence, .. }
            | Self::Skipped { attempt_index, sequence }
            | Self::End { attempt_index, sequence, .. } => (*attempt_index, *sequence),
        };
        OutputCursor::Behind { attempt_index, sequence }
    }

    /// The frame, if it is one.
    pub fn frame(&self) -> Option<&StreamFrame> {
        match self {
            Self::Frame { frame, .. } => Some(frame),
            _ => None,
        }
    }
}

/// Where a reader of an execution's output goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputCursor {
    /// With the first frame that is kept of the latest attempt: `start`.
    #[default]
    Start,
    /// With what comes from now on: `end`.
    End,
    /// Behind a frame of an attempt, both by their numbers: `0-7`. Frames are counted from 1.
    Behind {
        /// The attempt.
        attempt_index: AttemptIndex,
        /// The frame.
        sequence: u64,
    },
}

/// A text that is no position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not start, end or an attempt and a frame as 0-7")]
pub struct OutputCursorParseError(String);

impl FromStr for OutputCursor {
    type Err = OutputCursorParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let behind = || {
            let (attempt, sequence) = text.split_once('-')?;
            let sequence = digits(sequence)?;
            let attempt_index = AttemptIndex(u32::try_from(digits(attempt)?).ok()?);
            (sequence <= limits::FRAME_SEQUENCE_MAX)
                .then_some(Self::Behind { attempt_index, sequence })
        };
        match text {
            "start" => Ok(Self::Start),
            "end" => Ok(Self::End),
            _ => behind()
                .ok_or_else(|| OutputCursorParseError(text.chars().take(64).collect::<String>())),
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl fmt::Display for OutputCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::End => f.write_str("end"),
            Self::Behind { attempt_index, sequence } => write!(f, "{attempt_index}-{sequence}"),
        }
    }
}

serde_as_text!(OutputCursor, "a position in an execution's output");

/// From where on the output of an execution is followed.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowOutput {
    /// The position: `start`, `end`, or an attempt and a frame as `0-7`; `start` if absent.
    #[schema(value_type = Option<String>)]
    pub after: Option<OutputCursor>,
}

impl Operation for FollowOutput {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = Nothing;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/stream/tail";
    const NAME: &'static str = "followExecutionOutput";
    const GROUP: &'static str = "streams";
    const SUMMARY: &'static str = "Follows the output of an execution, as server-sent events.";
    const ANSWERS: &'static str = "Events, until the execution ends or the server is shut down.";
    const ABOUT: &'static str = "What is there already comes first, then every frame as it is \
        written. An event attempt says that the output of another attempt begins, which replaces \
        all before; frame is a frame; summary is the document that the frames so far sum up to; \
        skipped tells that frames up to its own do not come; end is the last one. The id of an event is its \
        attempt and frame: sent back as Last-Event-ID, the events behind it follow.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text() {
        for text in ["start", "end", "0-0", "4294967295-1000000000000"] {
            let cursor: OutputCursor = text.parse().expect(text);
            assert_eq!(cursor.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in
            ["", "-", "7", "0-", "-0", "+1-0", "0-+1", "4294967296-0", "0-1000000000001", "0-1-2"]
        {
            assert!(text.parse::<OutputCursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_piece_says_where_to_go_on() {
        let attempt_index = AttemptIndex(2);
        let frame = Arc::new(StreamFrame { id: "7-0".to_owned(), ..StreamFrame::default() });
        for (piece, cursor) in [
            (Output::Attempt { attempt_index }, "2-0"),
            (Output::Frame { attempt_index, frame }, "2-7"),
            (Output::Skipped { attempt_index, sequence: 4 }, "2-4"),
        ] {
            assert_eq!(piece.cursor().to_string(), cursor);
        }
    }
}
