//! Why an execution does not run: put together from what its partition and the registry of workers
//! tell.

use std::sync::Arc;

use ff_core::contracts::{
    BudgetRecord, DimensionUsage, ExecutionSnapshot, Explanation, NearWorker, SuspensionRecord,
    Why, WorkerRecord,
};
use ff_core::error::{Code, EngineError};
use ff_core::need::Need;
use ff_core::partition::Partition;
use ff_core::state::{BlockingReason, EligibilityState, LifecyclePhase, OwnershipState};
use ff_core::types::{BudgetId, ExecutionId, QuotaPolicyId, TimestampMs};

use super::snapshot::snapshot;
use super::workers::is_engine;
use super::{ScriptBackend, call};
use crate::calls::explain::ExplainExecutionReply::{self as Reply, Explained};
use crate::calls::explain::{CountAhead, CountAheadReply, ExplainExecution};
use crate::host::Host;

/// Workers that are named as the nearest.
const NEAREST_MAX: usize = 3;

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn explain(&self, id: ExecutionId) -> Result<Explanation, EngineError> {
        let of = self.call_on(id, ExplainExecution { execution_id: id }).await?;
        let Explained { ref description, .. } = of;
        let one = snapshot(id, description.clone());
        let why = match by_itself(&one, &of) {
            Some(why) => why,
            None => match of {
                Explained { budget_awaited: Some(budget), .. } if awaits_budget(&one) => {
                    self.waiting_for_budget(budget, &one).await?
                }
                Explained { quota_awaited: Some(policy), ref quota_key, .. } => {
                    self.waiting_for_quota(policy, quota_key).await?
                }
                _ => self.waiting_for_worker(&one, &of).await?,
            },
        };
        let Explained { now, .. } = of;
        // A hold that keeps it from running now is the reason itself.
        let now_held = one.state.blocking_reason;
        Ok(Explanation {
            execution_id: id,
            summary: why.summary(&one.kind, &one.lane, one.public_state),
            public_state: one.public_state,
            since: since(&one),
            now,
            deadline_at: one.deadline_at.filter(|_| one.completed_at.is_none()),
            held_next: one.hold.filter(|hold| hold.blocking_reason != now_held),
            kind: one.kind,
            lane: one.lane,
            why,
        })
    }

    /// What keeps an execution from passing a budget, and who runs under it.
    async fn waiting_for_budget(
        &self,
        budget_id: BudgetId,
        one: &ExecutionSnapshot,
    ) -> Result<Why, EngineError> {
        let (record, holders) = match self.read_budget_and_running(budget_id).await {
            Err(error) if error.code() == Some(Code::BudgetNotFound) => (None, Vec::new()),
            answer => answer.map(|(record, holders)| (Some(record), holders))?,
        };
        let (dimension, usage) = record.as_ref().and_then(fullest).unzip();
        let usage: DimensionUsage = usage.unwrap_or_default();
        let reserves = dimension.as_deref().map_or(0, |dimension| reserved_by(one, dimension));
        Ok(Why::Budget {
            budget_id,
            dimension,
            used: usage.used,
            reserved: usage.reserved,
            limit: usage.hard.unwrap_or_default(),
            reserves,
            opens_at: record.as_ref().and_then(|record| record.next_reset_at),
            name: record.map(|record| record.name).unwrap_or_default(),
            holders,
        })
    }

    /// What keeps an execution from passing its quota, and who runs under its key.
    async fn waiting_for_quota(
        &self,
        quota_policy_id: QuotaPolicyId,
        key: &str,
    ) -> Result<Why, EngineError> {
        let (record, holders) = match self.read_quota(quota_policy_id, key.to_owned()).await {
            Err(error) if error.code() == Some(Code::QuotaPolicyNotFound) => (None, Vec::new()),
            answer => answer.map(|(record, holders)| (Some(record), holders))?,
        };
        let limits = record.as_ref().map(|record| record.limits).unwrap_or_default();
        Ok(Why::Quota {
            quota_policy_id,
            key: key.to_owned(),
            running: record.as_ref().map_or(0, |record| record.running),
            in_window: record.as_ref().map_or(0, |record| record.in_window),
            max_concurrent: limits.max_concurrent,
            max_requests_per_window: limits.max_requests_per_window,
            window_seconds: limits.window_seconds,
            opens_at: record.and_then(|record| record.opens_at),
            holders,
        })
    }

    /// What keeps an execution in its queue that may be claimed.
    async fn waiting_for_worker(
        &self,
        one: &ExecutionSnapshot,
        of: &Reply,
    ) -> Result<Why, EngineError> {
        let mut workers = self.recent().await?;
        workers.retain(|worker| !is_engine(&worker.worker_instance_id));
        let connected = count(workers.len());
        workers.retain(|worker| worker.lanes.contains(&one.lane));
        let in_lane = count(workers.len());
        workers.retain(|worker| worker.serves(&one.kind));
        let for_kind = count(workers.len());
        workers.retain(|worker| worker.takes_from(&one.namespace));
        let capable = |worker: &&WorkerRecord| missing(worker, one).is_empty();
        let able: Vec<&WorkerRecord> = workers.iter().filter(capable).collect();
        if in_lane == 0 {
            return Ok(Why::NoWorkerInLane { connected });
        }
        if for_kind == 0 {
            return Ok(Why::NoWorkerForKind { in_lane });
        }
        if workers.is_empty() {
            let namespace = one.namespace.clone();
            return Ok(Why::NoWorkerInNamespace { namespace, in_lane: for_kind });
        }
        if able.is_empty() {
            let required = one.required_capabilities.clone();
            return Ok(Why::NoCapableWorker { required, nearest: nearest(&workers, one) });
        }
        Ok(Why::Queued {
            ahead_estimate: self.count_ahead(one, of).await?,
            workers: count(able.len()),
            with_room: count(able.iter().filter(|worker| has_room(worker)).count()),
        })
    }

    /// How many stand before it, in its queue of all partitions.
    async fn count_ahead(&self, one: &ExecutionSnapshot, of: &Reply) -> Result<u64, EngineError> {
        let Explained { score, .. } = of;
        let Some(score) = score else { return Ok(0) };
        let asked = CountAhead {
            lane: one.lane.clone(),
            need: Need {
                namespace: one.namespace.clone(),
                kind: one.kind.clone(),
                capabilities: one.required_capabilities.clone(),
            },
            score: score.clone(),
        };
        let mut all = 0;
        let ask = |host: Arc<H>, partition: Partition| {
            let asked = asked.clone();
            async move {
                let CountAheadReply::Counted { ahead } =
                    call(host.as_ref(), partition, asked).await?;
                Ok(ahead)
            }
        };
        self.ask_all("count_ahead", ask, |ahead: u64| all += ahead).await?;
        Ok(all)
    }
}

