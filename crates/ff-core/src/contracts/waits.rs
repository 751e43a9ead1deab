//! What is suspended: for those who look after it.

use serde::{Deserialize, Serialize};

use super::list::page_limit;
use super::suspensions::TimeoutBehavior;
use crate::ToSchema;
use crate::error::EngineError;
use crate::operation::{Method, Nothing, Operation};
use crate::types::{ExecutionId, ExecutionKind, LaneId, Namespace, TimestampMs, WaitpointId};

/// Asks what is suspended.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSuspended {
    /// Only in this partition.
    #[schema(value_type = Option<crate::schema::PartitionIndex>)]
    pub partition: Option<u16>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many at most; 100 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl ListSuspended {
    /// How many are wanted.
    pub fn checked_limit(&self) -> Result<u32, EngineError> {
        page_limit(self.limit, 100)
    }
}

impl Operation for ListSuspended {
    type Target = Nothing;
    type Request = Self;
    type Reply = ListSuspendedPage;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/suspended";
    const NAME: &'static str = "listSuspended";
    const GROUP: &'static str = "waiting";
    const SUMMARY: &'static str = "What is suspended, partition by partition, longest first.";
    const ANSWERS: &'static str = "A page.";
}

/// Some of what is suspended.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListSuspendedPage {
    /// The executions.
    pub entries: Vec<SuspendedExecutionEntry>,
    /// Where the next page begins; none if there is none.
    pub next_cursor: Option<String>,
}

/// A suspended execution.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SuspendedExecutionEntry {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// Its lane.
    pub lane: LaneId,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// Since when.
    pub suspended_at_ms: TimestampMs,
    /// Why.
    pub reason: String,
    /// When the wait ends by itself.
    pub timeout_at: Option<TimestampMs>,
    /// What happens then.
    pub timeout_behavior: Option<TimeoutBehavior>,
    /// What it waits on.
    pub waitpoint_id: WaitpointId,
    /// The name of that.
    pub waitpoint_key: String,
    /// Who asked for it.
    pub requested_by: String,
    /// How many signals came so far.
    pub signal_count: u32,
}
