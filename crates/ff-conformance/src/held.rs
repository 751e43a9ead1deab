//! Executions in the hands of a worker, and the calls that the worker can make about them.

use ff_core::backend::{Frame, FrameKind};
use ff_core::capability::CapabilitySet;
use ff_core::partition::Partition;
use ff_core::types::{
    AttemptId, ExecutionId, GrantId, LeaseEpoch, LeaseId, Moment, WorkerId, WorkerInstanceId,
};
use ff_script::calls::cancel::CancelExecution;
use ff_script::calls::claim::ClaimRow;
use ff_script::calls::claim_next::{ClaimNext, ClaimNextReply};
use ff_script::calls::complete::{CompleteAndClaimNext, CompleteExecution};
use ff_script::calls::fail::{FailAndClaimNext, FailExecution};
use ff_script::calls::grant::{IssueClaimGrant, IssueReclaimGrant};
use ff_script::calls::lease::RenewLease;
use ff_script::calls::pause::{DelayExecution, MoveToWaitingChildren};
use ff_script::calls::progress::UpdateProgress;
use ff_script::calls::stream::AppendFrame;
use ff_script::wire::{Joined, Rest};

use crate::create::{LANE, lane};
use crate::deployment::Deployment;

/// The worker that claims unless another is named.
pub const WORKER: &str = "worker";
/// Its process.
pub const INSTANCE: &str = "worker-1";
/// How long its leases last.
pub const LEASE_MS: u64 = 30_000;
/// How long its grants last.
pub const GRANT_MS: u64 = 5_000;

/// A worker by its name.
pub fn worker(name: &str) -> WorkerId {
    WorkerId::try_new(name).expect("a valid name")
}

/// A worker's process by its name.
pub fn instance(name: &str) -> WorkerInstanceId {
    WorkerInstanceId::try_new(name).expect("a valid name")
}

/// A set of capabilities from their names.
pub fn capabilities(tokens: &[&str]) -> CapabilitySet {
    CapabilitySet::try_new(tokens.iter().copied()).expect("valid capabilities")
}

impl Deployment {
    /// A process of this name that is registered in a partition of this deployment's own: others
    /// share the store.
    pub fn own_instance(&self, name: &str) -> WorkerInstanceId {
        let mut names = (0u32..).map(|number| instance(&format!("{name}-{number}")));
        let own = |name: &WorkerInstanceId| self.partitions.contains(&self.backend.home(name));
        names.find(own).expect("names have no end")
    }

    /// A claim for as many executions of a lane as wanted, with fresh lease ids.
    pub fn claim_call(&self, lane_name: &str, count: usize) -> ClaimNext {
        let lease_ids = (0..count).map(|_| LeaseId::from_uuid(self.new_uuid())).collect();
        ClaimNext {
            lane: lane(lane_name),
            worker_id: worker(WORKER),
            worker_instance_id: instance(INSTANCE),
            capabilities: CapabilitySet::default(),
            lease_ttl_ms: LEASE_MS,
            retry: false,
            need: None,
            score_max: None,
            kinds: Joined(Vec::new()),
            namespaces: Joined(Vec::new()),
            lease_ids: Rest(lease_ids),
        }
    }

    /// Claims the best execution of a lane in the first partition, if there is one.
    pub async fn try_claim(&self, lane_name: &str) -> Option<Held> {
        let call = self.claim_call(lane_name, 1);
        self.claimed(call).await.pop()
    }

    /// Claims the best execution of a lane in the first partition, which must be there.
    pub async fn claim(&self, lane_name: &str) -> Held {
        let held = self.try_claim(lane_name).await;
        held.unwrap_or_else(|| panic!("there is nothing to claim in {lane_name}"))
    }

    /// Makes a claim in the first partition.
    pub async fn claimed(&self, call: ClaimNext) -> Vec<Held> {
        self.claimed_on(self.home(), call).await
    }

    /// Makes a claim in a partition.
    pub async fn claimed_on(&self, partition: Partition, call: ClaimNext) -> Vec<Held> {
        let reply = self.backend.call(partition, call).await.expect("the claim is well-formed");
        let (ClaimNextReply::Claimed { claims, next_score: _ }
        | ClaimNextReply::ClaimedBefore { claims, next_score: _ }) = reply;
        claims.0.into_iter().map(Held::from).collect()
    }

    /// Creates an execution with all defaults and claims it.
    pub async fn create_and_claim(&self) -> Held {
        let id = self.create_one().await;
        let held = self.claim(LANE).await;
        assert_eq!(held.id, id, "the lane was empty");
        held
    }

    /// A request to reserve a waiting execution for the usual worker.
    pub fn claim_grant_call(&self, execution_id: ExecutionId) -> IssueClaimGrant {
        IssueClaimGrant {
            execution_id,
            worker_id: worker(WORKER),
            worker_instance_id: instance(INSTANCE),
            capabilities: CapabilitySet::default(),
            grant_ttl_ms: GRANT_MS,
            grant_id: GrantId::from_uuid(self.new_uuid()),
        }
    }

    /// A request to reserve an execution that lost its lease for the usual worker.
    pub fn reclaim_grant_call(&self, execution_id: ExecutionId) -> IssueReclaimGrant {
        IssueReclaimGrant(self.claim_grant_call(execution_id))
    }
}