/// The first dimension without any room, or the one that has the least.
fn fullest(budget: &BudgetRecord) -> Option<(String, DimensionUsage)> {
    let taken = |usage: &DimensionUsage| usage.used + usage.reserved;
    let share = |usage: &DimensionUsage| {
        taken(usage) as f64 / usage.hard.map_or(f64::INFINITY, |hard| hard as f64)
    };
    let limited = budget.dimensions.iter().filter(|(_, usage)| usage.hard.is_some());
    let full = limited.clone().find(|(_, usage)| share(usage) >= 1.0);
    full.or_else(|| limited.max_by(|(_, one), (_, other)| share(one).total_cmp(&share(other))))
        .map(|(name, usage)| (name.clone(), *usage))
}

/// Is it parked at a budget?
fn awaits_budget(one: &ExecutionSnapshot) -> bool {
    one.state.blocking_reason == BlockingReason::WaitingForBudget
}

/// What an execution tells without the workers; nothing if it may be claimed.
fn by_itself(one: &ExecutionSnapshot, of: &Reply) -> Option<Why> {
    match one.state.lifecycle_phase {
        LifecyclePhase::Terminal => {
            Some(Why::Ended { failure: one.failure.clone(), cancel: one.cancel.clone() })
        }
        LifecyclePhase::Suspended => Some(suspended(one, of)),
        LifecyclePhase::Active if one.state.ownership_state == OwnershipState::Leased => {
            running(one)
        }
        _ => waiting(one, of),
    }
}

fn running(one: &ExecutionSnapshot) -> Option<Why> {
    let lease = one.current_lease.as_ref()?;
    Some(Why::Running {
        worker_id: lease.worker_id.clone(),
        worker_instance_id: lease.worker_instance_id.clone(),
        lease_expires_at: lease.expires_at,
        heard_at: lease.heard_at,
    })
}

