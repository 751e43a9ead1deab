//! Throttles: submissions of one kind that are held together, or apart, by a key.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::argument::check_range;
use crate::error::EngineError;
use crate::limits;
use crate::types::ThrottleKey;

/// Waits for a pause in the submissions of one namespace, kind and key. Each of them replaces the
/// payload of the first, and is answered with its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Debounce {
    /// What the submissions have in common.
    pub key: ThrottleKey,
    /// How long nobody must have submitted before it may run.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub delay_ms: u64,
    /// How long after the first submission it may run at the latest.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub max_wait_ms: u64,
}

impl Debounce {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_range("debounce.delay_ms", self.delay_ms, 1..=limits::DELAY_MS_MAX)?;
        let waits = self.delay_ms..=limits::DELAY_MS_MAX;
        check_range("debounce.max_wait_ms", self.max_wait_ms, waits)
    }
}

/// One execution at a time of one namespace, kind and key, from its creation to its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Singleton {
    /// What the submissions have in common.
    pub key: ThrottleKey,
    /// What becomes of a submission while there is one.
    #[serde(default)]
    pub if_taken: IfTaken,
}

/// What becomes of a submission while another execution has its singleton key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfTaken {
    /// It is not made: the answer is the one that is there.
    #[default]
    Skip,
    /// It waits until those before it are over.
    Queue,
}

/// How a submission is throttled. Its text is what the library reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Throttle {
    /// By a pause.
    Debounce(Debounce),
    /// By the one that is there.
    Singleton(Singleton),
}

impl Throttle {
    /// The key, and whose it is.
    pub(super) const fn key(&self) -> (&ThrottleKey, &'static str) {
        match self {
            Self::Debounce(debounce) => (&debounce.key, "debounce"),
            Self::Singleton(singleton) => (&singleton.key, "singleton"),
        }
    }
}

impl fmt::Display for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debounce(Debounce { key, delay_ms, max_wait_ms }) => {
                write!(f, "debounce:{delay_ms}:{max_wait_ms}:{key}")
            }
            Self::Singleton(Singleton { key, if_taken: IfTaken::Skip }) => write!(f, "skip:{key}"),
            Self::Singleton(Singleton { key, if_taken: IfTaken::Queue }) => {
                write!(f, "queue:{key}")
            }
        }
    }
}
