//! The output of attempts.

use ff_core::backend::Frame;
use ff_core::types::{AttemptIndex, ExecutionId, TimestampMs};

use crate::args::Args;
use crate::call::functions;
use crate::value::Value;
use crate::wire::{Argument, Reading, Rest, Row, Rows};

functions! {
    /// Appends frames to the output of the running attempt, numbered from the first on. Frames that
    /// are there already are not added again; `last_sequence` is the number of the last one given.
    write ff_append_frame(AppendFrame { held, first_sequence: u64, frames: Rest<Frame> })
    -> AppendFrameReply {
        "OK" => Appended { last_sequence: u64 },
        "DUPLICATE" => AppendedBefore { last_sequence: u64 },
    }
    refuses [ExecutionNotFound, FenceRequired, PartialFenceTriple, StaleOwnerCannotAppend,
        StreamClosed, FrameGap, InvalidFrameType, FrameTooLarge, RetentionLimitExceeded, DataLost];

    /// Reads the output of an attempt, of the latest one unless another is named, from one frame on
    /// up to another. `next_sequence` is where to go on; `first_sequence` is the first frame that
    /// is still there.
    read ff_read_attempt_stream(ReadAttemptStream {
        execution_id: ExecutionId,
        attempt_index: Option<AttemptIndex>,
        from_sequence: u64,
        to_sequence: Option<u64>,
        count_limit: u64,
        bytes_max: Option<u64>,
    })
    -> ReadAttemptStreamReply {
        "OK" => Output {
            attempt_index: AttemptIndex,
            frames: Rows<FrameRow>,
            next_sequence: u64,
            first_sequence: u64,
            last_sequence: u64,
            closed_at: Option<TimestampMs>,
            closed_reason: Option<String>,
            latest_attempt: Option<AttemptIndex>,
            execution_ended: bool,
            summary: Option<String>,
        },
    }
    refuses [ExecutionNotFound];
}

/// Type, correlation id, how long ago it was made, bytes.
impl Argument for Frame {
    fn encode(&self, args: &mut Args) {
        args.push(self.type_word().as_bytes());
        args.push(self.correlation_id.as_deref().unwrap_or_default().as_bytes());
        if self.age_ms == 0 {
            args.push(b"");
        } else {
            self.age_ms.encode(args);
        }
        args.push(&self.bytes);
    }
}

/// A frame as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// `sequence-0`.
    pub id: String,
    /// When it was made, by the store's clock.
    pub at: TimestampMs,
    /// At which byte of the whole output it starts.
    pub start: u64,
    /// Its type.
    pub frame_type: String,
    /// What it is connected to.
    pub correlation_id: Option<String>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Row for FrameRow {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        let (id, header, bytes) = (values.next()?, values.next()?, values.next()?);
        let header = String::read(header)?;
        let mut parts = header.splitn(4, ':');
        let mut part = || parts.next();
        let (at, start, frame_type) = (part()?.parse().ok()?, part()?.parse().ok()?, part()?);
        let correlation_id = part()?;
        Some(Self {
            id: String::read(id)?,
            at: TimestampMs(at),
            start,
            frame_type: frame_type.to_owned(),
            correlation_id: (!correlation_id.is_empty()).then(|| correlation_id.to_owned()),
            bytes: Vec::read(bytes)?,
        })
    }
}
