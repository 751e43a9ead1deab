//! The registry of connected workers.

use crate::argument;
use crate::capability::CapabilitySet;
use crate::error::EngineError;
use crate::limits;
use crate::types::{LaneId, TimestampMs, WorkerId, WorkerInstanceId, WorkerSession};

/// A worker process that makes itself known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRegistration {
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process. Only one live process may have it.
    pub worker_instance_id: WorkerInstanceId,
    /// Chosen by the process at its start: proves that a heartbeat is its own. A process that
    /// restarts and still knows it takes over at once.
    pub session: WorkerSession,
    /// The lanes it takes from.
    pub lanes: Vec<LaneId>,
    /// What it can do.
    pub capabilities: CapabilitySet,
    /// How long the registration lasts without a heartbeat.
    pub ttl_ms: u64,
}

impl WorkerRegistration {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        argument::check_range("ttl_ms", self.ttl_ms, 1..=limits::LEASE_TTL_MS_MAX)?;
        argument::check_range("number of lanes", self.lanes.len() as u64, 0..=limits::LANES_MAX)
    }
}

/// A connected worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// The lanes it takes from.
    pub lanes: Vec<LaneId>,
    /// What it can do.
    pub capabilities: CapabilitySet,
    /// When it registered.
    pub registered_at: TimestampMs,
    /// When it vanishes unless it is heard of again.
    pub expires_at: TimestampMs,
}

/// How much waits in a lane of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneDepth {
    /// The lane.
    pub lane: LaneId,
    /// Executions that could be claimed now.
    pub waiting: u64,
    /// When the one at the head was created.
    pub head_created_at: Option<TimestampMs>,
}
