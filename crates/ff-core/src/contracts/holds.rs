//! Holds: an operator keeps single executions from being claimed.

use serde::{Deserialize, Serialize};

use super::executions::ExecutionState;
use super::list::page_limit;
use crate::ToSchema;
use crate::argument::check_words;
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::operation::{Input, Method, Nothing, Operation};
use crate::state::{BlockingReason, PublicState};
use crate::types::{ExecutionId, ExecutionKind, LaneId, Namespace, RequestId, TimestampMs};

/// Keeps executions from being claimed.
pub trait Holds: Send + Sync {
    /// Holds an execution: nobody claims it until it is released. One that runs goes on to the end
    /// of its attempt, one that is suspended or waits for others goes on waiting; they are held
    /// where they would be claimable next. Deadlines count on. Holding it again changes nothing.
    fn hold_execution(
        &self,
        execution_id: ExecutionId,
        request: HoldExecution,
    ) -> Answer<'_, ExecutionState>;

    /// Lets a held execution go on as if it had not been held. One that is not held stays as it is.
    fn release_execution(
        &self,
        execution_id: ExecutionId,
        request: ReleaseExecution,
    ) -> Answer<'_, ExecutionState>;

    /// What is held, partition by partition, longest first. A read.
    fn list_held(&self, query: ListHeld) -> Answer<'_, ListHeldPage>;
}

/// Keeps an execution from being claimed until it is released.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldExecution {
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
    /// Who asks for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub requested_by: String,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    pub request_id: Option<RequestId>,
}

impl HoldExecution {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_words(&self.reason, &self.requested_by)
    }
}

impl Operation for HoldExecution {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = ExecutionState;

    const PATH: &'static str = "/v1/executions/{execution_id}/hold";
    const NAME: &'static str = "holdExecution";
    const SUMMARY: &'static str = "Keeps an execution from being claimed.";
    const ANSWERS: &'static str = "It is held, or will be when what it does now is over.";
    const ABOUT: &'static str = "One that runs goes on to the end of its attempt, one that is \
        suspended or waits for others goes on waiting: they are held where they would be claimable \
        next. Deadlines count on. What has ended is refused with 409.";
    const INPUT: Input = Input::OptionalBody;
}

/// Lets a held execution be claimed again.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseExecution {
    /// Who asks for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub requested_by: String,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    pub request_id: Option<RequestId>,
}

impl ReleaseExecution {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_words("", &self.requested_by)
    }
}

impl Operation for ReleaseExecution {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = ExecutionState;

    const PATH: &'static str = "/v1/executions/{execution_id}/release";
    const NAME: &'static str = "releaseExecution";
    const SUMMARY: &'static str = "Lets a held execution go on.";
    const ANSWERS: &'static str = "No operator holds it.";
    const INPUT: Input = Input::OptionalBody;
}

/// Asks what is held.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListHeld {
    /// Only in this partition.
    #[schema(value_type = Option<crate::schema::PartitionIndex>)]
    pub partition: Option<u16>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl ListHeld {
    /// How many are wanted.
    pub fn checked_limit(&self) -> Result<u32, EngineError> {
        page_limit(self.limit, 100)
    }
}

impl Operation for ListHeld {
    type Target = Nothing;
    type Request = Self;
    type Reply = ListHeldPage;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/held";
    const NAME: &'static str = "listHeld";
    const GROUP: &'static str = "executions";
    const SUMMARY: &'static str = "What is held, partition by partition, longest first.";
    const ANSWERS: &'static str = "A page.";
}

/// Some of what is held.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListHeldPage {
    /// The executions.
    pub entries: Vec<HeldExecution>,
    /// Where the next page begins; none if there is none.
    pub next_cursor: Option<String>,
}

/// An execution that must not be claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldExecution {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// Its lane.
    pub lane: LaneId,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// Where it stands: `waiting` if nothing but the hold keeps it from running.
    pub public_state: PublicState,
    /// What kind of hold it is.
    pub blocking_reason: BlockingReason,
    /// Since when.
    pub held_at: TimestampMs,
    /// Who asked for it.
    #[serde(default)]
    pub requested_by: String,
    /// Why, for a person.
    #[serde(default)]
    pub reason: String,
}
