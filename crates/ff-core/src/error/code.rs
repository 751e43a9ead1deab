//! The codes a function refuses with: one row each.

use super::{ErrorClass, ErrorKind};
use crate::literal::{UnknownLiteral, literals};

/// Declares the codes. `Kind { Variant "code" Class status "sentence"; }`
macro_rules! codes {
    ($($kind:ident { $(
        $variant:ident $text:literal $class:ident $status:literal $sentence:literal;
    )* })*) => {
        literals! {
            /// Why a call was refused. The text is stable and part of the wire contract.
            Code("error code") {
                $($(#[doc = $sentence] $variant = $text,)*)*
            }
        }

        impl Code {
            /// What kind of error this is.
            pub const fn kind(self) -> ErrorKind {
                match self {
                    $($(Self::$variant => ErrorKind::$kind,)*)*
                }
            }

            /// What the caller should do.
            pub const fn class(self) -> ErrorClass {
                match self {
                    $($(Self::$variant => ErrorClass::$class,)*)*
                }
            }

            /// The status of an HTTP answer that carries this code.
            pub const fn http_status(self) -> u16 {
                match self {
                    $($(Self::$variant => $status,)*)*
                }
            }

            /// What happened and what helps, for a person.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $($(Self::$variant => $sentence,)*)*
                }
            }
        }
    };
}

impl Code {
    /// Reads a code. An unknown one is an error of its own, never a default.
    pub fn parse(text: &str) -> Result<Self, UnknownLiteral> {
        text.parse()
    }
}

