//! Executions pass a budget, report what they used of it, and give back what was promised.

use std::collections::BTreeMap;

use ff_core::contracts::OnHardLimit;
use ff_core::types::{BudgetId, ExecutionId, LeaseEpoch, TimestampMs};

use crate::call::functions;
use crate::wire::Rest;

functions! {
    /// Counts what an execution used, whatever the limits say, and tells how the budget stands.
    write ff_report_usage_and_check(ReportUsageAndCheck {
        budget_id: BudgetId,
        execution_id: ExecutionId,
        lease_epoch: LeaseEpoch,
        dedup_key: String,
        amounts: Rest<String>,
    })
    -> ReportUsageAndCheckReply {
        "OK" => Within {},
        "SOFT_BREACH" => SoftBreach { dimension: String, usage: u64, limit: u64 },
        "HARD_BREACH" => HardBreach {
            dimension: String,
            usage: u64,
            limit: u64,
            on_hard_limit: OnHardLimit,
            ask: Option<u64>,
        },
        "ALREADY_APPLIED" => AppliedBefore {
            outcome: String,
            dimension: String,
            usage: u64,
            limit: u64,
        },
    }
    refuses [BudgetNotFound, NoActiveLease, StaleLease, IdempotencyConflict];

    /// Promises an execution that it may use so much, if the hard limits have room for that.
    write ff_reserve_usage(ReserveUsage {
        budget_id: BudgetId,
        execution_id: ExecutionId,
        lease_epoch: LeaseEpoch,
        dedup_key: String,
        amounts: Rest<String>,
    })
    -> ReserveUsageReply { "OK" => Reserved {}, "ALREADY_APPLIED" => ReservedBefore {} }
    refuses [BudgetNotFound, NoActiveLease, StaleLease, IdempotencyConflict, BudgetExceeded];

    /// Lets a lease pass a budget if its hard limits have room for what it reserves.
    write ff_check_budget_and_reserve(CheckBudgetAndReserve {
        budget_id: BudgetId,
        execution_id: ExecutionId,
        lease_epoch: LeaseEpoch,
        amounts: Rest<String>,
    })
    -> CheckBudgetAndReserveReply {
        "ADMITTED" => Admitted {},
        "ALREADY_ADMITTED" => AdmittedBefore {},
        "BUDGET_EXCEEDED" => Exceeded {
            dimension: String,
            usage: u64,
            limit: u64,
            opens_at: Option<TimestampMs>,
        },
    }
    refuses [BudgetNotFound, StaleLease];

    /// Leases are over: the rest of what budgets promised to them goes back. `items` are budget,
    /// execution and epoch, one after the other.
    write ff_release_budget(ReleaseBudget { items: Rest<String> })
    -> ReleaseBudgetReply {
        "OK" => Released { openings: Vec<String> },
        "ALREADY_SATISFIED" => ReleasedBefore { openings: Vec<String> },
    }
    refuses [];

    /// Executions are gone: what they used stays counted, and nobody is known for it. `items` are
    /// budget and execution, one after the other.
    write ff_forget_usage(ForgetUsage { items: Rest<String> })
    -> ForgetUsageReply { "OK" => Forgotten { openings: Vec<String> } }
    refuses [];
}

/// Amounts as arguments: names and numbers in turn.
pub fn amounts(all: &BTreeMap<String, u64>) -> Rest<String> {
    Rest(all.iter().flat_map(|(name, amount)| [name.clone(), amount.to_string()]).collect())
}
