//! Claiming from a lane's queue.

use ff_core::capability::CapabilitySet;
use ff_core::types::{ExecutionKind, LaneId, LeaseId, WorkerId, WorkerInstanceId};

use super::claim::ClaimRow;
use crate::call::functions;
use crate::wire::{Joined, Rest, Rows};

functions! {
    /// Claims the best claimable executions of a lane: as many as lease ids are given, at most.
    /// Looks at a bounded number of them: `next_skip` is where to go on.
    write ff_claim_next(ClaimNext {
        lane: LaneId,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        capabilities: CapabilitySet,
        lease_ttl_ms: u64,
        retry: bool,
        kinds: Joined<ExecutionKind>,
        skip: u32,
        lease_ids: Rest<LeaseId>,
    })
    -> ClaimNextReply {
        "OK" => Claimed { claims: Rows<ClaimRow>, next_skip: Option<u32> },
        "DUPLICATE" => ClaimedBefore { claims: Rows<ClaimRow>, next_skip: Option<u32> },
    }
    refuses [InvalidCapabilities];
}
