//! Claiming from a lane's queue.

use ff_core::capability::CapabilitySet;
use ff_core::types::{LaneId, LeaseId, WorkerId, WorkerInstanceId};

use super::claim::ClaimRow;
use crate::call::functions;
use crate::wire::{List, Rest};

functions! {
    /// Claims the best claimable executions of a lane: as many as lease ids are given, at most.
    write ff_claim_next(ClaimNext {
        lane: LaneId,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        capabilities: CapabilitySet,
        lease_ttl_ms: u64,
        retry: bool,
        lease_ids: Rest<LeaseId>,
    })
    -> ClaimNextReply {
        "OK" => Claimed { claims: List<ClaimRow> },
        "DUPLICATE" => ClaimedBefore { claims: List<ClaimRow> },
    }
    refuses [InvalidCapabilities];
}
