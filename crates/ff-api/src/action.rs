//! Interventions in an execution from outside: cancelling, replaying, revoking, changing.

use ff_core::contracts::{PriorityChange, RevokeOutcome, Tags};
use ff_core::error::EngineError;
use ff_core::types::{LeaseEpoch, LeaseId, RequestId};
use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::schema;

/// Cancels an execution, in any phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelExecution {
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_length = 4096))]
    pub reason: String,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub request_id: Option<RequestId>,
}

/// Runs an ended execution again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReplayExecution {
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_length = 4096))]
    pub reason: String,
    /// Who asks for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_length = 256))]
    pub requested_by: String,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub request_id: Option<RequestId>,
}

/// Takes a lease away; another worker may take over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RevokeLease {
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_length = 4096))]
    pub reason: String,
    /// Only if this is the current lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub expected_lease_id: Option<LeaseId>,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub request_id: Option<RequestId>,
}

/// What a revocation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RevokeStatus {
    /// The lease was taken away.
    Revoked,
    /// It had been taken away before.
    AlreadyRevoked,
    /// It had run out before.
    AlreadyExpired,
}

/// The answer to a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RevokedLease {
    /// What was found.
    pub status: RevokeStatus,
    /// The lease that was current, if it was taken away now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub lease_id: Option<LeaseId>,
    /// Its epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub lease_epoch: Option<LeaseEpoch>,
}

impl From<RevokeOutcome> for RevokedLease {
    fn from(outcome: RevokeOutcome) -> Self {
        let without = |status| Self { status, lease_id: None, lease_epoch: None };
        match outcome {
            RevokeOutcome::Revoked { lease_id, lease_epoch } => Self {
                status: RevokeStatus::Revoked,
                lease_id: Some(lease_id),
                lease_epoch: Some(lease_epoch),
            },
            RevokeOutcome::AlreadyRevoked => without(RevokeStatus::AlreadyRevoked),
            RevokeOutcome::AlreadyExpired => without(RevokeStatus::AlreadyExpired),
        }
    }
}

impl TryFrom<RevokedLease> for RevokeOutcome {
    type Error = EngineError;

    fn try_from(answer: RevokedLease) -> Result<Self, EngineError> {
        match (answer.status, answer.lease_id, answer.lease_epoch) {
            (RevokeStatus::Revoked, Some(lease_id), Some(lease_epoch)) => {
                Ok(Self::Revoked { lease_id, lease_epoch })
            }
            (RevokeStatus::Revoked, ..) => {
                Err(EngineError::corrupt("revocation's answer", "lease_id", "nothing"))
            }
            (RevokeStatus::AlreadyRevoked, ..) => Ok(Self::AlreadyRevoked),
            (RevokeStatus::AlreadyExpired, ..) => Ok(Self::AlreadyExpired),
        }
    }
}

/// Changes the priority of an execution that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangePriority {
    /// Higher runs first.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Priority))]
    pub priority: u16,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub request_id: Option<RequestId>,
}

/// The answer to a change of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangedPriority {
    /// The priority before.
    pub old_priority: u16,
    /// The priority now.
    pub new_priority: u16,
}

impl From<PriorityChange> for ChangedPriority {
    fn from(change: PriorityChange) -> Self {
        Self { old_priority: change.old, new_priority: change.new }
    }
}

impl From<ChangedPriority> for PriorityChange {
    fn from(answer: ChangedPriority) -> Self {
        Self { old: answer.old_priority, new: answer.new_priority }
    }
}

/// Adds labels or replaces their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetTags {
    /// The labels.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Tags))]
    pub tags: Tags,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub request_id: Option<RequestId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_survives_the_wire() {
        let lease_id = LeaseId::from_uuid(uuid::Uuid::from_u128(4));
        for outcome in [
            RevokeOutcome::Revoked { lease_id, lease_epoch: LeaseEpoch(3) },
            RevokeOutcome::AlreadyRevoked,
            RevokeOutcome::AlreadyExpired,
        ] {
            let json = serde_json::to_string(&RevokedLease::from(outcome)).expect("text");
            let back: RevokedLease = serde_json::from_str(&json).expect("an answer");
            assert_eq!(RevokeOutcome::try_from(back), Ok(outcome));
        }
    }
}
