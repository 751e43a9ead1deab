//! Why an execution does not run.

use ff_core::contracts::OpenUpstream;
use ff_core::need::Need;
use ff_core::types::{BudgetId, ExecutionId, LaneId, QuotaPolicyId, TimestampMs, WorkerInstanceId};

use super::describe::DescribeExecutionReply;
use crate::call::functions;
use crate::wire::{List, row};

functions! {
    /// Reads what keeps an execution from running, and its description.
    read ff_explain_execution(ExplainExecution { execution_id: ExecutionId })
    -> ExplainExecutionReply {
        "OK" => Explained {
            now: TimestampMs,
            position: Option<u64>,
            queue_length: Option<u64>,
            score: Option<String>,
            reserved_for: Option<WorkerInstanceId>,
            reserved_until: Option<TimestampMs>,
            needed: u32,
            edges: u32,
            satisfied: u32,
            upstreams: List<OpenUpstream>,
            children: u32,
            open_children: u32,
            unsealed: bool,
            turn_of: Option<ExecutionId>,
            budget_awaited: Option<BudgetId>,
            quota_awaited: Option<QuotaPolicyId>,
            quota_key: String,
            signal_names: Vec<String>,
            description: DescribeExecutionReply,
        },
    }
    refuses [ExecutionNotFound];

    /// Counts what stands before a score in the queue of a lane and a need.
    read ff_count_ahead(CountAhead {
        lane: LaneId,
        need: Need,
        score: String,
    })
    -> CountAheadReply { "OK" => Counted { ahead: u64 } }
    refuses [];
}

// In the order of `lua/verb/explain.lua`.
row!(OpenUpstream { execution_id, name, public_state });
