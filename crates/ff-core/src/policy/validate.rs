//! The rules of a policy. A broken one is named by its place in the JSON, its rule and its value.

use std::fmt;
use std::ops::RangeInclusive;

use super::{
    Backoff, ExecutionPolicy, QuotaUse, RetryPolicy, StreamPolicy, SuspensionPolicy, TimeoutPolicy,
};
use crate::contracts::check_dimension;
use crate::limits;

/// A policy that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy {path}: {rule}{}", got(.value))]
pub struct PolicyError {
    /// Where in the JSON; `$` is the whole text.
    pub path: String,
    /// What is allowed there.
    pub rule: String,
    /// What was there; empty if the rule already says it.
    pub value: String,
}

fn got(value: &str) -> String {
    if value.is_empty() { String::new() } else { format!(", got {value}") }
}

impl PolicyError {
    pub(super) fn new(path: &str, rule: impl Into<String>, value: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), rule: rule.into(), value: value.to_string() }
    }

    pub(super) fn malformed(error: serde_json::Error) -> Self {
        Self::new("$", error.to_string(), "")
    }
}

pub(super) fn check_json_size(bytes: usize) -> Result<(), PolicyError> {
    if bytes as u64 <= limits::POLICY_BYTES_MAX {
        return Ok(());
    }
    let rule = format!("must be at most {} bytes of JSON", limits::POLICY_BYTES_MAX);
    Err(PolicyError::new("$", rule, bytes))
}

fn within(path: &str, value: u64, range: RangeInclusive<u64>) -> Result<(), PolicyError> {
    if range.contains(&value) {
        return Ok(());
    }
    let rule = format!("must be from {} to {}", range.start(), range.end());
    Err(PolicyError::new(path, rule, value))
}

fn within_if_given(
    path: &str,
    value: Option<u64>,
    range: RangeInclusive<u64>,
) -> Result<(), PolicyError> {
    value.map_or(Ok(()), |value| within(path, value, range))
}

impl ExecutionPolicy {
    /// Checks every rule that the types do not already hold.
    pub fn validate(&self) -> Result<(), PolicyError> {
        self.retry_policy.as_ref().map_or(Ok(()), RetryPolicy::validate)?;
        self.timeout_policy.as_ref().map_or(Ok(()), TimeoutPolicy::validate)?;
        self.stream_policy.as_ref().map_or(Ok(()), StreamPolicy::validate)?;
        self.suspension_policy.as_ref().map_or(Ok(()), SuspensionPolicy::validate)?;
        self.check_budgets()?;
        self.quota.as_ref().map_or(Ok(()), QuotaUse::validate)?;
        let signals = self.max_signals_per_execution;
        let given = [
            ("max_signals_per_execution", signals, 1..=limits::SIGNALS_MAX),
            ("max_reclaim_count", self.max_reclaim_count, 0..=limits::MAX_RECLAIMS_MAX),
            ("max_replay_count", self.max_replay_count, 0..=limits::MAX_REPLAYS_MAX),
            ("retention_ms", self.retention_ms, 0..=limits::RETENTION_MS_MAX),
            ("ageing_ms", self.ageing_ms, 0..=limits::DELAY_MS_MAX),
            ("dedup_window_ms", self.dedup_window_ms, 1..=limits::DEDUP_MS_MAX),
        ];
        given.into_iter().try_for_each(|(path, value, range)| within_if_given(path, value, range))
    }
}

impl ExecutionPolicy {
    fn check_budgets(&self) -> Result<(), PolicyError> {
        within("budget_ids", self.budget_ids.len() as u64, 0..=limits::BUDGETS_MAX)?;
        within("reserve_usage", self.reserve_usage.len() as u64, 0..=limits::DIMENSIONS_MAX)?;
        for (name, amount) in &self.reserve_usage {
            check_dimension(name).map_err(|error| {
                PolicyError::new("reserve_usage", error.to_string(), format_args!("{name:?}"))
            })?;
            within(&format!("reserve_usage.{name}"), *amount, 0..=limits::USAGE_MAX)?;
        }
        Ok(())
    }
}

impl SuspensionPolicy {
    fn validate(&self) -> Result<(), PolicyError> {
        let path = "suspension_policy.default_timeout_ms";
        within_if_given(path, self.default_timeout_ms, 1..=limits::DELAY_MS_MAX)
    }
}

