//! Asking for work, in one place for several lanes, with a wait.

use std::collections::BTreeSet;
use std::time::Duration;

use super::grants::{check_kinds, check_lease_ttl};
use crate::argument;
use crate::capability::CapabilitySet;
use crate::error::EngineError;
use crate::limits;
use crate::types::{ExecutionKind, LaneId, LeaseId, WorkerId, WorkerInstanceId};

/// Who wants work, of which lanes, how much, and how long it will wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The lanes to take from, each in its turn.
    pub lanes: Vec<LaneId>,
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// What the worker can do.
    pub capabilities: CapabilitySet,
    /// The kinds of executions it wants; none named means any.
    pub kinds: Vec<ExecutionKind>,
    /// How long a lease lasts without renewal.
    pub lease_ttl_ms: u64,
    /// How many executions at most.
    pub count: u32,
    /// How long to wait for the first one.
    pub max_wait: Duration,
}

impl WorkRequest {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_lease_ttl(self.lease_ttl_ms)?;
        check_kinds(&self.kinds)?;
        argument::check_range("number of lanes", self.lanes.len() as u64, 1..=limits::LANES_MAX)?;
        argument::check_range("count", self.count.into(), 1..=limits::CLAIM_COUNT_MAX)?;
        let wait_ms = u64::try_from(self.max_wait.as_millis()).unwrap_or(u64::MAX);
        argument::check_range("wait", wait_ms, 0..=limits::CLAIM_WAIT_MS_MAX)
    }
}

/// The ids that the leases of a claim are to have, chosen by whoever asks for work: by them it can
/// ask again for an answer that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseIds {
    /// Different ones, as many as executions are wanted.
    pub ids: Vec<LeaseId>,
    /// True if an earlier claim under these ids got no answer: what it took is given again.
    pub repeated: bool,
}

impl LeaseIds {
    /// Checks that there is a different one for each of the executions wanted.
    pub fn validate(&self, count: u32) -> Result<(), EngineError> {
        let distinct: BTreeSet<&LeaseId> = self.ids.iter().collect();
        if distinct.len() == self.ids.len() && self.ids.len() == count as usize {
            return Ok(());
        }
        Err(EngineError::invalid("lease_ids", "must be different ones, as many as count says"))
    }
}
