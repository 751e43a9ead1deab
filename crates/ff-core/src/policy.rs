//! What an execution's submitter decides about retries, time, routing and keeping. Everything is
//! optional; what is absent is left out of the JSON and has the default of [`crate::limits`].

mod quota;
mod retry;
mod stream;
mod validate;

use crate::ToSchema;
pub use crate::capability::{CapabilityError, CapabilitySet};
pub use quota::QuotaUse;
pub use retry::{Backoff, RetryPolicy};
pub use stream::{DurabilityMode, StreamPolicy};
pub use validate::PolicyError;

pub(crate) use validate::{CATEGORY_RULE, is_category};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contracts::TimeoutBehavior;
use crate::distinct::distinct;
use crate::json_object::serde_as_object;
use crate::limits;
use crate::types::BudgetId;

/// The settings of one execution, fixed when it is created.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct ExecutionPolicy {
    /// How failures are retried; absent means not at all: the first failure is final.
    pub retry_policy: Option<RetryPolicy>,
    /// How long things may take.
    pub timeout_policy: Option<TimeoutPolicy>,
    /// How long it may be suspended.
    pub suspension_policy: Option<SuspensionPolicy>,
    /// How many signals it takes in all; 10,000 if nobody says so.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_signals_per_execution: Option<u64>,
    /// How often a lost worker's execution is taken over before it fails; 100 if nobody says so.
    #[schema(maximum = 1000)]
    pub max_reclaim_count: Option<u64>,
    /// How often it may be replayed; 10 if nobody says so.
    #[schema(maximum = 1000)]
    pub max_replay_count: Option<u64>,
    /// How long it is kept after its end; zero removes it at the next occasion. If nobody says so,
    /// a day, and seven days if it failed or expired.
    #[schema(maximum = 31_622_400_000u64)]
    pub retention_ms: Option<u64>,
    /// Which workers may run it.
    pub routing_requirements: Option<RoutingRequirements>,
    /// One step of priority is worth this much waiting: zero makes priorities count for nothing,
    /// absent makes them strict.
    #[schema(maximum = 34_560_000_000u64)]
    pub ageing_ms: Option<u64>,
    /// How long its idempotency key is remembered; a day if nobody says so.
    #[schema(minimum = 1, maximum = 2_592_000_000u64)]
    pub dedup_window_ms: Option<u64>,
    /// What is kept of its output.
    pub stream_policy: Option<StreamPolicy>,
    /// Budgets that apply to it, besides those of its namespace, lane, kind and flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub budget_ids: Vec<BudgetId>,
    /// How much each attempt reserves, by dimension, of every budget with a hard limit for it; what
    /// it does not use goes back. Nothing if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "distinct")]
    #[schema(value_type = crate::schema::Reservation)]
    pub reserve_usage: BTreeMap<String, u64>,
    /// Under whose limits it runs.
    pub quota: Option<QuotaUse>,
}

/// How long things may take.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct TimeoutPolicy {
    /// How long one attempt may run; then it fails with category `timeout`.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub attempt_timeout_ms: Option<u64>,
    /// How long the whole execution may take from its creation; then it expires.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub execution_deadline_ms: Option<u64>,
    /// The same as the policy's own field; the smaller of the two counts.
    #[schema(maximum = 1000)]
    pub max_reclaim_count: Option<u64>,
}

/// How long an execution may be suspended, where the suspension itself does not say.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct SuspensionPolicy {
    /// How long a wait may last.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub default_timeout_ms: Option<u64>,
    /// What happens then; absent means to fail.
    pub timeout_behavior: Option<TimeoutBehavior>,
}

/// Which workers may run an execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct RoutingRequirements {
    /// What a worker must be able to do; empty means any worker.
    #[serde(default, skip_serializing_if = "CapabilitySet::is_empty")]
    pub required_capabilities: CapabilitySet,
}

serde_as_object!(ExecutionPolicy, TimeoutPolicy, SuspensionPolicy, RoutingRequirements);

impl ExecutionPolicy {
    /// Reads and checks a policy, as it comes from outside.
    pub fn from_json(json: &[u8]) -> Result<Self, PolicyError> {
        validate::check_json_size(json.len())?;
        let policy: Self = serde_json::from_slice(json).map_err(PolicyError::malformed)?;
        policy.validate()?;
        Ok(policy)
    }

    /// Checks and writes the policy. Numbers are plain decimals, as the library reads them.
    pub fn to_json(&self) -> Result<String, PolicyError> {
        self.validate()?;
        let json = serde_json::to_string(self).map_err(PolicyError::malformed)?;
        validate::check_json_size(json.len())?;
        Ok(json)
    }

    /// What holds where nobody says anything. How long an execution is kept depends on how it ends.
    pub fn built_in() -> Self {
        Self {
            retry_policy: Some(RetryPolicy { max_retries: 0, ..RetryPolicy::default() }),
            suspension_policy: Some(SuspensionPolicy {
                default_timeout_ms: None,
                timeout_behavior: Some(TimeoutBehavior::Fail),
            }),
            max_signals_per_execution: Some(limits::SIGNALS_DEFAULT),
            max_reclaim_count: Some(limits::RECLAIMS_DEFAULT),
            max_replay_count: Some(limits::REPLAYS_DEFAULT),
            stream_policy: Some(StreamPolicy {
                durability_mode: Some(DurabilityMode::Durable),
                retention_maxlen: Some(limits::STREAM_FRAMES_DEFAULT),
                retention_bytes: Some(limits::STREAM_BYTES_DEFAULT),
                retention_ttl_ms: None,
            }),
            ..Self::default()
        }
    }

