//! Budgets: how much may be used, over all executions that a budget applies to.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::list::page_limit;
use super::secrets::PartitionFailure;
use super::usage::{ReportUsageResult, UsageDimensions};
use crate::ToSchema;
use crate::argument::{check_bytes, check_range};
use crate::backend::Handle;
use crate::distinct::distinct;
use crate::engine_backend::Answer;
use crate::error::{Code, EngineError};
use crate::limits;
use crate::literal::literals;
use crate::object::Object;
use crate::operation::{Input, Method, Nothing, Operation};
use crate::types::{
    BudgetId, ExecutionId, ExecutionKind, ExecutionRef, FlowId, LaneId, LeaseEpoch, Namespace,
    RequestId, TimestampMs,
};

/// Keeps budgets, and counts what is used of them.
pub trait Budgets: Send + Sync {
    /// Makes a budget and attaches it to its scope: it applies to every execution of the scope
    /// that is created from then on. The same again changes nothing, and carries on where a
    /// partition could not be reached; other settings under the same id are refused.
    fn create_budget(&self, request: CreateBudget) -> Answer<'_, BudgetCreated>;

    /// A budget, with what was used of it. A read.
    fn describe_budget(&self, budget_id: BudgetId) -> Answer<'_, BudgetRecord>;

    /// Gives dimensions of a budget other limits, or the budget other rules. A limit that is
    /// raised frees at once what was blocked by it.
    fn update_budget(&self, budget_id: BudgetId, request: UpdateBudget)
    -> Answer<'_, BudgetRecord>;

    /// Removes a budget: its limits do not hold any more. Repeating it is harmless.
    fn delete_budget(&self, budget_id: BudgetId) -> Answer<'_, BudgetDeleted>;

    /// All budgets, partition by partition. A read.
    fn list_budgets(&self, query: ListBudgets) -> Answer<'_, BudgetPage>;

    /// Begins a budget anew, whatever time it is.
    fn reset_budget(&self, budget_id: BudgetId, request: ResetBudget) -> Answer<'_, BudgetReset>;

    /// Who has used a budget, latest first. A read.
    fn list_budget_usage(
        &self,
        budget_id: BudgetId,
        query: ListBudgetUsage,
    ) -> Answer<'_, BudgetUsagePage>;

    /// Counts what the holder of a lease has used, whatever the limits say, and tells how the
    /// budget stands. A repetition under the same key is recognised.
    fn report_usage<'a>(
        &'a self,
        handle: &'a Handle,
        budget_id: BudgetId,
        usage: UsageDimensions,
    ) -> Answer<'a, ReportUsageResult>;

    /// Promises the holder of a lease that it may use so much, or refuses with
    /// [`Code::BudgetExceeded`] and changes nothing. What is not used goes back at the end of the
    /// lease.
    fn reserve_usage<'a>(
        &'a self,
        handle: &'a Handle,
        budget_id: BudgetId,
        usage: UsageDimensions,
    ) -> Answer<'a, ()>;
}

literals! {
    /// What executions a budget applies to.
    BudgetScope("scope of a budget") {
        /// All of a namespace.
        Namespace = "namespace",
        /// All of a lane.
        Lane = "lane",
        /// All of a kind.
        Kind = "kind",
        /// The members of a flow.
        Flow = "flow",
        /// One.
        Execution = "execution",
    }

    /// What happens at a hard limit. Admission stops in any case.
    OnHardLimit("action at a hard limit") {
        /// What runs goes on until it stops by itself.
        Block = "block",
        /// What runs fails after 30 seconds.
        Fail = "fail",
        /// What runs is cancelled after 30 seconds.
        Cancel = "cancel",
        /// The execution that reached the limit is suspended until people have decided: who
        /// approves raises the limit by what it was, who rejects fails the execution.
        Ask = "ask",
    }
}

/// The limits of each dimension are an object, and no dimension is named twice.
fn objects<'de, D: Deserializer<'de>>(from: D) -> Result<Limits, D::Error> {
    let limits: BTreeMap<String, Object<DimensionLimits>> = distinct(from)?;
    Ok(limits.into_iter().map(|(name, limits)| (name, limits.0)).collect())
}

/// What happens at a hard limit if nothing else is said.
const fn block() -> OnHardLimit {
    OnHardLimit::Block
}

/// The limits of one dimension.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DimensionLimits {
    /// At this usage admission stops; none if absent.
    #[schema(minimum = 1, maximum = 1_000_000_000_000u64)]
    pub hard: Option<u64>,
    /// At this usage an event is noted; none if absent.
    #[schema(minimum = 1, maximum = 1_000_000_000_000u64)]
    pub soft: Option<u64>,
}