/// An execution in the hands of a worker.
#[derive(Clone, Debug)]
pub struct Held {
    /// The execution.
    pub id: ExecutionId,
    /// The lease.
    pub lease_id: LeaseId,
    /// Its epoch.
    pub lease_epoch: LeaseEpoch,
    /// The attempt.
    pub attempt_id: AttemptId,
    /// All that the claim answered.
    pub row: ClaimRow,
}

impl From<ClaimRow> for Held {
    fn from(row: ClaimRow) -> Self {
        Self {
            id: row.execution_id,
            lease_id: row.lease_id,
            lease_epoch: row.lease_epoch,
            attempt_id: row.attempt_id,
            row,
        }
    }
}

impl Held {
    /// Execution, lease, epoch and attempt, as the first arguments of every fenced function.
    pub fn fence(&self) -> [String; 4] {
        let Self { id, lease_id, lease_epoch, attempt_id, .. } = self;
        [id.to_string(), lease_id.to_string(), lease_epoch.to_string(), attempt_id.to_string()]
    }

    /// Extends the lease.
    pub fn renew(&self, lease_ttl_ms: u64) -> RenewLease {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        RenewLease { execution_id, lease_id, lease_epoch, attempt_id, lease_ttl_ms }
    }

    /// Ends in success.
    pub fn complete(&self, result: &[u8]) -> CompleteExecution {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        let result = result.to_vec();
        CompleteExecution { execution_id, lease_id, lease_epoch, attempt_id, result }
    }

    /// Ends the attempt as failed.
    pub fn fail(&self, reason: &str, category: &str) -> FailExecution {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        FailExecution {
            execution_id,
            lease_id,
            lease_epoch,
            attempt_id,
            failure_reason: reason.to_owned(),
            failure_category: category.to_owned(),
            failure_detail: Vec::new(),
            is_final: false,
        }
    }

    /// Ends in success, and takes the next one of a lane, under a fresh lease id: what the end
    /// makes claimable, unless a queue is named.
    pub fn complete_and_claim(&self, d: &Deployment, lane_name: &str) -> CompleteAndClaimNext {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        CompleteAndClaimNext {
            execution_id,
            lease_id,
            lease_epoch,
            attempt_id,
            result: b"result".to_vec(),
            lane: lane(lane_name),
            capabilities: CapabilitySet::default(),
            lease_ttl_ms: LEASE_MS,
            next_lease_id: LeaseId::from_uuid(d.new_uuid()),
            need: None,
            score_max: None,
            kinds: Joined(Vec::new()),
            namespaces: Joined(Vec::new()),
        }
    }

    /// The same for an attempt that failed.
    pub fn fail_and_claim(&self, d: &Deployment, lane_name: &str) -> FailAndClaimNext {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        FailAndClaimNext {
            execution_id,
            lease_id,
            lease_epoch,
            attempt_id,
            failure_reason: "reason".to_owned(),
            failure_category: "transient".to_owned(),
            failure_detail: Vec::new(),
            is_final: false,
            lane: lane(lane_name),
            capabilities: CapabilitySet::default(),
            lease_ttl_ms: LEASE_MS,
            next_lease_id: LeaseId::from_uuid(d.new_uuid()),
            need: None,
            score_max: None,
            kinds: Joined(Vec::new()),
            namespaces: Joined(Vec::new()),
        }
    }

    /// Ends as cancelled by its holder.
    pub fn cancel(&self, reason: &str) -> CancelExecution {
        CancelExecution {
            execution_id: self.id,
            lease_id: Some(self.lease_id),
            lease_epoch: Some(self.lease_epoch),
            attempt_id: Some(self.attempt_id),
            reason: reason.to_owned(),
            source: "lease_holder".to_owned(),
            request_id: None,
        }
    }

    /// Gives the lease back until a time.
    pub fn delay(&self, until: impl Into<Moment>) -> DelayExecution {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        let delay_until = until.into();
        DelayExecution { execution_id, lease_id, lease_epoch, attempt_id, delay_until }
    }

    /// Gives the lease back until the children are done.
    pub fn wait_for_children(&self) -> MoveToWaitingChildren {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        MoveToWaitingChildren { execution_id, lease_id, lease_epoch, attempt_id }
    }

    /// Appends frames with these bytes, numbered from the first one on.
    pub fn append<B: AsRef<[u8]>>(&self, first_sequence: u64, payloads: &[B]) -> AppendFrame {
        let frame = |bytes: &B| Frame::new(FrameKind::Event, bytes.as_ref());
        self.append_frames(first_sequence, payloads.iter().map(frame).collect())
    }

    /// Appends frames, numbered from the first one on.
    pub fn append_frames(&self, first_sequence: u64, frames: Vec<Frame>) -> AppendFrame {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        let frames = Rest(frames);
        AppendFrame { execution_id, lease_id, lease_epoch, attempt_id, first_sequence, frames }
    }

    /// Reports progress.
    pub fn progress(&self, percent: &str, message: &str) -> UpdateProgress {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        UpdateProgress {
            execution_id,
            lease_id,
            lease_epoch,
            attempt_id,
            progress_pct: percent.to_owned(),
            progress_message: message.to_owned(),
        }
    }
}
