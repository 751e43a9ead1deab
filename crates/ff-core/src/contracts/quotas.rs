//! Quotas: how many executions with the same key may begin within a window of time, and how many
//! may run at a time.

use serde::{Deserialize, Serialize};

use super::list::page_limit;
use super::secrets::PartitionFailure;
use crate::ToSchema;
use crate::argument::{check_bytes, check_range};
use crate::engine_backend::Answer;
use crate::error::{Code, EngineError};
use crate::limits;
use crate::operation::{Method, Nothing, Operation};
use crate::types::{ExecutionId, QuotaPolicyId, TimestampMs};

/// Keeps quota policies.
pub trait Quotas: Send + Sync {
    /// Makes a policy, which executions can be created under from then on. The same again changes
    /// nothing, and carries on where a partition could not be reached; other limits under the same
    /// id are refused.
    fn create_quota(&self, request: CreateQuota) -> Answer<'_, QuotaCreated>;

    /// A policy, and how one of its keys stands. A read.
    fn describe_quota(
        &self,
        quota_policy_id: QuotaPolicyId,
        query: QuotaQuery,
    ) -> Answer<'_, QuotaRecord>;

    /// Gives a policy other limits. Who may run under them is let run at once.
    fn update_quota(
        &self,
        quota_policy_id: QuotaPolicyId,
        request: UpdateQuota,
    ) -> Answer<'_, QuotaCreated>;

    /// Removes a policy: its limits do not hold any more, and who waits for it goes on.
    fn delete_quota(&self, quota_policy_id: QuotaPolicyId) -> Answer<'_, QuotaDeleted>;

    /// All policies. A read.
    fn list_quotas(&self) -> Answer<'_, QuotaList>;

    /// Who runs under a key of a policy, and which of its keys somebody waits for. A read.
    fn list_quota_holders(
        &self,
        quota_policy_id: QuotaPolicyId,
        query: QuotaHoldersQuery,
    ) -> Answer<'_, QuotaHolders>;
}

/// The limits of every key of a policy: one of them at least.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaLimits {
    /// How long the window is.
    #[schema(minimum = 1, maximum = 2_678_400)]
    pub window_seconds: Option<u64>,
    /// How many may begin within any stretch of time that is as long as the window.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_requests_per_window: Option<u64>,
    /// How many may run at a time.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_concurrent: Option<u64>,
    /// By how much the time at which a full window opens is scattered.
    #[schema(maximum = 3_600_000)]
    pub jitter_ms: Option<u64>,
}

impl QuotaLimits {
    /// So many at a time.
    pub fn at_once(max_concurrent: u64) -> Self {
        Self { max_concurrent: Some(max_concurrent), ..Self::default() }
    }

    /// So many within so many seconds.
    pub fn within(window_seconds: u64, max_requests_per_window: u64) -> Self {
        let (window_seconds, rate) = (Some(window_seconds), Some(max_requests_per_window));
        Self { window_seconds, max_requests_per_window: rate, ..Self::default() }
    }

    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        let ranges = [
            ("window_seconds", self.window_seconds, limits::QUOTA_WINDOW_SECONDS_MAX),
            ("max_requests_per_window", self.max_requests_per_window, limits::QUOTA_RATE_MAX),
            ("max_concurrent", self.max_concurrent, limits::QUOTA_CONCURRENT_MAX),
        ];
        for (name, value, most) in ranges {
            check_range(name, value.unwrap_or(1), 1..=most)?;
        }
        check_range("jitter_ms", self.jitter_ms.unwrap_or(0), 0..=limits::QUOTA_JITTER_MS_MAX)?;
        let wrong = match (self.window_seconds, self.max_requests_per_window, self.max_concurrent) {
            (None, None, None) => "one of max_requests_per_window and max_concurrent is needed",
            (None, Some(_), _) => "max_requests_per_window needs window_seconds",
            (Some(_), None, _) => "window_seconds needs max_requests_per_window",
            _ => return Ok(()),
        };
        Err(EngineError::from_reply(Code::InvalidQuotaSpec.as_str(), vec![wrong.to_owned()]))
    }
}

/// Makes a quota policy.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreateQuota {
    /// Its id; a new one if absent.
    pub quota_policy_id: Option<QuotaPolicyId>,
    /// Its limits.
    #[serde(flatten)]
    pub limits: QuotaLimits,
}

impl Operation for CreateQuota {
    type Target = Nothing;
    type Request = Self;
    type Reply = QuotaCreated;

    const PATH: &'static str = "/v1/quotas";
    const NAME: &'static str = "createQuota";
    const SUMMARY: &'static str = "Makes a quota policy.";
    const ANSWERS: &'static str = "The policy, and where it is not known yet.";
    const ABOUT: &'static str = "Executions run under it whose policy says so: `quota` names the \
        policy, and the key whose limits it shares. The same again changes nothing; other limits \
        under the same id are refused with `quota_attach_conflict`.";
}

/// The answer to a policy that was made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaCreated {
    /// The policy.
    pub quota_policy_id: QuotaPolicyId,
    /// True if this request changed something.
    pub changed: bool,
    /// Its limits.
    #[serde(flatten)]
    pub limits: QuotaLimits,
    /// The partitions that do not know of it yet; servers bring them up to date by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<PartitionFailure>,
}

/// Gives a policy other limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpdateQuota {
    /// All of its limits: what is absent is not limited any more.
    #[serde(flatten)]
    pub limits: QuotaLimits,
}

impl Operation for UpdateQuota {
    type Target = QuotaPolicyId;
    type Request = Self;
    type Reply = QuotaCreated;

