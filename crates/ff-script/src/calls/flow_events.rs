//! The events of one flow.

use ff_core::types::{AttemptIndex, EventCursor, ExecutionId, FlowId, WorkerInstanceId};

use crate::call::functions;
use crate::wire::{List, row};

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

/// An event of a flow or of one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the values are named as in the library")]
pub struct FlowEventRow {
    pub cursor: EventCursor,
    pub name: String,
    pub execution_id: Option<ExecutionId>,
    pub member: Option<String>,
    pub attempt_index: Option<AttemptIndex>,
    pub why: Option<String>,
    pub worker_instance_id: Option<WorkerInstanceId>,
}

row!(FlowEventRow { cursor, name, execution_id, member, attempt_index, why, worker_instance_id });