codes! {
    NotFound {
        AttemptNotFound "attempt_not_found" Terminal 404
            "The execution has no such attempt.";
        BudgetNotFound "budget_not_found" Terminal 404
            "The budget does not exist; create it first.";
        WorkerNotFound "worker_not_found" Terminal 404
            "The worker instance is not registered, or its registration ran out.";
        ExecutionNotFound "execution_not_found" Terminal 404
            "The execution does not exist, or its retention time is over.";
        EdgeNotFound "edge_not_found" Terminal 404
            "The flow has no such edge.";
        FlowNotFound "flow_not_found" Terminal 404
            "The flow does not exist; create it first.";
        QuotaPolicyNotFound "quota_policy_not_found" Terminal 404
            "The quota policy does not exist; create it first.";
        StreamNotFound "stream_not_found" Expected 404
            "The attempt has written no output yet.";
    }

    Validation {
        BudgetOverrideNotAllowed "budget_override_not_allowed" Terminal 400
            "This budget may not be overridden.";
        CapabilityMismatch "capability_mismatch" Retryable 409
            "The worker lacks capabilities that the execution requires.";
        FenceRequired "fence_required" Terminal 400
            "The execution is leased: lease id, lease epoch and attempt id must be given.";
        FrameTooLarge "frame_too_large" Terminal 413
            "A frame is larger than allowed; cut it, or store it elsewhere and pass a reference.";
        InvalidBlockingReason "invalid_blocking_reason" Terminal 400
            "Executions cannot be held back for this reason.";
        InvalidBudgetScope "invalid_budget_scope" Terminal 400
            "The budget's scope is unknown.";
        InvalidCapabilities "invalid_capabilities" Terminal 400
            "The capability list breaks a rule: no blanks or commas, limited number and length.";
        InvalidDependency "invalid_dependency" Terminal 400
            "The dependency does not exist or does not belong to this execution.";
        InvalidFrameType "invalid_frame_type" SoftError 400
            "A frame's type is a word without colons and braces; the frame was not stored.";
        InvalidGraceMs "invalid_grace_ms" Terminal 400
            "The grace period must be a whole number of milliseconds, zero or more.";
        InvalidInput "invalid_input" Terminal 400
            "An argument is missing or out of range.";
        InvalidKid "invalid_kid" Terminal 400
            "A key id is 1 to 64 printable ASCII characters without blanks and colons.";
        InvalidLeaseForSuspend "invalid_lease_for_suspend" Terminal 400
            "Only the holder of the current lease can suspend the execution.";
        InvalidOffset "invalid_offset" Retryable 400
            "The position is not one of this stream; read from the start or from a given cursor.";
        InvalidPolicyJson "invalid_policy_json" Terminal 400
            "The policy is not valid JSON or breaks a rule.";
        InvalidQuotaSpec "invalid_quota_spec" Terminal 400
            "The quota's limits or window are out of range.";
        InvalidSecretHex "invalid_secret_hex" Terminal 400
            "The secret must be an even number of hexadecimal digits, at least 32.";
        InvalidTagKey "invalid_tag_key" Terminal 400
            "A tag key is a lower-case word, a dot and a name, as in team.owner.";
        InvalidToken "invalid_token" Terminal 401
            "The waitpoint token is not genuine.";
        InvalidWaitpointForExecution "invalid_waitpoint_for_execution" Terminal 400
            "The waitpoint belongs to another execution or attempt.";
        InvalidWaitpointKey "invalid_waitpoint_key" Terminal 400
            "The waitpoint key is empty or malformed.";
        KidLimitExceeded "kid_limit_exceeded" Retryable 409
            "As many keys are accepted already as may be; wait until the grace of one is over.";
        MissingToken "missing_token" Terminal 401
            "Delivering a signal needs the waitpoint's token.";
        PartialFenceTriple "partial_fence_triple" Terminal 400
            "Lease id, lease epoch and attempt id belong together: give all three or none.";
        PartitionMismatch "partition_mismatch" Terminal 400
            "The id belongs to another partition than the one called.";
        GraphTooLarge "graph_too_large" Terminal 413
            "The flow would have more members or edges than a flow may have.";
        PayloadTooLarge "payload_too_large" Terminal 413
            "The payload is larger than allowed; store it elsewhere and pass a reference.";
        RetentionLimitExceeded "retention_limit_exceeded" Terminal 413
            "The frame, or the summary with it, is larger than the stream keeps.";
        SignalLimitExceeded "signal_limit_exceeded" Terminal 409
            "The execution has received as many signals as it accepts.";
        Unauthorized "unauthorized" Terminal 401
            "The caller may not do this.";
        WaitpointLimitExceeded "waitpoint_limit_exceeded" Terminal 409
            "The execution has as many open waitpoints as it may have; close some.";
        WaitpointNotTokenBound "waitpoint_not_token_bound" Terminal 400
            "The waitpoint has no token and cannot be used for signals from outside.";
    }

    Contention {
        ClaimGrantExpired "claim_grant_expired" Retryable 409
            "The grant ran out before it was used; ask for another.";
        ConcurrencyLimitExceeded "concurrency_limit_exceeded" Retryable 429
            "As many executions as the quota allows are running.";
        ExecutionNotActive "execution_not_active" Terminal 409
            "The execution is not running any more; the details say where it stands.";
        ExecutionNotEligible "execution_not_eligible" Informational 409
            "The execution is not waiting to be claimed.";
        ExecutionNotInEligibleSet "execution_not_in_eligible_set" Informational 409
            "The execution has left its lane's queue meanwhile.";
        ExecutionNotLeaseable "execution_not_leaseable" Retryable 409
            "The execution cannot be claimed in its present state.";
        ExecutionNotReclaimable "execution_not_reclaimable" Informational 409
            "The execution's lease is neither lapsed nor revoked.";
        FactsDiffer "facts_differ" Retryable 409
            "The partition was brought up to date by somebody else meanwhile; look again.";
        LaneFull "lane_full" Retryable 429
            "As many executions wait in the lane as its limit allows; submit again later.";
        LanePaused "lane_paused" Retryable 409
            "The lane is paused; nothing of it is handed out until it is resumed.";
        InvalidClaimGrant "invalid_claim_grant" Retryable 409
            "The grant does not exist, was used, or was given to another worker.";
        LeaseConflict "lease_conflict" Retryable 409
            "Another worker holds the execution.";
        NoActiveLease "no_active_lease" Informational 409
            "Nobody holds a lease on the execution.";
        NoEligibleExecution "no_eligible_execution" Retryable 409
            "No execution in this lane can be claimed now.";
        NotAResumedExecution "not_a_resumed_execution" Retryable 409
            "The execution has no interrupted attempt to go on with; claim it as a fresh one.";
        TooManyNeeds "too_many_needs" Retryable 429
            "Too many combinations of namespace, kind and capabilities wait in the lane; use another.";
        RateLimitExceeded "rate_limit_exceeded" Retryable 429
            "The quota's rate is reached; try again after its window.";
        StaleGraphRevision "stale_graph_revision" Retryable 409
            "The flow has changed meanwhile; read it and try again.";
        UseClaimResumedExecution "use_claim_resumed_execution" Retryable 409
            "The execution goes on with an interrupted attempt; claim it as a resumed one.";
        WaitpointNotFound "waitpoint_not_found" Retryable 404
            "The waitpoint does not exist, or not yet.";
        WaitpointPendingUseBufferScript "waitpoint_pending_use_buffer_script" Retryable 409
            "The execution is not suspended yet; the signal must be buffered.";
    }

    Conflict {
        ActiveAttemptExists "active_attempt_exists" Bug 409
            "The execution is marked as waiting although an attempt is running.";
        BudgetAttachConflict "budget_attach_conflict" Terminal 409
            "The budget is attached already, with other settings.";
        CycleDetected "cycle_detected" Terminal 409
            "The dependency would make an execution wait for itself.";
        DependencyAlreadyExists "dependency_already_exists" Terminal 409
            "These two executions already depend on each other under another edge.";
        DeploymentMismatch "deployment_mismatch" Terminal 409
            "The store was created with another number of partitions; use the same counts.";
        DataLost "data_lost" Terminal 409
            "A stored value of the execution is gone: something other than the engine removed it.";
        ExecutionAlreadyInFlow "execution_already_in_flow" Terminal 409
            "The execution belongs to another flow.";
        FactsLimitExceeded "facts_limit_exceeded" Terminal 409
            "As many lanes and kinds have settings of their own as may have; clear unused ones.";
        IdempotencyConflict "idempotency_conflict" Terminal 409
            "The idempotency key was used for a different request.";
        WorkerInstanceInUse "worker_instance_in_use" Retryable 409
            "Another live process has this worker instance id; give each process its own.";
        QuotaAttachConflict "quota_attach_conflict" Terminal 409
            "The quota policy is attached already, with other settings.";
        RotationConflict "rotation_conflict" Terminal 409
            "This key id already has another secret; rotate to a new key id.";
        SelfReferencingEdge "self_referencing_edge" Terminal 409
            "An execution cannot depend on itself.";
        StoreFormatMismatch "store_format_mismatch" Terminal 409
            "The store was written in another format (the first number, ours is the second): use \
             the version that wrote it, or start with an empty store.";
        WaitpointAlreadyExists "waitpoint_already_exists" Informational 409
            "The waitpoint exists already.";
    }

    State {
        AlreadySuspended "already_suspended" Informational 409
            "The execution is suspended already.";
        AttemptAlreadyTerminal "attempt_already_terminal" Informational 409
            "The attempt has ended already.";
        AttemptNotStarted "attempt_not_started" Terminal 409
            "The attempt has not started.";
        BudgetExceeded "budget_exceeded" Cooperative 409
            "A budget's hard limit is reached; finish up and stop.";
        BudgetSoftExceeded "budget_soft_exceeded" Informational 409
            "A budget's soft limit is reached; the usage was counted.";
        DepsNotSatisfied "deps_not_satisfied" Informational 409
            "The execution still waits for others of its flow.";
        DuplicateSignal "duplicate_signal" Informational 409
            "The signal was delivered before.";
        ExecutionNotEligibleForAttempt "execution_not_eligible_for_attempt" Terminal 409
            "No attempt can start in the execution's present state.";
        ExecutionNotInFlow "execution_not_in_flow" Terminal 409
            "The execution does not belong to this flow; add it first.";
        ExecutionNotSuspended "execution_not_suspended" Informational 409
            "The execution is not suspended.";
        ExecutionNotTerminal "execution_not_terminal" Terminal 409
            "The execution has not ended; only ended ones can be replayed.";
        FlowAlreadyTerminal "flow_already_terminal" Terminal 409
            "The flow has ended and accepts no changes.";
        FlowCancelled "flow_cancelled" Terminal 409
            "The flow was cancelled; its executions do not run any more.";
        FlowNotCancelled "flow_not_cancelled" Terminal 409
            "The flow was not cancelled.";
        FlowSealed "flow_sealed" Terminal 409
            "The flow is whole: it takes new members only from its running members.";
        FrameGap "frame_gap" Terminal 409
            "Frames before this one are missing; the detail is the number that is expected.";
        GrantAlreadyExists "grant_already_exists" Informational 409
            "The execution is reserved for another worker.";
        LeaseExpired "lease_expired" Terminal 409
            "The lease ran out; another worker may have taken over. Stop working on it.";
        LeaseRevoked "lease_revoked" Terminal 409
            "The lease was taken away. Stop working on it.";
        MaxReplaysExhausted "max_replays_exhausted" Terminal 409
            "The execution was replayed as often as its policy allows.";
        MaxRetriesExhausted "max_retries_exhausted" Terminal 409
            "The execution was tried as often as its policy allows.";
        NotDue "not_due" Informational 409
            "The budget begins anew at a later time.";
        NotBlockedByDeps "not_blocked_by_deps" Informational 409
            "The execution does not wait for others.";
        NotRunnable "not_runnable" Terminal 409
            "The execution is not waiting to run.";
        OkAlreadyApplied "ok_already_applied" Informational 409
            "This was done before; nothing changed.";
        OperatorOverrideNotAllowed "operator_override_not_allowed" Terminal 409
            "The suspension does not let an operator end the wait.";
        PendingWaitpointExpired "pending_waitpoint_expired" Informational 409
            "The waitpoint ran out before the execution was suspended on it.";
        ReplayNotAllowed "replay_not_allowed" Terminal 409
            "The execution may not be replayed.";
        ResumeConditionNotMet "resume_condition_not_met" Terminal 409
            "The signals so far do not satisfy the condition.";
        StaleLease "stale_lease" Terminal 409
            "The lease is not the current one. Stop working on it.";
        StaleOwnerCannotAppend "stale_owner_cannot_append" Terminal 409
            "Only the holder of the current lease can write output.";
        StreamAlreadyClosed "stream_already_closed" Informational 409
            "The output stream is closed already.";
        StreamClosed "stream_closed" Terminal 409
            "The output stream is closed; its attempt has ended.";
        TargetNotSignalable "target_not_signalable" Terminal 409
            "The execution is in no state to receive signals.";
        Terminal "terminal" Terminal 409
            "The execution has ended.";
        TokenExpired "token_expired" Terminal 401
            "The waitpoint token was signed with a key that is no longer accepted.";
        UpstreamNotTerminal "upstream_not_terminal" Informational 409
            "The upstream of the edge has not ended.";
        WaitpointActive "waitpoint_active" Informational 409
            "The execution is suspended on the waitpoint: resume or cancel it instead.";
        WaitpointClosed "waitpoint_closed" Informational 409
            "The waitpoint accepts no more signals.";
        WaitpointNotOpen "waitpoint_not_open" Informational 409
            "The waitpoint is not open.";
        WaitpointNotPending "waitpoint_not_pending" Informational 409
            "The waitpoint is in use or closed.";
    }

    Bug {
        AttemptNotInCreatedState "attempt_not_in_created_state" Bug 500
            "An attempt was to be started twice.";
        HmacSecretNotInitialized "hmac_secret_not_initialized" Bug 500
            "No secret for waitpoint tokens is installed; the server installs it when it starts.";
        InvalidKeysMissingHmac "invalid_keys_missing_hmac" Bug 500
            "A function that checks tokens was called without the place of the secrets.";
        InvalidSecret "invalid_secret" Bug 500
            "The installed secret for waitpoint tokens is damaged; rotate to a new one.";
        UnknownFunction "unknown_function" Bug 500
            "The store's function library does not know the function; load the current library.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_parses_and_says_something() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()).as_ref(), Ok(code));
            let sentence = code.sentence();
            assert!(sentence.ends_with('.') && sentence.len() > 10, "{code}: {sentence}");
            assert!((400..600).contains(&code.http_status()), "{code}");
        }
    }

    #[test]
    fn no_code_is_listed_twice() {
        let texts: std::collections::BTreeSet<&str> =
            Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
    }

    #[test]
    fn unknown_codes_are_refused() {
        for text in ["", "Stale_lease", "stale lease", "not_yet_due"] {
            assert!(Code::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn losing_the_lease_is_terminal_and_contention_can_be_retried() {
        for code in [Code::StaleLease, Code::LeaseExpired, Code::LeaseRevoked] {
            assert_eq!(code.class(), ErrorClass::Terminal);
        }
        assert_eq!(Code::ExecutionNotActive.class(), ErrorClass::Terminal);
        assert_eq!(Code::LeaseConflict.class(), ErrorClass::Retryable);
        assert_eq!(Code::CapabilityMismatch.class(), ErrorClass::Retryable);
    }

    #[test]
    fn kinds_and_statuses_agree() {
        for code in Code::ALL {
            match code.kind() {
                ErrorKind::NotFound => assert_eq!(code.http_status(), 404, "{code}"),
                ErrorKind::Bug => assert_eq!(code.http_status(), 500, "{code}"),
                _ => assert!(code.http_status() < 500, "{code}"),
            }
        }
    }
}
