//! Output: what is kept of it, and for how long.

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::json_object::serde_as_object;
use crate::literal::literals;

literals! {
    /// What becomes of the frames that an attempt writes.
    DurabilityMode("durability mode") {
        /// All are kept, up to the bounds of the policy.
        Durable = "durable",
        /// The newest are kept, for those who read along.
        BestEffort = "best_effort",
        /// Each is a JSON merge patch (RFC 7396) of a document, which is kept; who comes late gets
        /// the document first.
        Summary = "summary",
    }
}

/// What is kept of the output of each attempt. When a bound is reached, the oldest frames go.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct StreamPolicy {
    /// What becomes of frames; absent means durable.
    pub durability_mode: Option<DurabilityMode>,
    /// How many frames are kept; absent means 10000, or 100 unless durable.
    #[schema(minimum = 1, maximum = 100_000)]
    pub retention_maxlen: Option<u64>,
    /// How many bytes are kept; absent means 16 MiB, or 1 MiB unless durable.
    #[schema(minimum = 1, maximum = 268_435_456u64)]
    pub retention_bytes: Option<u64>,
    /// How long output is kept after the end of its attempt; absent means as long as the execution.
    #[schema(maximum = 31_622_400_000u64)]
    pub retention_ttl_ms: Option<u64>,
}

serde_as_object!(StreamPolicy);
