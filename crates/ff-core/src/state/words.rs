//! The words of the state vector and of attempt records.

use crate::literal::literals;

literals! {
    /// The large step of an execution's life.
    LifecyclePhase("lifecycle phase") {
        /// Announced but not yet accepted. Known to readers, written by nobody.
        Submitted = "submitted",
        /// Accepted; runs as soon as nothing keeps it from running.
        Runnable = "runnable",
        /// In the hands of a worker, or of one whose lease was lost.
        Active = "active",
        /// Paused until a signal arrives or a time passes.
        Suspended = "suspended",
        /// Ended, with an outcome.
        Terminal = "terminal",
    }

    /// Who holds an execution.
    OwnershipState("ownership state") {
        /// Nobody.
        Unowned = "unowned",
        /// A worker, under a lease.
        Leased = "leased",
        /// Nobody any more: the lease ran out and another worker may take over.
        LeaseExpiredReclaimable = "lease_expired_reclaimable",
        /// Nobody any more: the lease was taken away and another worker may take over.
        LeaseRevoked = "lease_revoked",
    }

    /// Whether an execution may be claimed, and if not, what kind of obstacle there is.
    EligibilityState("eligibility state") {
        /// May be claimed now.
        EligibleNow = "eligible_now",
        /// Waits for a time.
        NotEligibleUntilTime = "not_eligible_until_time",
        /// Waits for other executions of its flow.
        BlockedByDependencies = "blocked_by_dependencies",
        /// A budget is used up.
        BlockedByBudget = "blocked_by_budget",
        /// A rate or concurrency limit is reached.
        BlockedByQuota = "blocked_by_quota",
        /// No known worker has the required capabilities.
        BlockedByRoute = "blocked_by_route",
        /// Its lane does not serve work now.
        BlockedByLaneState = "blocked_by_lane_state",
        /// A person holds it back.
        BlockedByOperator = "blocked_by_operator",
        /// It is not waiting to be claimed.
        NotApplicable = "not_applicable",
    }

    /// What an execution waits for.
    BlockingReason("blocking reason") {
        /// Nothing.
        None = "none",
        /// A worker to claim it.
        WaitingForWorker = "waiting_for_worker",
        /// The pause before a retry.
        WaitingForRetryBackoff = "waiting_for_retry_backoff",
        /// The pause between a signal and its effect.
        WaitingForResumeDelay = "waiting_for_resume_delay",
        /// A time set by the submitter or the worker.
        WaitingForDelay = "waiting_for_delay",
        /// A signal.
        WaitingForSignal = "waiting_for_signal",
        /// Somebody's approval.
        WaitingForApproval = "waiting_for_approval",
        /// A call from another system.
        WaitingForCallback = "waiting_for_callback",
        /// A tool's answer.
        WaitingForToolResult = "waiting_for_tool_result",
        /// Other executions of its flow.
        WaitingForChildren = "waiting_for_children",
        /// Room in a budget.
        WaitingForBudget = "waiting_for_budget",
        /// Room in a quota.
        WaitingForQuota = "waiting_for_quota",
        /// A worker that has the required capabilities.
        WaitingForCapableWorker = "waiting_for_capable_worker",
        /// A worker in the right place. Known to readers, written by nobody.
        WaitingForLocalityMatch = "waiting_for_locality_match",
        /// A person who paused it.
        PausedByOperator = "paused_by_operator",
        /// A policy that paused it.
        PausedByPolicy = "paused_by_policy",
        /// The end of its flow's cancellation. Known to readers, written by nobody.
        PausedByFlowCancel = "paused_by_flow_cancel",
    }

    /// How an execution ended.
    TerminalOutcome("terminal outcome") {
        /// It has not ended.
        None = "none",
        /// Its worker completed it.
        Success = "success",
        /// Its last attempt failed, or it may not be taken over again.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// A timeout or its deadline passed.
        Expired = "expired",
        /// A dependency can no longer be satisfied.
        Skipped = "skipped",
    }

    /// What the current or next attempt of an execution is doing.
    AttemptState("attempt state") {
        /// There is none and there will be none.
        None = "none",
        /// The first attempt has not started.
        PendingFirstAttempt = "pending_first_attempt",
        /// An attempt is running.
        RunningAttempt = "running_attempt",
        /// An attempt was paused or lost its worker.
        AttemptInterrupted = "attempt_interrupted",
        /// The next attempt will be a retry.
        PendingRetryAttempt = "pending_retry_attempt",
        /// The next attempt will be a replay.
        PendingReplayAttempt = "pending_replay_attempt",
        /// The last attempt has ended.
        AttemptTerminal = "attempt_terminal",
    }

    /// The one word shown to people.
    PublicState("public state") {
        /// Waits to be claimed.
        Waiting = "waiting",
        /// Waits for a time.
        Delayed = "delayed",
        /// Waits for room in a budget or quota.
        RateLimited = "rate_limited",
        /// Waits for other executions of its flow.
        WaitingChildren = "waiting_children",
        /// Is being worked on, or is about to be taken over.
        Active = "active",
        /// Is paused until a signal arrives.
        Suspended = "suspended",
        /// Ended well.
        Completed = "completed",
        /// Ended by failure.
        Failed = "failed",
        /// Ended by request.
        Cancelled = "cancelled",
        /// Ended by time.
        Expired = "expired",
        /// Ended without having been possible.
        Skipped = "skipped",
    }

    /// The state of one attempt's own record.
    AttemptLifecycle("attempt lifecycle") {
        /// Made but not started.
        Created = "created",
        /// Running.
        Started = "started",
        /// Paused; the same attempt goes on later.
        Suspended = "suspended",
        /// Completed.
        EndedSuccess = "ended_success",
        /// Failed, or ran out of time.
        EndedFailure = "ended_failure",
        /// Cancelled.
        EndedCancelled = "ended_cancelled",
        /// Lost its worker; another attempt took over.
        InterruptedReclaimed = "interrupted_reclaimed",
    }

    /// Why an attempt was started.
    AttemptType("attempt type") {
        /// It is the first.
        Initial = "initial",
        /// The one before failed.
        Retry = "retry",
        /// The one before lost its worker.
        Reclaim = "reclaim",
        /// Somebody asked for an ended execution to run again.
        Replay = "replay",
        /// The one before gave up and another way is tried.
        Fallback = "fallback",
    }
}

