//! Lists of executions, page by page.

use ff_core::contracts::{ExecutionSummary as DomainSummary, ListFilter, ListPage};
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, Namespace, TimestampMs, WorkerId};
use serde::{Deserialize, Serialize};

use crate::execution::same_fields;
#[cfg(feature = "openapi")]
use crate::schema;

/// How many executions a page has unless the request says otherwise.
pub const LIMIT_DEFAULT: u32 = 50;

/// Which executions to list. What is absent does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListQuery {
    /// Only this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<schema::Namespace>))]
    pub namespace: Option<Namespace>,
    /// Only this lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<schema::Lane>))]
    pub lane: Option<LaneId>,
    /// Only this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<schema::PublicState>))]
    pub state: Option<PublicState>,
    /// Only this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<schema::Kind>))]
    pub kind: Option<ExecutionKind>,
    /// Only what was submitted at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<schema::TimestampMs>))]
    pub from: Option<TimestampMs>,
    /// Only what was submitted before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<schema::TimestampMs>))]
    pub to: Option<TimestampMs>,
    /// Only this partition, by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 65535))]
    pub partition: Option<u16>,
    /// Where to go on: the `next_cursor` of the page before, with the same filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(max_length = 512))]
    pub cursor: Option<String>,
    /// How many at most; 50 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

impl ListQuery {
    /// The domain's filter.
    pub fn filter(&self) -> ListFilter {
        ListFilter {
            namespace: self.namespace.clone(),
            lane: self.lane.clone(),
            state: self.state,
            kind: self.kind.clone(),
            from: self.from,
            to: self.to,
        }
    }

    /// The query for a filter, from the beginning of every partition.
    pub fn new(filter: &ListFilter) -> Self {
        Self {
            namespace: filter.namespace.clone(),
            lane: filter.lane.clone(),
            state: filter.state,
            kind: filter.kind.clone(),
            from: filter.from,
            to: filter.to,
            ..Self::default()
        }
    }

    /// The query as it stands behind the question mark.
    pub fn to_query(&self) -> String {
        let number = |time: Option<TimestampMs>| time.map(|time| time.to_string());
        let pairs = [
            ("namespace", self.namespace.as_ref().map(ToString::to_string)),
            ("lane", self.lane.as_ref().map(ToString::to_string)),
            ("state", self.state.map(|state| state.to_string())),
            ("kind", self.kind.as_ref().map(ToString::to_string)),
            ("from", number(self.from)),
            ("to", number(self.to)),
            ("partition", self.partition.map(|partition| partition.to_string())),
            ("cursor", self.cursor.clone()),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ];
        let given = pairs.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        given
            .map(|(name, value)| format!("{name}={}", crate::paths::encode(&value)))
            .collect::<Vec<_>>()
            .join("&")
    }
}

/// A page of executions. Partitions follow one another by index; inside a partition ended
/// executions and unfiltered lists come newest first, live states in the order of their queue. A
/// page may be shorter than asked for although more follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecutionList {
    /// The executions.
    pub executions: Vec<ExecutionSummary>,
    /// Where the next page begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecutionSummary {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::ExecutionId))]
    pub execution_id: ExecutionId,
    /// The tenant or environment it belongs to.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Namespace))]
    pub namespace: Namespace,
    /// The queue it waits or waited in.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Lane))]
    pub lane: LaneId,
    /// The handler that runs it.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Kind))]
    pub kind: ExecutionKind,
    /// The one word for where it stands.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::PublicState))]
    pub public_state: PublicState,
    /// Higher runs first.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Priority))]
    pub priority: u16,
    /// How many attempts were started.
    pub total_attempt_count: u32,
    /// When it was submitted.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub created_at: TimestampMs,
    /// When it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub completed_at: Option<TimestampMs>,
    /// The worker of its latest attempt, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::WorkerName>))]
    pub worker_id: Option<WorkerId>,
}

same_fields! {
    ExecutionSummary = DomainSummary {
        execution_id, namespace, lane, kind, public_state, priority, total_attempt_count,
        created_at, completed_at, worker_id
    }
}

/// For a list of one partition.
impl From<ExecutionList> for ListPage {
    fn from(list: ExecutionList) -> Self {
        let items = list.executions.into_iter().map(Into::into).collect();
        Self { items, next_cursor: list.next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_percent_encoded() {
        let query = ListQuery {
            lane: LaneId::try_new("eu west/1").ok(),
            state: Some(PublicState::WaitingChildren),
            limit: Some(7),
            ..ListQuery::default()
        };
        assert_eq!(query.to_query(), "lane=eu%20west%2F1&state=waiting_children&limit=7");
        assert_eq!(ListQuery::new(&query.filter()).lane, query.lane);
    }
}
