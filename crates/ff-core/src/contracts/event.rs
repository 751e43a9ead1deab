//! The event log of a partition: one entry per transition, bounded, readable from any position.

use serde::{Deserialize, Serialize};

use super::list::page_limit;
use crate::ToSchema;
use crate::error::EngineError;
use crate::types::{
    AttemptIndex, EventCursor, ExecutionId, FlowId, LeaseEpoch, TimestampMs, WorkerInstanceId,
};

/// One transition.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its position in the partition's log.
    pub cursor: EventCursor,
    /// What happened, in one word.
    pub kind: String,
    /// To which execution; none if it happened to a flow.
    pub execution_id: Option<ExecutionId>,
    /// To which flow; none if it happened to an execution.
    pub flow_id: Option<FlowId>,
    /// To which of its attempts.
    pub attempt_index: Option<AttemptIndex>,
    /// Under which lease of the attempt.
    pub lease_epoch: Option<LeaseEpoch>,
    /// By which worker process that lease was held last.
    pub worker_instance_id: Option<WorkerInstanceId>,
    /// When, by the store's clock.
    pub at: TimestampMs,
    /// Why, if somebody said so.
    pub reason: Option<String>,
}

/// Which events of a partition to read.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventQuery {
    /// The partition, by its index.
    #[schema(value_type = crate::schema::PartitionIndex)]
    pub partition: u16,
    /// Events after this position; from the oldest one kept if absent.
    pub after: Option<EventCursor>,
    /// How many at most; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl EventQuery {
    /// How many events are asked for.
    pub fn checked_limit(&self) -> Result<u32, EngineError> {
        page_limit(self.limit, 100)
    }
}

/// The events of one execution that its partition's log still holds, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// The events.
    pub events: Vec<Event>,
    /// False if older events are gone: the log is bounded.
    pub complete: bool,
}

/// Some events in their order.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// Where to go on reading, also when there is nothing more yet. None only for an empty log.
    pub next_cursor: Option<EventCursor>,
    /// True if events after the given position are gone already: the log is bounded, and the
    /// reader was too slow.
    pub truncated: bool,
}