    /// The capabilities a worker must have.
    pub fn required_capabilities(&self) -> CapabilitySet {
        let routing = self.routing_requirements.as_ref();
        routing.map(|routing| routing.required_capabilities.clone()).unwrap_or_default()
    }

    /// How often the execution is taken over from lost workers before it fails.
    pub fn reclaim_limit(&self) -> u64 {
        let in_timeouts = self.timeout_policy.as_ref().and_then(|policy| policy.max_reclaim_count);
        let stated = self.max_reclaim_count.into_iter().chain(in_timeouts).min();
        stated.unwrap_or(limits::RECLAIMS_DEFAULT)
    }

    /// How often the execution may be replayed.
    pub fn replay_limit(&self) -> u64 {
        self.max_replay_count.unwrap_or(limits::REPLAYS_DEFAULT)
    }

    /// How long its idempotency key is remembered.
    pub fn dedup_window_or_default_ms(&self) -> u64 {
        self.dedup_window_ms.unwrap_or(limits::DEDUP_MS_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<ExecutionPolicy, PolicyError> {
        ExecutionPolicy::from_json(json.as_bytes())
    }

    #[test]
    fn absent_fields_stay_absent() {
        assert_eq!(ExecutionPolicy::default().to_json().as_deref(), Ok("{}"));
        assert_eq!(parse("{}"), Ok(ExecutionPolicy::default()));
        assert_eq!(parse(r#"{"retention_ms":null}"#), Ok(ExecutionPolicy::default()));
    }

    #[test]
    fn a_full_policy_survives_json() {
        let json = concat!(
            r#"{"retry_policy":{"max_retries":5,"backoff":{"type":"exponential","#,
            r#""initial_delay_ms":100,"max_delay_ms":5000,"multiplier":1.5,"jitter":true},"#,
            r#""retryable_categories":["timeout","transient"]},"#,
            r#""timeout_policy":{"attempt_timeout_ms":1000,"execution_deadline_ms":60000},"#,
            r#""suspension_policy":{"default_timeout_ms":5,"timeout_behavior":"escalate"},"#,
            r#""max_signals_per_execution":9,"#,
            r#""max_reclaim_count":7,"max_replay_count":2,"retention_ms":0,"#,
            r#""routing_requirements":{"required_capabilities":["avx","gpu"]},"#,
            r#""ageing_ms":60000,"dedup_window_ms":1000,"#,
            r#""stream_policy":{"durability_mode":"summary","retention_maxlen":50,"#,
            r#""retention_bytes":1000,"retention_ttl_ms":0},"#,
            r#""budget_ids":["00000000-0000-4000-8000-000000000007"],"#,
            r#""reserve_usage":{"tokens":100},"#,
            r#""quota":{"policy_id":"00000000-0000-4000-8000-000000000007","key":"a"}}"#,
        );
        assert_eq!(parse(json).and_then(|policy| policy.to_json()).as_deref(), Ok(json));
    }

    #[test]
    fn defaults_hold_where_nothing_is_said() {
        let policy = ExecutionPolicy::default();
        assert_eq!((policy.reclaim_limit(), policy.replay_limit()), (100, 10));
        assert_eq!(policy.dedup_window_or_default_ms(), 86_400_000);
        assert!(policy.required_capabilities().is_empty());
    }

    #[test]
    fn the_smaller_reclaim_limit_counts() {
        let both = r#"{"max_reclaim_count":7,"timeout_policy":{"max_reclaim_count":3}}"#;
        assert_eq!(parse(both).map(|policy| policy.reclaim_limit()), Ok(3));
        let one = r#"{"timeout_policy":{"max_reclaim_count":200}}"#;
        assert_eq!(parse(one).map(|policy| policy.reclaim_limit()), Ok(200));
    }

    #[test]
    fn what_is_not_a_policy_is_refused() {
        for json in [
            "",
            "null",
            "7",
            "[]",
            r#"{"prioritty":1}"#,
            r#"{"retention_ms":-1}"#,
            r#"{"retention_ms":1.5}"#,
            r#"{"retention_ms":"1"}"#,
            r#"{"retention_ms":1,"retention_ms":2}"#,
            r#"{"retry_policy":{"backoff":{"type":"linear"}}}"#,
            r#"{"retry_policy":{"backoff":{"type":"fixed","delay_ms":1,"jitter":true}}}"#,
            r#"{"routing_requirements":{"required_capabilities":{"0":"gpu"}}}"#,
            r#"{"routing_requirements":{"required_capabilities":["a b"]}}"#,
            r#"{"routing_requirements":{"preferred_locality":"eu"}}"#,
            r#"{"routing_requirements":{"isolation_level":"vm"}}"#,
            r#"{"routing_requirements":7}"#,
            r#"{"routing_requirements":[]}"#,
            r#"{"timeout_policy":[1]}"#,
            r#"{"retry_policy":[3]}"#,
            r#"{"stream_policy":[]}"#,
            r#"{"stream_policy":{"durability_mode":"lossy"}}"#,
            r#"{"retry_policy":{"backoff":["fixed",1]}}"#,
        ] {
            let error = parse(json).expect_err(json);
            assert_eq!(error.path, "$", "{error}");
        }
    }

    #[test]
    fn a_policy_that_is_too_long_is_refused_before_it_is_read() {
        let json = format!(r#"{{"retention_ms":1{}}}"#, " ".repeat(16 * 1024));
        assert!(parse(&json).expect_err("long").rule.contains("16384"));
    }
}
