//! What is done on one partition at a time: claiming and reserving the next execution, ticking.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::backend::Handle;
use ff_core::contracts::{
    AllFinished, ClaimGrant, ClaimRequest, Claimed, ClaimedNext, Completion, Depths, FinishedNext,
    GrantedNext, LaneDepth, NeedDepth, NextGrant, NextGrantRequest, Owed, QueueHead, TakeFrom,
    TaskEnd, TickReport, TickRequest, WorkerList,
};
use ff_core::engine_backend::{Answer, PartitionBackend};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{GrantId, LaneId, LeaseFence, WorkerId, WorkerInstanceId};

use super::reads::read_row;
use super::{ScriptBackend, call};
use crate::calls::claim::ClaimRow;
use crate::calls::claim_next::{ClaimNext, ClaimNextReply, RecallClaims, RecallClaimsReply};
use crate::calls::grant::{GrantNext, GrantNextReply};
use crate::calls::tick::{Tick, TickReply};
use crate::calls::worker::{LaneDepths, LaneDepthsReply, ListNeeds, ListNeedsReply};
use crate::gate::Gate;
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};
use crate::value::Value;
use crate::wire::{Joined, Reading, Rest, Row, row};

impl<H: Host + ?Sized> PartitionBackend for ScriptBackend<H> {
    fn claim_next(&self, partition: Partition, request: ClaimRequest) -> Answer<'_, ClaimedNext> {
        Box::pin(async move {
            request.validate()?;
            let (ClaimNextReply::Claimed { claims, next_score }
            | ClaimNextReply::ClaimedBefore { claims, next_score }) =
                self.call(partition, claim_next(&request)).await?;
            let claims = self.admit(claims.0).await;
            Ok(ClaimedNext { claimed: Holder::of(&request).all_claimed(claims), next_score })
        })
    }

    fn finish<'a>(
        &'a self,
        handle: &'a Handle,
        end: TaskEnd,
        next: ClaimRequest,
    ) -> Answer<'a, FinishedNext> {
        Box::pin(ScriptBackend::finish(self, handle, end, next))
    }

    fn complete_all_and_claim(
        &self,
        completions: Vec<Completion>,
        next: ClaimRequest,
    ) -> Answer<'_, AllFinished> {
        Box::pin(ScriptBackend::complete_all_and_claim(self, completions, next))
    }

    fn recall_claims(
        &self,
        partition: Partition,
        request: ClaimRequest,
    ) -> Answer<'_, Vec<Claimed>> {
        Box::pin(async move {
            request.validate()?;
            let call = RecallClaims {
                worker_instance_id: request.worker_instance_id.clone(),
                lease_ttl_ms: request.lease_ttl_ms,
                lease_ids: Rest(request.lease_ids.clone()),
            };
            let RecallClaimsReply::Recalled { claims } = self.call(partition, call).await?;
            let claims = self.admit(claims.0).await;
            Ok(Holder::of(&request).all_claimed(claims))
        })
    }

    fn grant_next(
        &self,
        partition: Partition,
        worker_id: WorkerId,
        request: NextGrantRequest,
        from: TakeFrom,
    ) -> Answer<'_, GrantedNext> {
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
                need: from.need,
                score_max: from.score_max,
                namespaces: Joined(Vec::new()),
            };
            let (execution_id, grant_id, expires_at, kind, next_score) =
                match self.call(partition, call).await? {
                    GrantNextReply::Granted {
                        execution_id,
                        grant_id,
                        grant_expires_at,
                        kind,
                        next_score,
                    }
                    | GrantNextReply::GrantedBefore {
                        execution_id,
                        grant_id,
                        grant_expires_at,
                        kind,
                        next_score,
                    } => (execution_id, grant_id, grant_expires_at, kind, next_score),
                    GrantNextReply::Nothing { next_score } => {
                        return Ok(GrantedNext { grant: None, next_score });
                    }
                };
            let grant =
                ClaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at };
            Ok(GrantedNext { grant: Some(NextGrant::new(kind, grant)), next_score })
        })
    }

    fn depths(&self) -> Answer<'_, Depths> {
        Box::pin(self.all_depths())
    }

    fn claim_weights(&self) -> Answer<'_, BTreeMap<LaneId, u32>> {
        Box::pin(async move {
            let settings = self.lane_settings().await?.into_iter();
            Ok(settings.filter_map(|(lane, of)| Some((lane, of.claim_weight?))).collect())
        })
    }

    fn list_needs(&self, partition: Partition, lanes: Vec<LaneId>) -> Answer<'_, Vec<QueueHead>> {
        Box::pin(async move {
            let mut heads = Vec::new();
            let mut left = lanes;
            while !left.is_empty() {
                let call = ListNeeds { lanes: Rest(left.clone()) };
                let ListNeedsReply::Needs { needs, lanes_listed } =
                    self.call(partition, call).await?;
                for row in needs.0 {
                    heads.push(read_row(row, "queue")?);
                }
                left.drain(..lanes_listed.clamp(1, left.len()));
            }
            Ok(heads)
        })
    }

    fn workers_of(&self, partition: Partition) -> Answer<'_, WorkerList> {
        Box::pin(async move { Ok(WorkerList { workers: self.workers_on(partition).await? }) })
    }

    fn recent_workers(&self) -> Answer<'_, WorkerList> {
        Box::pin(async move { Ok(WorkerList { workers: self.recent().await? }) })
    }

    fn lane_depths(&self, partition: Partition, lanes: Vec<LaneId>) -> Answer<'_, Vec<LaneDepth>> {
        let depths = depths(Arc::clone(&self.host), partition, lanes);
        Box::pin(async move { Ok(depths.await?.lanes) })
    }

    fn carry_out(&self, partition: Partition, owed: Vec<Owed>) -> Answer<'_, Vec<Vec<u8>>> {
        Box::pin(async move { Ok(self.do_what_is_owed(partition, owed).await) })
    }

    fn tick(&self, partition: Partition, request: TickRequest) -> Answer<'_, TickReport> {
        Box::pin(async move {
            let TickRequest { items_max, next_look_ms, announce, settled } = request;
            let log_length_max = Some(log_length_max(&self.config));
            let settled = Rest(settled);
            let call = Tick { items_max, log_length_max, next_look_ms, announce, settled };
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
                gates,
                owed,
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
                gates,
                owed: owed.into_iter().map(|(entry, told)| Owed { entry, told }).collect(),
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
    pub(super) fn of(request: &'a ClaimRequest) -> Self {
        Self {
            worker_id: &request.worker_id,
            worker_instance_id: &request.worker_instance_id,
            lease_ttl_ms: request.lease_ttl_ms,
        }
    }

    pub(super) fn all_claimed(&self, rows: Vec<ClaimRow>) -> Vec<Claimed> {
        rows.into_iter().map(|row| self.claimed(row)).collect()
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
            budget_ids: row.gates.0.iter().filter_map(Gate::budget).collect(),
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

fn claim_next(request: &ClaimRequest) -> ClaimNext {
    ClaimNext {
        lane: request.lane.clone(),
        worker_id: request.worker_id.clone(),
        worker_instance_id: request.worker_instance_id.clone(),
        capabilities: request.capabilities.clone(),
        lease_ttl_ms: request.lease_ttl_ms,
        retry: request.retry,
        need: request.from.need.clone(),
        score_max: request.from.score_max,
        kinds: Joined(request.kinds.clone()),
        namespaces: Joined(request.namespaces.clone()),
        lease_ids: Rest(request.lease_ids.clone()),
    }
}

/// How many events a partition's log keeps: its share of what all logs may keep together.
fn log_length_max(config: &PartitionConfig) -> u64 {
    let share = limits::EVENT_LOG_TOTAL / u64::from(config.num_flow_partitions);
    share.clamp(1, limits::EVENT_LOG_LENGTH)
}

/// How much waits in these lanes of one partition, and in their longest queues.
pub(super) async fn depths<H: Host + ?Sized>(
    host: Arc<H>,
    partition: Partition,
    lanes: Vec<LaneId>,
) -> Result<Depths, EngineError> {
    if lanes.is_empty() {
        return Ok(Depths::default());
    }
    let LaneDepthsReply::Depths { depths, needs } =
        call(host.as_ref(), partition, LaneDepths { lanes: Rest(lanes) }).await?;
    let lanes = depths.0.into_iter().map(|row| read_row(row, "lane depth"));
    let needs = needs.0.into_iter().map(|row| read_row(row, "depth of a queue"));
    Ok(Depths { lanes: lanes.collect::<Result<_, _>>()?, needs: needs.collect::<Result<_, _>>()? })
}

/// Settings are told elsewhere.
impl Row for LaneDepth {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        Some(Self {
            lane: Reading::read(values.next()?)?,
            waiting: Reading::read(values.next()?)?,
            head_created_at: Reading::read(values.next()?)?,
            settings: None,
        })
    }
}

row!(NeedDepth { lane, need, waiting, head_created_at });
row!(QueueHead { lane, need, score, waiting });
