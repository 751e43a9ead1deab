//! Admission as its callers play it: a claim asks its gates one by one, and is told to its worker
//! when all of them have let it pass, or undone. Whoever does so may die between any two steps, or
//! come back much later: every step is played by itself, and any of them may never come.

use std::collections::BTreeSet;

use ff_core::types::TimestampMs;
use ff_script::calls::claim::ClaimRow;
use ff_script::calls::gate::{BlockExecutionForAdmission, UnblockExecution};
use ff_script::calls::quota::CheckAdmissionAndRecord;
use ff_script::calls::usage::CheckBudgetAndReserve;
use ff_script::gate::Gate;

use super::budgets;
use super::choose::on;
use super::debts::Debts;
use super::dice::Dice;
use super::eligible::is_live;
use super::plan::Op;
use super::quotas;
use super::sent::Sent;
use super::view::field;
use super::world::{BUDGETS, Lease, QUOTAS, World};
use crate::answer::Answer;

/// What is known of claims with gates, and of what is owed.
#[derive(Default)]
pub(super) struct Admission {
    pub(super) claims: Vec<Claim>,
    pub(super) debts: Debts,
}

/// A claim of an execution with gates.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) lease: Lease,
    expires_at: TimestampMs,
    gates: Vec<Gate>,
    /// The gates that have let it pass, by their place.
    passed: BTreeSet<usize>,
    pub(super) refused: Option<Refusal>,
    /// Its worker was told of it.
    told: bool,
}

/// Why it may not run, and until when, if that is known.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    place: usize,
    opens_at: Option<TimestampMs>,
}

impl Claim {
    fn of(row: &ClaimRow, lease: Lease) -> Self {
        let (expires_at, gates) = (row.lease_expires_at, row.gates.0.clone());
        Self { lease, expires_at, gates, passed: BTreeSet::new(), refused: None, told: false }
    }

    fn is_open(&self) -> bool {
        self.refused.is_none() && !self.told
    }

    /// The question of the first gate that has not answered; of any, if all have.
    fn question(&self, dice: &mut Dice) -> Sent {
        let mut places = 0..self.gates.len();
        let next = places.find(|place| !self.passed.contains(place));
        let place = next.unwrap_or_else(|| dice.below(self.gates.len() as u64) as usize);
        self.ask(place)
    }

    fn ask(&self, place: usize) -> Sent {
        let Lease { execution_id, lease_epoch, .. } = self.lease.clone();
        match &self.gates[place] {
            Gate::Quota { policy, key } => {
                let call = CheckAdmissionAndRecord {
                    quota_policy_id: *policy,
                    quota_key: key.clone(),
                    execution_id,
                    lease_epoch,
                    lease_expires_at: self.expires_at,
                };
                Sent::of(QUOTAS, &call)
            }
            Gate::Budget { budget, reserves } => {
                let call = CheckBudgetAndReserve {
                    budget_id: *budget,
                    execution_id,
                    lease_epoch,
                    amounts: budgets::words(reserves),
                };
                Sent::of(BUDGETS, &call)
            }
        }
    }

    /// Undoes it, because it was refused or because a gate could not be asked.
    fn undo(&self) -> Sent {
        let place = self.refused.as_ref().map_or(0, |refusal| refusal.place);
        let (reason, budget_id) = match &self.gates[place] {
            Gate::Quota { .. } => ("waiting_for_quota", None),
            Gate::Budget { budget, .. } => ("waiting_for_budget", Some(*budget)),
        };
        let call = BlockExecutionForAdmission {
            execution_id: self.lease.execution_id,
            lease_id: self.lease.lease_id.to_string(),
            lease_epoch: self.lease.lease_epoch.to_string(),
            attempt_id: self.lease.attempt_id.to_string(),
            blocking_reason: reason.to_owned(),
            blocking_detail: String::new(),
            opens_at: self.refused.as_ref().and_then(|refusal| refusal.opens_at),
            budget_id,
        };
        on(self.lease.execution_id, &call)
    }