    const METHOD: Method = Method::Put;
    const PATH: &'static str = "/v1/quotas/{quota_policy_id}";
    const NAME: &'static str = "updateQuota";
    const SUMMARY: &'static str = "Gives a quota policy other limits.";
    const ANSWERS: &'static str = "The policy as it is now.";
    const ABOUT: &'static str = "All limits are given: what is absent is not limited any more. Who \
        may run under the new ones is let run at once; who runs already goes on.";
}

/// Which key of a policy is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaQuery {
    /// The key; the empty one if absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 64)]
    pub key: String,
}

impl QuotaQuery {
    /// A key.
    pub fn of(key: impl Into<String>) -> Self {
        Self { key: key.into() }
    }

    /// Checks its length.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_bytes("key", self.key.len(), limits::QUOTA_KEY_BYTES_MAX)
    }
}

/// Describes a policy.
#[derive(Clone, Copy, Debug)]
pub struct DescribeQuota;

impl Operation for DescribeQuota {
    type Target = QuotaPolicyId;
    type Request = QuotaQuery;
    type Reply = QuotaRecord;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/quotas/{quota_policy_id}";
    const NAME: &'static str = "describeQuota";
    const SUMMARY: &'static str = "A quota policy, and how one of its keys stands.";
    const ANSWERS: &'static str = "The policy.";
}

/// A policy, and how one of its keys stands.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaRecord {
    /// The policy.
    pub quota_policy_id: QuotaPolicyId,
    /// Its limits.
    #[serde(flatten)]
    pub limits: QuotaLimits,
    /// When it was made.
    pub created_at: TimestampMs,
    /// When it was last changed.
    pub changed_at: Option<TimestampMs>,
    /// How many of its keys somebody waits for.
    pub keys_awaited: u64,
    /// The key that the rest is about.
    pub key: String,
    /// How many run under the key.
    pub running: u64,
    /// How many began within the window.
    pub in_window: u64,
    /// In how many partitions somebody waits for the key.
    pub partitions_waiting: u64,
    /// When a full window lets the next one begin.
    pub opens_at: Option<TimestampMs>,
}

/// Removes a policy.
#[derive(Clone, Copy, Debug)]
pub struct DeleteQuota;

impl Operation for DeleteQuota {
    type Target = QuotaPolicyId;
    type Request = Nothing;
    type Reply = QuotaDeleted;

    const PATH: &'static str = "/v1/quotas/{quota_policy_id}/delete";
    const NAME: &'static str = "deleteQuota";
    const SUMMARY: &'static str = "Removes a quota policy.";
    const ANSWERS: &'static str = "It is gone, and where that is not known yet.";
    const ABOUT: &'static str = "Its limits do not hold any more, and who waits for it goes on. \
        Repeating it is safe.";
}

/// The answer to a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaDeleted {
    /// True if this request removed it.
    pub deleted: bool,
    /// The partitions that do not know of it yet; servers bring them up to date by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<PartitionFailure>,
}

/// Lists policies.
#[derive(Clone, Copy, Debug)]
pub struct ListQuotas;

impl Operation for ListQuotas {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = QuotaList;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/quotas";
    const NAME: &'static str = "listQuotas";
    const SUMMARY: &'static str = "All quota policies, by id.";
    const ANSWERS: &'static str = "The policies.";
}

/// All policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaList {
    /// By id.
    pub quotas: Vec<QuotaEntry>,
}

/// One of all policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaEntry {
    /// The policy.
    pub quota_policy_id: QuotaPolicyId,
    /// Its limits.
    #[serde(flatten)]
    pub limits: QuotaLimits,
}

/// Asks who runs under a key.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaHoldersQuery {
    /// The key; the empty one if absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 64)]
    pub key: String,
    /// How many at most; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl QuotaHoldersQuery {
    /// How many are wanted.
    pub fn checked_limit(&self) -> Result<u32, EngineError> {
        page_limit(self.limit, 100)
    }
}

/// Lists who runs under a key.
#[derive(Clone, Copy, Debug)]
pub struct ListQuotaHolders;

impl Operation for ListQuotaHolders {
    type Target = QuotaPolicyId;
    type Request = QuotaHoldersQuery;
    type Reply = QuotaHolders;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/quotas/{quota_policy_id}/holders";
    const NAME: &'static str = "listQuotaHolders";
    const SUMMARY: &'static str = "Who runs under a key of a quota policy, longest first.";
    const ANSWERS: &'static str = "The executions, and the keys that somebody waits for.";
    const REFUSES: &'static [u16] = &[];
}

/// Who runs under a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaHolders {
    /// The executions, longest first.
    pub holders: Vec<QuotaHolder>,
    /// The keys of the policy that somebody waits for, longest first.
    pub keys_awaited: Vec<String>,
}

/// One that runs under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaHolder {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Since when.
    pub since: TimestampMs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_none_are_refused_with_the_reason() {
        let lone_window = QuotaLimits { window_seconds: Some(1), ..QuotaLimits::at_once(1) };
        let lone_rate = QuotaLimits { max_requests_per_window: Some(1), ..QuotaLimits::default() };
        for (limits, word) in [
            (QuotaLimits::default(), "is needed"),
            (lone_window, "window_seconds needs"),
            (lone_rate, "max_requests_per_window needs"),
            (QuotaLimits::at_once(0), "max_concurrent"),
            (QuotaLimits::within(0, 1), "window_seconds"),
        ] {
            let error = limits.validate().expect_err("no limits").to_string();
            assert!(error.contains(word), "{error}");
        }
        QuotaLimits::within(60, 10).validate().expect("limits");
    }

    #[test]
    fn limits_stand_beside_the_id() {
        let json = r#"{"max_concurrent":3}"#;
        let request: CreateQuota = serde_json::from_str(json).expect("readable");
        assert_eq!(request.limits, QuotaLimits::at_once(3));
        assert_eq!(serde_json::to_string(&request).expect("writable"), json);
    }
}
