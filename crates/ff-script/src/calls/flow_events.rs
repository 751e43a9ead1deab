//! The events of one flow.

use ff_core::types::{AttemptIndex, EventCursor, ExecutionId, FlowId, WorkerInstanceId};

use super::flow_reads::rows;
use crate::call::functions;
use crate::value::Value;
use crate::wire::{List, Reading};

functions! {
    /// Looks for the events of a flow and its members in the log, from a cursor on.
    read ff_read_flow_events(ReadFlowEvents {
        flow_id: FlowId,
        cursor: String,
        limit: u32,
        seek: bool,
    })
    -> ReadFlowEventsReply {
        "OK" => Page {
            events: List<FlowEventRow>,
            next_cursor: Option<String>,
            truncated: bool,
            more: bool,
            ended: bool,
            found: bool,
        },
    }
    refuses [FlowNotFound];
}

rows! {
    /// An event of a flow or of one of its members.
    FlowEventRow {
        cursor: EventCursor,
        name: String,
        execution_id: Option<ExecutionId>,
        member: Option<String>,
        attempt_index: Option<AttemptIndex>,
        why: Option<String>,
        worker_instance_id: Option<WorkerInstanceId>,
    }
}
