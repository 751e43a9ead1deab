//! The deployment: what a server runs on, its lanes, and its health.

use ff_core::contracts::LaneDepth;
use ff_core::partition::PartitionConfig;
use ff_core::types::{LaneId, TimestampMs};
use serde::{Deserialize, Serialize};

use crate::execution::same_fields;
#[cfg(feature = "openapi")]
use crate::schema;

/// What a server runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Deployment {
    /// The server's version.
    pub version: String,
    /// The store: `embedded`, `valkey` or `valkey-cluster`.
    pub store: String,
    /// How many partitions there are.
    pub partitions: Partitions,
}

/// How many partitions each family has. Fixed for the life of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Partitions {
    /// Home of executions and flows.
    pub num_flow_partitions: u16,
    /// Home of budgets.
    pub num_budget_partitions: u16,
    /// Home of quotas.
    pub num_quota_partitions: u16,
}

same_fields! {
    Partitions = PartitionConfig {
        num_flow_partitions, num_budget_partitions, num_quota_partitions
    }
}

/// Which lanes to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct LaneQuery {
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<schema::Lane>))]
    pub cursor: Option<LaneId>,
    /// How many at most; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Depths of this partition only, by its index; of all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 65535))]
    pub partition: Option<u16>,
}

/// A page of lanes, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LaneList {
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// The last lane of this page if more follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Lane>))]
    pub next_cursor: Option<LaneId>,
}

/// A lane and how much waits in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = LaneDepth))]
pub struct Lane {
    /// The lane.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Lane))]
    pub lane: LaneId,
    /// Executions that could be claimed now.
    pub waiting: u64,
    /// When the oldest of those at the head was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub head_created_at: Option<TimestampMs>,
}

same_fields! {
    Lane = LaneDepth { lane, waiting, head_created_at }
}

/// Which events to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct EventQuery {
    /// The partition, by its index.
    #[cfg_attr(feature = "openapi", param(maximum = 65535))]
    pub partition: u16,
    /// Events after this position; from the oldest one kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<schema::EventCursor>))]
    pub after: Option<ff_core::types::EventCursor>,
    /// How many at most; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// How a result is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ResultQuery {
    /// How long to wait for the end; 0 if absent. The answer comes as soon as it has ended.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", param(value_type = schema::WaitMs))]
    pub wait_ms: u64,
}

/// The health of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// What an operator should know although requests are answered, such as acknowledged work that
    /// the store has lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
