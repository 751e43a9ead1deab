//! Executions with gates: quota policies, claims that pass them, and what the engine does behind
//! them.

use ff_core::contracts::{ClaimRequest, Claimed, TakeFrom, TickRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, LeaseId, QuotaPolicyId};
use ff_script::calls::claim::ClaimRow;
use ff_script::calls::quota::{CheckAdmissionAndRecord, CreateQuotaPolicy, NoteQuotaPolicy};

use crate::create::{LANE, NewExecution, lane};
use crate::deployment::Deployment;
use crate::held::{Held, INSTANCE, LEASE_MS, WORKER, instance, worker};

/// What one tick does at most.
const TICK_ITEMS: u32 = 1000;

/// Rounds after which nothing can be owed any more.
const ROUNDS_MAX: u32 = 100;

/// The limits of a policy, none by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How many may begin within the window.
    pub rate: Option<u64>,
    /// How long the window is.
    pub window_seconds: Option<u64>,
    /// How many may run at a time.
    pub concurrent: Option<u64>,
    /// By how much the opening of the window is scattered.
    pub jitter_ms: Option<u64>,
}

impl Limits {
    /// So many at a time.
    pub fn at_once(concurrent: u64) -> Self {
        Self { concurrent: Some(concurrent), ..Self::default() }
    }

    /// So many within so many seconds.
    pub fn within(window_seconds: u64, rate: u64) -> Self {
        let (rate, window_seconds) = (Some(rate), Some(window_seconds));
        Self { rate, window_seconds, ..Self::default() }
    }

    /// The call that makes a policy with these limits.
    pub fn create(self, quota_policy_id: QuotaPolicyId) -> CreateQuotaPolicy {
        CreateQuotaPolicy {
            quota_policy_id,
            window_seconds: self.window_seconds,
            max_requests_per_window: self.rate,
            max_concurrent: self.concurrent,
            jitter_ms: self.jitter_ms,
        }
    }

    /// The call that makes it known.
    pub fn note(self, quota_policy_id: QuotaPolicyId) -> NoteQuotaPolicy {
        let CreateQuotaPolicy { window_seconds, max_requests_per_window, .. } =
            self.create(quota_policy_id);
        let (max_concurrent, jitter_ms) = (self.concurrent, self.jitter_ms);
        NoteQuotaPolicy {
            quota_policy_id,
            window_seconds,
            max_requests_per_window,
            max_concurrent,
            jitter_ms,
        }
    }
}

/// The question whether a claim may pass the key of a policy.
pub fn check(policy: QuotaPolicyId, key: &str, held: &Held) -> CheckAdmissionAndRecord {
    CheckAdmissionAndRecord {
        quota_policy_id: policy,
        quota_key: key.to_owned(),
        execution_id: held.id,
        lease_epoch: held.lease_epoch,
        lease_expires_at: held.row.lease_expires_at,
    }
}

impl Deployment {
    /// The id of a policy in the partition of quotas.
    pub fn new_policy_id(&self) -> QuotaPolicyId {
        QuotaPolicyId::from_uuid(self.new_shared_uuid())
    }

    /// A new policy that all partitions of the test know.
    pub async fn quota(&self, limits: Limits) -> QuotaPolicyId {
        let id = self.new_policy_id();
        self.call(limits.create(id)).await;
        for partition in self.partitions {
            let noted = self.backend.call(partition, limits.note(id)).await;
            noted.expect("a policy can be made known");
        }
        id
    }

    /// A new execution under a key of a policy.
    pub fn create_under(&self, policy: QuotaPolicyId, key: &str) -> NewExecution<'_> {
        self.create().policy(&format!(r#"{{"quota":{{"policy_id":"{policy}","key":"{key}"}}}}"#))
    }

    /// Creates so many executions under a key of a policy; gives their ids, best first.
    pub async fn queue_under(
        &self,
        policy: QuotaPolicyId,
        key: &str,
        count: usize,
    ) -> Vec<ExecutionId> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.create_under(policy, key).send().await);
        }
        ids
    }

    /// Claims so many executions of the usual lane in a partition, as a worker does: those that
    /// their gates let pass.
    pub async fn take_on(&self, partition: Partition, count: usize) -> Vec<Claimed> {
        let claimed = self.backend.claim_next(partition, self.claim_request(count)).await;
        claimed.expect("the claim is well-formed").claimed
    }

    /// What a worker asks for that takes so many executions of the usual lane.
    pub fn claim_request(&self, count: usize) -> ClaimRequest {
        ClaimRequest {
            lane: lane(LANE),
            worker_id: worker(WORKER),
            worker_instance_id: instance(INSTANCE),
            capabilities: Default::default(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            from: TakeFrom::default(),
            lease_ttl_ms: LEASE_MS,
            lease_ids: (0..count).map(|_| LeaseId::from_uuid(self.new_uuid())).collect(),
            retry: false,
        }
    }

    /// Claims one execution in the first partition, if its gates let it pass.
    pub async fn take_one(&self) -> Option<Held> {
        self.take_on(self.home(), 1).await.pop().map(Held::from)
    }

    /// Does what the engine does, until nothing is owed: executes what is due in all partitions of
    /// the test, and carries out what they owe to each other.
    pub async fn carry_out(&self) {
        for _ in 0..ROUNDS_MAX {
            let mut busy = false;
            for partition in self.all_partitions() {
                busy |= self.carry_out_of(partition).await;
            }
            if !busy {
                return;
            }
        }
        panic!("something is owed for ever");
    }

    /// The same in one partition, until nothing more comes of it; gives whether anything was owed
    /// or due.
    pub async fn carry_out_of(&self, partition: Partition) -> bool {
        let (mut busy, mut settled) = (false, Vec::new());
        for _ in 0..ROUNDS_MAX {
            let request = TickRequest { settled, ..TickRequest::once(TICK_ITEMS) };
            let report = self.backend.tick(partition, request).await;
            let report = report.expect("a tick is never refused");
            busy |= report.total() > 0 || !report.owed.is_empty();
            let done = self.backend.carry_out(partition, report.owed).await;
            settled = done.expect("what is owed can be carried out");
            if settled.is_empty() {
                return busy;
            }
        }
        panic!("something is owed for ever");
    }
}

impl From<Claimed> for Held {
    fn from(claimed: Claimed) -> Self {
        let handle = claimed.handle;
        Self {
            id: handle.execution_id,
            lease_id: handle.fence.lease_id,
            lease_epoch: handle.fence.lease_epoch,
            attempt_id: handle.fence.attempt_id,
            row: ClaimRow {
                execution_id: handle.execution_id,
                lease_id: handle.fence.lease_id,
                lease_epoch: handle.fence.lease_epoch,
                lease_expires_at: claimed.lease_expires_at,
                attempt_id: handle.fence.attempt_id,
                attempt_index: handle.attempt_index,
                attempt_kind: ff_script::calls::claim::AttemptKind::New(handle.attempt_type),
                lane: handle.lane,
                kind: claimed.kind,
                namespace: claimed.namespace,
                priority: claimed.priority,
                created_at: claimed.created_at,
                attempt_timeout_at: claimed.attempt_timeout_at,
                deadline_at: claimed.deadline_at,
                payload: claimed.payload,
                tags: claimed.tags,
                next_frame: claimed.next_frame,
                resume: claimed.resumption,
                inputs: Default::default(),
                children: Default::default(),
                gates: Default::default(),
            },
        }
    }
}
