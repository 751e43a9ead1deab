//! Ids, names and numbers: every value that identifies something, valid by construction. Ids are
//! minted outside this crate and come in as UUIDs.

mod approver;
mod event_cursor;
mod execution_id;
mod execution_ref;
mod moment;
mod names;
mod numbers;
mod stream_cursor;
mod uuid_ids;
mod waitpoint_token;

pub use approver::Approver;
pub use event_cursor::{EventCursor, EventCursorParseError};
pub use execution_id::{ExecutionId, ExecutionIdParseError, PartitionOutOfRange};
pub use execution_ref::{ExecutionRef, ExecutionRefParseError};
pub use moment::Moment;
pub use names::{
    ExecutionKind, IdempotencyKey, LaneId, NameError, NameRule, Namespace, ThrottleKey, WorkerId,
    WorkerInstanceId,
};
pub use numbers::{AttemptIndex, LeaseEpoch, TimestampMs};
pub use stream_cursor::{StreamCursor, StreamCursorParseError};
pub use uuid_ids::{
    AttemptId, BudgetId, EdgeId, FlowId, GrantId, IdParseError, LeaseId, QuotaPolicyId, RequestId,
    SignalId, SuspensionId, WaitpointId, WorkerSession,
};
pub use waitpoint_token::{WaitpointHmac, WaitpointToken};

use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// What proves that a lease is the current one; to pass on to systems that check it.
// Every call of a worker about its execution carries all three, and the store refuses any that is
// not current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = Fence)]
pub struct LeaseFence {
    /// The lease.
    pub lease_id: LeaseId,
    /// Grows with every new lease of the execution.
    pub lease_epoch: LeaseEpoch,
    /// The attempt that runs under the lease.
    pub attempt_id: AttemptId,
}
