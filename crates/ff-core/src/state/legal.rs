//! The legal combinations of the state vector: one row per transition that produces them.

use super::StateVector;
use super::derive_public_state;
use super::{
    AttemptState, BlockingReason, EligibilityState, LifecyclePhase, OwnershipState, PublicState,
    TerminalOutcome,
};

/// What one transition leaves behind. A list where the transition keeps what was there, or where
/// its arguments choose.
#[derive(Debug)]
pub struct LegalRow {
    /// The row's number; up to 28 that of the specification.
    pub number: u8,
    /// What happened.
    pub transition: &'static str,
    /// The phase entered.
    pub phase: LifecyclePhase,
    /// Who holds the execution afterwards.
    pub ownership: OwnershipState,
    /// What it waits for afterwards: eligibility and reason belong together.
    pub waits: &'static [(EligibilityState, BlockingReason)],
    /// The possible outcomes.
    pub outcomes: &'static [TerminalOutcome],
    /// The possible attempt states.
    pub attempts: &'static [AttemptState],
    /// The public states that follow.
    pub public: &'static [PublicState],
}

impl LegalRow {
    /// True if this transition can leave the vector behind.
    pub fn produces(&self, vector: &StateVector) -> bool {
        self.phase == vector.lifecycle_phase
            && self.ownership == vector.ownership_state
            && self.waits.contains(&(vector.eligibility_state, vector.blocking_reason))
            && self.outcomes.contains(&vector.terminal_outcome)
            && self.attempts.contains(&vector.attempt_state)
    }

    /// Every vector this transition can leave behind.
    pub fn vectors(&self) -> impl Iterator<Item = StateVector> + '_ {
        self.waits.iter().flat_map(move |wait| {
            self.outcomes.iter().flat_map(move |outcome| {
                self.attempts.iter().map(move |attempt| self.vector(*wait, *outcome, *attempt))
            })
        })
    }

    fn vector(
        &self,
        (eligibility_state, blocking_reason): (EligibilityState, BlockingReason),
        terminal_outcome: TerminalOutcome,
        attempt_state: AttemptState,
    ) -> StateVector {
        StateVector {
            lifecycle_phase: self.phase,
            ownership_state: self.ownership,
            eligibility_state,
            blocking_reason,
            terminal_outcome,
            attempt_state,
            public_state: derive_public_state(self.phase, eligibility_state, terminal_outcome),
        }
    }
}

/// Builds the table. `number "transition": phase ownership; waits; outcomes; attempts => public`.
macro_rules! legal_rows {
    ($($number:literal $transition:literal:
        $phase:ident $ownership:ident;
        $($eligibility:ident / $reason:ident)|+;
        $($outcome:ident)|+;
        $($attempt:ident)|+ => $($public:ident)|+;
    )*) => {
        &[$(LegalRow {
            number: $number,
            transition: $transition,
            phase: LifecyclePhase::$phase,
            ownership: OwnershipState::$ownership,
            waits: &[$((EligibilityState::$eligibility, BlockingReason::$reason),)+],
            outcomes: &[$(TerminalOutcome::$outcome,)+],
            attempts: &[$(AttemptState::$attempt,)+],
            public: &[$(PublicState::$public,)+],
        },)*]
    };
}

