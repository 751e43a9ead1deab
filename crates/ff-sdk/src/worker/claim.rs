//! Taking work: from the lanes' queues, or one execution at a time through a grant.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::{ClaimGrant, Claimed, LeaseRequest, ReclaimGrant};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::types::{ExecutionKind, LaneId, LeaseId};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::{FlowFabricWorker, Shared};
use crate::deadline;
use crate::error::{Context as _, SdkError};
use crate::task::ClaimedTask;

/// A long wait is made of shorter ones, each within what a work source allows.
const WAIT_SLICE: Duration = Duration::from_secs(20);

impl FlowFabricWorker {
    /// Claims an execution if there is one, without waiting. None if there is none, or if the
    /// worker holds as many tasks as it may.
    pub async fn claim_next(&self) -> Result<Option<ClaimedTask>, SdkError> {
        self.shared.check_running()?;
        match Arc::clone(&self.shared.permits).try_acquire_owned() {
            Err(_) => Ok(None),
            Ok(permit) => Ok(self.claim_slice(&[], permit, Duration::ZERO).await?.0.pop()),
        }
    }

    /// Claims an execution; waits for capacity and then for work. None if the time passed.
    pub async fn claim(&self, max_wait: Duration) -> Result<Option<ClaimedTask>, SdkError> {
        Ok(self.claim_many(1, max_wait).await?.pop())
    }

    /// Claims as many executions in one call as there is capacity for, at most `max`; waits for
    /// capacity and then for the first one. Empty if the time passed.
    ///
    /// The future may be dropped at any time: what nobody takes is handed back by the work source.
    pub async fn claim_many(
        &self,
        max: usize,
        max_wait: Duration,
    ) -> Result<Vec<ClaimedTask>, SdkError> {
        self.claim_kinds(&[], max, max_wait).await
    }

    /// As [`Self::claim_many`], but takes only executions of these kinds; of any if none is named.
    pub async fn claim_kinds(
        &self,
        kinds: &[ExecutionKind],
        max: usize,
        max_wait: Duration,
    ) -> Result<Vec<ClaimedTask>, SdkError> {
        self.shared.check_running()?;
        let deadline = deadline::after(max_wait);
        let Some(mut permits) = self.reserve_many(max, deadline).await? else {
            return Ok(Vec::new());
        };
        loop {
            let wait = deadline.saturating_duration_since(Instant::now()).min(WAIT_SLICE);
            let (tasks, unused) = self.claim_slice(kinds, permits, wait).await?;
            match unused {
                Some(unused) if tasks.is_empty() && Instant::now() < deadline => permits = unused,
                _ => return Ok(tasks),
            }
        }
    }

    /// How many tasks could be claimed now.
    pub fn capacity(&self) -> usize {
        self.shared.permits.available_permits()
    }

    /// One claim, and the permits it did not need.
    async fn claim_slice(
        &self,
        kinds: &[ExecutionKind],
        permits: OwnedSemaphorePermit,
        wait: Duration,
    ) -> Result<(Vec<ClaimedTask>, Option<OwnedSemaphorePermit>), SdkError> {
        let request = self.shared.work_request(kinds, permits.num_permits(), wait);
        let shared = Arc::clone(&self.shared);
        // Where the answer is awaited, its leases are renewed at once.
        let claiming = self.shared.upkeep.run(async move {
            let sent = Instant::now();
            let claimed = shared.upkeep.work().claim(request).await?;
            let claimed = claimed.into_iter().map(|claimed| new_task(&shared, claimed, sent));
            Ok::<_, EngineError>(claimed.collect())
        });
        let claimed = tokio::select! {
            claimed = claiming => claimed,
            stopped = self.shared.stopped() => return Err(stopped),
        };
        Ok(with_permits(claimed.context("claim")?, permits))
    }

    /// Waits for one permit, then takes what else is free. None if the time passed.
    async fn reserve_many(
        &self,
        max: usize,
        deadline: Instant,
    ) -> Result<Option<OwnedSemaphorePermit>, SdkError> {
        let permits = &self.shared.permits;
        let first = tokio::select! {
            stopped = self.shared.stopped() => return Err(stopped),
            first = timeout_at(deadline, Arc::clone(permits).acquire_owned()) => first,
        };
        let Ok(Ok(mut taken)) = first else { return Ok(None) };
        let max = max.clamp(1, limits::CLAIM_COUNT_MAX as usize);
        let more = permits.available_permits().min(max - 1);
        let more = u32::try_from(more).unwrap_or(0);
        if let Ok(more) = Arc::clone(permits).try_acquire_many_owned(more) {
            taken.merge(more);
        }
        Ok(Some(taken))
    }

