//! Budgets, executions that they apply to, and what those report.

use ff_core::contracts::{BudgetRecord, BudgetScope, OnHardLimit};
use ff_core::engine_backend::roles::*;
use ff_core::types::{BudgetId, ExecutionId, LeaseEpoch};
use ff_script::calls::budget::CreateBudget;
use ff_script::calls::usage::{
    CheckBudgetAndReserve, CheckBudgetAndReserveReply, ReportUsageAndCheck,
    ReportUsageAndCheckReply, ReserveUsage,
};
use ff_script::wire::Rest;

use crate::create::NewExecution;
use crate::deployment::Deployment;
use crate::held::Held;

/// Words as arguments.
pub fn words<const N: usize>(words: [&str; N]) -> Rest<String> {
    Rest(words.map(str::to_owned).to_vec())
}

/// A new budget of a lane that nobody uses, with these dimensions: name, hard and soft limit.
pub fn budget(budget_id: BudgetId, dimensions: Rest<String>) -> CreateBudget {
    CreateBudget {
        budget_id,
        scope_type: BudgetScope::Lane,
        scope_id: "elsewhere".to_owned(),
        on_hard_limit: OnHardLimit::Block,
        reset_interval_ms: None,
        name: String::new(),
        dimensions,
    }
}

/// A lease of an execution, as budgets know it.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The execution.
    pub id: ExecutionId,
    /// The epoch of its lease.
    pub epoch: u64,
}

impl From<&Held> for User {
    fn from(held: &Held) -> Self {
        Self { id: held.id, epoch: held.lease_epoch.get() }
    }
}

impl User {
    /// The same under another lease.
    pub fn under(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    /// Asks whether it may pass.
    pub fn check(self, budget_id: BudgetId, amounts: Rest<String>) -> CheckBudgetAndReserve {
        let lease_epoch = LeaseEpoch::new(self.epoch);
        CheckBudgetAndReserve { budget_id, execution_id: self.id, lease_epoch, amounts }
    }

    /// Reports what it used, under a key or none.
    pub fn report(
        self,
        budget_id: BudgetId,
        dedup_key: &str,
        amounts: Rest<String>,
    ) -> ReportUsageAndCheck {
        ReportUsageAndCheck {
            budget_id,
            execution_id: self.id,
            lease_epoch: LeaseEpoch::new(self.epoch),
            dedup_key: dedup_key.to_owned(),
            amounts,
        }
    }

    /// Wants to use so much.
    pub fn reserve(
        self,
        budget_id: BudgetId,
        dedup_key: &str,
        amounts: Rest<String>,
    ) -> ReserveUsage {
        ReserveUsage {
            budget_id,
            execution_id: self.id,
            lease_epoch: LeaseEpoch::new(self.epoch),
            dedup_key: dedup_key.to_owned(),
            amounts,
        }
    }
}

impl Deployment {
    /// The id of a budget in the partition of budgets.
    pub fn new_budget_id(&self) -> BudgetId {
        BudgetId::from_uuid(self.new_shared_uuid())
    }

    /// A new budget with these dimensions: name, hard and soft limit.
    pub async fn budget<const N: usize>(&self, dimensions: [&str; N]) -> BudgetId {
        let id = self.new_budget_id();
        self.call(budget(id, words(dimensions))).await;
        id
    }

    /// A new budget that does this at its hard limit of tokens.
    pub async fn budget_that(&self, action: OnHardLimit, tokens: u64) -> BudgetId {
        let (id, tokens) = (self.new_budget_id(), tokens.to_string());
        let call = budget(id, words(["tokens", &tokens, ""]));
        self.call(CreateBudget { on_hard_limit: action, ..call }).await;
        id
    }

    /// How a budget stands.
    pub async fn budget_record(&self, id: BudgetId) -> BudgetRecord {
        self.backend.describe_budget(id).await.expect("it is there")
    }

    /// What is used and promised of tokens.
    pub async fn tokens(&self, id: BudgetId) -> (u64, u64) {
        let record = self.budget_record(id).await;
        let tokens = record.dimensions.get("tokens").copied().unwrap_or_default();
        (tokens.used, tokens.reserved)
    }

    /// An execution that a budget let pass under its first lease, without an execution behind it.
    pub async fn user_of(&self, id: BudgetId) -> User {
        let user = User { id: self.new_id(), epoch: 1 };
        let passed = self.call(user.check(id, words([]))).await;
        assert_eq!(passed, CheckBudgetAndReserveReply::Admitted {});
        user
    }

    /// A new execution under budgets that reserves so many tokens.
    pub fn create_with(&self, budgets: &[BudgetId], tokens: u64) -> NewExecution<'_> {
        let ids: Vec<String> = budgets.iter().map(|id| format!("\"{id}\"")).collect();
        let ids = ids.join(",");
        let reserves = format!(r#""reserve_usage":{{"tokens":{tokens}}}"#);
        self.create().policy(&format!(r#"{{"budget_ids":[{ids}],{reserves}}}"#))
    }

    /// Reports so many tokens.
    pub async fn report(&self, held: &Held, id: BudgetId, tokens: u64) -> ReportUsageAndCheckReply {
        let tokens = tokens.to_string();
        self.call(User::from(held).report(id, "", words(["tokens", &tokens]))).await
    }
}