impl PublicState {
    /// True for the five states an execution ends in.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired | Self::Skipped
        )
    }
}

impl AttemptLifecycle {
    /// True for the four states an attempt ends in.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::EndedSuccess
                | Self::EndedFailure
                | Self::EndedCancelled
                | Self::InterruptedReclaimed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips<T>(all: &[T])
    where
        T: Copy + PartialEq + std::fmt::Debug + std::fmt::Display + std::str::FromStr,
        T::Err: std::fmt::Debug,
    {
        let words: std::collections::BTreeSet<String> = all.iter().map(T::to_string).collect();
        assert_eq!(words.len(), all.len(), "every value has a word of its own");
        for value in all {
            assert_eq!(&value.to_string().parse::<T>().expect("its own word"), value);
        }
    }

    #[test]
    fn every_word_parses_to_its_value_and_no_two_share_one() {
        round_trips(LifecyclePhase::ALL);
        round_trips(OwnershipState::ALL);
        round_trips(EligibilityState::ALL);
        round_trips(BlockingReason::ALL);
        round_trips(TerminalOutcome::ALL);
        round_trips(AttemptState::ALL);
        round_trips(PublicState::ALL);
        round_trips(AttemptLifecycle::ALL);
        round_trips(AttemptType::ALL);
    }

    #[test]
    fn parsing_is_strict() {
        for wrong in ["", "Active", "ACTIVE", " active", "activ", "active\n"] {
            let error = wrong.parse::<LifecyclePhase>().expect_err(wrong);
            assert_eq!((error.what, error.text.as_str()), ("lifecycle phase", wrong));
        }
        assert!(serde_json::from_str::<PublicState>("\"running\"").is_err());
    }

    #[test]
    fn five_public_states_and_four_attempt_states_are_final() {
        assert_eq!(PublicState::ALL.iter().filter(|state| state.is_terminal()).count(), 5);
        assert_eq!(AttemptLifecycle::ALL.iter().filter(|state| state.is_final()).count(), 4);
    }
}
