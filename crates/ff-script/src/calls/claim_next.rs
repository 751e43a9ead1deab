//! Claiming from a lane's queue.

use ff_core::capability::CapabilitySet;
use ff_core::need::Need;
use ff_core::types::{ExecutionKind, LaneId, LeaseId, Namespace, WorkerId, WorkerInstanceId};

use super::claim::ClaimRow;
use crate::call::functions;
use crate::wire::{Joined, Rest, Rows};

functions! {
    /// Claims the best claimable executions of a lane: as many as lease ids are given, at most, of
    /// the queue that is named or of all that suit the worker, and none behind `score_max`.
    /// `next_score` is that of the best one that is left.
    write ff_claim_next(ClaimNext {
        lane: LaneId,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        capabilities: CapabilitySet,
        lease_ttl_ms: u64,
        retry: bool,
        need: Option<Need>,
        score_max: Option<i64>,
        kinds: Joined<ExecutionKind>,
        namespaces: Joined<Namespace>,
        lease_ids: Rest<LeaseId>,
    })
    -> ClaimNextReply {
        "OK" => Claimed { claims: Rows<ClaimRow>, next_score: Option<i64> },
        "DUPLICATE" => ClaimedBefore { claims: Rows<ClaimRow>, next_score: Option<i64> },
    }
    refuses [InvalidCapabilities, CapabilityMismatch];

    /// Tells what a claim took whose answer was lost: what its worker holds under its lease ids.
    read ff_recall_claims(RecallClaims {
        worker_instance_id: WorkerInstanceId,
        lease_ttl_ms: u64,
        lease_ids: Rest<LeaseId>,
    })
    -> RecallClaimsReply { "OK" => Recalled { claims: Rows<ClaimRow> } }
    refuses [];
}
