//! Usage: what an execution reports against budgets, and what it is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::budgets::check_dimension;
use crate::ToSchema;
use crate::argument::check_range;
use crate::error::EngineError;
use crate::limits;

/// What was used, or is to be: of tokens, of time, and of what else a budget has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageDimensions {
    /// The dimension `input_tokens`.
    pub input_tokens: u64,
    /// The dimension `output_tokens`.
    pub output_tokens: u64,
    /// The dimension `wall_ms`.
    pub wall_ms: Option<u64>,
    /// Other dimensions, by name.
    pub custom: BTreeMap<String, u64>,
    /// The report's own name: the same again for the same execution and budget counts once.
    pub dedup_key: Option<String>,
}

impl UsageDimensions {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many tokens of input more.
    #[must_use]
    pub fn input_tokens(mut self, tokens: u64) -> Self {
        self.input_tokens = self.input_tokens.saturating_add(tokens);
        self
    }

    /// So many tokens of output more.
    #[must_use]
    pub fn output_tokens(mut self, tokens: u64) -> Self {
        self.output_tokens = self.output_tokens.saturating_add(tokens);
        self
    }

    /// So many milliseconds more.
    #[must_use]
    pub fn wall_ms(mut self, ms: u64) -> Self {
        self.wall_ms = Some(self.wall_ms.unwrap_or_default().saturating_add(ms));
        self
    }

    /// So much more of any dimension: what is said twice adds up.
    #[must_use]
    pub fn with(mut self, dimension: impl Into<String>, amount: u64) -> Self {
        let all = self.custom.entry(dimension.into()).or_default();
        *all = all.saturating_add(amount);
        self
    }

    /// Under this name; the empty one is none.
    #[must_use]
    pub fn dedup_key(mut self, key: impl Into<String>) -> Self {
        self.dedup_key = Some(key.into()).filter(|key| !key.is_empty());
        self
    }

    /// All that was used, by dimension.
    pub fn amounts(&self) -> BTreeMap<String, u64> {
        let named = [
            ("input_tokens", Some(self.input_tokens).filter(|tokens| *tokens > 0)),
            ("output_tokens", Some(self.output_tokens).filter(|tokens| *tokens > 0)),
            ("wall_ms", self.wall_ms),
        ];
        let mut all = self.custom.clone();
        for (name, amount) in named {
            let Some(amount) = amount else { continue };
            let sum = all.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(amount);
        }
        all
    }

    /// Checks the rules, and gives all that was used, by dimension.
    pub fn checked(&self) -> Result<BTreeMap<String, u64>, EngineError> {
        let amounts = self.amounts();
        check_range("number of dimensions", amounts.len() as u64, 1..=limits::DIMENSIONS_MAX)?;
        for (name, amount) in &amounts {
            check_dimension(name)?;
            check_range(&format!("dimensions.{name}"), *amount, 0..=limits::USAGE_MAX)?;
        }
        self.dedup_key.as_deref().map_or(Ok(()), check_key)?;
        Ok(amounts)
    }
}

fn check_key(key: &str) -> Result<(), EngineError> {
    let printable = key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let fits = (1..=limits::USAGE_KEY_BYTES_MAX).contains(&(key.len() as u64));
    if printable && fits && !key.starts_with(' ') && !key.ends_with(' ') {
        return Ok(());
    }
    let rule = format!(
        "must be 1 to {} printable ASCII characters without blanks at the ends",
        limits::USAGE_KEY_BYTES_MAX
    );
    Err(EngineError::invalid("dedup_key", rule))
}

impl<D: Into<String>> FromIterator<(D, u64)> for UsageDimensions {
    fn from_iter<I: IntoIterator<Item = (D, u64)>>(amounts: I) -> Self {
        amounts.into_iter().fold(Self::new(), |all, (name, amount)| all.with(name, amount))
    }
}

/// How a budget stands after a report, which was counted in any case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReportUsageResult {
    /// No limit is reached.
    Ok,
    /// A soft limit is reached.
    SoftBreach {
        /// Of which dimension.
        dimension: String,
        /// What is used of it.
        current_usage: u64,
        /// The limit.
        soft_limit: u64,
    },
    /// A hard limit is reached: finish up and stop.
    HardBreach {
        /// Of which dimension.
        dimension: String,
        /// What is used of it, with this report.
        current_usage: u64,
        /// The limit.
        hard_limit: u64,
    },
    /// A report under this key was counted before.
    AlreadyApplied,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_twice_adds_up_under_every_name() {
        let usage = UsageDimensions::new()
            .input_tokens(1)
            .input_tokens(2)
            .with("input_tokens", 4)
            .with("cost", 5)
            .with("cost", 6)
            .wall_ms(0);
        let all: Vec<(String, u64)> = usage.amounts().into_iter().collect();
        let wanted = [("cost", 11), ("input_tokens", 7), ("wall_ms", 0)];
        assert_eq!(all, wanted.map(|(name, amount)| (name.to_owned(), amount)));
    }

    #[test]
    fn each_broken_rule_is_named() {
        let refused = |usage: UsageDimensions| usage.checked().expect_err("refused").to_string();
        assert!(refused(UsageDimensions::new()).contains("number of dimensions"));
        assert!(refused(UsageDimensions::new().with("a b", 1)).contains("name of a dimension"));
        let large = UsageDimensions::new().with("a", u64::MAX).with("a", 1);
        assert!(refused(large).contains("dimensions.a"));
        let key = UsageDimensions::new().with("a", 1).dedup_key(" k");
        assert!(refused(key).contains("dedup_key"));
        assert_eq!(UsageDimensions::new().with("a", 1).dedup_key("").dedup_key, None);
    }
}
