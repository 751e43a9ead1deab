//! Claims and grants.

use ff_core::backend::Handle;
use ff_core::contracts::{
    ClaimGrant, ClaimRequest, Claimed, GrantRequest, LeaseRequest, NextGrant, NextGrantRequest,
    ReclaimGrant, payload_bytes,
};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::{AttemptId, LeaseFence, LeaseId, WorkerId, WorkerInstanceId};

use super::ScriptBackend;
use crate::calls::claim::{
    ClaimExecution, ClaimExecutionReply, ClaimResumedExecution, ClaimResumedExecutionReply,
    ClaimRow, ReclaimExecution, ReclaimExecutionReply,
};
use crate::calls::claim_next::{ClaimNext, ClaimNextReply};
use crate::calls::grant::{
    GrantNext, GrantNextReply, IssueClaimGrant, IssueClaimGrantReply, IssueReclaimGrant,
    IssueReclaimGrantReply,
};
use crate::host::Host;
use crate::wire::{Joined, Rest};

/// Who claims, and for how long.
struct Holder<'a> {
    worker_id: &'a WorkerId,
    worker_instance_id: &'a WorkerInstanceId,
    lease_ttl_ms: u64,
}

impl Holder<'_> {
    fn claimed(&self, row: ClaimRow) -> Claimed {
        Claimed {
            handle: Handle {
                execution_id: row.execution_id,
                fence: LeaseFence {
                    lease_id: row.lease_id,
                    lease_epoch: row.lease_epoch,
                    attempt_id: row.attempt_id,
                },
                attempt_index: row.attempt_index,
                attempt_type: row.attempt_kind.attempt_type(),
                lane: row.lane,
                worker_id: self.worker_id.clone(),
                worker_instance_id: self.worker_instance_id.clone(),
                lease_ttl_ms: self.lease_ttl_ms,
                kind: row.attempt_kind.handle_kind(),
            },
            namespace: row.namespace,
            kind: row.kind,
            payload: row.payload,
            tags: row.tags,
            priority: row.priority,
            created_at: row.created_at,
            lease_expires_at: row.lease_expires_at,
            attempt_timeout_at: row.attempt_timeout_at,
            deadline_at: row.deadline_at,
        }
    }
}

impl<H: Host> ScriptBackend<H> {
    pub(super) async fn claim_from_queue(
        &self,
        partition: Partition,
        request: ClaimRequest,
    ) -> Result<Vec<Claimed>, EngineError> {
        request.validate()?;
        let holder = Holder {
            worker_id: &request.worker_id,
            worker_instance_id: &request.worker_instance_id,
            lease_ttl_ms: request.lease_ttl_ms,
        };
        // One call looks at a bounded part of the queue. What the worker cannot take may fill more
        // than that, and must not hide what it can.
        let mut claimed = Vec::new();
        let mut next = Some(0);
        while let Some(skip) = next.filter(|_| wants_more(&claimed, &request)) {
            let call = claim_next(&request, &request.lease_ids[claimed.len()..], skip);
            let (ClaimNextReply::Claimed { claims, next_skip }
            | ClaimNextReply::ClaimedBefore { claims, next_skip }) =
                self.call(partition, call).await?;
            claimed.extend(claims.0.into_iter().map(|row| holder.claimed(row)));
            next = next_skip;
        }
        Ok(claimed)
    }

    /// A repetition that begins beyond the end of any queue finds what was taken before and takes
    /// nothing.
    pub(super) async fn recall_from_partition(
        &self,
        partition: Partition,
        request: ClaimRequest,
    ) -> Result<Vec<Claimed>, EngineError> {
        request.validate()?;
        let request = ClaimRequest { retry: true, ..request };
        let beyond = u32::try_from(limits::CLAIM_SKIP_MAX).unwrap_or(u32::MAX);
        let call = claim_next(&request, &request.lease_ids, beyond);
        let claims = match self.call(partition, call).await? {
            ClaimNextReply::Claimed { claims, .. } => claims,
            ClaimNextReply::ClaimedBefore { claims, .. } => claims,
        };
        let holder = Holder {
            worker_id: &request.worker_id,
            worker_instance_id: &request.worker_instance_id,
            lease_ttl_ms: request.lease_ttl_ms,
        };
        Ok(claims.0.into_iter().map(|row| holder.claimed(row)).collect())
    }

