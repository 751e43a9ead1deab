//! I1, I2, I3: what a record must have and must not have in each state.

use ff_core::state::{
    AttemptState, BlockingReason, EligibilityState, LifecyclePhase, OwnershipState, StateVector,
    TerminalOutcome, derive_public_state,
};

use super::record::{Field, Record, State, field};
use super::{Findings, gates};

const LEASE: &[Field] = &[
    field::LEASE_ID,
    field::LEASE_EPOCH,
    field::WORKER_ID,
    field::WORKER_INSTANCE_ID,
    field::ATTEMPT_COUNT,
    field::ATTEMPT_STARTED_AT,
];

const GRANT: &[Field] = &[
    field::GRANT_ID,
    field::GRANT_KIND,
    field::GRANT_WORKER_ID,
    field::GRANT_INSTANCE_ID,
    field::GRANT_EXPIRES_AT,
];

/// What a suspended execution waits on, and why.
const WAIT: &[Field] = &[field::WAITPOINT_ID, field::SUSPEND_REASON];

const DELAY: &[Field] = &[field::DELAY_UNTIL, field::DELAY_REASON];

/// Why an execution must not be claimed, and since when.
const HOLD: &[Field] = &[field::PARK_REASON, field::PARKED_AT];

/// How the attempt before ended; it belongs to that attempt.
const FAILURE: &[Field] = &[field::FAILURE_REASON, field::FAILURE_CATEGORY];

const END: &[Field] = &[field::ENDED_AT, field::CANCELLED_BY, field::CANCEL_REASON];

/// The states in which it is known what the next claim begins.
const PAUSES: [State; 6] =
    [State::Waiting, State::Delayed, State::Parked, State::Suspended, State::Blocked, State::Held];

/// What most executions never have: one that has any of it is marked, for those who ask only
/// for the mark.
const UNCOMMON: &[Field] = &[
    field::ATTEMPT_ID,
    field::RETENTION_MS,
    field::REMEMBERED_UNTIL,
    field::FRAMES,
    field::WAITPOINT_COUNT,
    field::PENDING_WAITPOINTS,
    field::FLOW_ID,
    field::PARK_REASON,
    field::THROTTLE,
    field::BUDGETS,
    field::QUOTA_ID,
];

pub(super) fn check(record: &Record<'_>, found: &mut Findings) {
    let mut rules = Rules { record, found };
    if UNCOMMON.iter().any(|field| record.has(field)) {
        rules.needs("I1", &[field::MARKED]);
    }
    rules.needs("I1", &[field::LANE, field::KIND, field::NAMESPACE, field::CREATED_AT]);
    let Some(state) = record.state() else {
        return rules.wrong("I1", "is in no known state");
    };
    if !vector(record, state).is_legal() {
        rules.wrong("I1", "is in a combination of states that no transition leaves behind");
    }
    rules.lease(state);
    rules.waiting(state);
    rules.grant(state);
    rules.end(state);
}

struct Rules<'a> {
    record: &'a Record<'a>,
    found: &'a mut Findings,
}

