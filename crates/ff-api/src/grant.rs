//! A grant turned into a task.

use ff_core::contracts::{ClaimGrant, GrantKey, LeaseRequest, NextGrant};
use ff_core::operation::{Nothing, Operation};
use ff_core::types::{ExecutionId, ExecutionRef, LeaseId, TimestampMs, WorkerId, WorkerInstanceId};
use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::task::Task;

/// Turns a reservation into a task.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimGranted {
    /// The execution reserved.
    pub execution_id: ExecutionRef,
    /// As received with the reservation.
    #[schema(value_type = ff_core::schema::GrantKey)]
    pub grant_key: GrantKey,
    /// The kind of worker it was made for.
    pub worker_id: WorkerId,
    /// The process it was made for.
    pub worker_instance_id: WorkerInstanceId,
    /// How long the lease lasts without renewal.
    #[schema(value_type = ff_core::schema::TtlMs)]
    pub lease_ttl_ms: u64,
    /// A fresh id, the same one again when the answer was lost; the server chooses one if absent.
    pub lease_id: Option<LeaseId>,
}

impl Operation for ClaimGranted {
    type Target = Nothing;
    type Request = Self;
    type Reply = Task;

    const PATH: &'static str = "/v1/grants/claim";
    const NAME: &'static str = "claimGranted";
    const SUMMARY: &'static str = "Turns a grant into a task.";
    const ANSWERS: &'static str = "The task.";
    const REFUSES: &'static [u16] = &[404, 409];
}

impl ClaimGranted {
    /// The request for a grant of this kind.
    pub fn new(grant: NextGrant, lease: LeaseRequest) -> Self {
        let (kind, grant) = grant.into_parts();
        Self {
            execution_id: grant.execution_id.into(),
            grant_key: GrantKey { kind, grant_id: grant.grant_id },
            worker_id: grant.worker_id,
            worker_instance_id: grant.worker_instance_id,
            lease_ttl_ms: lease.lease_ttl_ms,
            lease_id: Some(lease.lease_id),
        }
    }

    /// The grant of the execution that was named. When it ends is the store's to know.
    pub fn into_grant(self, execution_id: ExecutionId) -> NextGrant {
        let grant = ClaimGrant {
            grant_id: self.grant_key.grant_id,
            execution_id,
            worker_id: self.worker_id,
            worker_instance_id: self.worker_instance_id,
            expires_at: TimestampMs::default(),
        };
        NextGrant::new(self.grant_key.kind, grant)
    }
}
