//! What the test knows: the time, what it created, every lease and reservation it ever got, and
//! every call it ever made.

use ff_core::contracts::OpenWaitpoint;
use ff_core::partition::Partition;
use ff_core::types::{
    AttemptId, ExecutionId, FlowId, GrantId, LeaseEpoch, LeaseId, WaitpointId, WaitpointToken,
    WorkerId, WorkerInstanceId,
};
use ff_script::calls::claim::ClaimRow;
use ff_script::dump::Dump;
use ff_script::wire::{List, Reading, Rows};

use super::admission::Admission;
use super::flows::Submission;
use super::graph::Graphs;
use super::sent::Sent;
use super::view::{Fields, View};
use crate::answer::Answer;
use crate::deployment::START_MS;

/// The lanes that work waits in.
pub(super) const LANES: [&str; 2] = ["main", "side"];

/// The lane that is fair, in the first partition.
pub(super) const FAIR: &str = LANES[1];

/// Where everything happens. The first partition has a registry of its own, so it must be there.
pub(super) const PARTITIONS: [Partition; 4] =
    [Partition::flow(0), Partition::flow(1), Partition::flow(2), Partition::flow(3)];

/// Where the quota policies live, and the budgets.
pub(super) const QUOTAS: Partition = Partition::quota(0);
pub(super) const BUDGETS: Partition = Partition::budget(0);

/// All of them.
pub(super) const ALL: [Partition; 6] =
    [PARTITIONS[0], PARTITIONS[1], PARTITIONS[2], PARTITIONS[3], QUOTAS, BUDGETS];

/// Worker and process: two processes of one worker, and another worker.
pub(super) const WORKERS: [(&str, &str); 3] =
    [("digger", "digger-1"), ("digger", "digger-2"), ("smith", "smith-1")];

/// The kinds of executions.
pub(super) const KINDS: [&str; 2] = ["work", "play"];

/// What workers can do; the last can do everything.
pub(super) const ABILITIES: [&[&str]; 3] = [&[], &["gpu"], &["gpu", "ssd"]];

/// A lease that the test got, however long ago.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) execution_id: ExecutionId,
    pub(super) lease_id: LeaseId,
    pub(super) lease_epoch: LeaseEpoch,
    pub(super) attempt_id: AttemptId,
}

/// A reservation that the test got, however long ago.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) execution_id: ExecutionId,
    pub(super) grant_id: GrantId,
    pub(super) worker_id: WorkerId,
    pub(super) worker_instance_id: WorkerInstanceId,
}

/// A waitpoint that the test was told of, with the token that it was told.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) execution_id: ExecutionId,
    pub(super) waitpoint_id: WaitpointId,
    pub(super) key: String,
    pub(super) token: WaitpointToken,
}

/// What the test knows.
pub(super) struct World {
    pub(super) now: u64,
    pub(super) partitions: [Partition; 4],
    /// What the first store holds.
    pub(super) held: Dump,
    pub(super) ids: Vec<ExecutionId>,
    pub(super) leases: Vec<Lease>,
    pub(super) grants: Vec<Grant>,
    pub(super) waitpoints: Vec<Known>,
    pub(super) history: Vec<Sent>,
    pub(super) flows: Vec<FlowId>,
    pub(super) submissions: Vec<Submission>,
    pub(super) graphs: Graphs,
    pub(super) admission: Admission,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            now: START_MS,
            partitions: PARTITIONS,
            held: Dump::new(),
            ids: Vec::new(),
            leases: Vec::new(),
            grants: Vec::new(),
            waitpoints: Vec::new(),
            history: Vec::new(),
            flows: Vec::new(),
            submissions: Vec::new(),
            graphs: Graphs::default(),
            admission: Admission::default(),
        }
    }

    /// The partitions that ticks are for: those of quotas and budgets, once there is something.
    pub(super) fn ticked(&self) -> &'static [Partition] {
        let shared = [QUOTAS, BUDGETS].map(|shared| format!("{}:", shared.key()).into_bytes());
        let is_shared = |key: &Vec<u8>| shared.iter().any(|prefix| key.starts_with(prefix));
        if self.held.keys().any(is_shared) { &ALL } else { &PARTITIONS }
    }

    /// The record of an execution.
    pub(super) fn record(&self, id: &ExecutionId) -> Option<Fields<'_>> {
        View::new(&self.held, id.partition()).record(&id.uuid().to_string())
    }

    /// Was a token that opened a waitpoint ever told for that one?
    pub(super) fn was_told(&self, sent: &Sent) -> bool {
        let (id, key) = (sent.text("waitpoint_id"), sent.text("waitpoint_key"));
        self.waitpoints.iter().any(|known| {
            known.execution_id.to_string() == sent.text("execution_id")
                && known.token.as_str() == sent.text("waitpoint_token")
                && (id.is_empty() || id == known.waitpoint_id.to_string())
                && (key.is_empty() || key == known.key)
        })
    }

    /// Takes from an answer what a later call can use.
    pub(super) fn learn(&mut self, sent: &Sent, answer: &Answer) {
        self.learn_admission(sent, answer);
        if !answer.done {
            return;
        }
        for row in claim_rows(sent, answer) {
            self.take(&row);
        }
        self.waitpoints.extend(waitpoints(sent, answer));
        if sent.name().contains("_grant") {
            self.grants.extend(grant(sent, answer));
        }
    }
}

fn grant(sent: &Sent, answer: &Answer) -> Option<Grant> {
    let [execution_id, grant_id, ..] = answer.values.as_slice() else { return None };
    Some(Grant {
        execution_id: ExecutionId::read(execution_id.clone())?,
        grant_id: GrantId::read(grant_id.clone())?,
        worker_id: WorkerId::try_new(sent.text("worker_id")).ok()?,
        worker_instance_id: WorkerInstanceId::try_new(sent.text("worker_instance_id")).ok()?,
    })
}

/// The waitpoints that an answer tells of.
fn waitpoints(sent: &Sent, answer: &Answer) -> Vec<Known> {
    let Ok(execution_id) = sent.text("execution_id").parse() else { return Vec::new() };
    let known = |waitpoint_id: WaitpointId, key: String, token: WaitpointToken| Known {
        execution_id,
        waitpoint_id,
        key,
        token,
    };
    let read = |from: usize| {
        let mut values = answer.values.iter().skip(from).cloned();
        Some(known(
            WaitpointId::read(values.next()?)?,
            String::read(values.next()?)?,
            WaitpointToken::read(values.next()?)?,
        ))
    };
    match (sent.name(), answer.values.as_slice()) {
        ("ff_suspend_execution", _) => read(1).into_iter().collect(),
        ("ff_create_pending_waitpoint", _) => read(0).into_iter().collect(),
        ("ff_list_pending_waitpoints", [rows]) => {
            let rows = List::<OpenWaitpoint>::read(rows.clone()).map_or_else(Vec::new, |it| it.0);
            rows.into_iter()
                .map(|one| known(one.waitpoint_id, one.waitpoint_key, one.waitpoint_token))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// What a claim answered: one row, or a list of them.
pub(super) fn claim_rows(sent: &Sent, answer: &Answer) -> Vec<ClaimRow> {
    match (sent.name(), answer.values.as_slice()) {
        ("ff_claim_next", [rows, _]) | ("ff_recall_claims", [rows]) => {
            Rows::read(rows.clone()).map_or_else(Vec::new, |rows| rows.0)
        }
        ("ff_claim_execution" | "ff_claim_resumed_execution" | "ff_reclaim_execution", [row]) => {
            ClaimRow::read(row.clone()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
