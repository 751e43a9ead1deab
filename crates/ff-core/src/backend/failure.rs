//! How a worker says that an attempt failed, and what follows from it.

use std::fmt;

use crate::argument;
use crate::error::EngineError;
use crate::limits;
use crate::policy::{CATEGORY_RULE, is_category};
use crate::types::TimestampMs;

/// What went wrong, in the worker's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureReason {
    /// A sentence for a person.
    pub message: String,
    /// More, in any form: a stack trace, an encoded error.
    pub detail: Option<Vec<u8>>,
}

impl FailureReason {
    /// A reason without detail.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), detail: None }
    }

    /// Refuses what is longer than the store keeps.
    pub fn validate(&self) -> Result<(), EngineError> {
        let detail = self.detail.as_ref().map_or(0, Vec::len);
        argument::check_bytes("reason", self.message.len(), limits::REASON_BYTES_MAX)?;
        argument::check_bytes("failure detail", detail, limits::FAILURE_DETAIL_BYTES_MAX)
    }
}

/// What kind of failure it was; decides together with the retry policy whether to try again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// May work next time.
    Transient,
    /// Will never work: not retried, whatever the policy says.
    Permanent,
    /// The machine or process failed, not the work.
    InfraCrash,
    /// It took too long.
    Timeout,
    /// It was told to stop.
    Cancelled,
    /// A category of the worker's own, for the retry policy to list.
    Custom(String),
    /// A category of the worker's own for a failure that no retry can mend.
    Final(String),
}

impl FailureClass {
    const NAMED: [Self; 5] =
        [Self::Transient, Self::Permanent, Self::InfraCrash, Self::Timeout, Self::Cancelled];

    /// The word that retry policies list.
    pub fn category(&self) -> &str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::InfraCrash => "infra_crash",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Custom(category) | Self::Final(category) => category,
        }
    }

    /// The class with this category; a word of the worker's own makes a custom one.
    pub fn from_category(category: &str) -> Result<Self, EngineError> {
        let named = Self::NAMED.into_iter().find(|class| class.category() == category);
        let class = named.unwrap_or_else(|| Self::Custom(category.to_owned()));
        class.validate().map(|()| class)
    }

    /// True if no retry can mend it, whatever the policy says.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Permanent | Self::Final(_))
    }

    /// Refuses a category that no policy could list.
    pub fn validate(&self) -> Result<(), EngineError> {
        if is_category(self.category()) {
            return Ok(());
        }
        Err(EngineError::invalid("failure category", CATEGORY_RULE))
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.category())
    }
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOutcome {
    /// Another attempt will be made.
    RetryScheduled {
        /// Not before this time, by the store's clock.
        delay_until: TimestampMs,
    },
    /// The execution has ended as failed.
    TerminalFailed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_comes_back_as_its_class() {
        for class in FailureClass::NAMED {
            assert_eq!(FailureClass::from_category(class.category()), Ok(class));
        }
        let custom = FailureClass::Custom("rate_limited_by_vendor".to_owned());
        assert_eq!(FailureClass::from_category("rate_limited_by_vendor"), Ok(custom));
    }

    #[test]
    fn a_category_no_policy_could_list_is_refused() {
        for wrong in ["", "two words", "line\n", "é", &"x".repeat(65)] {
            assert!(FailureClass::from_category(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_reason_has_limits() {
        assert_eq!(FailureReason::new("x".repeat(4096)).validate(), Ok(()));
        let error = FailureReason::new("x".repeat(4097)).validate().expect_err("long");
        assert_eq!(error.to_string(), "reason must be at most 4096 bytes long, got 4097");
    }
}
