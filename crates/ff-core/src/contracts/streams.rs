//! Streams: the output of attempts, written by the holder of the lease and read by anybody.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{OutputCursor, OutputStream, TailStream};
use crate::ToSchema;
use crate::argument::check_range;
use crate::backend::{Frame, Handle};
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::operation::{Method, Operation};
use crate::types::{AttemptIndex, ExecutionId, StreamCursor, TimestampMs};

pub use crate::limits::{MAX_TAIL_BLOCK_MS, STREAM_READ_HARD_CAP};

/// Writes and reads the output of attempts.
pub trait Streams: Send + Sync {
    /// Appends frames to the output of the attempt, all of them or none. The first one has a
    /// number: repeating the call adds nothing, and if some of the frames are there already the
    /// rest is added. A number that leaves a gap is refused with `frame_gap`.
    fn append_frames<'a>(
        &'a self,
        handle: &'a Handle,
        frames: Vec<Frame>,
    ) -> Answer<'a, AppendFrameOutcome>;

    /// Reads the output of an attempt. No lease is needed. An attempt that has written nothing, or
    /// has not begun, looks like an open stream without frames.
    fn read_stream(
        &self,
        execution_id: ExecutionId,
        query: StreamQuery,
    ) -> Answer<'_, StreamFrames>;

    /// Waits until there are frames of an attempt behind a position, or its stream is closed, or
    /// the time is up; then there are neither frames nor a mark of closing.
    fn tail_stream(
        &self,
        execution_id: ExecutionId,
        attempt_index: AttemptIndex,
        tail: TailStream,
    ) -> Answer<'_, StreamFrames>;

    /// Follows the output of an execution from attempt to attempt until it ends. Frames that are
    /// there come first. However many follow one execution in this process, the store is asked
    /// once.
    fn follow_output(
        &self,
        execution_id: ExecutionId,
        after: OutputCursor,
    ) -> Answer<'_, OutputStream>;
}

/// Frames were appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppendFrameOutcome {
    /// The execution's id, a colon and the attempt's number.
    pub stream_id: String,
    /// The number of the last frame of the call: how many were ever appended up to it.
    pub frame_count: u64,
}

/// Which frames of which attempt to read.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamQuery {
    /// The attempt; the latest one if absent.
    pub attempt_index: Option<AttemptIndex>,
    /// From this frame on; from the first one if absent.
    pub from: Option<StreamCursor>,
    /// From behind this frame on, in place of `from`.
    pub after: Option<StreamCursor>,
    /// Up to this frame; up to the last one if absent.
    pub to: Option<StreamCursor>,
    /// How many frames at most; 100 if absent.
    #[schema(minimum = 1, maximum = 10_000)]
    pub limit: Option<u64>,
    /// How many bytes at most, but always one frame; 4 MiB if absent.
    #[schema(minimum = 1, maximum = 4_194_304)]
    pub bytes_max: Option<u64>,
}

impl StreamQuery {
    /// The frames of an attempt between two positions, both included.
    pub fn range(attempt: AttemptIndex, from: StreamCursor, to: StreamCursor, limit: u64) -> Self {
        Self {
            attempt_index: Some(attempt),
            from: Some(from),
            to: Some(to),
            limit: Some(limit),
            ..Self::default()
        }
    }

    /// The frames of an attempt behind a position.
    pub fn behind(attempt: AttemptIndex, after: StreamCursor, limit: u64) -> Self {
        let (attempt_index, after, limit) = (Some(attempt), Some(after), Some(limit));
        Self { attempt_index, after, limit, ..Self::default() }
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_range("limit", self.checked_limit(), 1..=STREAM_READ_HARD_CAP)?;
        let bytes_max = self.bytes_max.unwrap_or(limits::STREAM_READ_BYTES_MAX);
        check_range("bytes_max", bytes_max, 1..=limits::STREAM_READ_BYTES_MAX)?;
        match &self.after {
            Some(_) if self.from.is_some() => {
                Err(EngineError::invalid("after", "stands in place of from: give one of them"))
            }
            Some(after) if !after.is_concrete() => {
                Err(EngineError::invalid("after", "must be the id of a frame, as 0-0"))
            }
            _ => Ok(()),
        }
    }