impl Rules<'_> {
    fn wrong(&mut self, invariant: &'static str, what: &str) {
        let state = self.record.state_word();
        self.found.add(invariant, self.record.name(), format!("{state}: {what}"));
    }

    fn rule(&mut self, holds: bool, invariant: &'static str, what: &str) {
        if !holds {
            self.wrong(invariant, what);
        }
    }

    fn needs(&mut self, invariant: &'static str, fields: &[Field]) {
        for field in fields.iter().filter(|field| !self.record.has(field)) {
            self.wrong(invariant, &format!("lacks the field {}", field.escape_ascii()));
        }
    }

    fn bars(&mut self, invariant: &'static str, fields: &[Field]) {
        for field in fields.iter().filter(|field| self.record.has(field)) {
            self.wrong(invariant, &format!("has the field {}", field.escape_ascii()));
        }
    }

    /// The fields are all there or none is.
    fn together(&mut self, invariant: &'static str, fields: &[Field]) -> bool {
        let there = fields.iter().filter(|field| self.record.has(field)).count();
        if there > 0 {
            self.needs(invariant, fields);
        }
        there > 0
    }

    fn lease(&mut self, state: State) {
        let record = self.record;
        // A refused claim leaves nothing but its epoch, which does not come again.
        let is_gated = record.has(field::QUOTA_ID) || record.has(field::BUDGETS);
        let undone = is_gated && !record.has(field::LEASE_ID);
        if !undone && self.together("I2", LEASE) {
            let (epoch, attempts) =
                (record.count(field::LEASE_EPOCH), record.count(field::ATTEMPT_COUNT));
            self.rule(attempts >= 1, "I2", "has a lease but no attempt");
            self.rule(epoch >= attempts, "I2", "has fewer lease epochs than attempts");
        }
        match state {
            State::Running => {
                self.needs("I2", LEASE);
                self.needs("I2", &[field::LEASE_EXPIRES_AT]);
            }
            State::Ended(_) => {}
            _ => self.bars("I2", &[field::LEASE_EXPIRES_AT, field::TIMEOUT_AT]),
        }
    }

    fn waiting(&mut self, state: State) {
        match state {
            State::Delayed => self.needs("I1", DELAY),
            State::Suspended => {
                self.needs("I7", WAIT);
                self.bars("I1", DELAY);
            }
            // The time of a delay stays known until the next claim.
            State::Waiting | State::Parked | State::Held | State::Blocked => {}
            _ => self.bars("I1", DELAY),
        }
        if !PAUSES.contains(&state) {
            self.bars("I1", &[field::NEXT_ATTEMPT]);
        }
        self.hold(state);
        if state == State::Held {
            self.needs("I6", &[field::HELD]);
        } else {
            self.bars("I6", &[field::HELD]);
        }
        if state != State::Suspended {
            self.bars("I7", &[field::SUSPEND_REASON, field::SUSPEND_UNTIL]);
        }
    }

    /// What is parked must not be claimed, and what must not be claimed is never claimable.
    fn hold(&mut self, state: State) {
        if gates::waits_at(self.record).is_some() {
            self.rule(state == State::Parked, "I1", "waits at a gate and is not parked");
            return self.bars("I1", &[field::PARKED_AT, field::PARKED_BY]);
        }
        if self.together("I1", HOLD) {
            let is_free = state.is_claimable() || state == State::Delayed;
            self.rule(!is_free, "I1", "can be claimed although it must not");
        } else {
            self.bars("I1", &[field::PARKED_BY, field::PARK_NOTE]);
        }
        match state {
            State::Parked => self.needs("I1", HOLD),
            State::Ended(_) => self.bars("I3", HOLD),
            _ => {}
        }
    }

    /// A grant is whole, and there only while the execution can be claimed in its way.
    fn grant(&mut self, state: State) {
        if !self.together("I1", GRANT) {
            return;
        }
        self.rule(state.is_claimable(), "I1", "is reserved although it cannot be claimed");
        let wanted = if state.is_lost() { "reclaim" } else { "claim" };
        let kind = self.record.text(field::GRANT_KIND);
        self.rule(kind == wanted, "I1", "is reserved for the wrong kind of claim");
    }

    fn end(&mut self, state: State) {
        let State::Ended(outcome) = state else {
            if state == State::Running {
                self.bars("I3", FAILURE);
            }
            return self.bars("I3", END);
        };
        self.needs("I3", &[field::ENDED_AT]);
        match outcome {
            TerminalOutcome::Cancelled => self.needs("I3", &[field::CANCELLED_BY]),
            TerminalOutcome::Failed | TerminalOutcome::Expired => {
                self.needs("I3", &[field::FAILURE_REASON]);
            }
            TerminalOutcome::Skipped => self.bars("I3", &[field::FAILURE_CATEGORY]),
            _ => self.bars("I3", FAILURE),
        }
        if outcome != TerminalOutcome::Cancelled {
            self.bars("I3", &[field::CANCELLED_BY, field::CANCEL_REASON]);
        }
    }
}

/// The seven dimensions that a record stands for.
fn vector(record: &Record<'_>, state: State) -> StateVector {
    let lifecycle_phase = phase(state);
    let (eligibility_state, blocking_reason) = waits(record, state);
    let terminal_outcome = match state {
        State::Ended(outcome) => outcome,
        _ => TerminalOutcome::None,
    };
    StateVector {
        lifecycle_phase,
        ownership_state: ownership(state),
        eligibility_state,
        blocking_reason,
        terminal_outcome,
        attempt_state: attempt(record, state),
        public_state: derive_public_state(lifecycle_phase, eligibility_state, terminal_outcome),
    }
}

