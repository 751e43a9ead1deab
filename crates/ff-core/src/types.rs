//! Ids, names and numbers: every value that identifies something, valid by construction. Ids are
//! minted outside this crate and come in as UUIDs.

mod event_cursor;
mod execution_id;
mod moment;
mod names;
mod numbers;
mod uuid_ids;

pub use event_cursor::{EventCursor, EventCursorParseError};
pub use execution_id::{ExecutionId, ExecutionIdParseError, PartitionOutOfRange};
pub use moment::Moment;
pub use names::{
    ExecutionKind, IdempotencyKey, LaneId, NameError, NameRule, Namespace, WorkerId,
    WorkerInstanceId,
};
pub use numbers::{AttemptIndex, LeaseEpoch, TimestampMs};
pub use uuid_ids::{
    AttemptId, BudgetId, EdgeId, FlowId, GrantId, IdParseError, LeaseId, QuotaPolicyId, RequestId,
    SignalId, SuspensionId, WaitpointId, WorkerSession,
};

/// Proof of holding a lease. Every call of a worker about its execution carries all three, and the
/// store refuses any that is not current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseFence {
    /// The lease itself.
    pub lease_id: LeaseId,
    /// Grows with every new lease of the execution.
    pub lease_epoch: LeaseEpoch,
    /// The attempt that runs under the lease.
    pub attempt_id: AttemptId,
}
