//! The event log of a partition: one entry per transition, bounded, readable from any position.

use crate::types::{
    AttemptIndex, EventCursor, ExecutionId, LeaseEpoch, TimestampMs, WorkerInstanceId,
};

/// One transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its position in the partition's log.
    pub cursor: EventCursor,
    /// What happened, in one word.
    pub kind: String,
    /// To which execution.
    pub execution_id: ExecutionId,
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

/// Some events in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// Where to go on reading, also when there is nothing more yet. None only for an empty log.
    pub next_cursor: Option<EventCursor>,
    /// True if events after the given position are gone already: the log is bounded, and the
    /// reader was too slow.
    pub truncated: bool,
}