/// Limits by dimension.
pub type Limits = BTreeMap<String, DimensionLimits>;

/// A new budget.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBudget {
    /// Its id, if the client chooses it; a new one if absent.
    pub budget_id: Option<BudgetId>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 128)]
    pub name: String,
    /// What kind of scope it has.
    pub scope_type: BudgetScope,
    /// Which one: a namespace, a lane, a kind, or the id of a flow or an execution.
    #[schema(max_length = 128)]
    pub scope_id: String,
    /// What happens at a hard limit; `block` if absent.
    #[serde(default = "block")]
    pub on_hard_limit: OnHardLimit,
    /// After this time it begins anew, again and again; never if absent.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub reset_interval_ms: Option<u64>,
    /// The limits, by dimension.
    #[serde(deserialize_with = "objects")]
    #[schema(value_type = crate::schema::BudgetLimits)]
    pub dimensions: Limits,
}

impl CreateBudget {
    /// A budget of this scope without limits.
    pub fn new(scope_type: BudgetScope, scope_id: impl Into<String>) -> Self {
        Self {
            budget_id: None,
            name: String::new(),
            scope_type,
            scope_id: scope_id.into(),
            on_hard_limit: OnHardLimit::Block,
            reset_interval_ms: None,
            dimensions: Limits::new(),
        }
    }

    /// The same under this id.
    #[must_use]
    pub fn with_id(self, budget_id: BudgetId) -> Self {
        Self { budget_id: Some(budget_id), ..self }
    }

    /// The same with a hard limit of a dimension.
    #[must_use]
    pub fn hard(mut self, dimension: impl Into<String>, limit: u64) -> Self {
        self.dimensions.entry(dimension.into()).or_default().hard = Some(limit);
        self
    }

    /// The same with a soft limit of a dimension.
    #[must_use]
    pub fn soft(mut self, dimension: impl Into<String>, limit: u64) -> Self {
        self.dimensions.entry(dimension.into()).or_default().soft = Some(limit);
        self
    }

    /// The same, and this happens at a hard limit.
    #[must_use]
    pub fn on_hard_limit(self, on_hard_limit: OnHardLimit) -> Self {
        Self { on_hard_limit, ..self }
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_bytes("name", self.name.len(), limits::BUDGET_NAME_BYTES_MAX)?;
        check_scope(self.scope_type, &self.scope_id)?;
        check_interval(self.reset_interval_ms, 1)?;
        let count = self.dimensions.len() as u64;
        check_range("number of dimensions", count, 1..=limits::DIMENSIONS_MAX)?;
        check_limits(&self.dimensions)
    }
}

fn check_interval(interval_ms: Option<u64>, least: u64) -> Result<(), EngineError> {
    let range = least..=limits::DELAY_MS_MAX;
    interval_ms.map_or(Ok(()), |ms| check_range("reset_interval_ms", ms, range))
}

/// A scope is named as what it is.
fn check_scope(scope: BudgetScope, id: &str) -> Result<(), EngineError> {
    let known = match scope {
        BudgetScope::Namespace => Namespace::try_new(id).is_ok(),
        BudgetScope::Lane => LaneId::try_new(id).is_ok(),
        BudgetScope::Kind => ExecutionKind::try_new(id).is_ok(),
        BudgetScope::Flow => FlowId::parse(id).is_ok(),
        BudgetScope::Execution => id.parse::<ExecutionRef>().is_ok(),
    };
    match known {
        true => Ok(()),
        false => Err(EngineError::refused(Code::InvalidBudgetScope)),
    }
}

fn check_limits(dimensions: &Limits) -> Result<(), EngineError> {
    for (name, DimensionLimits { hard, soft }) in dimensions {
        check_dimension(name)?;
        for limit in [hard, soft].into_iter().flatten() {
            check_range(&format!("dimensions.{name}"), *limit, 1..=limits::USAGE_MAX)?;
        }
        if let (Some(hard), Some(soft)) = (hard, soft) {
            check_range(&format!("dimensions.{name}.soft"), *soft, 1..=*hard)?;
        }
    }
    Ok(())
}

/// A dimension is letters, digits and `_ . -`, and begins with none of the last two.
pub(crate) fn check_dimension(name: &str) -> Result<(), EngineError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let fits = (1..=limits::DIMENSION_BYTES_MAX).contains(&(name.len() as u64));
    if fits && name.bytes().all(plain) && !name.starts_with(['.', '-']) {
        return Ok(());
    }
    let rule = format!(
        "must be 1 to {} letters, digits and _ . -, and begin with none of the last two",
        limits::DIMENSION_BYTES_MAX
    );
    Err(EngineError::invalid("name of a dimension", rule))
}

