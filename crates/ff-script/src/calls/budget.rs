//! Budgets: made, changed, begun anew, removed and looked at.

use std::collections::BTreeMap;

use ff_core::contracts::{
    BudgetScope, DimensionLimits, ExecutionUsage, Limits, OnHardLimit, UsedAmount,
};
use ff_core::types::{BudgetId, ExecutionId, LeaseEpoch, RequestId, TimestampMs};

use crate::call::functions;
use crate::value::Value;
use crate::wire::{List, Reading, Rest, Row, row, whole};

functions! {
    /// Makes a budget with limits in some dimensions: of each its name, hard and soft limit.
    write ff_create_budget(CreateBudget {
        budget_id: BudgetId,
        scope_type: BudgetScope,
        scope_id: String,
        on_hard_limit: OnHardLimit,
        reset_interval_ms: Option<u64>,
        name: String,
        dimensions: Rest<String>,
    })
    -> CreateBudgetReply {
        "OK" => Created { budget_id: BudgetId },
        "ALREADY_SATISFIED" => CreatedBefore { budget_id: BudgetId },
    }
    refuses [InvalidBudgetScope, BudgetAttachConflict];

    /// Gives dimensions of a budget other limits, or the budget other rules.
    write ff_update_budget(UpdateBudget {
        budget_id: BudgetId,
        on_hard_limit: Option<OnHardLimit>,
        reset_interval_ms: Option<u64>,
        dimensions: Rest<String>,
    })
    -> UpdateBudgetReply { "OK" => Updated {} }
    refuses [BudgetNotFound];

    /// Removes a budget: its limits do not hold any more, and who waits for it is let pass.
    write ff_delete_budget(DeleteBudget { budget_id: BudgetId })
    -> DeleteBudgetReply {
        "OK" => Deleted { scope_type: BudgetScope, scope_id: String },
        "ALREADY_SATISFIED" => DeletedBefore {},
    }
    refuses [];

    /// Begins a budget anew, if that is due or somebody says so.
    write ff_reset_budget(ResetBudget {
        budget_id: BudgetId,
        due_only: bool,
        request_id: Option<RequestId>,
    })
    -> ResetBudgetReply {
        "OK" => Reset { next_reset_at: Option<TimestampMs>, reset_count: u64 },
        "ALREADY_SATISFIED" => ResetBefore {
            next_reset_at: Option<TimestampMs>,
            reset_count: u64,
        },
    }
    refuses [BudgetNotFound, NotDue];

    /// Raises the hard limits that are reached, once for each question that was approved.
    write ff_raise_budget(RaiseBudget { budget_id: BudgetId, ask: u64 })
    -> RaiseBudgetReply { "OK" => Raised {}, "ALREADY_SATISFIED" => RaisedBefore {} }
    refuses [BudgetNotFound];

    /// Reads a budget: its rules, its limits, how much was used, and what happened lately.
    read ff_describe_budget(DescribeBudget { budget_id: BudgetId })
    -> DescribeBudgetReply {
        "OK" => Described {
            budget: BudgetRow,
            users: u64,
            partitions_waiting: u64,
            events: List<String>,
            running: List<ExecutionId>,
        },
    }
    refuses [BudgetNotFound];

    /// Lists the budgets of a partition by their ids, from a cursor.
    read ff_list_budgets(ListBudgets { cursor: String, limit: u32 })
    -> ListBudgetsReply {
        "OK" => Page { budgets: List<BudgetRow>, next_cursor: Option<String> },
    }
    refuses [];

    /// Lists who has used a budget, latest first, with what each of them used and may still use.
    read ff_list_budget_usage(ListBudgetUsage {
        budget_id: BudgetId,
        offset: Option<u64>,
        limit: u32,
    })
    -> ListBudgetUsageReply { "OK" => Page { usage: List<ExecutionUsage> } }
    refuses [BudgetNotFound];
}

/// Limits as arguments.
pub(crate) fn limits(dimensions: &Limits) -> Rest<String> {
    let text = |limit: Option<u64>| limit.map(|limit| limit.to_string()).unwrap_or_default();
    let words =
        |(name, it): (&String, &DimensionLimits)| [name.clone(), text(it.hard), text(it.soft)];
    Rest(dimensions.iter().flat_map(words).collect())
}

/// What is known of a budget.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are documented with the contract")]
pub struct BudgetRow {
    pub budget_id: BudgetId,
    pub settings: BudgetSettings,
    pub dimensions: List<DimensionRow>,
}

/// The rules of a budget, and what happened to it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are documented with the contract")]
pub struct BudgetSettings {
    pub name: String,
    pub scope_type: BudgetScope,
    pub scope_id: String,
    pub on_hard_limit: OnHardLimit,
    pub reset_interval_ms: Option<u64>,
    pub next_reset_at: Option<TimestampMs>,
    pub last_reset_at: Option<TimestampMs>,
    pub reset_count: Option<u64>,
    pub breach_count: Option<u64>,
    pub soft_breach_count: Option<u64>,
    pub last_breach_at: Option<TimestampMs>,
    pub last_breach_dimension: Option<String>,
    pub created_at: TimestampMs,
    pub changed_at: Option<TimestampMs>,
}

/// One dimension of a budget.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are documented with the contract")]
pub struct DimensionRow {
    pub name: String,
    pub hard: Option<u64>,
    pub soft: Option<u64>,
    pub used: u64,
    pub reserved: u64,
}

// In the order of `lua/verb/budget.lua`.
row!(BudgetRow { budget_id, settings, dimensions });
row!(BudgetSettings {
    name,
    scope_type,
    scope_id,
    on_hard_limit,
    reset_interval_ms,
    next_reset_at,
    last_reset_at,
    reset_count,
    breach_count,
    soft_breach_count,
    last_breach_at,
    last_breach_dimension,
    created_at,
    changed_at,
});
row!(DimensionRow { name, hard, soft, used, reserved });

/// What an execution used of one dimension, and may still use.
struct AmountRow {
    name: String,
    used: u64,
    reserved: u64,
}

row!(AmountRow { name, used, reserved });

fn by_name(rows: Vec<AmountRow>) -> BTreeMap<String, UsedAmount> {
    let amount = |AmountRow { name, used, reserved }| (name, UsedAmount { used, reserved });
    rows.into_iter().map(amount).collect()
}

impl Row for ExecutionUsage {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        Some(Self {
            execution_id: ExecutionId::read(values.next()?)?,
            lease_epoch: Option::<LeaseEpoch>::read(values.next()?)?,
            at: TimestampMs::read(values.next()?)?,
            dimensions: by_name(List::read(values.next()?)?.0),
        })
    }
}

impl Reading for ExecutionUsage {
    fn read(value: Value) -> Option<Self> {
        whole(value)
    }
}
