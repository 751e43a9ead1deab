//! A task's output, as workers send it.

use ff_core::backend::{Frame, FrameKind, Handle};
use ff_core::bytes::{self, Base64};
use ff_core::contracts::AppendFrameOutcome;
use ff_core::error::EngineError;
use ff_core::operation::{Nothing, Operation};
#[cfg(feature = "openapi")]
use ff_core::schema;
use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::task::token_of;

/// Appends frames to the output of a task's attempt.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendFrames {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// The number of the first of these frames: a task begins with its `next_frame` and counts on.
    #[schema(minimum = 1, maximum = 1_000_000_000_000u64)]
    pub first_sequence: u64,
    /// The frames, in order.
    #[schema(min_items = 1, max_items = 256)]
    pub frames: Vec<NewFrame>,
}

/// One of them. The bytes are given as text or as base64; none at all is an empty frame.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFrame {
    /// What it is, where its type does not say more; an event if absent.
    pub kind: Option<FrameKind>,
    /// A word of the writer's own; the kind if absent.
    #[schema(value_type = Option<schema::FrameType>)]
    pub frame_type: Option<String>,
    /// Anything that connects it to something else.
    #[schema(max_length = 256)]
    pub correlation_id: Option<String>,
    /// How long ago it was made.
    #[schema(maximum = 86_400_000)]
    pub age_ms: Option<u64>,
    /// The bytes, if they are text.
    #[schema(max_length = 65_536)]
    pub payload_text: Option<String>,
    /// The bytes, whatever they are.
    #[schema(value_type = Option<schema::Base64>)]
    pub payload_base64: Option<Base64>,
}

impl Operation for AppendFrames {
    type Target = Nothing;
    type Request = Self;
    type Reply = AppendFrameOutcome;

    const PATH: &'static str = "/v1/tasks/frames";
    const NAME: &'static str = "appendTaskFrames";
    const SUMMARY: &'static str = "Appends frames to a task's output.";
    const ANSWERS: &'static str = "They are there.";
    const ABOUT: &'static str = "All of them or none. Frames are numbered from 1 within an attempt: \
        those that are there already are not added again, and a number that leaves a gap is \
        refused with 409 and the number that is expected.";
    const BODY_BYTES_MAX: usize = 2 << 20;
}

impl AppendFrames {
    /// Frames for the wire.
    pub fn new(handle: &Handle, frames: Vec<Frame>) -> Result<Self, EngineError> {
        Ok(Self {
            task_token: Some(token_of(handle)),
            first_sequence: Frame::first_sequence(&frames)?,
            frames: frames.into_iter().map(NewFrame::from).collect(),
        })
    }

    /// The frames, the first one with its number.
    pub fn into_frames(self) -> Result<Vec<Frame>, EngineError> {
        let mut frames: Vec<Frame> =
            self.frames.into_iter().map(Frame::try_from).collect::<Result<_, _>>()?;
        if let Some(first) = frames.first_mut() {
            first.seq = Some(self.first_sequence);
        }
        Ok(frames)
    }
}

impl From<Frame> for NewFrame {
    fn from(frame: Frame) -> Self {
        let (payload_text, payload_base64) = match String::from_utf8(frame.bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(Base64(error.into_bytes()))),
        };
        Self {
            kind: Some(frame.kind),
            frame_type: (!frame.frame_type.is_empty()).then_some(frame.frame_type),
            correlation_id: frame.correlation_id,
            age_ms: (frame.age_ms > 0).then_some(frame.age_ms),
            payload_text,
            payload_base64,
        }
    }
}

impl TryFrom<NewFrame> for Frame {
    type Error = EngineError;

    fn try_from(new: NewFrame) -> Result<Self, EngineError> {
        let given = bytes::one_of("payload", new.payload_base64, new.payload_text, None)?;
        let mut frame = Self::new(new.kind.unwrap_or(FrameKind::Event), given.unwrap_or_default());
        frame.frame_type = new.frame_type.unwrap_or_default();
        frame.correlation_id = new.correlation_id;
        frame.age_ms = new.age_ms.unwrap_or(0);
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_wire_whatever_their_bytes() {
        for bytes in [Vec::new(), "é".into(), (0..=255).collect::<Vec<u8>>()] {
            let mut frame = Frame::new(FrameKind::Stderr, bytes).with_correlation_id("c");
            frame.age_ms = 7;
            let json = serde_json::to_string(&NewFrame::from(frame.clone())).expect("text");
            let new: NewFrame = serde_json::from_str(&json).expect("a frame");
            assert_eq!(Frame::try_from(new), Ok(frame));
        }
    }

    #[test]
    fn the_first_frame_has_the_number() {
        let json = r#"{"first_sequence":4,"frames":[{"payload_text":"a"},{"frame_type":"x"}]}"#;
        let request: AppendFrames = serde_json::from_str(json).expect("a request");
        let frames = request.into_frames().expect("frames");
        assert_eq!(Frame::first_sequence(&frames), Ok(4));
        assert_eq!((frames[0].type_word(), frames[1].type_word()), ("event", "x"));
    }
}