/// How much of a dimension each of its attempts reserves. A newer server's policy may say it in
/// another way.
fn reserved_by(one: &ExecutionSnapshot, dimension: &str) -> u64 {
    let policy = one.effective_policy_json.as_deref();
    let policy = policy.and_then(|json| serde_json::from_str::<serde_json::Value>(json).ok());
    let amount = policy.as_ref().and_then(|policy| policy["reserve_usage"][dimension].as_u64());
    amount.unwrap_or_default()
}

fn suspended(one: &ExecutionSnapshot, of: &Reply) -> Why {
    let Explained { signal_names, .. } = of;
    let open = |record: &&SuspensionRecord| record.closed_at.is_none();
    let on = one.suspensions.iter().rev().find(open);
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    Why::Suspended {
        blocking_reason: one.state.blocking_reason,
        suspended_for: on.map(|on| on.reason.to_string()).unwrap_or_default(),
        waitpoint_id: one.current_waitpoint,
        waitpoint_key: text(on.map(|on| &on.waitpoint_key)),
        signal_names: signal_names.clone(),
        requested_by: text(on.map(|on| &on.requested_by)),
        signal_count: on.map_or(0, |on| on.signal_count),
        timeout_at: on.and_then(|on| on.timeout_at),
    }
}

fn waiting(one: &ExecutionSnapshot, of: &Reply) -> Option<Why> {
    let Explained { reserved_for, reserved_until, turn_of, .. } = of;
    let is_parked = one.state.blocking_reason == BlockingReason::PausedByPolicy;
    if let Some(execution_id) = turn_of.filter(|_| is_parked) {
        return Some(Why::Singleton { execution_id });
    }
    if one.state.eligibility_state == EligibilityState::BlockedByLaneState {
        return Some(Why::LanePaused);
    }
    match one.state.blocking_reason {
        BlockingReason::PausedByOperator => held(one),
        BlockingReason::WaitingForChildren => Some(others(of)),
        _ => match (one.delay_until, reserved_for, *reserved_until) {
            (Some(until), ..) => Some(Why::Delayed {
                until,
                blocking_reason: one.state.blocking_reason,
                failure: one.failure.clone(),
            }),
            (None, Some(instance), Some(until)) => {
                Some(Why::Reserved { worker_instance_id: instance.clone(), until })
            }
            _ => None,
        },
    }
}

fn held(one: &ExecutionSnapshot) -> Option<Why> {
    let hold = one.hold.as_ref()?;
    Some(Why::Held {
        requested_by: hold.requested_by.clone(),
        note: hold.reason.clone(),
        held_at: hold.held_at,
    })
}

/// Whom of its flow it waits for.
fn others(of: &Reply) -> Why {
    let Explained {
        needed, edges, satisfied, upstreams, children, open_children, unsealed, ..
    } = of;
    if *unsealed {
        return Why::FlowNotSealed;
    }
    if satisfied < needed {
        return Why::Dependencies {
            needed: *needed,
            satisfied: *satisfied,
            total: *edges,
            open: upstreams.0.clone(),
        };
    }
    Why::Children { open: *open_children, total: *children }
}

/// What a worker lacks of what is required.
fn missing(worker: &WorkerRecord, one: &ExecutionSnapshot) -> Vec<String> {
    worker.capabilities.missing_for(&one.required_capabilities)
}

/// Those that lack least.
fn nearest(workers: &[WorkerRecord], one: &ExecutionSnapshot) -> Vec<NearWorker> {
    let mut all: Vec<NearWorker> = workers
        .iter()
        .map(|worker| NearWorker {
            worker_instance_id: worker.worker_instance_id.clone(),
            missing: missing(worker, one),
        })
        .collect();
    all.sort_by_key(|near| near.missing.len());
    all.truncate(NEAREST_MAX);
    all
}

/// Who says nothing about its load is taken to have room.
fn has_room(worker: &WorkerRecord) -> bool {
    match (worker.running, worker.capacity) {
        (Some(running), Some(capacity)) => running < capacity,
        _ => true,
    }
}

/// When it came to stand where it stands.
fn since(one: &ExecutionSnapshot) -> TimestampMs {
    one.completed_at.unwrap_or(one.last_transition_at)
}

fn count(workers: usize) -> u32 {
    u32::try_from(workers).unwrap_or(u32::MAX)
}
