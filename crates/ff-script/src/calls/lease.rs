//! Extending, revoking and ending leases.

use ff_core::types::{ExecutionId, LeaseEpoch, LeaseId, RequestId, TimestampMs};

use crate::call::functions;

functions! {
    /// Extends the lease of a running attempt; never shortens it.
    write ff_renew_lease(RenewLease { held, lease_ttl_ms: u64 })
    -> RenewLeaseReply {
        "OK" => Renewed { lease_expires_at: TimestampMs, lease_epoch: LeaseEpoch },
    }
    refuses held [];

    /// Takes a lease away at once; the execution becomes claimable again as a new attempt.
    write ff_revoke_lease(RevokeLease {
        execution_id: ExecutionId,
        expected_lease_id: Option<LeaseId>,
        reason: String,
        request_id: Option<RequestId>,
    })
    -> RevokeLeaseReply {
        "OK" => Revoked { result: String, lease_id: LeaseId, lease_epoch: LeaseEpoch },
        "ALREADY_SATISFIED" => NotHeld { reason: String },
    }
    refuses [ExecutionNotFound, ExecutionNotActive, StaleLease];

    /// Ends a lease whose time is over; a renewal that came first wins.
    write ff_mark_lease_expired_if_due(MarkLeaseExpired { execution_id: ExecutionId })
    -> MarkLeaseExpiredReply {
        "OK" => Ended { result: String },
        "ALREADY_SATISFIED" => NotDue { reason: String },
    }
    refuses [];
}