    pub(super) async fn grant_claim(
        &self,
        request: GrantRequest,
    ) -> Result<ClaimGrant, EngineError> {
        request.validate()?;
        let (worker_id, worker_instance_id) =
            (request.worker_id.clone(), request.worker_instance_id.clone());
        let call = IssueClaimGrant {
            execution_id: request.execution_id,
            worker_id: request.worker_id,
            worker_instance_id: request.worker_instance_id,
            capabilities: request.capabilities,
            grant_ttl_ms: request.grant_ttl_ms,
            grant_id: request.grant_id,
        };
        let (IssueClaimGrantReply::Granted { execution_id, grant_id, grant_expires_at }
        | IssueClaimGrantReply::Existing { execution_id, grant_id, grant_expires_at }) =
            self.call_on(request.execution_id, call).await?;
        let expires_at = grant_expires_at;
        Ok(ClaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at })
    }

    pub(super) async fn grant_reclaim(
        &self,
        request: GrantRequest,
    ) -> Result<ReclaimGrant, EngineError> {
        request.validate()?;
        let (worker_id, worker_instance_id) =
            (request.worker_id.clone(), request.worker_instance_id.clone());
        let call = IssueReclaimGrant {
            execution_id: request.execution_id,
            worker_id: request.worker_id,
            worker_instance_id: request.worker_instance_id,
            capabilities: request.capabilities,
            grant_ttl_ms: request.grant_ttl_ms,
            grant_id: request.grant_id,
        };
        let (IssueReclaimGrantReply::Granted { execution_id, grant_id, grant_expires_at }
        | IssueReclaimGrantReply::Existing { execution_id, grant_id, grant_expires_at }) =
            self.call_on(request.execution_id, call).await?;
        let expires_at = grant_expires_at;
        Ok(ReclaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at })
    }

    pub(super) async fn grant_best(
        &self,
        partition: Partition,
        request: NextGrantRequest,
    ) -> Result<Option<NextGrant>, EngineError> {
        request.validate()?;
        let (worker_id, worker_instance_id) =
            (request.worker_id.clone(), request.worker_instance_id.clone());
        let call = GrantNext {
            lane: request.lane,
            worker_id: request.worker_id,
            worker_instance_id: request.worker_instance_id,
            capabilities: request.capabilities,
            grant_ttl_ms: request.grant_ttl_ms,
            retry: false,
            grant_id: request.grant_id,
        };
        let (GrantNextReply::Granted { execution_id, grant_id, grant_expires_at, kind }
        | GrantNextReply::GrantedBefore { execution_id, grant_id, grant_expires_at, kind }) =
            self.call(partition, call).await?
        else {
            return Ok(None);
        };
        let expires_at = grant_expires_at;
        if kind == "reclaim" {
            let grant =
                ReclaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at };
            return Ok(Some(NextGrant::Reclaim(grant)));
        }
        let grant =
            ClaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at };
        let resumed = kind == "resume";
        Ok(Some(if resumed { NextGrant::Resume(grant) } else { NextGrant::Claim(grant) }))
    }

    pub(super) async fn claim_granted(
        &self,
        grant: &ClaimGrant,
        lease: LeaseRequest,
    ) -> Result<Claimed, EngineError> {
        lease.validate()?;
        let call = ClaimExecution {
            execution_id: grant.execution_id,
            worker_id: grant.worker_id.clone(),
            worker_instance_id: grant.worker_instance_id.clone(),
            lane: None,
            grant_id: grant.grant_id,
            lease_id: lease.lease_id,
            lease_ttl_ms: lease.lease_ttl_ms,
            attempt_id: AttemptId::from_uuid(lease.lease_id.as_uuid()),
        };
        use ClaimExecutionReply::{Claimed as Now, ClaimedBefore as Before};
        let (Now { claim } | Before { claim }) = self.call_on(grant.execution_id, call).await?;
        Ok(holder(&grant.worker_id, &grant.worker_instance_id, lease).claimed(claim))
    }

    pub(super) async fn claim_paused(
        &self,
        grant: &ClaimGrant,
        lease: LeaseRequest,
    ) -> Result<Claimed, EngineError> {
        lease.validate()?;
        let call = ClaimResumedExecution {
            execution_id: grant.execution_id,
            worker_id: grant.worker_id.clone(),
            worker_instance_id: grant.worker_instance_id.clone(),
            lane: None,
            grant_id: grant.grant_id,
            lease_id: lease.lease_id,
            lease_ttl_ms: lease.lease_ttl_ms,
        };
        let (ClaimResumedExecutionReply::Claimed { claim }
        | ClaimResumedExecutionReply::ClaimedBefore { claim }) =
            self.call_on(grant.execution_id, call).await?;
        Ok(holder(&grant.worker_id, &grant.worker_instance_id, lease).claimed(claim))
    }

    pub(super) async fn reclaim_granted(
        &self,
        grant: &ReclaimGrant,
        lease: LeaseRequest,
    ) -> Result<Claimed, EngineError> {
        lease.validate()?;
        let call = ReclaimExecution {
            execution_id: grant.execution_id,
            worker_id: grant.worker_id.clone(),
            worker_instance_id: grant.worker_instance_id.clone(),
            lane: None,
            grant_id: grant.grant_id,
            lease_id: lease.lease_id,
            lease_ttl_ms: lease.lease_ttl_ms,
            attempt_id: AttemptId::from_uuid(lease.lease_id.as_uuid()),
        };
        let (ReclaimExecutionReply::Claimed { claim }
        | ReclaimExecutionReply::ClaimedBefore { claim }) =
            self.call_on(grant.execution_id, call).await?;
        Ok(holder(&grant.worker_id, &grant.worker_instance_id, lease).claimed(claim))
    }
}

fn wants_more(claimed: &[Claimed], request: &ClaimRequest) -> bool {
    claimed.len() < request.lease_ids.len() && payload_bytes(claimed) < limits::CLAIM_BYTES_MAX
}

fn claim_next(request: &ClaimRequest, lease_ids: &[LeaseId], skip: u32) -> ClaimNext {
    ClaimNext {
        lane: request.lane.clone(),
        worker_id: request.worker_id.clone(),
        worker_instance_id: request.worker_instance_id.clone(),
        capabilities: request.capabilities.clone(),
        lease_ttl_ms: request.lease_ttl_ms,
        retry: request.retry,
        kinds: Joined(request.kinds.clone()),
        skip,
        lease_ids: Rest(lease_ids.to_vec()),
    }
}

fn holder<'a>(
    worker_id: &'a WorkerId,
    worker_instance_id: &'a WorkerInstanceId,
    lease: LeaseRequest,
) -> Holder<'a> {
    Holder { worker_id, worker_instance_id, lease_ttl_ms: lease.lease_ttl_ms }
}
