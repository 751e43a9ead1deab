//! Executions from outside: submitting them, and intervening in what becomes of them.

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::create::{CreateExecution, Created};
use super::many::{CancelMany, ManyChanged, ReplayMany};
use super::tags::{Tags, check_tags};
use crate::ToSchema;
use crate::argument::{check_range, check_words};
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::literal::literals;
use crate::operation::{Input, Method, Nothing, Operation};
use crate::state::PublicState;
use crate::types::{ExecutionId, LeaseEpoch, LeaseId, RequestId};

/// Submits executions and intervenes in them.
///
/// A change of an execution carries a request id: a repetition with the same one has no second
/// effect, whatever others did in between. Without one, the backend makes one for the call.
pub trait Executions: Send + Sync {
    /// Submits an execution; one without an id gets one. Repeating it answers
    /// [`Created::Duplicate`] and changes nothing.
    fn create(&self, execution: CreateExecution) -> Answer<'_, Created>;

    /// Submits several, each on its own: one refusal does not affect the others. Answers in the
    /// order of the request. Repeating it is safe as for [`Executions::create`].
    fn create_many(
        &self,
        executions: Vec<CreateExecution>,
    ) -> BoxFuture<'_, Vec<Result<Created, EngineError>>>;

    /// Cancels an execution, in any phase.
    fn cancel_execution(
        &self,
        execution_id: ExecutionId,
        request: CancelExecution,
    ) -> Answer<'_, ExecutionState>;

    /// Takes a lease away; another worker may take over. With an expected lease only that one.
    /// Repeating it answers that it has been done.
    fn revoke_lease(
        &self,
        execution_id: ExecutionId,
        request: RevokeLease,
    ) -> Answer<'_, RevokeOutcome>;

    /// Changes the priority of an execution that has not ended.
    fn change_priority(
        &self,
        execution_id: ExecutionId,
        request: ChangePriority,
    ) -> Answer<'_, PriorityChange>;

    /// Runs an ended execution again; one that has not ended is refused.
    fn replay(
        &self,
        execution_id: ExecutionId,
        request: ReplayExecution,
    ) -> Answer<'_, ExecutionState>;

    /// Cancels some of the executions that pass a filter and are not over.
    fn cancel_many(&self, request: CancelMany) -> Answer<'_, ManyChanged>;

    /// Runs some of the executions that pass a filter and are over again.
    fn replay_many(&self, request: ReplayMany) -> Answer<'_, ManyChanged>;

    /// Adds labels or replaces their values.
    fn set_tags(&self, execution_id: ExecutionId, request: SetTags) -> Answer<'_, Nothing>;
}

literals! {
    /// Who cancels an execution without holding its lease. The holder cancels through its handle.
    CancelSource("cancel source") {
        /// A person or a program acting for one.
        OperatorOverride = "operator_override",
        /// The cancellation of its flow.
        FlowCascade = "flow_cascade",
        /// A rule about time.
        SystemTimeout = "system_timeout",
    }
}

/// Where an execution stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionState {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The word.
    pub public_state: PublicState,
}

/// Cancels an execution, in any phase.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelExecution {
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    pub request_id: Option<RequestId>,
}

impl CancelExecution {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_words(&self.reason, "")
    }
}

impl Operation for CancelExecution {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = ExecutionState;

    const PATH: &'static str = "/v1/executions/{execution_id}/cancel";
    const NAME: &'static str = "cancelExecution";
    const SUMMARY: &'static str = "Cancels an execution.";
    const ANSWERS: &'static str = "It is cancelled.";
    const ABOUT: &'static str = "In any phase. Its worker, if it has one, loses its lease. An \
        execution that was cancelled before stays so; one that ended otherwise is refused with 409.";
    const INPUT: Input = Input::OptionalBody;
}

/// Runs an ended execution again.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayExecution {
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
    /// Who asks for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub requested_by: String,
    /// What ran behind it in its flow runs again, too, as soon as its upstreams have.
    #[serde(default)]
    pub downstream: bool,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    pub request_id: Option<RequestId>,
}

