//! Claiming by grant, and the row that every claim answers with.

use ff_core::backend::HandleKind;
use ff_core::contracts::Tags;
use ff_core::state::AttemptType;
use ff_core::types::{
    AttemptId, AttemptIndex, ExecutionId, ExecutionKind, GrantId, LaneId, LeaseEpoch, LeaseId,
    Namespace, TimestampMs, WorkerId, WorkerInstanceId,
};

use crate::call::functions;
use crate::value::Value;
use crate::wire::{Reading, Row};

functions! {
    /// Starts a new attempt of a granted execution under a lease.
    write ff_claim_execution(ClaimExecution {
        execution_id: ExecutionId,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        lane: Option<LaneId>,
        grant_id: GrantId,
        lease_id: LeaseId,
        lease_ttl_ms: u64,
        attempt_id: AttemptId,
    })
    -> ClaimExecutionReply {
        "OK" => Claimed { claim: ClaimRow },
        "DUPLICATE" => ClaimedBefore { claim: ClaimRow },
    }
    refuses [ExecutionNotFound, ExecutionNotLeaseable, LeaseConflict, UseClaimResumedExecution,
        InvalidClaimGrant, ClaimGrantExpired, DataLost];

    /// Goes on with the paused attempt of a granted execution under a new lease.
    write ff_claim_resumed_execution(ClaimResumedExecution {
        execution_id: ExecutionId,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        lane: Option<LaneId>,
        grant_id: GrantId,
        lease_id: LeaseId,
        lease_ttl_ms: u64,
    })
    -> ClaimResumedExecutionReply {
        "OK" => Claimed { claim: ClaimRow },
        "DUPLICATE" => ClaimedBefore { claim: ClaimRow },
    }
    refuses [ExecutionNotFound, ExecutionNotLeaseable, LeaseConflict, NotAResumedExecution,
        InvalidClaimGrant, ClaimGrantExpired, DataLost];

    /// Replaces an attempt whose lease was lost by a new one.
    write ff_reclaim_execution(ReclaimExecution {
        execution_id: ExecutionId,
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        lane: Option<LaneId>,
        grant_id: GrantId,
        lease_id: LeaseId,
        lease_ttl_ms: u64,
        attempt_id: AttemptId,
    })
    -> ReclaimExecutionReply {
        "OK" => Claimed { claim: ClaimRow },
        "DUPLICATE" => ClaimedBefore { claim: ClaimRow },
    }
    refuses [ExecutionNotFound, ExecutionNotReclaimable, MaxRetriesExhausted, InvalidClaimGrant,
        ClaimGrantExpired, DataLost];
}

/// Everything a worker needs to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; lua/model/claim.lua has the order")]
pub struct ClaimRow {
    pub execution_id: ExecutionId,
    pub lease_id: LeaseId,
    pub lease_epoch: LeaseEpoch,
    pub lease_expires_at: TimestampMs,
    pub attempt_id: AttemptId,
    pub attempt_index: AttemptIndex,
    pub attempt_kind: AttemptKind,
    pub lane: LaneId,
    pub kind: ExecutionKind,
    pub namespace: Namespace,
    pub priority: u16,
    pub created_at: TimestampMs,
    pub attempt_timeout_at: Option<TimestampMs>,
    pub deadline_at: Option<TimestampMs>,
    pub payload: Vec<u8>,
    pub tags: Tags,
}

impl Row for ClaimRow {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        let mut next = || values.next();
        Some(Self {
            execution_id: Reading::read(next()?)?,
            lease_id: Reading::read(next()?)?,
            lease_epoch: Reading::read(next()?)?,
            lease_expires_at: Reading::read(next()?)?,
            attempt_id: Reading::read(next()?)?,
            attempt_index: Reading::read(next()?)?,
            attempt_kind: Reading::read(next()?)?,
            lane: Reading::read(next()?)?,
            kind: Reading::read(next()?)?,
            namespace: Reading::read(next()?)?,
            priority: Reading::read(next()?)?,
            created_at: Reading::read(next()?)?,
            attempt_timeout_at: Reading::read(next()?)?,
            deadline_at: Reading::read(next()?)?,
            payload: Reading::read(next()?)?,
            tags: Reading::read(next()?)?,
        })
    }
}

impl Reading for ClaimRow {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        Self::take(&mut values.into_iter())
    }
}

/// What a claim began: a new attempt of some type, or a paused one that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptKind {
    /// A new attempt.
    New(AttemptType),
    /// A paused attempt that goes on.
    Resumed,
}

impl AttemptKind {
    /// The type to tell the worker: a resumed attempt keeps no type of its own here.
    pub fn attempt_type(self) -> AttemptType {
        match self {
            Self::New(attempt_type) => attempt_type,
            Self::Resumed => AttemptType::Initial,
        }
    }

    /// The kind of the handle.
    pub fn handle_kind(self) -> HandleKind {
        match self {
            Self::New(AttemptType::Reclaim) => HandleKind::Reclaimed,
            Self::New(_) => HandleKind::Fresh,
            Self::Resumed => HandleKind::Resumed,
        }
    }
}

impl Reading for AttemptKind {
    fn read(value: Value) -> Option<Self> {
        if value.as_bytes() == Some(b"resumed") {
            return Some(Self::Resumed);
        }
        AttemptType::read(value).map(Self::New)
    }
}
