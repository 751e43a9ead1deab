//! Lanes: how much waits in them, and their settings. A lane needs no registration: one that was
//! never set is open, in order and without a limit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::list::LaneDepth;
use super::secrets::PartitionFailure;
use crate::ToSchema;
use crate::argument::check_range;
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::operation::{Method, Nothing, Operation};
use crate::types::{LaneId, TimestampMs};

/// Keeps the settings of lanes.
pub trait Lanes: Send + Sync {
    /// One lane: how much waits in it, and its settings. A read.
    fn describe_lane(&self, lane: LaneId) -> Answer<'_, LaneDepth>;

    /// Changes settings of a lane in all partitions: what is absent stays as it is. Repeating it
    /// is harmless, and carries on where a partition could not be reached.
    fn set_lane(&self, lane: LaneId, request: SetLane) -> Answer<'_, LaneChanged>;
}

/// The settings of a lane.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneSettings {
    /// Since when nothing of it is handed out; none unless it is paused.
    pub paused_at: Option<TimestampMs>,
    /// How many executions may wait in it; more are refused with `lane_full`.
    pub waiting_max: Option<u64>,
    /// What every partition allows of that.
    pub partition_max: Option<u64>,
    /// Who is served next.
    #[serde(default)]
    pub order: LaneOrder,
    /// Of a fair lane: who shares it, `namespace` or the name of a tag.
    pub fair_by: Option<String>,
    /// Of a fair lane: since when it is.
    pub fair_since: Option<TimestampMs>,
    /// Of a fair lane: who gets more than one share, and how many.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// How many claims of workers that take from several lanes it gets, for each one of another
    /// lane; one unless it was set.
    pub claim_weight: Option<u32>,
}

/// Who is served next in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaneOrder {
    /// The highest priority, then the oldest.
    #[default]
    InOrder,
    /// Those who share the lane in turn, by weight, each in the order of submission.
    Fair,
}

impl LaneOrder {
    /// The word that it travels as.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InOrder => "in_order",
            Self::Fair => "fair",
        }
    }
}

/// Changes settings of a lane; what is absent stays as it is.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLane {
    /// Nothing of a paused lane is handed out; what runs goes on, and may finish.
    pub paused: Option<bool>,
    /// How many executions may wait in it; zero for any number.
    #[schema(maximum = 1_000_000_000u64)]
    pub waiting_max: Option<u64>,
    /// Who is served next.
    pub order: Option<LaneOrder>,
    /// Of a fair lane: who shares it, `namespace` (if never said) or the name of a tag.
    #[schema(max_length = 128)]
    pub fair_by: Option<String>,
    /// Of a fair lane: who gets more than one share, and how many. Replaces all earlier weights.
    pub weights: Option<BTreeMap<String, u32>>,
    /// How many claims of workers that take from several lanes it gets, for each one of a lane in
    /// which this was never set.
    #[schema(minimum = 1, maximum = 1000)]
    pub claim_weight: Option<u32>,
}

impl SetLane {
    /// A request that pauses or resumes the lane.
    pub fn paused(paused: bool) -> Self {
        Self { paused: Some(paused), ..Self::default() }
    }

    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_range("waiting_max", self.waiting_max.unwrap_or(0), 0..=limits::LANE_WAITING_MAX)?;
        let claims = u64::from(self.claim_weight.unwrap_or(1));
        check_range("claim_weight", claims, 1..=limits::LANE_WEIGHT_MAX)?;
        let weights = self.weights.iter().flatten();
        let count = self.weights.as_ref().map_or(0, BTreeMap::len) as u64;
        check_range("number of weights", count, 0..=limits::LANE_WEIGHTS_MAX)?;
        for (_, weight) in weights {
            check_range("weight", u64::from(*weight), 1..=limits::LANE_WEIGHT_MAX)?;
        }
        Ok(())
    }
}

impl Operation for SetLane {
    type Target = LaneId;
    type Request = Self;
    type Reply = LaneChanged;

    const METHOD: Method = Method::Put;
    const PATH: &'static str = "/v1/lanes/{lane}";
    const NAME: &'static str = "setLane";
    const SUMMARY: &'static str = "Changes settings of a lane; what is absent stays as it is.";
    const ANSWERS: &'static str = "The settings, and where they are not known yet.";
    const ABOUT: &'static str = "Repeating it is safe, and carries on where a partition could not \
        be reached. A lane needs no registration before it is set or used.";
    const REFUSES: &'static [u16] = &[409];
}

/// Pauses a lane.
#[derive(Clone, Copy, Debug)]
pub struct PauseLane;

impl Operation for PauseLane {
    type Target = LaneId;
    type Request = Nothing;
    type Reply = LaneChanged;

    const PATH: &'static str = "/v1/lanes/{lane}/pause";
    const NAME: &'static str = "pauseLane";
    const SUMMARY: &'static str = "Hands nothing of a lane out any more.";
    const ANSWERS: &'static str = "The settings, and where they are not known yet.";
    const ABOUT: &'static str = "What runs goes on: its leases are renewed, and it may finish.";
    const REFUSES: &'static [u16] = &[409];
}

/// Resumes a lane.
#[derive(Clone, Copy, Debug)]
pub struct ResumeLane;

impl Operation for ResumeLane {
    type Target = LaneId;
    type Request = Nothing;
    type Reply = LaneChanged;

    const PATH: &'static str = "/v1/lanes/{lane}/resume";
    const NAME: &'static str = "resumeLane";
    const SUMMARY: &'static str = "Hands a paused lane's executions out again.";
    const ANSWERS: &'static str = "The settings, and where they are not known yet.";
    const REFUSES: &'static [u16] = &[409];
}

/// Reads one lane.
#[derive(Clone, Copy, Debug)]
pub struct DescribeLane;

impl Operation for DescribeLane {
    type Target = LaneId;
    type Request = Nothing;
    type Reply = LaneDepth;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/lanes/{lane}";
    const NAME: &'static str = "getLane";
    const SUMMARY: &'static str = "How much waits in a lane, and its settings.";
    const ANSWERS: &'static str = "The lane. One that nobody used is empty.";
    const REFUSES: &'static [u16] = &[];
}

/// The answer to a change of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneChanged {
    /// The lane.
    pub lane: LaneId,
    /// What holds from now on.
    pub settings: LaneSettings,
    /// The partitions that do not know of it yet; servers bring them up to date by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<PartitionFailure>,
}
