//! Listing executions.

use ff_core::state::PublicState;
use ff_core::types::{ExecutionKind, LaneId, Namespace, TimestampMs};

use crate::call::functions;
use crate::value::Value;
use crate::wire::{List, Rest};

functions! {
    /// Lists executions of a partition by filter, from a cursor. `lanes` are the lanes whose queues
    /// may hold what is asked for.
    read ff_list_executions(ListExecutions {
        namespace: Option<Namespace>,
        lane: Option<LaneId>,
        state: Option<PublicState>,
        kind: Option<ExecutionKind>,
        from_ms: Option<TimestampMs>,
        to_ms: Option<TimestampMs>,
        tag_name: Option<String>,
        tag_value: Option<String>,
        cursor: String,
        limit: u32,
        lanes: Rest<LaneId>,
    })
    -> ListExecutionsReply {
        "OK" => Page { executions: List<Value>, next_cursor: Option<String> },
    }
    refuses [];

    /// Counts the executions of a partition: all, those that run, and those that are over.
    read ff_count_executions(CountExecutions {})
    -> CountExecutionsReply {
        "OK" => Counts {
            total: u64,
            running: u64,
            succeeded: u64,
            failed: u64,
            cancelled: u64,
            expired: u64,
            skipped: u64,
        },
    }
    refuses [];
}
