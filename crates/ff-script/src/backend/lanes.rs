//! The settings of lanes.

use std::collections::BTreeMap;

use ff_core::contracts::{LaneChanged, LaneDepth, LaneSettings, SetLane};
use ff_core::engine_backend::{Answer, Lanes};
use ff_core::error::EngineError;
use ff_core::types::LaneId;

use super::FIRST;
use super::ScriptBackend;
use super::facts::Decided;
use crate::calls::lane::{self, SetLaneReply};
use crate::host::Host;

/// The word before the names of lanes in facts.
const FACT: &str = "lane";

impl<H: Host + ?Sized> Lanes for ScriptBackend<H> {
    fn describe_lane(&self, lane: LaneId) -> Answer<'_, LaneDepth> {
        Box::pin(async move {
            let settings = self.lane_settings().await?.remove(&lane);
            let depths = self.summed_depths(vec![lane.clone()]).await?.lanes.into_iter().next();
            let none = LaneDepth { lane, waiting: 0, head_created_at: None, settings: None };
            Ok(LaneDepth { settings, ..depths.unwrap_or(none) })
        })
    }

    fn set_lane(&self, lane: LaneId, request: SetLane) -> Answer<'_, LaneChanged> {
        Box::pin(async move {
            request.validate()?;
            let call = lane::SetLane {
                lane: lane.clone(),
                paused: request.paused,
                waiting_max: request.waiting_max,
                order: request.order.map(|order| order.as_str().to_owned()),
                fair_by: request.fair_by,
                weights_json: request
                    .weights
                    .as_ref()
                    .map(weights_json)
                    .transpose()?
                    .unwrap_or_default(),
                claim_weight: request.claim_weight,
            };
            let (decided, value) = match self.call(FIRST, call).await? {
                SetLaneReply::Changed { revision, before, name, value } => {
                    (Decided::Changed { revision, before, name, value: value.clone() }, value)
                }
                SetLaneReply::Known { revision, installed, value } => {
                    (Decided::Known { revision, installed }, value)
                }
            };
            let settings = read(&value)?.unwrap_or_default();
            Ok(LaneChanged { lane, settings, failed: self.spread(decided).await })
        })
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// The lanes that have settings, and these.
    pub(super) async fn lane_settings(
        &self,
    ) -> Result<BTreeMap<LaneId, LaneSettings>, EngineError> {
        let facts = self.all_facts().await?;
        let mut settings = BTreeMap::new();
        for (name, value) in facts.of(FACT) {
            let (lane, value) = (name.parse::<LaneId>(), read(value)?);
            if let (Ok(lane), Some(value)) = (lane, value) {
                settings.insert(lane, value);
            }
        }
        Ok(settings)
    }
}

fn weights_json(weights: &BTreeMap<String, u32>) -> Result<String, EngineError> {
    let text = serde_json::to_string(weights);
    text.map_err(|error| EngineError::invalid("weights", error.to_string()))
}

/// Settings as they are stored; none if there are none.
fn read(text: &str) -> Result<Option<LaneSettings>, EngineError> {
    if text.is_empty() {
        return Ok(None);
    }
    let read = serde_json::from_str(text);
    read.map(Some).map_err(|error| EngineError::corrupt("fact", FACT, error.to_string()))
}
