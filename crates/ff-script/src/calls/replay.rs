//! Running a finished execution again.

use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, RequestId, TimestampMs};

use crate::call::functions;

functions! {
    /// Runs a finished execution again, up to the policy's maximum.
    write ff_replay_execution(ReplayExecution {
        execution_id: ExecutionId,
        reason: String,
        requested_by: String,
        deadline_at: Option<TimestampMs>,
        expected_replay_count: Option<u32>,
        request_id: Option<RequestId>,
        downstream: bool,
    })
    -> ReplayExecutionReply {
        "OK" => Replayed { public_state: PublicState, replay_count: u32 },
        "DUPLICATE" => ReplayedBefore { public_state: PublicState, replay_count: u32 },
    }
    refuses [ExecutionNotFound, ExecutionNotTerminal, MaxReplaysExhausted, FlowCancelled,
        FlowAlreadyTerminal, DepsNotSatisfied, GraphTooLarge];
}
