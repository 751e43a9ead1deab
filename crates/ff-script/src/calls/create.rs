//! Creating executions.

use ff_core::state::PublicState;
use ff_core::types::{
    ExecutionId, ExecutionKind, IdempotencyKey, LaneId, Moment, Namespace, TimestampMs,
};

use crate::call::functions;
use crate::value::Value;
use crate::wire::{List, Rest};

functions! {
    /// Creates an execution.
    write ff_create_execution(CreateExecution {
        execution_id: ExecutionId,
        namespace: Namespace,
        lane: LaneId,
        kind: ExecutionKind,
        priority: u16,
        creator: String,
        policy_json: String,
        payload: Vec<u8>,
        delay_until: Option<Moment>,
        deadline_at: Option<TimestampMs>,
        tags_json: String,
        idempotency_key: Option<IdempotencyKey>,
        dedup_ms: Option<u64>,
        content_digest: String,
        call_id: Option<u32>,
    })
    -> CreateExecutionReply {
        "OK" => Created { execution_id: ExecutionId, public_state: PublicState },
        "DUPLICATE" => Duplicate { execution_id: ExecutionId, public_state: PublicState },
    }
    refuses [IdempotencyConflict, InvalidPolicyJson, InvalidCapabilities, InvalidTagKey];

    /// Creates several executions of one partition; each gets an answer of its own. `items` are the
    /// arguments of `ff_create_execution`, one execution after the other.
    write ff_create_executions(CreateExecutions { items: Rest<Vec<u8>> })
    -> CreateExecutionsReply { "OK" => Answers { answers: List<Value> } }
    refuses [];
}
