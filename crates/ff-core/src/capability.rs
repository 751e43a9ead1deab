//! Capabilities: tokens that route work to workers. An execution may be claimed by a worker whose
//! set contains all of its required ones. One rule for both sides.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits;

/// A set of capability tokens, sorted and without repetitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct CapabilitySet(BTreeSet<String>);

impl CapabilitySet {
    /// Checks the tokens and makes a set of them.
    pub fn try_new<T: Into<String>>(
        tokens: impl IntoIterator<Item = T>,
    ) -> Result<Self, CapabilityError> {
        let mut set = Self::default();
        let mut csv_bytes = 0;
        for token in tokens {
            let token = token.into();
            check_token(&token)?;
            let with_comma = token.len() as u64 + 1;
            if set.0.insert(token) {
                csv_bytes += with_comma;
                set.check_size(csv_bytes - 1)?;
            }
        }
        Ok(set)
    }

    /// Checked after every token, so that a hostile list is not walked to its end.
    fn check_size(&self, csv_bytes: u64) -> Result<(), CapabilityError> {
        if self.0.len() as u64 > limits::CAPABILITIES_MAX {
            Err(CapabilityError::TooManyTokens)
        } else if csv_bytes > limits::CAPABILITIES_BYTES_MAX {
            Err(CapabilityError::TooManyBytes)
        } else {
            Ok(())
        }
    }

    /// The tokens in byte order, joined by commas: the form the store compares.
    pub fn csv(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }

    /// The tokens in byte order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for a worker without special abilities and an execution without requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// May a worker with this set claim what requires the other?
    pub fn includes(&self, required: &Self) -> bool {
        required.0.is_subset(&self.0)
    }

    /// The required tokens that a worker with this set lacks; empty if it may claim.
    pub fn missing_for(&self, required: &Self) -> Vec<String> {
        required.0.difference(&self.0).cloned().collect()
    }
}

impl TryFrom<Vec<String>> for CapabilitySet {
    type Error = CapabilityError;

    fn try_from(tokens: Vec<String>) -> Result<Self, Self::Error> {
        Self::try_new(tokens)
    }
}

/// A comma would split one token in two, and a blank would make tokens that look alike differ.
fn check_token(token: &str) -> Result<(), CapabilityError> {
    if token.is_empty() {
        Err(CapabilityError::EmptyToken)
    } else if token.contains(',') {
        Err(CapabilityError::CommaInToken(token.to_owned()))
    } else if token.bytes().any(|byte| byte <= 0x20 || byte == 0x7f) {
        Err(CapabilityError::ControlOrWhitespace(token.to_owned()))
    } else {
        Ok(())
    }
}

/// Why tokens do not make a capability set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// A token has at least one byte.
    #[error("a capability must not be empty")]
    EmptyToken,
    /// The comma separates tokens.
    #[error("capability {0:?} must not contain a comma")]
    CommaInToken(String),
    /// Blanks and control bytes are refused.
    #[error("capability {0:?} must not contain blanks or control bytes")]
    ControlOrWhitespace(String),
    /// The set is too large.
    #[error("at most {} different capabilities are allowed", limits::CAPABILITIES_MAX)]
    TooManyTokens,
    /// The tokens are too long together.
    #[error("capabilities joined by commas may take {} bytes", limits::CAPABILITIES_BYTES_MAX)]
    TooManyBytes,
}

impl CapabilityError {
    /// The word that the library puts into the detail of `invalid_capabilities`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::EmptyToken => "empty_token",
            Self::CommaInToken(_) => "comma_in_token",
            Self::ControlOrWhitespace(_) => "control_or_whitespace",
            Self::TooManyTokens => "too_many_tokens",
            Self::TooManyBytes => "too_many_bytes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(tokens: impl IntoIterator<Item = String>) -> Option<&'static str> {
        CapabilitySet::try_new(tokens).err().map(|error| error.as_str())
    }

    #[test]
    fn tokens_are_sorted_and_counted_once() {
        let set = CapabilitySet::try_new(["gpu", "avx", "gpu", "日本"]).expect("valid");
        assert_eq!((set.len(), set.csv().as_str()), (3, "avx,gpu,日本"));
        assert_eq!(serde_json::to_string(&set).expect("json"), r#"["avx","gpu","日本"]"#);
    }

    #[test]
    fn each_token_rule_is_named() {
        let table = [
            ("", "empty_token"),
            ("a,b", "comma_in_token"),
            ("a b", "control_or_whitespace"),
            ("a\n", "control_or_whitespace"),
            ("\u{7f}", "control_or_whitespace"),
        ];
        for (token, word) in table {
            assert_eq!(rule([token.to_owned()]), Some(word));
        }
        assert!(serde_json::from_str::<CapabilitySet>(r#"["a,b"]"#).is_err());
        assert!(serde_json::from_str::<CapabilitySet>(r#"{"0":"a"}"#).is_err());
    }

    #[test]
    fn both_size_limits_are_inclusive() {
        assert_eq!(rule((0..256).map(|n| n.to_string())), None);
        assert_eq!(rule((0..257).map(|n| n.to_string())), Some("too_many_tokens"));
        assert_eq!(rule(["x".repeat(4096)]), None);
        assert_eq!(rule(["x".repeat(4097)]), Some("too_many_bytes"));
        assert_eq!(rule(["x".repeat(4000), "y".repeat(95)]), None);
        assert_eq!(rule(["x".repeat(4000), "y".repeat(96)]), Some("too_many_bytes"));
    }

    #[test]
    fn a_worker_may_claim_what_requires_no_more_than_it_has() {
        let worker = CapabilitySet::try_new(["avx", "gpu"]).expect("valid");
        let required = CapabilitySet::try_new(["gpu", "tpu", "nvme"]).expect("valid");
        assert_eq!(worker.missing_for(&required), ["nvme", "tpu"]);
        assert!(worker.missing_for(&CapabilitySet::default()).is_empty());
        assert!(CapabilitySet::default().missing_for(&worker).len() == 2);
    }
}
