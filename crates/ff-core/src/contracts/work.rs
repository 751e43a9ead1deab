//! Asking for work, in one place for several lanes, with a wait.

use std::time::Duration;

use super::claim::{check_kinds, check_lease_ttl};
use crate::argument;
use crate::capability::CapabilitySet;
use crate::error::EngineError;
use crate::limits;
use crate::types::{ExecutionKind, LaneId, WorkerId, WorkerInstanceId};

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
