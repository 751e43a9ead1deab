//! A frame: a piece of an attempt's output.

use crate::argument::{check_bytes, check_range};
use crate::error::{Code, EngineError};
use crate::limits;
use crate::literal::literals;

literals! {
    /// What a frame is, where its type does not say more.
    FrameKind("frame kind") {
        /// Written to the standard output.
        Stdout = "stdout",
        /// Written to the standard error.
        Stderr = "stderr",
        /// Something happened.
        Event = "event",
        /// Bytes of some form.
        Blob = "blob",
    }
}

/// A piece of an attempt's output. The bytes are opaque; in a stream that sums up, they are a JSON
/// merge patch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What it is.
    pub kind: FrameKind,
    /// Its number within the attempt, from 1. The first frame of a call must have one; by it, a
    /// repetition is recognised. The others follow it.
    pub seq: Option<u64>,
    /// A word of the writer's own; the kind's word if empty.
    pub frame_type: String,
    /// Anything that connects it to something else.
    pub correlation_id: Option<String>,
    /// How long before the call it was made.
    pub age_ms: u64,
}

impl Frame {
    /// A frame of a kind.
    pub fn new(kind: FrameKind, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            kind,
            seq: None,
            frame_type: String::new(),
            correlation_id: None,
            age_ms: 0,
        }
    }

    /// Gives it a number.
    #[must_use]
    pub fn with_seq(mut self, seq: u64) -> Self {
        self.seq = Some(seq);
        self
    }

    /// Gives it a type.
    #[must_use]
    pub fn with_type(mut self, frame_type: impl Into<String>) -> Self {
        self.frame_type = frame_type.into();
        self
    }

    /// Connects it to something else.
    #[must_use]
    pub fn with_correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// The word that readers see.
    pub fn type_word(&self) -> &str {
        if self.frame_type.is_empty() { self.kind.as_str() } else { &self.frame_type }
    }

    /// The number of the first of the frames of a call, which must be consecutive.
    pub fn first_sequence(frames: &[Self]) -> Result<u64, EngineError> {
        let count = frames.len() as u64;
        check_range("number of frames", count, 1..=limits::APPEND_FRAMES_MAX)?;
        let missing = || EngineError::invalid("seq", "must be given with the first frame");
        let first = frames.first().and_then(|frame| frame.seq).ok_or_else(missing)?;
        check_range("seq", first, 1..=limits::FRAME_SEQUENCE_MAX)?;
        let numbers =
            frames.iter().zip(first..).map(|(frame, seq)| frame.seq.unwrap_or(seq) == seq);
        if numbers.into_iter().all(|right| right) {
            Ok(first)
        } else {
            Err(EngineError::invalid("seq", "must grow by one from frame to frame"))
        }
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        let bytes_max = limits::FRAME_BYTES_MAX;
        if self.bytes.len() as u64 > bytes_max {
            let details = vec!["1".to_owned(), bytes_max.to_string()];
            return Err(EngineError::Refused { code: Code::FrameTooLarge, details });
        }
        let correlation = self.correlation_id.as_ref().map_or(0, String::len);
        check_bytes("correlation_id", correlation, limits::CORRELATION_ID_BYTES_MAX)?;
        check_range("age_ms", self.age_ms, 0..=limits::FRAME_AGE_MS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(numbers: &[Option<u64>]) -> Result<u64, String> {
        let frame = |seq: &Option<u64>| Frame { seq: *seq, ..Frame::new(FrameKind::Event, "x") };
        let frames: Vec<Frame> = numbers.iter().map(frame).collect();
        Frame::first_sequence(&frames).map_err(|error| error.to_string())
    }

    #[test]
    fn frames_of_a_call_are_consecutive_from_a_given_number() {
        assert_eq!(numbered(&[Some(4)]), Ok(4));
        assert_eq!(numbered(&[Some(4), None, Some(6)]), Ok(4));
        let missing = "seq must be given with the first frame";
        assert_eq!(numbered(&[None, Some(5)]), Err(missing.to_owned()));
        let gap = "seq must grow by one from frame to frame";
        assert_eq!(numbered(&[Some(4), Some(6)]), Err(gap.to_owned()));
        assert_eq!(numbered(&[Some(4), None, Some(5)]), Err(gap.to_owned()));
        assert!(numbered(&[]).is_err() && numbered(&[Some(0)]).is_err());
        assert!(numbered(&vec![Some(1); 257]).is_err());
    }

    #[test]
    fn a_type_that_is_not_given_is_the_kind() {
        let frame = Frame::new(FrameKind::Stderr, "x");
        assert_eq!(frame.type_word(), "stderr");
        assert_eq!(frame.with_type("token").type_word(), "token");
    }

    #[test]
    fn a_frame_that_is_too_large_has_a_code_of_its_own() {
        let largest = vec![0; limits::FRAME_BYTES_MAX as usize];
        assert_eq!(Frame::new(FrameKind::Blob, largest.clone()).validate(), Ok(()));
        let larger = Frame::new(FrameKind::Blob, [largest, vec![0]].concat());
        let refused = larger.validate().expect_err("too large");
        assert_eq!(refused.code(), Some(Code::FrameTooLarge));
    }
}
