//! Extending, revoking and ending leases.

use ff_core::types::{BudgetId, ExecutionId, LeaseEpoch, LeaseId, RequestId, TimestampMs};

use crate::call::functions;
use crate::value::Value;
use crate::wire::Reading;

/// Budgets whose hard limit is reached, as a lease was told; hardly ever there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetsReached(pub Vec<BudgetId>);

impl Reading for BudgetsReached {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return Some(Self::default()) };
        values.into_iter().map(BudgetId::read).collect::<Option<_>>().map(Self)
    }
}

functions! {
    /// Extends the lease of a running attempt; never shortens it.
    write ff_renew_lease(RenewLease { held, lease_ttl_ms: u64 })
    -> RenewLeaseReply {
        "OK" => Renewed {
            lease_expires_at: TimestampMs,
            lease_epoch: LeaseEpoch,
            budgets_reached: BudgetsReached,
        },
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