    /// How many frames are asked for.
    pub fn checked_limit(&self) -> u64 {
        self.limit.unwrap_or(100)
    }

    /// The number of the first frame that is asked for.
    pub fn first_sequence(&self) -> u64 {
        match (&self.after, &self.from) {
            (Some(after), _) => after.first_after(),
            (None, Some(from)) => from.first_from(),
            (None, None) => 0,
        }
    }

    /// The number of the last frame that is asked for; none if there is no last one.
    pub fn last_sequence(&self) -> Option<u64> {
        self.to.as_ref().and_then(StreamCursor::last_until)
    }
}

impl Operation for StreamQuery {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = StreamFrames;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/stream";
    const NAME: &'static str = "readExecutionStream";
    const GROUP: &'static str = "streams";
    const SUMMARY: &'static str = "Reads the output of an attempt.";
    const ANSWERS: &'static str = "The frames, and what is to be known about the stream.";
    const ABOUT: &'static str = "Of the latest attempt, unless another is named. A page may be \
        shorter than asked for although more follow: go on from next until it is behind \
        last_sequence. Bytes that are no UTF-8 are base64, as the field encoding says.";
}

/// One frame, as it is read. Its fields are `frame_type`, `ts`, `payload`, `encoding`, `source` and
/// `correlation_id`, where there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamFrame {
    /// `number-0`.
    pub id: String,
    /// What is known about it.
    pub fields: BTreeMap<String, String>,
}

/// The encoding of a payload that is text.
const UTF8: &str = "utf8";
/// The encoding of a payload that is not.
const BASE64: &str = "base64";

