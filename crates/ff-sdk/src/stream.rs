//! Reading the output of an attempt: by range, or waiting for more. No lease is needed.

use ff_core::contracts::{StreamFrames, StreamQuery, TailStream};
use ff_core::engine_backend::EngineBackend;
use ff_core::limits::{MAX_TAIL_BLOCK_MS, STREAM_READ_HARD_CAP};
use ff_core::types::{AttemptIndex, ExecutionId, StreamCursor};

use crate::error::{Context as _, SdkError};

/// Reads the frames of an attempt between two positions, both included. An answer may have fewer
/// than there are: [`StreamFrames::has_more`] says so, and [`StreamFrames::next_cursor`] where to
/// go on.
pub async fn read_stream(
    backend: &dyn EngineBackend,
    execution_id: &ExecutionId,
    attempt_index: AttemptIndex,
    from: StreamCursor,
    to: StreamCursor,
    count_limit: u64,
) -> Result<StreamFrames, SdkError> {
    check_count(count_limit)?;
    let query = StreamQuery::range(attempt_index, from, to, count_limit);
    backend.read_stream(*execution_id, query).await.context("read_stream")
}

/// Waits until there are frames of an attempt behind a position or its stream is closed, at most
/// for `block_ms`. To follow an execution from attempt to attempt, see
/// [`Client::follow`](crate::Client::follow).
pub async fn tail_stream(
    backend: &dyn EngineBackend,
    execution_id: &ExecutionId,
    attempt_index: AttemptIndex,
    after: StreamCursor,
    block_ms: u64,
    count_limit: u64,
) -> Result<StreamFrames, SdkError> {
    if block_ms > MAX_TAIL_BLOCK_MS {
        let rule = format!("must be at most {MAX_TAIL_BLOCK_MS}, got {block_ms}");
        return Err(SdkError::config("tail_stream", "block_ms", rule));
    }
    check_count(count_limit)?;
    if !after.is_concrete() {
        let rule = "must be the id of a frame, as 0-0";
        return Err(SdkError::config("tail_stream", "after", rule));
    }
    let (after, block_ms, limit) = (Some(after), Some(block_ms), Some(count_limit));
    let tail = TailStream { after, block_ms, limit };
    backend.tail_stream(*execution_id, attempt_index, tail).await.context("tail_stream")
}

fn check_count(count_limit: u64) -> Result<(), SdkError> {
    if (1..=STREAM_READ_HARD_CAP).contains(&count_limit) {
        return Ok(());
    }
    let rule = format!("must be from 1 to {STREAM_READ_HARD_CAP}, got {count_limit}");
    Err(SdkError::config("read_stream_frames", "count_limit", rule))
}