    /// Takes what a gate answered; true if that was the last one, and its worker is told now.
    fn hear(&mut self, sent: &Sent, answer: &Answer) -> bool {
        let asked = |place: &usize| {
            let own = self.ask(*place);
            own.name() == sent.name() && own.args() == sent.args()
        };
        let Some(place) = (0..self.gates.len()).find(asked) else { return false };
        match answer.word.as_str() {
            "ADMITTED" | "ALREADY_ADMITTED" | "quota_policy_not_found" | "budget_not_found" => {
                self.passed.insert(place);
            }
            _ => {
                let opens_at = answer.values.last().and_then(quotas::number).map(TimestampMs::new);
                let opens_at = opens_at.filter(|_| answer.word == "RATE_EXCEEDED");
                self.refused = Some(Refusal { place, opens_at });
            }
        }
        let tells = self.is_open() && self.passed.len() == self.gates.len();
        self.told |= tells;
        tells
    }
}

impl World {
    /// Takes in what was claimed. The worker of an execution without gates is told at once.
    pub(super) fn take(&mut self, row: &ClaimRow) {
        let lease = Lease {
            execution_id: row.execution_id,
            lease_id: row.lease_id,
            lease_epoch: row.lease_epoch,
            attempt_id: row.attempt_id,
        };
        if row.gates.0.is_empty() {
            self.leases.push(lease);
            return;
        }
        let same = |claim: &Claim| {
            claim.lease.execution_id == row.execution_id
                && claim.lease.lease_epoch == row.lease_epoch
        };
        if !self.admission.claims.iter().any(same) {
            self.admission.claims.push(Claim::of(row, lease));
        }
    }

    fn claim_of(&self, row: &ClaimRow) -> Option<&Claim> {
        let own = |claim: &&Claim| claim.lease.lease_id == row.lease_id;
        self.admission.claims.iter().find(own)
    }

    /// What a claim is to be asked next; none if it was told to its worker, or refused.
    pub(super) fn next_question(&self, row: &ClaimRow) -> Option<Sent> {
        let claim = self.claim_of(row).filter(|claim| claim.is_open())?;
        Some(claim.question(&mut Dice::new(0)))
    }

    /// The call that undoes a claim; none if it is told to its worker.
    pub(super) fn undo(&self, row: &ClaimRow) -> Option<Sent> {
        self.claim_of(row).filter(|claim| !claim.told).map(Claim::undo)
    }

    /// Takes in what gates answer, and what is owed.
    pub(super) fn learn_admission(&mut self, sent: &Sent, answer: &Answer) {
        if sent.name().starts_with("ff_check_") {
            let told = self.admission.claims.iter_mut().filter_map(|claim| {
                let tells = claim.hear(sent, answer);
                tells.then(|| claim.lease.clone())
            });
            self.leases.extend(told);
        }
        self.admission.debts.learn(sent, answer);
    }
}

/// The call of a step; none if there is nothing yet that it could be about.
pub(super) fn choose(op: Op, dice: &mut Dice, world: &mut World) -> Option<Sent> {
    match op {
        Op::Ask => {
            // Nobody asks for what is gone.
            let there = |claim: &&Claim| world.record(&claim.lease.execution_id).is_some();
            let claims: Vec<&Claim> = world.admission.claims.iter().filter(there).collect();
            let fits = |claim: &&Claim| claim.is_open() && is_live(&claim.lease, world);
            let claim = (*dice.likely(&claims, fits)?).clone();
            Some(claim.question(dice))
        }
        Op::Undo => {
            // What a worker knows of is not undone.
            let claims: Vec<&Claim> =
                world.admission.claims.iter().filter(|claim| !claim.told).collect();
            let fits = |claim: &&Claim| claim.refused.is_some() && is_live(&claim.lease, world);
            Some(dice.likely(&claims, fits)?.undo())
        }
        Op::Unblock => {
            let waits = |id: &&ff_core::types::ExecutionId| {
                world.record(id).is_some_and(|record| record.gate().is_some())
            };
            let id = *dice.likely(&world.ids.iter().collect::<Vec<_>>(), waits)?;
            let reason = world.record(id).map_or("", |record| record.text(field::PARK_REASON));
            let expected_reason = if dice.chance(80) { reason } else { "" }.to_owned();
            Some(on(*id, &UnblockExecution { execution_id: *id, expected_reason }))
        }
        Op::Carry => world.admission.debts.choose(dice, &world.held),
        Op::MakeBudget | Op::UseBudget | Op::ReadBudget => budgets::choose(op, dice, world),
        _ => Some(quotas::choose(op, dice, world)),
    }
}
