//! Admission: a claim of an execution with gates is given to its worker only when all of them have
//! let it pass. All are asked at the same time, which is the one round trip that gates cost; one
//! refusal, or one that could not be asked, undoes the claim.

use std::sync::atomic::{AtomicU64, Ordering};

use ff_core::error::{Code, EngineError};
use ff_core::partition::Partition;
use ff_core::types::{BudgetId, TimestampMs};

use super::ScriptBackend;
use crate::calls::claim::ClaimRow;
use crate::calls::gate::BlockExecutionForAdmission;
use crate::calls::quota::{CheckAdmissionAndRecord, CheckAdmissionAndRecordReply};
use crate::calls::usage::{CheckBudgetAndReserve, CheckBudgetAndReserveReply};
use crate::gate::Gate;
use crate::host::Host;
use crate::together::together;
use crate::wire::Rest;

/// How many claims were refused, and why, since this process opened the store.
#[derive(Debug, Default)]
pub struct AdmissionCounters {
    rate: AtomicU64,
    concurrency: AtomicU64,
}

impl AdmissionCounters {
    /// Claims that the rate of a quota refused.
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Claims that the concurrency of a quota refused.
    pub fn concurrency(&self) -> u64 {
        self.concurrency.load(Ordering::Relaxed)
    }

    fn count(&self, refusal: &Refusal) {
        let counter = match refusal.code {
            Code::ConcurrencyLimitExceeded => &self.concurrency,
            Code::RateLimitExceeded => &self.rate,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Why a gate did not let a claim pass.
struct Refusal {
    reason: &'static str,
    detail: String,
    opens_at: Option<TimestampMs>,
    code: Code,
    budget_id: Option<BudgetId>,
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Those of these claims that all their gates let pass; the others are undone.
    pub(super) async fn admit(&self, claims: Vec<ClaimRow>) -> Vec<ClaimRow> {
        if claims.iter().all(|claim| claim.gates.0.is_empty()) {
            return claims;
        }
        let asked = claims.into_iter().map(|claim| async move {
            let refusal = self.ask(&claim).await;
            (claim, refusal)
        });
        let mut admitted = Vec::new();
        for (claim, refusal) in together(asked).await {
            match refusal {
                None => admitted.push(claim),
                Some(refusal) => self.undo(&claim, &refusal).await,
            }
        }
        admitted
    }

    /// The same of one claim, for those who must be told why.
    pub(super) async fn admit_one(&self, claim: ClaimRow) -> Result<ClaimRow, EngineError> {
        if claim.gates.0.is_empty() {
            return Ok(claim);
        }
        let Some(refusal) = self.ask(&claim).await else { return Ok(claim) };
        self.undo(&claim, &refusal).await;
        Err(EngineError::from_reply(refusal.code.as_str(), Vec::new()))
    }

    /// Asks all gates of a claim at the same time; gives the first refusal.
    async fn ask(&self, claim: &ClaimRow) -> Option<Refusal> {
        let asked = claim.gates.0.iter().map(|gate| self.ask_gate(claim, gate));
        together(asked).await.into_iter().flatten().next()
    }

    async fn ask_gate(&self, claim: &ClaimRow, gate: &Gate) -> Option<Refusal> {
        let home = gate.home(&self.config);
        match gate {
            Gate::Quota { policy, key } => {
                let call = CheckAdmissionAndRecord {
                    quota_policy_id: *policy,
                    quota_key: key.clone(),
                    execution_id: claim.execution_id,
                    lease_epoch: claim.lease_epoch,
                    lease_expires_at: claim.lease_expires_at,
                };
                refusal_of(self.call(home, call).await, home)
            }
            Gate::Budget { budget, reserves } => {
                let words = reserves.split(['=', ',']).filter(|word| !word.is_empty());
                let call = CheckBudgetAndReserve {
                    budget_id: *budget,
                    execution_id: claim.execution_id,
                    lease_epoch: claim.lease_epoch,
                    amounts: Rest(words.map(str::to_owned).collect()),
                };
                refusal_of_budget(self.call(home, call).await, *budget)
            }
        }
    }

    /// Undoes a claim that was refused. If that fails, nobody runs it: its lease runs out.
    async fn undo(&self, claim: &ClaimRow, refusal: &Refusal) {
        self.admission.count(refusal);
        let call = BlockExecutionForAdmission {
            execution_id: claim.execution_id,
            lease_id: claim.lease_id.to_string(),
            lease_epoch: claim.lease_epoch.to_string(),
            attempt_id: claim.attempt_id.to_string(),
            blocking_reason: refusal.reason.to_owned(),
            blocking_detail: refusal.detail.clone(),
            opens_at: refusal.opens_at,
            budget_id: refusal.budget_id,
        };
        if let Err(error) = self.call(claim.execution_id.partition(), call).await {
            let id = claim.execution_id;
            tracing::warn!(%id, %error, "a refused claim could not be undone; its lease will lapse");
        }
    }
}

const QUOTA: &str = "waiting_for_quota";

/// What the answer of a quota means; none if it lets the claim pass.
fn refusal_of(
    answer: Result<CheckAdmissionAndRecordReply, EngineError>,
    home: Partition,
) -> Option<Refusal> {
    let refusal = |detail: String, opens_at, code| {
        Some(Refusal { reason: QUOTA, detail, opens_at, code, budget_id: None })
    };
    match answer {
        Ok(
            CheckAdmissionAndRecordReply::Admitted {}
            | CheckAdmissionAndRecordReply::AlreadyAdmitted {},
        ) => None,
        Ok(CheckAdmissionAndRecordReply::RateExceeded { opens_at, .. }) => {
            refusal("its rate is reached".into(), Some(opens_at), Code::RateLimitExceeded)
        }
        Ok(CheckAdmissionAndRecordReply::ConcurrencyExceeded {}) => {
            refusal("as many as it allows are running".into(), None, Code::ConcurrencyLimitExceeded)
        }
        // Who removes a policy lifts its limits.
        Err(error) if error.code() == Some(Code::QuotaPolicyNotFound) => None,
        Err(error) => {
            tracing::warn!(%home, %error, "a gate could not be asked");
            refusal("it could not be asked".into(), None, Code::RateLimitExceeded)
        }
    }
}

const BUDGET: &str = "waiting_for_budget";

/// What the answer of a budget means; none if it lets the claim pass.
fn refusal_of_budget(
    answer: Result<CheckBudgetAndReserveReply, EngineError>,
    budget: BudgetId,
) -> Option<Refusal> {
    let refusal = |detail: String, opens_at| {
        let (reason, code, budget_id) = (BUDGET, Code::BudgetExceeded, Some(budget));
        Some(Refusal { reason, detail, opens_at, code, budget_id })
    };
    match answer {
        Ok(
            CheckBudgetAndReserveReply::Admitted {} | CheckBudgetAndReserveReply::AdmittedBefore {},
        ) => None,
        Ok(CheckBudgetAndReserveReply::Exceeded { dimension, usage, limit, opens_at }) => {
            refusal(format!("{usage} of {limit} {dimension} are taken"), opens_at)
        }
        // Who removes a budget lifts its limits.
        Err(error) if error.code() == Some(Code::BudgetNotFound) => None,
        Err(error) => {
            tracing::warn!(%budget, %error, "a gate could not be asked");
            refusal("it could not be asked".into(), None)
        }
    }
}
