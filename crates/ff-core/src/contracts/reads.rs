//! Reading: one execution, lists of them, lanes, events.

use serde::{Deserialize, Serialize};

use super::event::{EventPage, EventQuery, History};
use super::executions::ExecutionState;
use super::explain::Explanation;
use super::kind_counts::KindCounts;
use super::list::{LaneList, LaneQuery, ListFilter, ListPage};
use super::snapshot::{AttemptRecord, ExecutionSnapshot};
use crate::ToSchema;
use crate::engine_backend::Answer;
use crate::error::{Code, EngineError};
use crate::operation::{Method, Nothing, Operation};
use crate::types::ExecutionId;

/// Reads. None of these changes anything.
pub trait Reads: Send + Sync {
    /// Everything about an execution at one moment; none if it does not exist.
    fn describe_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Answer<'_, Option<ExecutionSnapshot>>;

    /// Why an execution does not run, and since when.
    fn explain_execution(&self, execution_id: ExecutionId) -> Answer<'_, Explanation>;

    /// The result of a completed execution; none if there is none.
    fn read_result(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>>;

    /// The input of an execution; none if the execution does not exist.
    fn read_payload(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>>;

    /// The attempts of an execution, oldest first.
    fn list_attempts(&self, execution_id: ExecutionId) -> Answer<'_, Attempts>;

    /// The events of an execution that the log still holds, oldest first.
    fn read_history(&self, execution_id: ExecutionId) -> Answer<'_, History>;

    /// The executions that pass a filter, page by page.
    fn list_executions(&self, filter: ListFilter) -> Answer<'_, ListPage>;

    /// How many executions there are in which state, all partitions together.
    fn count_executions(&self) -> Answer<'_, ExecutionCounts>;

    /// How many executions of which kind are in which state, all partitions together.
    fn count_kinds(&self) -> Answer<'_, KindCounts>;

    /// The lanes that were ever used, by name, and how much waits in them.
    fn list_lanes(&self, query: LaneQuery) -> Answer<'_, LaneList>;

    /// The events of one partition after a position, or from the oldest one kept.
    fn read_events(&self, query: EventQuery) -> Answer<'_, EventPage>;
}

/// What does not exist is no error of a read.
pub fn found<T>(answer: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    let missing = [Code::ExecutionNotFound, Code::FlowNotFound, Code::EdgeNotFound];
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code().is_some_and(|code| missing.contains(&code)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads everything about an execution.
#[derive(Clone, Copy, Debug)]
pub struct DescribeExecution;

impl Operation for DescribeExecution {
    type Target = ExecutionId;
    type Request = Nothing;
    type Reply = ExecutionSnapshot;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}";
    const NAME: &'static str = "getExecution";
    const SUMMARY: &'static str = "Everything about an execution but its bytes.";
    const ANSWERS: &'static str = "The execution.";
}

/// Reads where an execution stands.
#[derive(Clone, Copy, Debug)]
pub struct ReadState;

impl Operation for ReadState {
    type Target = ExecutionId;
    type Request = Nothing;
    type Reply = ExecutionState;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/state";
    const NAME: &'static str = "getExecutionState";
    const SUMMARY: &'static str = "Where an execution stands, in one word.";
    const ANSWERS: &'static str = "The word.";
}

/// Lists the attempts of an execution.
#[derive(Clone, Copy, Debug)]
pub struct ListAttempts;

impl Operation for ListAttempts {
    type Target = ExecutionId;
    type Request = Nothing;
    type Reply = Attempts;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/attempts";
    const NAME: &'static str = "listExecutionAttempts";
    const SUMMARY: &'static str = "The attempts of an execution, oldest first.";
    const ANSWERS: &'static str = "The attempts.";
}

/// The attempts of an execution, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempts {
    /// The attempts.
    pub attempts: Vec<AttemptRecord>,
}

/// Reads the events of an execution.
#[derive(Clone, Copy, Debug)]
pub struct ReadHistory;

impl Operation for ReadHistory {
    type Target = ExecutionId;
    type Request = Nothing;
    type Reply = History;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/history";
    const NAME: &'static str = "getExecutionHistory";
    const SUMMARY: &'static str = "The events of an execution, oldest first.";
    const ANSWERS: &'static str = "The events.";
    const ABOUT: &'static str = "The log of a partition is bounded: of an execution whose \
        beginning is gone the rest is answered, and complete is false.";
}

impl Operation for ListFilter {
    type Target = Nothing;
    type Request = Self;
    type Reply = ListPage;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions";
    const NAME: &'static str = "listExecutions";
    const SUMMARY: &'static str = "Lists executions of all partitions.";
    const ANSWERS: &'static str = "A page.";
    const ABOUT: &'static str = "In one order over all partitions: without a state the newest \
        first; of a state that is over those first that will be kept longest, which are the latest \
        ones where all have the same retention; waiting by lane, namespace and kind, the next to be \
        claimed first; \
        delayed, active and suspended by when something will happen to them or has. \
        A page may be shorter than asked for although more follow: go on until next_cursor is \
        absent. An execution at or before the cursor is never repeated.";
}

/// Counts executions.
#[derive(Clone, Copy, Debug)]
pub struct CountExecutions;

impl Operation for CountExecutions {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = ExecutionCounts;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/stats";
    const NAME: &'static str = "countExecutions";
    const GROUP: &'static str = "deployment";
    const SUMMARY: &'static str = "How many executions there are in which state.";
    const ANSWERS: &'static str = "The counts, all partitions together.";
    const ABOUT: &'static str = "What ended is counted until it is purged. Partitions are asked a few \
        at a time, so that what moves in between may be counted twice or not at all.";
}

/// How many executions there are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionCounts {
    /// All that are kept.
    pub total: u64,
    /// Those that are not over and do not run: they wait, for whatever it is.
    pub waiting: u64,
    /// Those that a worker holds.
    pub active: u64,
    /// Those that succeeded.
    pub completed: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// Those that ran out of time.
    pub expired: u64,
    /// Those that were never to run.
    pub skipped: u64,
}

impl std::ops::AddAssign for ExecutionCounts {
    fn add_assign(&mut self, other: Self) {
        self.total += other.total;
        self.waiting += other.waiting;
        self.active += other.active;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.skipped += other.skipped;
    }
}

impl Operation for LaneQuery {
    type Target = Nothing;
    type Request = Self;
    type Reply = LaneList;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/lanes";
    const NAME: &'static str = "listLanes";
    const GROUP: &'static str = "deployment";
    const SUMMARY: &'static str = "The lanes that were ever used, and how much waits in them.";
    const ANSWERS: &'static str = "A page, in the order of names.";
}

impl Operation for EventQuery {
    type Target = Nothing;
    type Request = Self;
    type Reply = EventPage;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/events";
    const NAME: &'static str = "readEvents";
    const GROUP: &'static str = "deployment";
    const SUMMARY: &'static str = "The event log of one partition, from a position.";
    const ANSWERS: &'static str = "Some events, in their order.";
}
