//! Creating executions.

use std::time::Duration;

use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::{
    ExecutionId, ExecutionKind, IdempotencyKey, LaneId, Moment, Namespace, TimestampMs,
};

use crate::call::{Call as _, functions};
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
        sent_ms_ago: Option<u64>,
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

impl CreateExecution {
    /// What is no older than the first send of this call was made by it.
    pub(crate) fn sent_before(&mut self, since: Duration) {
        self.sent_ms_ago = Some(ms_ago(since));
    }
}

impl CreateExecutions {
    /// As above, in the arguments of every execution: it is the last one of each.
    pub(crate) fn sent_before(&mut self, since: Duration) {
        let ago = ms_ago(since).to_string().into_bytes();
        for item in self.items.0.chunks_mut(CreateExecution::CONTRACT.args.len()) {
            if let Some(last) = item.last_mut() {
                last.clone_from(&ago);
            }
        }
    }
}

/// Rounded up, and bounded.
fn ms_ago(since: Duration) -> u64 {
    let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    ms.saturating_add(1).min(limits::SENT_MS_AGO_MAX)
}
