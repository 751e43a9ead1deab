//! Upgrading a store that an older version wrote. Each step can be repeated: several servers may do
//! it at the same time, and one that dies in the middle leaves the rest to the next.

use ff_core::error::EngineError;

use super::{FIRST, ScriptBackend};
use crate::calls::deployment::{
    FinishUpgrade, ListLanes, ListLanesReply, UpgradeLane, UpgradeLaneReply,
};
use crate::host::Host;

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Moves what waits in each lane to its queues by need.
    pub(super) async fn upgrade(&self) -> Result<(), EngineError> {
        let ListLanesReply::Lanes { lanes } = self.call(FIRST, ListLanes {}).await?;
        for partition in self.config.flow_partitions() {
            for lane in &lanes.0 {
                loop {
                    let call = UpgradeLane { lane: lane.clone() };
                    let UpgradeLaneReply::Upgraded { left } = self.call(partition, call).await?;
                    if left == 0 {
                        break;
                    }
                }
            }
        }
        self.call(FIRST, FinishUpgrade {}).await.map(drop)
    }
}
