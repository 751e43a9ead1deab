//! The state of an execution: six dimensions and the public state derived from them.

mod legal;
mod words;

pub use legal::{LEGAL, LegalRow};
pub use words::{
    AttemptLifecycle, AttemptState, AttemptType, BlockingReason, EligibilityState, LifecyclePhase,
    OwnershipState, PublicState, TerminalOutcome,
};

use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// Where an execution stands, in all seven dimensions.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(deny_unknown_fields)]
pub struct StateVector {
    /// The large step of its life.
    pub lifecycle_phase: LifecyclePhase,
    /// Who holds it.
    pub ownership_state: OwnershipState,
    /// Whether it may be claimed.
    pub eligibility_state: EligibilityState,
    /// What it waits for.
    pub blocking_reason: BlockingReason,
    /// How it ended.
    pub terminal_outcome: TerminalOutcome,
    /// What its current or next attempt is doing.
    pub attempt_state: AttemptState,
    /// The one word shown to people, derived from the others.
    pub public_state: PublicState,
}

impl StateVector {
    /// True if some transition produces exactly this combination.
    pub fn is_legal(&self) -> bool {
        let derived = derive_public_state(
            self.lifecycle_phase,
            self.eligibility_state,
            self.terminal_outcome,
        );
        self.public_state == derived && LEGAL.iter().any(|row| row.produces(self))
    }
}

/// The word for people. Defined for every combination, legal or not, so that a damaged record can
/// still be shown.
pub const fn derive_public_state(
    phase: LifecyclePhase,
    eligibility: EligibilityState,
    outcome: TerminalOutcome,
) -> PublicState {
    match phase {
        LifecyclePhase::Submitted => PublicState::Waiting,
        LifecyclePhase::Runnable => public_while_runnable(eligibility),
        LifecyclePhase::Active => PublicState::Active,
        LifecyclePhase::Suspended => PublicState::Suspended,
        LifecyclePhase::Terminal => public_when_ended(outcome),
    }
}

const fn public_while_runnable(eligibility: EligibilityState) -> PublicState {
    match eligibility {
        EligibilityState::NotEligibleUntilTime => PublicState::Delayed,
        EligibilityState::BlockedByDependencies => PublicState::WaitingChildren,
        EligibilityState::BlockedByBudget | EligibilityState::BlockedByQuota => {
            PublicState::RateLimited
        }
        EligibilityState::EligibleNow
        | EligibilityState::BlockedByRoute
        | EligibilityState::BlockedByLaneState
        | EligibilityState::BlockedByOperator
        | EligibilityState::NotApplicable => PublicState::Waiting,
    }
}

/// An end without an outcome is a damaged record; calling it failed makes somebody look.
const fn public_when_ended(outcome: TerminalOutcome) -> PublicState {
    match outcome {
        TerminalOutcome::Success => PublicState::Completed,
        TerminalOutcome::Failed | TerminalOutcome::None => PublicState::Failed,
        TerminalOutcome::Cancelled => PublicState::Cancelled,
        TerminalOutcome::Expired => PublicState::Expired,
        TerminalOutcome::Skipped => PublicState::Skipped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_state_follows_the_derivation_table() {
        use EligibilityState as E;
        use LifecyclePhase as P;
        use TerminalOutcome as O;
        let table = [
            (P::Submitted, E::EligibleNow, O::None, "waiting"),
            (P::Runnable, E::EligibleNow, O::None, "waiting"),
            (P::Runnable, E::NotEligibleUntilTime, O::None, "delayed"),
            (P::Runnable, E::BlockedByDependencies, O::None, "waiting_children"),
            (P::Runnable, E::BlockedByBudget, O::None, "rate_limited"),
            (P::Runnable, E::BlockedByQuota, O::None, "rate_limited"),
            (P::Runnable, E::BlockedByRoute, O::None, "waiting"),
            (P::Runnable, E::BlockedByLaneState, O::None, "waiting"),
            (P::Runnable, E::BlockedByOperator, O::None, "waiting"),
            (P::Active, E::NotApplicable, O::None, "active"),
            (P::Suspended, E::NotApplicable, O::None, "suspended"),
            (P::Terminal, E::NotApplicable, O::Success, "completed"),
            (P::Terminal, E::NotApplicable, O::Failed, "failed"),
            (P::Terminal, E::NotApplicable, O::Cancelled, "cancelled"),
            (P::Terminal, E::NotApplicable, O::Expired, "expired"),
            (P::Terminal, E::NotApplicable, O::Skipped, "skipped"),
            (P::Terminal, E::NotApplicable, O::None, "failed"),
        ];
        for (phase, eligibility, outcome, word) in table {
            assert_eq!(derive_public_state(phase, eligibility, outcome).as_str(), word);
        }
    }

    #[test]
    fn a_vector_survives_json_in_snake_case() {
        let vector = LEGAL[0].vectors().next().expect("a row has a vector");
        let json = serde_json::to_string(&vector).expect("serialises");
        assert!(json.contains(r#""lifecycle_phase":"runnable""#), "{json}");
        assert_eq!(serde_json::from_str::<StateVector>(&json).expect("deserialises"), vector);
    }
}