impl Operation for CreateBudget {
    type Target = Nothing;
    type Request = Self;
    type Reply = BudgetCreated;

    const PATH: &'static str = "/v1/budgets";
    const NAME: &'static str = "createBudget";
    const SUMMARY: &'static str = "Makes a budget and attaches it to its scope.";
    const ANSWERS: &'static str = "It is there, and where it is not known yet.";
    const ABOUT: &'static str = "It applies to executions of its scope that are created from then \
        on. Repeating it is safe, and carries on where a partition could not be reached; other \
        settings under the same id are refused with 409.";
}

/// The answer to a new budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetCreated {
    /// Its id.
    pub budget_id: BudgetId,
    /// True if this request made it.
    pub created: bool,
    /// The partitions that do not know of it yet; servers bring them up to date by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<PartitionFailure>,
}

/// Reads a budget.
#[derive(Clone, Copy, Debug)]
pub struct DescribeBudget;

impl Operation for DescribeBudget {
    type Target = BudgetId;
    type Request = Nothing;
    type Reply = BudgetRecord;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/budgets/{budget_id}";
    const NAME: &'static str = "describeBudget";
    const SUMMARY: &'static str = "A budget: its limits, what was used, and what happened lately.";
    const ANSWERS: &'static str = "The budget.";
}

/// A budget, with what was used of it.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetRecord {
    /// Its id.
    pub budget_id: BudgetId,
    /// A name for people; may be empty.
    #[serde(default)]
    pub name: String,
    /// What kind of scope it has.
    pub scope_type: BudgetScope,
    /// Which one.
    pub scope_id: String,
    /// What happens at a hard limit.
    pub on_hard_limit: OnHardLimit,
    /// After this time it begins anew, again and again.
    pub reset_interval_ms: Option<u64>,
    /// When it does so next.
    pub next_reset_at: Option<TimestampMs>,
    /// When it did so last.
    pub last_reset_at: Option<TimestampMs>,
    /// How often it did.
    pub reset_count: u64,
    /// How often a hard limit was reached.
    pub breach_count: u64,
    /// How often a soft limit was reached.
    pub soft_breach_count: u64,
    /// When a hard limit was reached last, since it began anew.
    pub last_breach_at: Option<TimestampMs>,
    /// Of which dimension.
    pub last_breach_dimension: Option<String>,
    /// When it was made.
    pub created_at: TimestampMs,
    /// When its limits or rules were last changed.
    pub changed_at: Option<TimestampMs>,
    /// The dimensions, by name.
    #[schema(value_type = BTreeMap<String, DimensionUsage>)]
    pub dimensions: BTreeMap<String, DimensionUsage>,
    /// How many executions are known to have used it; absent in lists.
    pub users: Option<u64>,
    /// How many partitions have executions that wait for it; absent in lists.
    pub partitions_waiting: Option<u64>,
    /// What happened lately, latest first; absent in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<BudgetEvent>,
}

/// One dimension of a budget.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DimensionUsage {
    /// At this usage admission stops.
    pub hard: Option<u64>,
    /// At this usage an event is noted.
    pub soft: Option<u64>,
    /// What was used since it last began.
    pub used: u64,
    /// What is promised to executions that run.
    pub reserved: u64,
}

/// Something that happened to a budget.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetEvent {
    /// When.
    pub at: TimestampMs,
    /// What: `soft_limit`, `hard_limit`, `reset`, `changed` or `raised`.
    pub event: String,
    /// The dimension it is about.
    pub dimension: Option<String>,
    /// Its usage then.
    pub usage: Option<u64>,
    /// Its limit then.
    pub limit: Option<u64>,
    /// The execution that caused it.
    pub execution_id: Option<ExecutionId>,
}

/// Gives dimensions of a budget other limits, or the budget other rules. What is absent stays.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateBudget {
    /// What happens at a hard limit.
    pub on_hard_limit: Option<OnHardLimit>,
    /// After this time from now it begins anew, again and again; 0 for never.
    #[schema(maximum = 34_560_000_000u64)]
    pub reset_interval_ms: Option<u64>,
    /// Both limits of each dimension that is named here; one that is absent is none.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    #[serde(deserialize_with = "objects")]
    #[schema(value_type = crate::schema::BudgetLimits)]
    pub dimensions: Limits,
}

impl UpdateBudget {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_interval(self.reset_interval_ms, 0)?;
        let count = self.dimensions.len() as u64;
        check_range("number of dimensions", count, 0..=limits::DIMENSIONS_MAX)?;
        check_limits(&self.dimensions)
    }
}

