//! The output of one attempt, named by its number: read by range, or waited for.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{StreamFrames, StreamQuery};
use crate::ToSchema;
use crate::argument::check_range;
use crate::error::EngineError;
use crate::limits;
use crate::operation::{self, Method, Operation};
use crate::types::{AttemptIndex, ExecutionId, StreamCursor};

/// One attempt of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptOf {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The attempt.
    pub attempt_index: AttemptIndex,
}

impl fmt::Display for AttemptOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.execution_id, self.attempt_index)
    }
}

impl AttemptOf {
    fn fill(self, path: &str) -> String {
        operation::fill(&operation::fill(path, self.execution_id), self.attempt_index)
    }
}

/// Which frames of the attempt to read.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadAttemptStream {
    /// From this frame on; from the first one if absent.
    pub from: Option<StreamCursor>,
    /// Up to this frame; up to the last one if absent.
    pub to: Option<StreamCursor>,
    /// How many frames at most; 100 if absent.
    #[schema(minimum = 1, maximum = 10_000)]
    pub limit: Option<u64>,
}

impl ReadAttemptStream {
    /// The same frames, as they are asked for of an execution.
    pub fn query(self, attempt: AttemptIndex) -> StreamQuery {
        let Self { from, to, limit } = self;
        StreamQuery { attempt_index: Some(attempt), from, to, limit, ..StreamQuery::default() }
    }
}

impl Operation for ReadAttemptStream {
    type Target = AttemptOf;
    type Request = Self;
    type Reply = StreamFrames;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/attempts/{attempt_index}/stream";
    const NAME: &'static str = "readAttemptStream";
    const GROUP: &'static str = "streams";
    const SUMMARY: &'static str = "Reads the output of one attempt.";
    const ANSWERS: &'static str = "The frames, and what is to be known about the stream.";
    const ABOUT: &'static str = "As readExecutionStream does, of the attempt that the path names.";

    fn path(target: AttemptOf) -> String {
        target.fill(Self::PATH)
    }
}

/// Waits for frames of the attempt behind a position.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TailStream {
    /// Behind this frame; `0-0`, which is before the first one, if absent.
    pub after: Option<StreamCursor>,
    /// How long to wait if there is none; not at all if absent.
    #[schema(maximum = 30_000)]
    pub block_ms: Option<u64>,
    /// How many frames at most; 50 if absent.
    #[schema(minimum = 1, maximum = 10_000)]
    pub limit: Option<u64>,
}

impl TailStream {
    /// How long to wait.
    pub fn wait_ms(&self) -> u64 {
        self.block_ms.unwrap_or(0)
    }

    /// What to read, again and again.
    pub fn query(&self, attempt: AttemptIndex) -> Result<StreamQuery, EngineError> {
        check_range("block_ms", self.wait_ms(), 0..=limits::MAX_TAIL_BLOCK_MS)?;
        let after = self.after.clone().unwrap_or_else(StreamCursor::from_beginning);
        let query = StreamQuery::behind(attempt, after, self.limit.unwrap_or(50));
        query.validate().map(|()| query)
    }
}

impl Operation for TailStream {
    type Target = AttemptOf;
    type Request = Self;
    type Reply = StreamFrames;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/attempts/{attempt_index}/stream/tail";
    const NAME: &'static str = "tailAttemptStream";
    const GROUP: &'static str = "streams";
    const SUMMARY: &'static str = "Waits for more output of one attempt.";
    const ANSWERS: &'static str = "The frames; none if the time was up or the stream is closed.";
    const ABOUT: &'static str = "Answers as soon as there is a frame behind the position or the \
        stream is closed. To follow an execution from attempt to attempt, see \
        followExecutionOutput.";
    const WAITS: bool = true;

    fn path(target: AttemptOf) -> String {
        target.fill(Self::PATH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_are_filled_into_the_path() {
        let id = "{fp:7}:550e8400-e29b-41d4-a716-446655440000";
        let execution_id = ExecutionId::parse(id).expect("an id");
        let path = TailStream::path(AttemptOf { execution_id, attempt_index: AttemptIndex(3) });
        assert_eq!(
            path,
            "/v1/executions/%7Bfp%3A7%7D%3A550e8400-e29b-41d4-a716-446655440000\
             /attempts/3/stream/tail"
        );
    }

    #[test]
    fn a_tail_is_checked_before_anything_is_read() {
        let query = |tail: TailStream| tail.query(AttemptIndex(0)).map_err(|it| it.to_string());
        assert!(query(TailStream::default()).is_ok());
        let long = TailStream { block_ms: Some(30_001), ..TailStream::default() };
        assert_eq!(query(long), Err("block_ms must be from 0 to 30000, got 30001".to_owned()));
        let end = TailStream { after: Some(StreamCursor::End), ..TailStream::default() };
        assert_eq!(query(end), Err("after must be the id of a frame, as 0-0".to_owned()));
    }
}