impl TimeoutPolicy {
    fn validate(&self) -> Result<(), PolicyError> {
        let time = || 1..=limits::DELAY_MS_MAX;
        let reclaims = 0..=limits::MAX_RECLAIMS_MAX;
        within_if_given("timeout_policy.attempt_timeout_ms", self.attempt_timeout_ms, time())?;
        within_if_given(
            "timeout_policy.execution_deadline_ms",
            self.execution_deadline_ms,
            time(),
        )?;
        within_if_given("timeout_policy.max_reclaim_count", self.max_reclaim_count, reclaims)
    }
}

impl StreamPolicy {
    fn validate(&self) -> Result<(), PolicyError> {
        let frames = 1..=limits::STREAM_FRAMES_MAX;
        let time = 0..=limits::RETENTION_MS_MAX;
        within_if_given("stream_policy.retention_maxlen", self.retention_maxlen, frames)?;
        within_if_given(
            "stream_policy.retention_bytes",
            self.retention_bytes,
            1..=limits::STREAM_BYTES_MAX,
        )?;
        within_if_given("stream_policy.retention_ttl_ms", self.retention_ttl_ms, time)
    }
}

impl RetryPolicy {
    fn validate(&self) -> Result<(), PolicyError> {
        within("retry_policy.max_retries", self.max_retries, 0..=limits::MAX_RETRIES_MAX)?;
        self.backoff.validate()?;
        check_categories(&self.retryable_categories)
    }
}

fn check_categories(categories: &[String]) -> Result<(), PolicyError> {
    let path = "retry_policy.retryable_categories";
    if categories.len() as u64 > limits::RETRYABLE_CATEGORIES_MAX {
        let rule = format!("must have at most {} entries", limits::RETRYABLE_CATEGORIES_MAX);
        return Err(PolicyError::new(path, rule, categories.len()));
    }
    let wrong = categories.iter().enumerate().find(|(_, category)| !is_category(category));
    wrong.map_or(Ok(()), |(at, category)| {
        let path = format!("{path}[{at}]");
        Err(PolicyError::new(&path, CATEGORY_RULE, format_args!("{category:?}")))
    })
}

/// The rule of [`is_category`] in words.
pub(crate) const CATEGORY_RULE: &str =
    "must be 1 to 64 printable ASCII characters without blanks and , : { }";

/// True for a word that can name a category of failures: it is packed into lists and records, so
/// it has none of their separators.
pub(crate) fn is_category(text: &str) -> bool {
    (1..=limits::CATEGORY_BYTES_MAX).contains(&(text.len() as u64))
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b",:{}".contains(&byte))
}

impl Backoff {
    fn validate(&self) -> Result<(), PolicyError> {
        let pause = || 0..=limits::DELAY_MS_MAX;
        match *self {
            Self::Fixed { delay_ms } => within("retry_policy.backoff.delay_ms", delay_ms, pause()),
            Self::Exponential { initial_delay_ms, max_delay_ms, multiplier, jitter: _ } => {
                within("retry_policy.backoff.max_delay_ms", max_delay_ms, pause())?;
                let first = 0..=max_delay_ms;
                within("retry_policy.backoff.initial_delay_ms", initial_delay_ms, first)?;
                check_multiplier(multiplier)
            }
        }
    }
}