impl Operation for UpdateBudget {
    type Target = BudgetId;
    type Request = Self;
    type Reply = BudgetRecord;

    const METHOD: Method = Method::Put;
    const PATH: &'static str = "/v1/budgets/{budget_id}";
    const NAME: &'static str = "updateBudget";
    const SUMMARY: &'static str = "Gives a budget other limits or rules.";
    const ANSWERS: &'static str = "The budget as it is now.";
    const ABOUT: &'static str = "A limit that is raised frees at once what was blocked by it.";
}

/// Removes a budget.
#[derive(Clone, Copy, Debug)]
pub struct DeleteBudget;

impl Operation for DeleteBudget {
    type Target = BudgetId;
    type Request = Nothing;
    type Reply = BudgetDeleted;

    const PATH: &'static str = "/v1/budgets/{budget_id}/delete";
    const NAME: &'static str = "deleteBudget";
    const SUMMARY: &'static str = "Removes a budget.";
    const ANSWERS: &'static str = "It is gone, and where that is not known yet.";
    const ABOUT: &'static str = "Its limits do not hold any more, and what was blocked by them goes \
        on. Repeating it is safe.";
}

/// The answer to a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetDeleted {
    /// True if this request removed it.
    pub deleted: bool,
    /// The partitions that do not know of it yet; servers bring them up to date by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<PartitionFailure>,
}

/// Asks for budgets.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListBudgets {
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl ListBudgets {
    /// How many are wanted.
    pub fn checked_limit(&self) -> Result<u32, EngineError> {
        page_limit(self.limit, 100)
    }
}

impl Operation for ListBudgets {
    type Target = Nothing;
    type Request = Self;
    type Reply = BudgetPage;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/budgets";
    const NAME: &'static str = "listBudgets";
    const SUMMARY: &'static str = "All budgets, partition by partition.";
    const ANSWERS: &'static str = "A page.";
}

/// Some budgets.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetPage {
    /// The budgets.
    pub budgets: Vec<BudgetRecord>,
    /// Where the next page begins; none if there is none.
    pub next_cursor: Option<String>,
}

/// Begins a budget anew, whatever time it is.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetBudget {
    /// Only if its time has come: refused with `not_due` otherwise.
    #[serde(default)]
    pub due_only: bool,
    /// A fresh id for this change: a repetition with the same one has no second effect.
    pub request_id: Option<RequestId>,
}

impl Operation for ResetBudget {
    type Target = BudgetId;
    type Request = Self;
    type Reply = BudgetReset;

    const PATH: &'static str = "/v1/budgets/{budget_id}/reset";
    const NAME: &'static str = "resetBudget";
    const SUMMARY: &'static str = "Begins a budget anew.";
    const ANSWERS: &'static str = "Nothing is used of it, and what was blocked by it goes on.";
    const INPUT: Input = Input::OptionalBody;
}

/// The answer to a reset.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetReset {
    /// When it begins anew next.
    pub next_reset_at: Option<TimestampMs>,
    /// How often it did so far.
    pub reset_count: u64,
}

/// Asks who has used a budget.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListBudgetUsage {
    /// How many to leave out, from the latest on.
    #[schema(maximum = 1_000_000_000)]
    pub offset: Option<u64>,
    /// How many at most; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl ListBudgetUsage {
    /// How many are left out, and how many are wanted.
    pub fn checked(&self) -> Result<(u64, u32), EngineError> {
        let offset = self.offset.unwrap_or_default();
        check_range("offset", offset, 0..=1_000_000_000)?;
        Ok((offset, page_limit(self.limit, 100)?))
    }
}

impl Operation for ListBudgetUsage {
    type Target = BudgetId;
    type Request = Self;
    type Reply = BudgetUsagePage;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/budgets/{budget_id}/usage";
    const NAME: &'static str = "listBudgetUsage";
    const SUMMARY: &'static str = "Who has used a budget, latest first.";
    const ANSWERS: &'static str = "What each execution used since the budget last began.";
}

/// Some of those who used a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetUsagePage {
    /// The executions.
    pub usage: Vec<ExecutionUsage>,
}

/// What one execution used of a budget.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionUsage {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The lease that may report, if it runs.
    pub lease_epoch: Option<LeaseEpoch>,
    /// When it was last admitted or reported.
    pub at: TimestampMs,
    /// What it used and may still use, by dimension.
    #[schema(value_type = BTreeMap<String, UsedAmount>)]
    pub dimensions: BTreeMap<String, UsedAmount>,
}

/// What one execution used of a dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsedAmount {
    /// What it used since the budget last began.
    pub used: u64,
    /// What is still promised to it.
    pub reserved: u64,
}
