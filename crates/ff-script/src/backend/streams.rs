//! The output of attempts: appended by the holder of a lease, read by anybody.

use std::time::Duration;

use ff_core::backend::{Frame, Handle};
use ff_core::contracts::{
    AppendFrameOutcome, OutputCursor, OutputStream, StreamFrame, StreamFrames, StreamQuery,
    TailStream,
};
use ff_core::engine_backend::{Answer, Streams};
use ff_core::error::EngineError;
use ff_core::types::{AttemptIndex, ExecutionId};

use super::{ScriptBackend, call, held};
use crate::calls::stream::{
    AppendFrame, AppendFrameReply, FrameRow, ReadAttemptStream, ReadAttemptStreamReply,
};
use crate::host::Host;
use crate::wire::Rest;

impl<H: Host + ?Sized> Streams for ScriptBackend<H> {
    fn append_frames<'a>(
        &'a self,
        handle: &'a Handle,
        frames: Vec<Frame>,
    ) -> Answer<'a, AppendFrameOutcome> {
        Box::pin(async move {
            let first_sequence = Frame::first_sequence(&frames)?;
            frames.iter().try_for_each(Frame::validate)?;
            let call = held!(handle, AppendFrame { first_sequence, frames: Rest(frames) });
            let (AppendFrameReply::Appended { last_sequence }
            | AppendFrameReply::AppendedBefore { last_sequence }) =
                self.call_on(handle.execution_id, call).await?;
            let stream_id = format!("{}:{}", handle.execution_id, handle.attempt_index);
            Ok(AppendFrameOutcome { stream_id, frame_count: last_sequence })
        })
    }

    fn read_stream(
        &self,
        execution_id: ExecutionId,
        query: StreamQuery,
    ) -> Answer<'_, StreamFrames> {
        Box::pin(async move {
            execution_id.check(&self.config)?;
            read(self.host.as_ref(), execution_id, query).await
        })
    }

    fn tail_stream(
        &self,
        execution_id: ExecutionId,
        attempt_index: AttemptIndex,
        tail: TailStream,
    ) -> Answer<'_, StreamFrames> {
        Box::pin(async move {
            execution_id.check(&self.config)?;
            let (query, wait) = (tail.query(attempt_index)?, tail.wait_ms());
            self.following.tail(execution_id, query, Duration::from_millis(wait)).await
        })
    }

    fn follow_output(
        &self,
        execution_id: ExecutionId,
        after: OutputCursor,
    ) -> Answer<'_, OutputStream> {
        Box::pin(async move {
            execution_id.check(&self.config)?;
            self.following.follow(execution_id, after).await
        })
    }
}

/// Reads the output of an attempt.
pub(super) async fn read<H: Host + ?Sized>(
    host: &H,
    execution_id: ExecutionId,
    query: StreamQuery,
) -> Result<StreamFrames, EngineError> {
    query.validate()?;
    let read = ReadAttemptStream {
        execution_id,
        attempt_index: query.attempt_index,
        from_sequence: query.first_sequence(),
        to_sequence: query.last_sequence(),
        count_limit: query.checked_limit(),
        bytes_max: query.bytes_max,
    };
    call(host, execution_id.partition(), read).await.map(output)
}

fn output(reply: ReadAttemptStreamReply) -> StreamFrames {
    let ReadAttemptStreamReply::Output {
        attempt_index,
        frames,
        next_sequence,
        first_sequence,
        last_sequence,
        closed_at,
        closed_reason,
        latest_attempt,
        execution_ended,
        summary,
    } = reply;
    let mut read = StreamFrames::empty_open();
    read.frames = frames.0.into_iter().map(frame).collect();
    read.count = read.frames.len() as u64;
    read.closed_at = closed_at;
    read.closed_reason = closed_reason;
    read.attempt_index = attempt_index;
    read.next = next_sequence;
    read.first_sequence = first_sequence;
    read.last_sequence = last_sequence;
    read.latest_attempt = latest_attempt;
    read.execution_ended = execution_ended;
    read.summary = summary;
    read
}

fn frame(row: FrameRow) -> StreamFrame {
    StreamFrame::new(row.id, row.at, row.frame_type, row.correlation_id, row.bytes)
}
