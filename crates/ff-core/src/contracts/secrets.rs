//! The keys that waitpoint tokens are signed with.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::operation::{Nothing, Operation};

/// How long a replaced key is accepted unless somebody says otherwise.
pub const WAITPOINT_GRACE_MS_DEFAULT: u64 = 86_400_000;

/// Makes a key the one that signs waitpoint tokens.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateWaitpointSecretRequest {
    /// The new key's id. It stands for this secret for ever.
    #[schema(max_length = 64, pattern = "^[!-9;-~]+$")]
    pub new_kid: String,
    /// The new key, in hex digits: 16 to 128 bytes.
    #[schema(pattern = "^([0-9a-fA-F]{2}){16,128}$")]
    pub new_secret_hex: String,
    /// How long tokens under the key before are accepted; as the server was told if absent, a day
    /// unless it was told otherwise.
    #[schema(maximum = 9_007_199_254_740_991u64)]
    pub grace_ms: Option<u64>,
}

impl fmt::Debug for RotateWaitpointSecretRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { new_kid, grace_ms, new_secret_hex: _ } = self;
        f.debug_struct("RotateWaitpointSecretRequest")
            .field("new_kid", new_kid)
            .field("grace_ms", grace_ms)
            .finish_non_exhaustive()
    }
}

impl Operation for RotateWaitpointSecretRequest {
    type Target = Nothing;
    type Request = Self;
    type Reply = RotateWaitpointSecretResponse;

    const PATH: &'static str = "/v1/admin/rotate-waitpoint-secret";
    const NAME: &'static str = "rotateWaitpointSecret";
    const GROUP: &'static str = "deployment";
    const SUMMARY: &'static str = "Makes a key the one that signs waitpoint tokens.";
    const ANSWERS: &'static str = "In how many partitions it is, and where it is not.";
    const ABOUT: &'static str = "Repeating it with the same key is safe, and carries on where a \
        partition could not be reached.";
}

/// Where a key signs from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RotateWaitpointSecretResponse {
    /// In how many partitions.
    pub rotated: u16,
    /// The partitions in which it does not: repeating the rotation carries on with them.
    pub failed: Vec<u16>,
    /// Why it does not, for each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<PartitionFailure>,
    /// The key's id.
    pub new_kid: String,
}

/// Why something was not done in a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionFailure {
    /// The partition.
    pub partition: u16,
    /// What went wrong.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let request = RotateWaitpointSecretRequest {
            new_kid: "k2".to_owned(),
            new_secret_hex: "cafe".repeat(8),
            grace_ms: None,
        };
        let shown = format!("{request:?}");
        assert!(shown.contains("k2") && !shown.contains("cafe"), "{shown}");
    }
}