    /// Runs a claim by a grant to its end even if the caller goes away: what it took is then
    /// handed back instead of being held until the lease lapses. Only a stop ends it early; its
    /// leases are handed back with the worker's registration then.
    async fn detached<T: Send + 'static>(
        &self,
        claim: impl Future<Output = Result<T, SdkError>> + Send + 'static,
    ) -> Result<T, SdkError> {
        let mut claim = tokio::spawn(claim);
        let ended = tokio::select! {
            ended = &mut claim => ended,
            stopped = self.shared.stopped() => {
                claim.abort();
                return Err(stopped);
            }
        };
        match ended {
            Ok(claimed) => claimed,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(self.shared.stopped().await),
        }
    }

    /// Takes a permit without waiting.
    pub(crate) fn reserve(&self) -> Result<OwnedSemaphorePermit, SdkError> {
        self.shared.check_running()?;
        let permit = Arc::clone(&self.shared.permits).try_acquire_owned();
        permit.map_err(|_| SdkError::WorkerAtCapacity)
    }

    /// Claims the execution that a scheduler reserved for this worker. The grant is untouched if
    /// there is no capacity.
    pub async fn claim_from_grant(
        &self,
        lane: LaneId,
        grant: ClaimGrant,
    ) -> Result<ClaimedTask, SdkError> {
        let permit = self.reserve()?;
        self.claim_granted(lane, grant, permit).await
    }

    /// Takes over the execution of a lost worker that a scheduler reserved for this one.
    pub async fn claim_from_reclaim_grant(
        &self,
        grant: ReclaimGrant,
    ) -> Result<ClaimedTask, SdkError> {
        let permit = self.reserve()?;
        self.reclaim_granted(grant, permit).await
    }

    pub(crate) async fn claim_granted(
        &self,
        lane: LaneId,
        grant: ClaimGrant,
        permit: OwnedSemaphorePermit,
    ) -> Result<ClaimedTask, SdkError> {
        self.detached(claim_granted(Arc::clone(&self.shared), lane, grant, permit)).await
    }

    pub(crate) async fn reclaim_granted(
        &self,
        grant: ReclaimGrant,
        permit: OwnedSemaphorePermit,
    ) -> Result<ClaimedTask, SdkError> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move {
            let (lease, sent) = (lease_request(&shared), Instant::now());
            let claimed = shared
                .engine()
                .claim_from_reclaim_grant(&grant, lease)
                .await
                .context("claim_from_reclaim_grant")?;
            Ok(new_task(&shared, claimed, sent).with_permit(permit))
        })
        .await
    }
}

/// Gives each task its permit, and returns the permits left over.
fn with_permits(
    claimed: Vec<ClaimedTask>,
    mut permits: OwnedSemaphorePermit,
) -> (Vec<ClaimedTask>, Option<OwnedSemaphorePermit>) {
    let mut tasks = Vec::with_capacity(claimed.len());
    for task in claimed {
        match permits.split(1) {
            Some(permit) => tasks.push(task.with_permit(permit)),
            // Dropping it hands it back.
            None => tracing::error!("a claim answered more executions than were asked for"),
        }
    }
    let unused = (permits.num_permits() > 0).then_some(permits);
    (tasks, unused)
}

async fn claim_granted(
    shared: Arc<Shared>,
    lane: LaneId,
    grant: ClaimGrant,
    permit: OwnedSemaphorePermit,
) -> Result<ClaimedTask, SdkError> {
    let (lease, sent) = (lease_request(&shared), Instant::now());
    let claimed = exchange(&shared, &grant, lease).await.context("claim_from_grant")?;
    let task = new_task(&shared, claimed, sent).with_permit(permit);
    if *task.lane_id() == lane {
        return Ok(task);
    }
    // Dropping the task hands the execution back.
    let message = format!("the execution is of lane {:?}, not {lane:?}", task.lane_id());
    Err(SdkError::config("claim_from_grant", "lane", message))
}

/// A fresh claim is refused without using the grant up if an interrupted attempt is to go on.
async fn exchange(
    shared: &Shared,
    grant: &ClaimGrant,
    lease: LeaseRequest,
) -> Result<Claimed, EngineError> {
    match shared.engine().claim_from_grant(grant, lease).await {
        Err(error) if error.code() == Some(Code::UseClaimResumedExecution) => {
            shared.engine().claim_resumed(grant, lease).await
        }
        answer => answer,
    }
}

fn lease_request(shared: &Shared) -> LeaseRequest {
    let lease_id = LeaseId::from_uuid(shared.ids.random());
    LeaseRequest { lease_id, lease_ttl_ms: shared.config.lease_ttl_ms }
}

pub(crate) fn new_task(shared: &Arc<Shared>, claimed: Claimed, sent: Instant) -> ClaimedTask {
    let deadline = shared.lease_deadline(&claimed, sent);
    ClaimedTask::new(claimed, deadline, Arc::clone(shared))
}
