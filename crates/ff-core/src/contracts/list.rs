//! Listings, page by page.

use serde::{Deserialize, Serialize};

use super::lanes::LaneSettings;
use super::tags::TagFilter;
use crate::ToSchema;
use crate::argument::check_range;
use crate::error::EngineError;
use crate::limits;
use crate::need::Need;
use crate::partition::PartitionConfig;
use crate::state::PublicState;
use crate::types::{
    ExecutionId, ExecutionKind, LaneId, Namespace, TimestampMs, WorkerId, WorkerInstanceId,
};

/// Which executions to list, and which page of them. What is absent does not restrict.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListFilter {
    /// Only this namespace.
    pub namespace: Option<Namespace>,
    /// Only this lane.
    pub lane: Option<LaneId>,
    /// Only this state.
    pub state: Option<PublicState>,
    /// Only this kind.
    pub kind: Option<ExecutionKind>,
    /// Only what has this label: `name`, or `name=value`.
    #[schema(value_type = Option<crate::schema::TagFilter>)]
    pub tag: Option<TagFilter>,
    /// Only what was submitted at this time or later.
    #[schema(value_type = Option<crate::schema::Moment>)]
    pub from: Option<TimestampMs>,
    /// Only what was submitted before this time.
    #[schema(value_type = Option<crate::schema::Moment>)]
    pub to: Option<TimestampMs>,
    /// Only this partition, by its index.
    #[schema(value_type = Option<crate::schema::PartitionIndex>)]
    pub partition: Option<u16>,
    /// Where to go on: the `next_cursor` of the page before, with the same filter.
    #[schema(max_length = 512)]
    pub cursor: Option<String>,
    /// How many at most; 50 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl ListFilter {
    /// How many executions are asked for.
    pub fn checked_limit(&self) -> Result<u32, EngineError> {
        page_limit(self.limit, 50)
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self, config: &PartitionConfig) -> Result<(), EngineError> {
        for (field, time) in [("from", self.from), ("to", self.to)] {
            let millis = time.map_or(1, |time| time.as_millis());
            check_range(field, millis, 1..=limits::TIMESTAMP_MS_MAX)?;
        }
        self.partition.map_or(Ok(()), |index| config.flow_partition(index).map(drop))
    }
}

/// One line of a listing.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionSummary {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// The queue it waits or waited in.
    pub lane: LaneId,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// The one word for where it stands.
    pub public_state: PublicState,
    /// Higher runs first.
    #[schema(value_type = crate::schema::Priority)]
    pub priority: u16,
    /// How many attempts were started.
    pub total_attempt_count: u32,
    /// When it was submitted.
    pub created_at: TimestampMs,
    /// When it ended, if it has.
    pub completed_at: Option<TimestampMs>,
    /// The worker of its latest attempt, if there was one.
    pub worker_id: Option<WorkerId>,
    /// Its process.
    pub worker_instance_id: Option<WorkerInstanceId>,
}

/// A page of executions, in one order over all partitions: without a state the newest first; of a
/// state that is over those first that will be kept longest; of any other in the order in which
/// they go on. A page may be shorter than asked for although more follow.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ExecutionList)]
pub struct ListPage {
    /// The executions; may be fewer than asked for although more follow.
    #[serde(rename = "executions")]
    pub items: Vec<ExecutionSummary>,
    /// Where the next page begins; none at the end.
    pub next_cursor: Option<String>,
}

/// Which lanes to list.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LaneQuery {
    /// Where to go on: the `next_cursor` of the page before.
    pub cursor: Option<LaneId>,
    /// How many at most; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
    /// Depths of this partition only, by its index; of all of them if absent.
    #[schema(value_type = Option<crate::schema::PartitionIndex>)]
    pub partition: Option<u16>,
}

impl LaneQuery {
    /// How many lanes are asked for.
    pub fn checked_limit(&self) -> Result<u32, EngineError> {
        page_limit(self.limit, 100)
    }
}

/// A page of lanes, in the order of their names.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneList {
    /// The lanes.
    pub lanes: Vec<LaneDepth>,
    /// The last lane of this page if more follow; the next page begins after it.
    pub next_cursor: Option<LaneId>,
}

/// The names of some lanes, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanePage {
    /// The lanes.
    pub lanes: Vec<LaneId>,
    /// The last lane of this page if more follow; the next page begins after it.
    pub next_cursor: Option<LaneId>,
}

impl From<LaneList> for LanePage {
    fn from(list: LaneList) -> Self {
        let lanes = list.lanes.into_iter().map(|depth| depth.lane).collect();
        Self { lanes, next_cursor: list.next_cursor }
    }
}

/// A lane and how much waits in it.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneDepth {
    /// The lane.
    pub lane: LaneId,
    /// Executions that could be claimed now.
    pub waiting: u64,
    /// When the oldest of those at the head was created.
    pub head_created_at: Option<TimestampMs>,
    /// Its settings; none if nothing was ever set.
    pub settings: Option<LaneSettings>,
}

/// How much of one need waits in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedDepth {
    /// The lane.
    pub lane: LaneId,
    /// What it asks of the worker that takes it.
    pub need: Need,
    /// Executions that could be claimed now.
    pub waiting: u64,
    /// When the oldest of those at the head was created.
    pub head_created_at: Option<TimestampMs>,
}

/// How much waits in all lanes in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// The lanes.
    pub lanes: Vec<LaneDepth>,
    /// What waits in them by need, as far as it is among the longest queues of its partition.
    pub needs: Vec<NeedDepth>,
}

/// How many entries of a page are asked for.
pub(super) fn page_limit(asked: Option<u32>, default: u32) -> Result<u32, EngineError> {
    let limit = asked.unwrap_or(default);
    check_range("limit", limit.into(), 1..=limits::LIST_LIMIT_MAX).map(|()| limit)
}