/// Every transition and what it leaves behind. A combination in no row cannot be reached.
///
/// Where a transition keeps the attempt state, the row lists what can have been there: an
/// execution that never ran ends with its attempt still pending (rows 11 and 14), and waiting for
/// a time, a dependency or admission changes nothing about what the next attempt will be.
pub const LEGAL: &[LegalRow] = legal_rows! {
    1 "create": Runnable Unowned;
        EligibleNow / WaitingForWorker; None; PendingFirstAttempt => Waiting;
    2 "create, delayed": Runnable Unowned;
        NotEligibleUntilTime / WaitingForDelay; None; PendingFirstAttempt => Delayed;
    3 "claim": Active Leased;
        NotApplicable / None; None; RunningAttempt => Active;
    4 "claim resumed": Active Leased;
        NotApplicable / None; None; RunningAttempt => Active;
    5 "reclaim": Active Leased;
        NotApplicable / None; None; RunningAttempt => Active;
    6 "lease lapses": Active LeaseExpiredReclaimable;
        NotApplicable / WaitingForWorker; None; AttemptInterrupted => Active;
    7 "revoke": Active LeaseRevoked;
        NotApplicable / WaitingForWorker; None; AttemptInterrupted => Active;
    8 "complete": Terminal Unowned;
        NotApplicable / None; Success; AttemptTerminal => Completed;
    9 "fail, final": Terminal Unowned;
        NotApplicable / None; Failed; AttemptTerminal => Failed;
    10 "fail, retry": Runnable Unowned;
        NotEligibleUntilTime / WaitingForRetryBackoff; None; PendingRetryAttempt => Delayed;
    11 "cancel": Terminal Unowned;
        NotApplicable / None; Cancelled;
        AttemptTerminal | PendingFirstAttempt | PendingReplayAttempt => Cancelled;
    12 "delay by the worker": Runnable Unowned;
        NotEligibleUntilTime / WaitingForDelay; None; AttemptInterrupted => Delayed;
    13 "wait for children": Runnable Unowned;
        BlockedByDependencies / WaitingForChildren; None; AttemptInterrupted => WaitingChildren;
    14 "expire": Terminal Unowned;
        NotApplicable / None; Expired;
        AttemptTerminal | PendingFirstAttempt | PendingReplayAttempt => Expired;
    15 "reclaim cap reached": Terminal Unowned;
        NotApplicable / None; Failed; AttemptTerminal => Failed;
    16 "delay is over": Runnable Unowned;
        EligibleNow / WaitingForWorker; None;
        PendingFirstAttempt | PendingRetryAttempt | AttemptInterrupted => Waiting;
    17 "suspend": Suspended Unowned;
        NotApplicable / WaitingForSignal | NotApplicable / WaitingForApproval
            | NotApplicable / WaitingForCallback | NotApplicable / WaitingForToolResult
            | NotApplicable / WaitingForBudget | NotApplicable / PausedByOperator
            | NotApplicable / PausedByPolicy;
        None; AttemptInterrupted => Suspended;
    18 "resume": Runnable Unowned;
        EligibleNow / WaitingForWorker; None; AttemptInterrupted => Waiting;
    19 "resume with delay": Runnable Unowned;
        NotEligibleUntilTime / WaitingForResumeDelay; None; AttemptInterrupted => Delayed;
    20 "suspension escalated": Suspended Unowned;
        NotApplicable / PausedByOperator; None; AttemptInterrupted => Suspended;
    21 "suspension timeout, final": Terminal Unowned;
        NotApplicable / None; Failed | Cancelled | Expired;
        AttemptTerminal => Failed | Cancelled | Expired;
    22 "block for admission": Runnable Unowned;
        BlockedByBudget / WaitingForBudget | BlockedByQuota / WaitingForQuota
            | BlockedByRoute / WaitingForCapableWorker | BlockedByOperator / PausedByOperator
            | BlockedByLaneState / PausedByPolicy;
        None;
        PendingFirstAttempt | PendingRetryAttempt | PendingReplayAttempt | AttemptInterrupted
            => RateLimited | Waiting;
    23 "unblock": Runnable Unowned;
        EligibleNow / WaitingForWorker; None;
        PendingFirstAttempt | PendingRetryAttempt | PendingReplayAttempt | AttemptInterrupted
            => Waiting;
    24 "dependency applied": Runnable Unowned;
        BlockedByDependencies / WaitingForChildren; None;
        PendingFirstAttempt | PendingRetryAttempt | PendingReplayAttempt | AttemptInterrupted
            => WaitingChildren;
    25 "last dependency satisfied": Runnable Unowned;
        EligibleNow / WaitingForWorker; None;
        PendingFirstAttempt | PendingRetryAttempt | PendingReplayAttempt | AttemptInterrupted
            => Waiting;
    26 "dependency impossible": Terminal Unowned;
        NotApplicable / None; Skipped; AttemptTerminal | None => Skipped;
    27 "replay": Runnable Unowned;
        EligibleNow / WaitingForWorker; None; PendingReplayAttempt => Waiting;
    28 "replay of a skipped flow member": Runnable Unowned;
        BlockedByDependencies / WaitingForChildren; None; PendingReplayAttempt => WaitingChildren;
    29 "input lost": Terminal Unowned;
        NotApplicable / None; Failed;
        AttemptTerminal | PendingFirstAttempt | PendingReplayAttempt => Failed;
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_rows_are_numbered_one_to_twenty_nine() {
        let numbers: Vec<u8> = LEGAL.iter().map(|row| row.number).collect();
        assert_eq!(numbers, (1..=29).collect::<Vec<u8>>());
    }

    #[test]
    fn every_row_is_legal_and_shows_its_public_states() {
        for row in LEGAL {
            assert!(row.vectors().all(|vector| vector.is_legal()), "{row:?}");
            let derived: BTreeSet<_> = row.vectors().map(|vector| vector.public_state).collect();
            let stated: BTreeSet<_> = row.public.iter().copied().collect();
            assert_eq!(derived, stated, "{}", row.transition);
        }
    }

    #[test]
    fn of_all_combinations_only_those_of_the_table_are_legal() {
        let listed: BTreeSet<StateVector> = LEGAL.iter().flat_map(LegalRow::vectors).collect();
        let legal: BTreeSet<StateVector> =
            all_combinations().filter(StateVector::is_legal).collect();
        assert_eq!(legal, listed);
        assert_eq!(legal.len(), LEGAL_COUNT);
    }

    /// Runnable, active, suspended, terminal. Fails when a row is widened by accident.
    const LEGAL_COUNT: usize = 32 + 3 + 7 + 12;

    fn all_combinations() -> impl Iterator<Item = StateVector> {
        let vectors = LifecyclePhase::ALL.iter().flat_map(|phase| {
            OwnershipState::ALL.iter().flat_map(move |ownership| {
                EligibilityState::ALL.iter().flat_map(move |eligibility| {
                    BlockingReason::ALL
                        .iter()
                        .map(move |reason| (*phase, *ownership, *eligibility, *reason))
                })
            })
        });
        vectors.flat_map(|(phase, ownership, eligibility, reason)| {
            TerminalOutcome::ALL.iter().flat_map(move |outcome| {
                AttemptState::ALL.iter().flat_map(move |attempt| {
                    PublicState::ALL.iter().map(move |public| StateVector {
                        lifecycle_phase: phase,
                        ownership_state: ownership,
                        eligibility_state: eligibility,
                        blocking_reason: reason,
                        terminal_outcome: *outcome,
                        attempt_state: *attempt,
                        public_state: *public,
                    })
                })
            })
        })
    }

    #[test]
    fn what_must_never_be_together_is_refused() {
        let claimed = LEGAL[2].vectors().next().expect("one vector");
        let wrong = [
            StateVector { terminal_outcome: TerminalOutcome::Success, ..claimed },
            StateVector { ownership_state: OwnershipState::Unowned, ..claimed },
            StateVector { eligibility_state: EligibilityState::EligibleNow, ..claimed },
            StateVector { blocking_reason: BlockingReason::WaitingForWorker, ..claimed },
            StateVector { attempt_state: AttemptState::AttemptTerminal, ..claimed },
            StateVector { public_state: PublicState::Waiting, ..claimed },
            StateVector { lifecycle_phase: LifecyclePhase::Submitted, ..claimed },
        ];
        assert!(wrong.iter().all(|vector| !vector.is_legal()));
    }
}
