//! Flows whose failed members run again.

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::argument::check_words;
use crate::error::EngineError;
use crate::operation::{Input, Operation};
use crate::types::{ExecutionId, FlowId, RequestId};

/// Runs members of a flow again that failed, expired or were cancelled.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayFailed {
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
    /// Who asks for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub requested_by: String,
    /// What ran behind them runs again, too.
    #[serde(default)]
    pub downstream: bool,
    /// Where to go on: `next_from` of the answer before.
    #[schema(maximum = 100_000)]
    pub from: Option<u64>,
    /// How many members to look at; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
    /// A fresh id for this change: a repetition with the same one replays nothing twice.
    pub request_id: Option<RequestId>,
}

impl ReplayFailed {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_words(&self.reason, &self.requested_by)
    }
}

impl Operation for ReplayFailed {
    type Target = FlowId;
    type Request = Self;
    type Reply = FailedReplayed;

    const PATH: &'static str = "/v1/flows/{flow_id}/replay";
    const NAME: &'static str = "replayFailedMembers";
    const SUMMARY: &'static str = "Runs members of a flow again that failed.";
    const ANSWERS: &'static str = "Which will run again.";
    const ABOUT: &'static str = "Those that failed, expired or were cancelled, in their order, as \
        far as no upstream stands in their way. What was skipped because of them waits again by \
        itself.";
    const INPUT: Input = Input::OptionalBody;
}

/// Members of a flow that run again.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedReplayed {
    /// Those that do.
    pub replayed: Vec<ExecutionId>,
    /// Those that cannot.
    pub refused: Vec<ReplayRefused>,
    /// Where to go on, if there may be more.
    pub next_from: Option<u64>,
}

/// A member that cannot run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayRefused {
    /// The member.
    pub execution_id: ExecutionId,
    /// Why, by its code.
    pub code: String,
}
