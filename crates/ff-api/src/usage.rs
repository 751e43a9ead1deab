//! Usage, as workers report it.

use std::collections::BTreeMap;

use ff_core::backend::Handle;
use ff_core::contracts::{ReportUsageResult, UsageDimensions};
use ff_core::distinct::distinct;
use ff_core::operation::{Nothing, Operation};
#[cfg(feature = "openapi")]
use ff_core::schema;
use ff_core::types::BudgetId;
use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::task::token_of;

/// What a task has used of a budget.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportUsage {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// How much, by dimension.
    #[serde(deserialize_with = "distinct")]
    #[schema(value_type = schema::Amounts)]
    pub dimensions: BTreeMap<String, u64>,
    /// The report's own name: the same again for the same execution and budget counts once.
    #[schema(max_length = 128)]
    pub dedup_key: Option<String>,
}

impl ReportUsage {
    /// A report for the wire.
    pub fn new(handle: &Handle, usage: &UsageDimensions) -> Self {
        Self {
            task_token: Some(token_of(handle)),
            dimensions: usage.amounts(),
            dedup_key: usage.dedup_key.clone(),
        }
    }

    /// What it says.
    pub fn into_usage(self) -> UsageDimensions {
        let usage: UsageDimensions = self.dimensions.into_iter().collect();
        usage.dedup_key(self.dedup_key.unwrap_or_default())
    }
}

impl Operation for ReportUsage {
    type Target = BudgetId;
    type Request = Self;
    type Reply = ReportUsageResult;

    const PATH: &'static str = "/v1/budgets/{budget_id}/usage";
    const NAME: &'static str = "reportUsage";
    const SUMMARY: &'static str = "A task tells what it has used of a budget.";
    const ANSWERS: &'static str = "It is counted; how the budget stands.";
    const ABOUT: &'static str = "What was used is counted whatever the limits say. Only the lease \
        that the budget let pass may report: an older one is refused with 409, and nothing is \
        counted. The same `dedup_key` with other amounts is refused with 409.";
}

/// What a task wants to use of a budget.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveUsage {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// How much, by dimension.
    #[serde(deserialize_with = "distinct")]
    #[schema(value_type = schema::Amounts)]
    pub dimensions: BTreeMap<String, u64>,
    /// The reservation's own name: the same again for the same execution and budget counts once.
    #[schema(max_length = 128)]
    pub dedup_key: Option<String>,
}

impl ReserveUsage {
    /// A reservation for the wire.
    pub fn new(handle: &Handle, usage: &UsageDimensions) -> Self {
        let ReportUsage { task_token, dimensions, dedup_key } = ReportUsage::new(handle, usage);
        Self { task_token, dimensions, dedup_key }
    }

    /// What it says.
    pub fn into_usage(self) -> UsageDimensions {
        let Self { task_token, dimensions, dedup_key } = self;
        ReportUsage { task_token, dimensions, dedup_key }.into_usage()
    }
}

impl Operation for ReserveUsage {
    type Target = BudgetId;
    type Request = Self;
    type Reply = Nothing;

    const PATH: &'static str = "/v1/budgets/{budget_id}/reserve";
    const NAME: &'static str = "reserveUsage";
    const SUMMARY: &'static str = "A task is promised that it may use so much of a budget.";
    const ANSWERS: &'static str = "It may.";
    const ABOUT: &'static str = "Refused with `budget_exceeded` (409) if a hard limit has no room \
        for it; then nothing changes. What is reported uses up what was promised, and the rest goes \
        back at the end of the lease.";
}