fn phase(state: State) -> LifecyclePhase {
    match state {
        State::Held | State::Blocked | State::Waiting | State::Delayed | State::Parked => {
            LifecyclePhase::Runnable
        }
        State::Suspended => LifecyclePhase::Suspended,
        State::Running | State::Lapsed | State::Revoked => LifecyclePhase::Active,
        State::Ended(_) => LifecyclePhase::Terminal,
    }
}

fn ownership(state: State) -> OwnershipState {
    match state {
        State::Running => OwnershipState::Leased,
        State::Lapsed => OwnershipState::LeaseExpiredReclaimable,
        State::Revoked => OwnershipState::LeaseRevoked,
        _ => OwnershipState::Unowned,
    }
}

fn waits(record: &Record<'_>, state: State) -> (EligibilityState, BlockingReason) {
    match state {
        State::Held | State::Blocked => {
            (EligibilityState::BlockedByDependencies, BlockingReason::WaitingForChildren)
        }
        State::Waiting => (EligibilityState::EligibleNow, BlockingReason::WaitingForWorker),
        State::Delayed => {
            let reason = match record.text(field::DELAY_REASON) {
                "retry_backoff" => BlockingReason::WaitingForRetryBackoff,
                "resume" => BlockingReason::WaitingForResumeDelay,
                _ => BlockingReason::WaitingForDelay,
            };
            (EligibilityState::NotEligibleUntilTime, reason)
        }
        State::Parked => parked(record),
        State::Suspended => (EligibilityState::NotApplicable, waits_for(record)),
        State::Lapsed | State::Revoked => {
            (EligibilityState::NotApplicable, BlockingReason::WaitingForWorker)
        }
        State::Running | State::Ended(_) => (EligibilityState::NotApplicable, BlockingReason::None),
    }
}

fn parked(record: &Record<'_>) -> (EligibilityState, BlockingReason) {
    use {BlockingReason as Reason, EligibilityState as Eligibility};
    match record.text(field::PARK_REASON) {
        "waiting_for_quota" => (Eligibility::BlockedByQuota, Reason::WaitingForQuota),
        "waiting_for_budget" => (Eligibility::BlockedByBudget, Reason::WaitingForBudget),
        "waiting_for_capable_worker" => {
            (Eligibility::BlockedByRoute, Reason::WaitingForCapableWorker)
        }
        "paused_by_policy" => (Eligibility::BlockedByLaneState, Reason::PausedByPolicy),
        _ => (Eligibility::BlockedByOperator, Reason::PausedByOperator),
    }
}

fn waits_for(record: &Record<'_>) -> BlockingReason {
    match record.text(field::SUSPEND_REASON) {
        "waiting_for_approval" => BlockingReason::WaitingForApproval,
        "waiting_for_callback" => BlockingReason::WaitingForCallback,
        "waiting_for_tool_result" => BlockingReason::WaitingForToolResult,
        "waiting_for_operator_review" | "manual_pause" => BlockingReason::PausedByOperator,
        "paused_by_policy" => BlockingReason::PausedByPolicy,
        "paused_by_budget" => BlockingReason::WaitingForBudget,
        _ => BlockingReason::WaitingForSignal,
    }
}

fn is_lost(record: &Record<'_>) -> bool {
    matches!(record.text(field::ATTEMPT_END), "lapse" | "revoke")
}

fn attempt(record: &Record<'_>, state: State) -> AttemptState {
    match state {
        State::Running => AttemptState::RunningAttempt,
        State::Lapsed | State::Revoked => AttemptState::AttemptInterrupted,
        State::Ended(_) if record.has(field::ATTEMPT_COUNT) => AttemptState::AttemptTerminal,
        State::Ended(TerminalOutcome::Skipped) => AttemptState::None,
        _ => match record.text(field::NEXT_ATTEMPT) {
            "retry" => AttemptState::PendingRetryAttempt,
            "replay" => AttemptState::PendingReplayAttempt,
            "resume" => AttemptState::AttemptInterrupted,
            // One that lost its lease is taken over when it may be claimed.
            "" if state == State::Parked && is_lost(record) => AttemptState::AttemptInterrupted,
            _ => AttemptState::PendingFirstAttempt,
        },
    }
}