/// Compared in thousandths: a decimal like 1.1 is not exact in binary, its thousandths are near a
/// whole number all the same.
fn check_multiplier(multiplier: f64) -> Result<(), PolicyError> {
    let thousandths = multiplier * 1000.0;
    let short = (thousandths - thousandths.round()).abs() < 1e-6;
    if (1.0..=100.0).contains(&multiplier) && short {
        return Ok(());
    }
    let rule = "must be from 1 to 100 with at most 3 decimals";
    Err(PolicyError::new("retry_policy.backoff.multiplier", rule, multiplier))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> String {
        ExecutionPolicy::from_json(json.as_bytes()).expect_err(json).to_string()
    }

    fn with_backoff(fields: &str) -> String {
        format!(r#"{{"retry_policy":{{"backoff":{{"type":"exponential",{fields}}}}}}}"#)
    }

    #[test]
    fn each_rule_names_its_path_and_value() {
        let table = [
            (
                r#"{"max_reclaim_count":1001}"#,
                "max_reclaim_count: must be from 0 to 1000, got 1001",
            ),
            (r#"{"max_replay_count":1001}"#, "max_replay_count: must be from 0 to 1000, got 1001"),
            (
                r#"{"retention_ms":31622400001}"#,
                "retention_ms: must be from 0 to 31622400000, got 31622400001",
            ),
            (
                r#"{"ageing_ms":34560000001}"#,
                "ageing_ms: must be from 0 to 34560000000, got 34560000001",
            ),
            (r#"{"dedup_window_ms":0}"#, "dedup_window_ms: must be from 1 to 2592000000, got 0"),
            (
                r#"{"timeout_policy":{"attempt_timeout_ms":0}}"#,
                "timeout_policy.attempt_timeout_ms: must be from 1 to 34560000000, got 0",
            ),
            (
                r#"{"stream_policy":{"retention_maxlen":0}}"#,
                "stream_policy.retention_maxlen: must be from 1 to 100000, got 0",
            ),
            (
                r#"{"stream_policy":{"retention_bytes":268435457}}"#,
                "stream_policy.retention_bytes: must be from 1 to 268435456, got 268435457",
            ),
            (
                r#"{"stream_policy":{"retention_ttl_ms":31622400001}}"#,
                "stream_policy.retention_ttl_ms: must be from 0 to 31622400000, got 31622400001",
            ),
            (
                r#"{"retry_policy":{"max_retries":1001}}"#,
                "retry_policy.max_retries: must be from 0 to 1000, got 1001",
            ),
            (
                r#"{"retry_policy":{"retryable_categories":["ok","not ok"]}}"#,
                concat!(
                    "retry_policy.retryable_categories[1]: must be 1 to 64 printable ASCII ",
                    "characters without blanks and , : { }, got \"not ok\"",
                ),
            ),
            (
                r#"{"retry_policy":{"backoff":{"type":"fixed","delay_ms":34560000001}}}"#,
                "retry_policy.backoff.delay_ms: must be from 0 to 34560000000, got 34560000001",
            ),
        ];
        for (json, message) in table {
            assert_eq!(refused(json), format!("policy {message}"));
        }
    }

    #[test]
    fn the_first_pause_is_at_most_the_longest() {
        let json = with_backoff(r#""initial_delay_ms":11,"max_delay_ms":10"#);
        let message = "policy retry_policy.backoff.initial_delay_ms: must be from 0 to 10, got 11";
        assert_eq!(refused(&json), message);
    }

    #[test]
    fn multipliers_are_plain_decimals_in_both_directions() {
        for thousandths in 1000..=100_000u32 {
            let multiplier = f64::from(thousandths) / 1000.0;
            assert_eq!(check_multiplier(multiplier), Ok(()));
            let text = serde_json::to_string(&multiplier).expect("a number");
            assert!(text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{text}");
        }
        for wrong in ["0.999", "100.001", "1.0001", "-2", "1e300"] {
            let message = refused(&with_backoff(&format!(r#""multiplier":{wrong}"#)));
            assert!(message.contains("backoff.multiplier: must be from 1 to 100"), "{message}");
        }
        assert!(check_multiplier(f64::NAN).is_err());
    }

    #[test]
    fn an_unchecked_policy_cannot_be_written() {
        let policy = ExecutionPolicy { ageing_ms: Some(u64::MAX), ..Default::default() };
        assert_eq!(policy.to_json().map_err(|error| error.path), Err("ageing_ms".to_owned()));
    }

    #[test]
    fn the_rule_of_categories_states_the_limit() {
        assert!(CATEGORY_RULE.contains(&format!("1 to {} ", limits::CATEGORY_BYTES_MAX)));
        assert!(is_category("infra_crash") && is_category("http-503"));
        assert!(["", "a,b", "a:b", "a b", "{a}"].iter().all(|text| !is_category(text)));
    }

    #[test]
    fn too_many_categories_are_refused() {
        let categories = vec!["timeout".to_owned(); 65];
        let retry_policy =
            Some(RetryPolicy { retryable_categories: categories, ..Default::default() });
        let error = ExecutionPolicy { retry_policy, ..Default::default() }.validate();
        assert_eq!(error.map_err(|error| error.value), Err("65".to_owned()));
    }
}
