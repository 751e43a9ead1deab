//! Reserving one execution for one worker.

use ff_core::capability::CapabilitySet;
use ff_core::contracts::GrantKind;
use ff_core::need::Need;
use ff_core::types::{
    ExecutionId, GrantId, LaneId, Namespace, TimestampMs, WorkerId, WorkerInstanceId,
};

use crate::call::functions;
use crate::wire::Joined;

functions! {
    /// Reserves a claimable execution for one worker.
    write ff_issue_claim_grant(IssueClaimGrant {
        execution_id: ExecutionId,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        capabilities: CapabilitySet,
        grant_ttl_ms: u64,
        grant_id: GrantId,
    })
    -> IssueClaimGrantReply {
        "OK" => Granted { execution_id: ExecutionId, grant_id: GrantId, grant_expires_at: TimestampMs },
        "DUPLICATE" => Existing { execution_id: ExecutionId, grant_id: GrantId, grant_expires_at: TimestampMs },
    }
    refuses [ExecutionNotFound, ExecutionNotEligible, GrantAlreadyExists, InvalidCapabilities,
        CapabilityMismatch, FlowCancelled, LanePaused];

    /// Reserves the best execution of a lane that a worker could claim or take over. `kind` says
    /// which call the grant is for: `claim`, `resume` or `reclaim`.
    write ff_grant_next(GrantNext {
        lane: LaneId,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        capabilities: CapabilitySet,
        grant_ttl_ms: u64,
        retry: bool,
        grant_id: GrantId,
        need: Option<Need>,
        score_max: Option<i64>,
        namespaces: Joined<Namespace>,
    })
    -> GrantNextReply {
        "OK" => Granted {
            execution_id: ExecutionId,
            grant_id: GrantId,
            grant_expires_at: TimestampMs,
            kind: GrantKind,
            next_score: Option<i64>,
        },
        "DUPLICATE" => GrantedBefore {
            execution_id: ExecutionId,
            grant_id: GrantId,
            grant_expires_at: TimestampMs,
            kind: GrantKind,
            next_score: Option<i64>,
        },
        "EMPTY" => Nothing { next_score: Option<i64> },
    }
    refuses [InvalidCapabilities, CapabilityMismatch];

    /// Reserves an execution that lost its lease for one worker.
    write ff_issue_reclaim_grant(IssueReclaimGrant = IssueClaimGrant)
    refuses [ExecutionNotFound, ExecutionNotReclaimable, MaxRetriesExhausted, GrantAlreadyExists,
        InvalidCapabilities, CapabilityMismatch, FlowCancelled, LanePaused];
}
