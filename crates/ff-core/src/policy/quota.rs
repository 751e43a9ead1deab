//! Under whose limits an execution runs.

use serde::{Deserialize, Serialize};

use super::PolicyError;
use crate::ToSchema;
use crate::json_object::serde_as_object;
use crate::limits;
use crate::types::QuotaPolicyId;

/// The quota policy that an execution runs under, and its key there: those with the same key share
/// its limits. The key is fixed when the execution is created.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct QuotaUse {
    /// The policy, which must exist.
    pub policy_id: QuotaPolicyId,
    /// The key; without `key_tag` either, all share the empty one.
    #[schema(max_length = 64)]
    pub key: Option<String>,
    /// The tag whose value is the key; the execution must have it.
    #[schema(max_length = 64)]
    pub key_tag: Option<String>,
}

serde_as_object!(QuotaUse);

impl QuotaUse {
    /// Under the limits of all who name the policy.
    pub fn of(policy_id: QuotaPolicyId) -> Self {
        Self { policy_id, key: None, key_tag: None }
    }

    /// Under those of this key.
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), key_tag: None, ..self }
    }

    /// Under those of the key that the value of this tag is.
    pub fn with_key_tag(self, tag: impl Into<String>) -> Self {
        Self { key: None, key_tag: Some(tag.into()), ..self }
    }

    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        if self.key.is_some() && self.key_tag.is_some() {
            return Err(PolicyError::new("quota", "must have key or key_tag, not both", "both"));
        }
        for text in [&self.key, &self.key_tag].into_iter().flatten() {
            let long = text.len() as u64 > limits::QUOTA_KEY_BYTES_MAX;
            if long || text.bytes().any(|byte| byte < 32 || byte == 127) {
                let rule = "must be texts of at most 64 bytes without control characters";
                return Err(PolicyError::new("quota.key", rule, text));
            }
        }
        Ok(())
    }
}