impl ReplayExecution {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_words(&self.reason, &self.requested_by)
    }
}

impl Operation for ReplayExecution {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = ExecutionState;

    const PATH: &'static str = "/v1/executions/{execution_id}/replay";
    const NAME: &'static str = "replayExecution";
    const SUMMARY: &'static str = "Runs an ended execution again.";
    const ANSWERS: &'static str = "It will run again.";
    const INPUT: Input = Input::OptionalBody;
    const REFUSES: &'static [u16] = &[404, 409, 413];
}

/// Takes a lease away; another worker may take over.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeLease {
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
    /// Only if this is the current lease.
    pub expected_lease_id: Option<LeaseId>,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    pub request_id: Option<RequestId>,
}

impl RevokeLease {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_words(&self.reason, "")
    }
}

impl Operation for RevokeLease {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = RevokeOutcome;

    const PATH: &'static str = "/v1/executions/{execution_id}/revoke-lease";
    const NAME: &'static str = "revokeLease";
    const SUMMARY: &'static str = "Takes a lease away; another worker may take over.";
    const ANSWERS: &'static str = "Nobody holds the execution any more.";
    const INPUT: Input = Input::OptionalBody;
}

/// What a revocation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
#[schema(as = RevokedLease)]
pub enum RevokeOutcome {
    /// The lease was taken away.
    Revoked {
        /// The lease that was current.
        lease_id: LeaseId,
        /// Its epoch.
        lease_epoch: LeaseEpoch,
    },
    /// It had been taken away before.
    AlreadyRevoked,
    /// It had run out before.
    AlreadyExpired,
}

/// Changes the priority of an execution that has not ended.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePriority {
    /// Higher runs first.
    #[schema(value_type = crate::schema::Priority)]
    pub priority: u16,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    pub request_id: Option<RequestId>,
}

impl ChangePriority {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_range("priority", self.priority.into(), 0..=limits::PRIORITY_MAX)
    }
}

impl Operation for ChangePriority {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = PriorityChange;

    const METHOD: Method = Method::Put;
    const PATH: &'static str = "/v1/executions/{execution_id}/priority";
    const NAME: &'static str = "changePriority";
    const SUMMARY: &'static str = "Changes the priority of an execution.";
    const ANSWERS: &'static str = "The priority before and now.";
}

/// The answer to a change of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ChangedPriority)]
pub struct PriorityChange {
    /// The priority before.
    #[serde(rename = "old_priority")]
    pub old: u16,
    /// The priority now.
    #[serde(rename = "new_priority")]
    pub new: u16,
}

/// Adds labels or replaces their values.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTags {
    /// The labels.
    #[schema(value_type = crate::schema::SomeTags)]
    pub tags: Tags,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    pub request_id: Option<RequestId>,
}

impl SetTags {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_tags(&self.tags)
    }
}

impl Operation for SetTags {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = Nothing;

    const METHOD: Method = Method::Put;
    const PATH: &'static str = "/v1/executions/{execution_id}/tags";
    const NAME: &'static str = "setTags";
    const SUMMARY: &'static str = "Adds labels or replaces their values.";
    const ANSWERS: &'static str = "They are set.";
    /// Quotes and backslashes may double them.
    const BODY_BYTES_MAX: usize = 4 * limits::TAGS_BYTES_MAX as usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_revocation_found_survives_the_wire() {
        let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(4));
        for outcome in [
            RevokeOutcome::Revoked { lease_id, lease_epoch: LeaseEpoch(3) },
            RevokeOutcome::AlreadyRevoked,
            RevokeOutcome::AlreadyExpired,
        ] {
            let json = serde_json::to_string(&outcome).expect("text");
            assert!(json.starts_with(r#"{"status":""#), "{json}");
            assert_eq!(serde_json::from_str::<RevokeOutcome>(&json).expect("read back"), outcome);
        }
    }
}
