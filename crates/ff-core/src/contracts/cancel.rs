//! Interventions from outside: cancelling, revoking, changing priority.

use crate::literal::literals;
use crate::types::{LeaseEpoch, LeaseId};

literals! {
    /// Who cancels an execution without holding its lease. The holder cancels through its handle.
    CancelSource("cancel source") {
        /// A person or a program acting for one.
        OperatorOverride = "operator_override",
        /// The cancellation of its flow.
        FlowCascade = "flow_cascade",
        /// A rule about time.
        SystemTimeout = "system_timeout",
    }
}

/// The answer to a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// The lease was taken away.
    Revoked {
        /// The lease that was current.
        lease_id: LeaseId,
        /// Its epoch.
        lease_epoch: LeaseEpoch,
    },
    /// It had been taken away before.
    AlreadyRevoked,
    /// It had run out before.
    AlreadyExpired,
}

/// The answer to a change of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityChange {
    /// The priority before.
    pub old: u16,
    /// The priority now.
    pub new: u16,
}
