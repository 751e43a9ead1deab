//! Quota policies, and the places that leases take under them.

use ff_core::types::{ExecutionId, LeaseEpoch, QuotaPolicyId, TimestampMs};

use crate::call::functions;
use crate::wire::{List, Rest, row};

functions! {
    /// Makes a policy that limits the rate, the concurrency or both of each of its keys.
    write ff_create_quota_policy(CreateQuotaPolicy {
        quota_policy_id: QuotaPolicyId,
        window_seconds: Option<u64>,
        max_requests_per_window: Option<u64>,
        max_concurrent: Option<u64>,
        jitter_ms: Option<u64>,
    })
    -> CreateQuotaPolicyReply {
        "OK" => Created { quota_policy_id: QuotaPolicyId },
        "ALREADY_SATISFIED" => Known { quota_policy_id: QuotaPolicyId },
    }
    refuses [InvalidQuotaSpec, QuotaAttachConflict];

    /// Gives a policy other limits; who may pass now is let pass at once.
    write ff_update_quota_policy(UpdateQuotaPolicy {
        quota_policy_id: QuotaPolicyId,
        window_seconds: Option<u64>,
        max_requests_per_window: Option<u64>,
        max_concurrent: Option<u64>,
        jitter_ms: Option<u64>,
    })
    -> UpdateQuotaPolicyReply {
        "OK" => Updated { quota_policy_id: QuotaPolicyId },
        "ALREADY_SATISFIED" => Known { quota_policy_id: QuotaPolicyId },
    }
    refuses [QuotaPolicyNotFound, InvalidQuotaSpec];

    /// Makes a policy known to all partitions, so that executions can be created under it; without
    /// limits it is one that is gone.
    write ff_note_quota_policy(NoteQuotaPolicy {
        quota_policy_id: QuotaPolicyId,
        window_seconds: Option<u64>,
        max_requests_per_window: Option<u64>,
        max_concurrent: Option<u64>,
        jitter_ms: Option<u64>,
    })
    -> NoteQuotaPolicyReply {
        "OK" => Changed { revision: u64, before: u64, name: String, value: String },
        "ALREADY_SATISFIED" => Known { revision: u64, installed: u64, value: String },
    }
    refuses [FactsLimitExceeded];

    /// Removes a policy: its limits do not hold any more, and who waits for it is let pass.
    write ff_delete_quota_policy(DeleteQuotaPolicy { quota_policy_id: QuotaPolicyId })
    -> DeleteQuotaPolicyReply { "OK" => Deleted {}, "ALREADY_SATISFIED" => Gone {} }
    refuses [];

    /// Tells the limits of a policy, and how one of its keys stands.
    read ff_describe_quota_policy(DescribeQuotaPolicy {
        quota_policy_id: QuotaPolicyId,
        quota_key: String,
    })
    -> DescribeQuotaPolicyReply {
        "OK" => Described {
            policy: PolicyRow,
            keys_awaited: u64,
            running: u64,
            in_window: u64,
            partitions_waiting: u64,
            opens_at: Option<TimestampMs>,
            longest: List<ExecutionId>,
        },
    }
    refuses [QuotaPolicyNotFound];

    /// Lists who runs under a key of a policy, longest first, and which of its keys are awaited.
    read ff_list_quota_holders(ListQuotaHolders {
        quota_policy_id: QuotaPolicyId,
        quota_key: String,
        limit: u32,
    })
    -> ListQuotaHoldersReply {
        "OK" => Holders {
            holders: Vec<(ExecutionId, TimestampMs)>,
            keys_awaited: Vec<String>,
        },
    }
    refuses [];

    /// Lets a lease pass a key of a policy if its limits allow that, and gives it a place.
    write ff_check_admission_and_record(CheckAdmissionAndRecord {
        quota_policy_id: QuotaPolicyId,
        quota_key: String,
        execution_id: ExecutionId,
        lease_epoch: LeaseEpoch,
        lease_expires_at: TimestampMs,
    })
    -> CheckAdmissionAndRecordReply {
        "ADMITTED" => Admitted {},
        "ALREADY_ADMITTED" => AlreadyAdmitted {},
        "RATE_EXCEEDED" => RateExceeded { retry_after_ms: u64, opens_at: TimestampMs },
        "CONCURRENCY_EXCEEDED" => ConcurrencyExceeded {},
    }
    refuses [QuotaPolicyNotFound, StaleLease, LeaseExpired];

    /// Gives back the places of leases that are over; tells what was opened for others by that.
    /// Five items each: policy, key, execution, epoch, and 1 if its worker was told of it.
    write ff_release_admission(ReleaseAdmission { items: Rest<String> })
    -> ReleaseAdmissionReply {
        "OK" => Released { released: u32, openings: Vec<String> },
        "ALREADY_SATISFIED" => ReleasedBefore { released: u32, openings: Vec<String> },
    }
    refuses [];

    /// Forgets what is known of executions that are gone. Three items each: policy, key and
    /// execution.
    write ff_forget_admission(ForgetAdmission { items: Rest<String> })
    -> ForgetAdmissionReply { "OK" => Forgotten {} }
    refuses [];
}

/// What is stored of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; lua/verb/quota.lua has the order")]
pub struct PolicyRow {
    pub window_seconds: Option<u64>,
    pub max_requests_per_window: Option<u64>,
    pub max_concurrent: Option<u64>,
    pub jitter_ms: Option<u64>,
    pub created_at: TimestampMs,
    pub changed_at: Option<TimestampMs>,
}

row!(PolicyRow {
    window_seconds,
    max_requests_per_window,
    max_concurrent,
    jitter_ms,
    created_at,
    changed_at,
});
