//! Cancelling and replaying all executions that pass a filter, some at a time.

use serde::{Deserialize, Serialize};

use super::list::ListFilter;
use crate::ToSchema;
use crate::argument::check_words;
use crate::error::EngineError;
use crate::operation::{Nothing, Operation};
use crate::types::{ExecutionId, RequestId};

/// Cancels what passes a filter and is not over.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelMany {
    /// Which executions, how many of them at most, and where to go on.
    pub filter: ListFilter,
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
    /// Only tell how many there are.
    #[serde(default)]
    pub dry_run: bool,
    /// A fresh id for this change: a repetition with the same one has no second effect on those
    /// that it changed already.
    pub request_id: Option<RequestId>,
}

impl CancelMany {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        if self.filter.state.is_some_and(|state| state.is_terminal()) {
            let rule = "must be one of what is not over: the others cannot be cancelled";
            return Err(EngineError::invalid("filter.state", rule));
        }
        check_words(&self.reason, "")
    }
}

impl Operation for CancelMany {
    type Target = Nothing;
    type Request = Self;
    type Reply = ManyChanged;

    const PATH: &'static str = "/v1/executions/cancel";
    const NAME: &'static str = "cancelExecutions";
    const SUMMARY: &'static str = "Cancels executions that pass a filter, some at a time.";
    const ANSWERS: &'static str = "How many were cancelled, and where to go on.";
    const ABOUT: &'static str = "Takes as many as filter.limit says. To cancel all of them, send it \
        again with next_cursor as filter.cursor until there is none. What is over is left out.";
}

/// Runs what passes a filter and is over again.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayMany {
    /// Which executions, how many of them at most, and where to go on. It must say in which state
    /// they are.
    pub filter: ListFilter,
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
    /// Who asks for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub requested_by: String,
    /// Only tell how many there are.
    #[serde(default)]
    pub dry_run: bool,
    /// A fresh id for this change: a repetition with the same one has no second effect on those
    /// that it changed already.
    pub request_id: Option<RequestId>,
}

impl ReplayMany {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        if !self.filter.state.is_some_and(|state| state.is_terminal()) {
            let rule = "must be completed, failed, cancelled, expired or skipped";
            return Err(EngineError::invalid("filter.state", rule));
        }
        check_words(&self.reason, &self.requested_by)
    }
}

impl Operation for ReplayMany {
    type Target = Nothing;
    type Request = Self;
    type Reply = ManyChanged;

    const PATH: &'static str = "/v1/executions/replay";
    const NAME: &'static str = "replayExecutions";
    const SUMMARY: &'static str = "Runs executions that pass a filter again, some at a time.";
    const ANSWERS: &'static str = "How many will run again, and where to go on.";
    const ABOUT: &'static str = "Takes as many as filter.limit says. To run all of them again, send \
        it again with next_cursor as filter.cursor until there is none.";
}

/// What a change of many executions did.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ManyChanged {
    /// How many were found.
    pub found: u32,
    /// How many of them were changed; none in a dry run.
    pub changed: u32,
    /// Those that could not be changed: most have moved on since they were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedChange>,
    /// Where the next ones are; none at the end.
    pub next_cursor: Option<String>,
}

/// An execution that could not be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedChange {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The code of the refusal.
    pub code: String,
    /// The refusal in words.
    pub detail: String,
}
