//! Reserving executions, and turning the reservations into leases.

use std::convert::identity;

use ff_core::contracts::{ClaimGrant, Claimed, GrantRequest, LeaseRequest, ReclaimGrant};
use ff_core::engine_backend::{Answer, Grants};
use ff_core::types::{AttemptId, ExecutionId, GrantId};

use super::ScriptBackend;
use super::partition::Holder;
use crate::calls::claim::{ClaimExecution, ClaimResumedExecution, ClaimRow, ReclaimExecution};
use crate::calls::grant::{IssueClaimGrant, IssueClaimGrantReply as Issued, IssueReclaimGrant};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};

/// Both reservations are asked for and answered in the same way.
macro_rules! issue {
    ($backend:ident, $id:ident, $request:ident, $grant:ident, $by:path) => {
        Box::pin(async move {
            $request.validate()?;
            let GrantRequest { worker_id, worker_instance_id, .. } = $request;
            let minted = || GrantId::from_uuid(SystemIds.random());
            let execution_id = $id;
            let call = $by(IssueClaimGrant {
                execution_id,
                worker_id: worker_id.clone(),
                worker_instance_id: worker_instance_id.clone(),
                capabilities: $request.capabilities,
                grant_ttl_ms: $request.grant_ttl_ms,
                grant_id: $request.grant_id.unwrap_or_else(minted),
            });
            let (Issued::Granted { grant_id, grant_expires_at: expires_at, .. }
            | Issued::Existing { grant_id, grant_expires_at: expires_at, .. }) =
                $backend.call_on(execution_id, call).await?;
            Ok($grant { grant_id, execution_id, worker_id, worker_instance_id, expires_at })
        })
    };
}

/// All reservations become leases in the same way; a new attempt is given an id.
macro_rules! claim {
    ($backend:ident, $grant:ident, $lease:ident, $call:ident { $($attempt_id:ident)? }) => {
        Box::pin(async move {
            $lease.validate()?;
            let call = $call {
                execution_id: $grant.execution_id,
                worker_id: $grant.worker_id.clone(),
                worker_instance_id: $grant.worker_instance_id.clone(),
                lane: None,
                grant_id: $grant.grant_id,
                lease_id: $lease.lease_id,
                lease_ttl_ms: $lease.lease_ttl_ms,
                $($attempt_id: AttemptId::from_uuid($lease.lease_id.as_uuid()),)?
            };
            let claim: ClaimRow = $backend.call_on($grant.execution_id, call).await?.into();
            let claim = $backend.admit_one(claim).await?;
            let holder = Holder {
                worker_id: &$grant.worker_id,
                worker_instance_id: &$grant.worker_instance_id,
                lease_ttl_ms: $lease.lease_ttl_ms,
            };
            Ok(holder.claimed(claim))
        })
    };
}

impl<H: Host + ?Sized> Grants for ScriptBackend<H> {
    fn issue_claim_grant(&self, id: ExecutionId, request: GrantRequest) -> Answer<'_, ClaimGrant> {
        issue!(self, id, request, ClaimGrant, identity)
    }

    fn issue_reclaim_grant(
        &self,
        id: ExecutionId,
        request: GrantRequest,
    ) -> Answer<'_, ReclaimGrant> {
        issue!(self, id, request, ReclaimGrant, IssueReclaimGrant)
    }

    fn claim_from_grant<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        claim!(self, grant, lease, ClaimExecution { attempt_id })
    }

    fn claim_resumed<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        claim!(self, grant, lease, ClaimResumedExecution {})
    }

    fn claim_from_reclaim_grant<'a>(
        &'a self,
        grant: &'a ReclaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed> {
        claim!(self, grant, lease, ReclaimExecution { attempt_id })
    }
}