impl StreamFrame {
    /// A frame that the holder of a lease wrote.
    pub fn new(
        id: String,
        at: TimestampMs,
        frame_type: String,
        correlation_id: Option<String>,
        bytes: Vec<u8>,
    ) -> Self {
        let (encoding, payload) = match String::from_utf8(bytes) {
            Ok(text) => (UTF8, text),
            Err(error) => (BASE64, STANDARD.encode(error.as_bytes())),
        };
        let fields = [
            ("frame_type", Some(frame_type)),
            ("ts", Some(at.to_string())),
            ("payload", Some(payload)),
            ("encoding", Some(encoding.to_owned())),
            ("source", Some("worker".to_owned())),
            ("correlation_id", correlation_id),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Self { id, fields: fields.collect() }
    }

    /// Its number, from 1; none if the id is not one of ours.
    pub fn sequence(&self) -> Option<u64> {
        self.id.strip_suffix("-0")?.parse().ok()
    }

    /// The bytes, exactly as they were written.
    pub fn payload(&self) -> Cow<'_, [u8]> {
        let text = self.field("payload").as_bytes();
        let decoded = (self.field("encoding") == BASE64).then(|| STANDARD.decode(text).ok());
        decoded.flatten().map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Its type.
    pub fn frame_type(&self) -> &str {
        self.field("frame_type")
    }

    /// When it was made, by the store's clock.
    pub fn at(&self) -> Option<TimestampMs> {
        self.field("ts").parse().ok().map(TimestampMs)
    }

    /// What it is connected to.
    pub fn correlation_id(&self) -> Option<&str> {
        self.fields.get("correlation_id").map(String::as_str)
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// What was read of an attempt's output, and what a reader needs to go on: all of one moment.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct StreamFrames {
    /// The frames, oldest first.
    pub frames: Vec<StreamFrame>,
    /// How many these are.
    #[serde(default)]
    pub count: u64,
    /// When the stream was closed: nothing is appended after that.
    pub closed_at: Option<TimestampMs>,
    /// How the attempt ended: `attempt_success`, `attempt_failure`, `attempt_cancelled` or
    /// `attempt_interrupted`.
    pub closed_reason: Option<String>,
    /// The attempt that was read.
    pub attempt_index: AttemptIndex,
    /// The number of the frame to go on with.
    pub next: u64,
    /// The number of the first frame that is still there; if it is greater than the one that was
    /// asked for, those before it are gone.
    pub first_sequence: u64,
    /// The number of the last frame that was appended; 0 if there is none.
    pub last_sequence: u64,
    /// The latest attempt; absent before the first.
    pub latest_attempt: Option<AttemptIndex>,
    /// True if the execution has ended: no other attempt follows, unless it is replayed.
    pub execution_ended: bool,
    /// What all frames sum up to, in place of those up to `next`, for readers of a stream of merge
    /// patches that begin or have missed some.
    #[serde(default, skip_serializing_if = "crate::bytes::json_text::is_none")]
    #[serde(with = "crate::bytes::json_text")]
    #[schema(value_type = Option<crate::schema::AnyJson>)]
    pub summary: Option<String>,
}

impl StreamFrames {
    /// An open stream without frames.
    pub fn empty_open() -> Self {
        Self { next: 1, first_sequence: 1, ..Self::default() }
    }

    /// True if nothing is appended any more.
    pub const fn is_closed(&self) -> bool {
        self.closed_at.is_some()
    }

    /// True if frames are there that were not read.
    pub const fn has_more(&self) -> bool {
        self.next <= self.last_sequence
    }

    /// True if a newer attempt has replaced the one that was read.
    pub fn is_replaced(&self) -> bool {
        self.latest_attempt.is_some_and(|latest| latest > self.attempt_index)
    }

    /// Where the next read goes on.
    pub fn next_cursor(&self) -> StreamCursor {
        StreamCursor::at_sequence(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: &[u8]) -> StreamFrame {
        let at = TimestampMs(1_800_000_000_000);
        StreamFrame::new("7-0".to_owned(), at, "token".to_owned(), None, bytes.to_vec())
    }

    #[test]
    fn every_byte_of_a_frame_survives_json() {
        for bytes in [&b"text \xc3\xa9"[..], b"", b"\xff\x00", &(0..=255).collect::<Vec<u8>>()] {
            let json = serde_json::to_string(&frame(bytes)).expect("text");
            let back: StreamFrame = serde_json::from_str(&json).expect("a frame");
            assert_eq!(back.payload(), bytes);
        }
    }

    #[test]
    fn text_is_there_as_text() {
        let frame = frame(b"hello");
        let expected = r#"{"id":"7-0","fields":{"encoding":"utf8","frame_type":"token","#;
        let json = serde_json::to_string(&frame).expect("text");
        assert!(json.starts_with(expected), "{json}");
        assert_eq!((frame.sequence(), frame.frame_type()), (Some(7), "token"));
        assert_eq!(
            (frame.at(), frame.correlation_id()),
            (Some(TimestampMs(1_800_000_000_000)), None)
        );
    }

    #[test]
    fn a_query_is_checked_before_anything_is_sent() {
        let wrong = |query: StreamQuery| query.validate().expect_err("wrong").to_string();
        let after = |text: &str| StreamQuery {
            after: Some(text.parse().expect("a cursor")),
            ..StreamQuery::default()
        };
        assert_eq!(StreamQuery::default().validate(), Ok(()));
        assert_eq!(after("0-0").validate(), Ok(()));
        assert_eq!(wrong(after("end")), "after must be the id of a frame, as 0-0");
        let both = StreamQuery { from: Some(StreamCursor::Start), ..after("1") };
        assert_eq!(wrong(both), "after stands in place of from: give one of them");
        let limited = |limit| StreamQuery { limit: Some(limit), ..StreamQuery::default() };
        assert_eq!(limited(STREAM_READ_HARD_CAP).validate(), Ok(()));
        assert_eq!(wrong(limited(10_001)), "limit must be from 1 to 10000, got 10001");
        assert_eq!(wrong(limited(0)), "limit must be from 1 to 10000, got 0");
    }

    #[test]
    fn a_summary_travels_as_the_json_it_is() {
        let read = StreamFrames {
            summary: Some(r#"{"n":1.50e3,"empty":[]}"#.to_owned()),
            ..StreamFrames::empty_open()
        };
        let json = serde_json::to_string(&read).expect("text");
        assert!(json.contains(r#""summary":{"n":1.50e3,"empty":[]}"#), "{json}");
        assert_eq!(serde_json::from_str::<StreamFrames>(&json).expect("frames"), read);
    }
}
