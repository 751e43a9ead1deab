//! Retries: how many, after which pause, and for which failures.

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::json_object::serde_as_object;

/// How failures are retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// How many retries follow the first attempt; 3 if there is a retry policy that does not say.
    #[schema(maximum = 1000)]
    pub max_retries: u64,
    /// The pause before each retry.
    #[schema(value_type = crate::schema::Backoff)]
    pub backoff: Backoff,
    /// Only failures of these categories are retried; empty means all but the permanent ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<crate::schema::Category>, max_items = 64)]
    pub retryable_categories: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, backoff: Backoff::default(), retryable_categories: Vec::new() }
    }
}

/// The pause before a retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[schema(as = BackoffForms)]
pub enum Backoff {
    /// Always the same.
    Fixed {
        /// The pause.
        #[serde(default = "initial_delay_ms")]
        #[schema(maximum = 34_560_000_000u64)]
        delay_ms: u64,
    },
    /// Growing with every retry.
    Exponential {
        /// The pause before the first retry.
        #[serde(default = "initial_delay_ms")]
        #[schema(maximum = 34_560_000_000u64)]
        initial_delay_ms: u64,
        /// The longest pause.
        #[serde(default = "max_delay_ms")]
        #[schema(maximum = 34_560_000_000u64)]
        max_delay_ms: u64,
        /// Each pause is this many times the one before: 1 to 100, at most three decimals, which
        /// keeps its text plain and its value the same on both sides.
        #[serde(default = "multiplier")]
        #[schema(minimum = 1, maximum = 100)]
        multiplier: f64,
        /// Spreads the pause, so that executions which failed together do not return together.
        #[serde(default)]
        jitter: bool,
    },
}

serde_as_object!(RetryPolicy, Backoff);

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential {
            initial_delay_ms: initial_delay_ms(),
            max_delay_ms: max_delay_ms(),
            multiplier: multiplier(),
            jitter: false,
        }
    }
}

const fn initial_delay_ms() -> u64 {
    1000
}

const fn max_delay_ms() -> u64 {
    60_000
}

const fn multiplier() -> f64 {
    2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_retry_policy_has_the_documented_defaults() {
        let policy: RetryPolicy = serde_json::from_str("{}").expect("all optional");
        assert_eq!(policy, RetryPolicy::default());
        let json = serde_json::to_string(&policy).expect("serialises");
        assert_eq!(
            json,
            concat!(
                r#"{"max_retries":3,"backoff":{"type":"exponential","initial_delay_ms":1000,"#,
                r#""max_delay_ms":60000,"multiplier":2.0,"jitter":false}}"#,
            )
        );
    }

    #[test]
    fn whole_multipliers_may_be_written_without_a_point() {
        let backoff: Backoff =
            serde_json::from_str(r#"{"type":"exponential","multiplier":3}"#).expect("valid");
        assert!(matches!(backoff, Backoff::Exponential { multiplier: 3.0, .. }));
    }
}
