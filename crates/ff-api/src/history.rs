//! What happened to an execution: its attempts and its events.

use ff_core::contracts::{AttemptRecord, Event as DomainEvent, EventPage as DomainPage};
use ff_core::state::{AttemptLifecycle, AttemptType};
use ff_core::types::{
    AttemptId, AttemptIndex, EventCursor, ExecutionId, LeaseEpoch, TimestampMs, WorkerId,
    WorkerInstanceId,
};
use serde::{Deserialize, Serialize};

use crate::execution::same_fields;
#[cfg(feature = "openapi")]
use crate::schema;

/// The attempts of an execution, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempts {
    /// The attempts.
    pub attempts: Vec<Attempt>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Its number, from 0.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub index: AttemptIndex,
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Id))]
    pub id: AttemptId,
    /// Why it was started.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AttemptType))]
    pub attempt_type: AttemptType,
    /// What led to it, in words: the failure before a retry, the reason of a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// How far it got.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AttemptLifecycle))]
    pub state: AttemptLifecycle,
    /// When it was claimed.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub started_at: TimestampMs,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub ended_at: Option<TimestampMs>,
    /// The kind of worker that ran it last.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_id: WorkerId,
    /// The process that ran it last.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_instance_id: WorkerInstanceId,
    /// The epoch of its last lease.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub lease_epoch: LeaseEpoch,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The category of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_category: Option<String>,
}

/// One transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// Its position in the partition's log.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::EventCursor))]
    pub cursor: EventCursor,
    /// What happened, in one word.
    pub kind: String,
    /// To which execution.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::ExecutionId))]
    pub execution_id: ExecutionId,
    /// To which of its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>))]
    pub attempt_index: Option<AttemptIndex>,
    /// Under which lease of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub lease_epoch: Option<LeaseEpoch>,
    /// By which worker process that lease was held last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::WorkerName>))]
    pub worker_instance_id: Option<WorkerInstanceId>,
    /// When, by the store's clock.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub at: TimestampMs,
    /// Why, if somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The events of one execution that its partition's log still holds, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct History {
    /// The events.
    pub events: Vec<Event>,
    /// False if older events are gone: the log is bounded.
    pub complete: bool,
}

/// Some events of one partition, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// Where to go on reading, also when there is nothing more yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::EventCursor>))]
    pub next_cursor: Option<EventCursor>,
    /// True if events after the given position are gone already.
    pub truncated: bool,
}

same_fields! {
    Attempt = AttemptRecord {
        index, id, attempt_type, cause, state, started_at, ended_at, worker_id, worker_instance_id,
        lease_epoch, failure_reason, failure_category
    }
    Event = DomainEvent {
        cursor, kind, execution_id, attempt_index, lease_epoch, worker_instance_id, at, reason
    }
}

impl From<DomainPage> for EventPage {
    fn from(page: DomainPage) -> Self {
        let events = page.events.into_iter().map(Into::into).collect();
        Self { events, next_cursor: page.next_cursor, truncated: page.truncated }
    }
}

impl From<EventPage> for DomainPage {
    fn from(page: EventPage) -> Self {
        let events = page.events.into_iter().map(Into::into).collect();
        Self { events, next_cursor: page.next_cursor, truncated: page.truncated }
    }
}
