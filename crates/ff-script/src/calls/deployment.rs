//! Facts that hold for all partitions.

use ff_core::types::LaneId;

use crate::call::functions;
use crate::wire::List;

functions! {
    /// Fixes counts and format of a new deployment, or checks those of an existing one.
    write ff_open_deployment(OpenDeployment {
        num_flow_partitions: u16,
        num_budget_partitions: u16,
        num_quota_partitions: u16,
        format: u64,
    })
    -> OpenDeploymentReply { "OK" => Opened { created: bool, format: u64 } }
    refuses [DeploymentMismatch, StoreFormatMismatch];

    /// Moves what waits in the one queue that a lane had to the queues by need, a bounded number at
    /// a time.
    write ff_upgrade_lane(UpgradeLane { lane: LaneId })
    -> UpgradeLaneReply { "OK" => Upgraded { left: u32 } }
    refuses [];

    /// Says that all partitions have the format of this version.
    write ff_finish_upgrade(FinishUpgrade {})
    -> FinishUpgradeReply { "OK" => Finished {} }
    refuses [];

    /// Adds a lane to the list of lanes in use.
    write ff_register_lane(RegisterLane { lane: LaneId })
    -> RegisterLaneReply { "OK" => Registered {}, "ALREADY_SATISFIED" => Known {} }
    refuses [];

    /// Lists the lanes in use, sorted by name.
    read ff_list_lanes(ListLanes {})
    -> ListLanesReply { "OK" => Lanes { lanes: List<LaneId> } }
    refuses [];
}
