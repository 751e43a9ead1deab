//! What is done on one partition at a time: claiming and reserving the next execution, ticking.

use std::sync::Arc;

use ff_core::backend::Handle;
use ff_core::contracts::{
    ClaimGrant, ClaimRequest, Claimed, LaneDepth, NextGrant, NextGrantRequest, TickReport,
    WorkerList, payload_bytes,
};
use ff_core::engine_backend::{Answer, PartitionBackend};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{GrantId, LaneId, LeaseFence, LeaseId, WorkerId, WorkerInstanceId};

use super::reads::read_row;
use super::{ScriptBackend, call};
use crate::calls::claim::ClaimRow;
use crate::calls::claim_next::{ClaimNext, ClaimNextReply};
use crate::calls::grant::{GrantNext, GrantNextReply};
use crate::calls::tick::{Tick, TickReply};
use crate::calls::worker::{LaneDepths, LaneDepthsReply};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};
use crate::wire::{Joined, Rest, row};

impl<H: Host + ?Sized> PartitionBackend for ScriptBackend<H> {
    fn claim_next(&self, partition: Partition, request: ClaimRequest) -> Answer<'_, Vec<Claimed>> {
        Box::pin(async move {
            request.validate()?;
            let holder = Holder::of(&request);
            // One call looks at a bounded part of the queue. What the worker cannot take may fill
            // more than that, and must not hide what it can.
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
        })
    }

    /// A repetition that begins beyond the end of any queue finds what was taken before and takes
    /// nothing.
    fn recall_claims(
        &self,
        partition: Partition,
        request: ClaimRequest,
    ) -> Answer<'_, Vec<Claimed>> {
        Box::pin(async move {
            request.validate()?;
            let request = ClaimRequest { retry: true, ..request };
            let beyond = u32::try_from(limits::CLAIM_SKIP_MAX).unwrap_or(u32::MAX);
            let call = claim_next(&request, &request.lease_ids, beyond);
            let (ClaimNextReply::Claimed { claims, .. }
            | ClaimNextReply::ClaimedBefore { claims, .. }) = self.call(partition, call).await?;
            let holder = Holder::of(&request);
            Ok(claims.0.into_iter().map(|row| holder.claimed(row)).collect())
        })
    }

    fn grant_next(
        &self,
        partition: Partition,
        worker_id: WorkerId,
        request: NextGrantRequest,
    ) -> Answer<'_, Option<NextGrant>> {
        Box::pin(async move {
            request.validate()?;
            let worker_instance_id = request.worker_instance_id;
            let call = GrantNext {
                lane: request.lane,
                worker_id: worker_id.clone(),
                worker_instance_id: worker_instance_id.clone(),
                capabilities: request.capabilities,
                grant_ttl_ms: request.grant_ttl_ms,
                retry: false,
                grant_id: GrantId::from_uuid(SystemIds.random()),
            };
            let (GrantNextReply::Granted { execution_id, grant_id, grant_expires_at, kind }
            | GrantNextReply::GrantedBefore { execution_id, grant_id, grant_expires_at, kind }) =
                self.call(partition, call).await?
            else {
                return Ok(None);
            };
            let expires_at = grant_expires_at;
            let grant =
                ClaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at };
            Ok(Some(NextGrant::new(kind, grant)))
        })
    }

    fn workers_of(&self, partition: Partition) -> Answer<'_, WorkerList> {
        Box::pin(async move { Ok(WorkerList { workers: self.workers_on(partition).await? }) })
    }

    fn recent_workers(&self) -> Answer<'_, WorkerList> {
        Box::pin(async move { Ok(WorkerList { workers: self.recent().await? }) })
    }

    fn lane_depths(&self, partition: Partition, lanes: Vec<LaneId>) -> Answer<'_, Vec<LaneDepth>> {
        Box::pin(depths(Arc::clone(&self.host), partition, lanes))
    }

    fn tick(&self, partition: Partition, max: u32) -> Answer<'_, TickReport> {
        Box::pin(async move {
            let log_length_max = Some(log_length_max(&self.config));
            let call = Tick { items_max: max, log_length_max };
            let TickReply::Ticked {
                now,
                next_due_at,
                late_ms,
                promoted,
                lapsed,
                timed_out,
                expired,
                ungranted,
                purged,
                forgotten,
                corrected,
                suspensions,
                waitpoints,
                flows,
                edges,
                owing,
            } = self.call(partition, call).await?;
            Ok(TickReport {
                promoted,
                lapsed,
                timed_out,
                expired,
                purged,
                granted_back: ungranted,
                forgotten,
                corrected,
                suspensions,
                waitpoints,
                flows,
                edges,
                owing,
                next_due_at,
                late_ms,
                now,
                more: next_due_at.is_some_and(|at| at <= now),
            })
        })
    }
}

/// Who claims, and for how long.
pub(super) struct Holder<'a> {
    pub(super) worker_id: &'a WorkerId,
    pub(super) worker_instance_id: &'a WorkerInstanceId,
    pub(super) lease_ttl_ms: u64,
}

impl<'a> Holder<'a> {
    fn of(request: &'a ClaimRequest) -> Self {
        Self {
            worker_id: &request.worker_id,
            worker_instance_id: &request.worker_instance_id,
            lease_ttl_ms: request.lease_ttl_ms,
        }
    }

    pub(super) fn claimed(&self, row: ClaimRow) -> Claimed {
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
            next_frame: row.next_frame,
            resumption: row.resume,
            inputs: row.inputs.0,
            children: row.children.0,
        }
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

/// How many events a partition's log keeps: its share of what all logs may keep together.
fn log_length_max(config: &PartitionConfig) -> u64 {
    let share = limits::EVENT_LOG_TOTAL / u64::from(config.num_flow_partitions);
    share.clamp(1, limits::EVENT_LOG_LENGTH)
}

/// How much waits in these lanes of one partition.
pub(super) async fn depths<H: Host + ?Sized>(
    host: Arc<H>,
    partition: Partition,
    lanes: Vec<LaneId>,
) -> Result<Vec<LaneDepth>, EngineError> {
    if lanes.is_empty() {
        return Ok(Vec::new());
    }
    let LaneDepthsReply::Depths { depths } =
        call(host.as_ref(), partition, LaneDepths { lanes: Rest(lanes) }).await?;
    depths.0.into_iter().map(|row| read_row(row, "lane depth")).collect()
}

row!(LaneDepth { lane, waiting, head_created_at });
