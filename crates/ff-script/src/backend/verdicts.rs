//! What follows from a budget's limit, brought to those whom it concerns. Each recognises its
//! repetition, and whoever is gone or goes on under another lease is left alone.

use ff_core::contracts::{ApprovalRequest, Condition};
use ff_core::error::{Code, EngineError};
use ff_core::types::{BudgetId, SuspensionId, WaitpointId};
use uuid::Uuid;

use super::ScriptBackend;
use crate::calls::budget::RaiseBudget;
use crate::calls::stop::{PauseForBudget, StopForBudget};
use crate::gate::Verdict;
use crate::host::Host;
use crate::library::fnv1a;

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn carry_out_verdict(&self, verdict: Verdict) -> Result<(), EngineError> {
        let told = match verdict {
            Verdict::Ask { number, epoch, budget, execution_id } => {
                let call = PauseForBudget {
                    execution_id,
                    lease_epoch: epoch,
                    budget_id: budget,
                    ask: number,
                    suspension_id: SuspensionId::from_uuid(derived(budget, number, "suspension")),
                    waitpoint_id: WaitpointId::from_uuid(derived(budget, number, "waitpoint")),
                    resume_condition_json: Condition::any(["approved", "rejected"])
                        .to_json(Some(true))?,
                    approval: self.question(budget).await?.to_json()?,
                };
                self.call_on(execution_id, call).await.map(drop)
            }
            Verdict::Stop { action, epoch, budget, execution_id } => {
                let (lease_epoch, budget_id) = (epoch, budget);
                let call = StopForBudget { execution_id, lease_epoch, action, budget_id };
                self.call_on(execution_id, call).await.map(drop)
            }
            Verdict::Raise { number, budget } => {
                let call = RaiseBudget { budget_id: budget, ask: number };
                self.call(self.budget_partition(budget), call).await.map(drop)
            }
        };
        match told {
            Err(error) if is_moot(&error) => Ok(()),
            told => told,
        }
    }

    /// What people are asked.
    async fn question(&self, budget_id: BudgetId) -> Result<ApprovalRequest, EngineError> {
        let budget = match self.read_budget(budget_id).await {
            Err(error) if error.code() == Some(Code::BudgetNotFound) => None,
            budget => Some(budget?),
        };
        let Some(budget) = budget else {
            return Ok(ApprovalRequest::new("Go on? The budget is gone."));
        };
        let used = budget.dimensions.iter().filter_map(|(name, usage)| {
            let hard = usage.hard.filter(|hard| usage.used >= *hard)?;
            Some(format!("{} of {hard} {name}", usage.used))
        });
        let used: Vec<String> = used.collect();
        let name = if budget.name.is_empty() { budget_id.to_string() } else { budget.name };
        let question = format!("Raise the budget {name}? {} are used.", used.join(", "));
        Ok(ApprovalRequest { subject: name, ..ApprovalRequest::new(question) })
    }
}

/// Whoever it concerns is gone, goes on under another lease, or does not run any more.
fn is_moot(error: &EngineError) -> bool {
    matches!(error.code(), Some(Code::ExecutionNotFound | Code::StaleLease | Code::BudgetNotFound))
}

/// An id that is the same whenever the question is asked again.
fn derived(budget: BudgetId, number: u64, what: &str) -> Uuid {
    let half =
        |part: &str| u128::from(fnv1a(format!("{budget}:{number}:{what}:{part}").as_bytes()));
    Uuid::from_u128(half("first") << 64 | half("second"))
}
