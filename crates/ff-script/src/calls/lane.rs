//! The settings of lanes.

use ff_core::types::LaneId;

use crate::call::functions;

functions! {
    /// Changes settings of a lane; what is not given stays as it is.
    write ff_set_lane(SetLane {
        lane: LaneId,
        paused: Option<bool>,
        waiting_max: Option<u64>,
        order: Option<String>,
        fair_by: Option<String>,
        weights_json: String,
        claim_weight: Option<u32>,
    })
    -> SetLaneReply {
        "OK" => Changed { revision: u64, before: u64, name: String, value: String },
        "ALREADY_SATISFIED" => Known { revision: u64, installed: u64, value: String },
    }
    refuses [FactsLimitExceeded];
}
