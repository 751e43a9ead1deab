//! Reserving an execution for a worker, as programs ask for it that know workers by their names,
//! and how a scheduler is set up.

use std::collections::BTreeSet;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{NextGrant, NextGrantRequest};
use ff_core::error::EngineError;
use ff_core::types::{LaneId, WorkerId, WorkerInstanceId};

use crate::Scheduler;

/// Partitions that one claim asks at the same time, unless somebody says otherwise.
const PARTITIONS_PER_SCAN: u16 = 16;

/// How a scheduler looks for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Partitions that one claim asks at the same time. A claim of one execution asks one: that
    /// which is known to have the best.
    pub max_partitions_per_scan: u16,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { max_partitions_per_scan: PARTITIONS_PER_SCAN }
    }
}

impl SchedulerConfig {
    /// Checks the ranges.
    pub(crate) fn validate(&self) -> Result<(), SchedulerError> {
        if self.max_partitions_per_scan == 0 {
            let rule = "max_partitions_per_scan must be at least 1";
            return Err(SchedulerError::Config(rule.to_owned()));
        }
        Ok(())
    }
}

/// Why a scheduler could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The store refused, or could not be asked.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Config(String),
}

impl SchedulerError {
    /// Whether it may go better later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_retryable(),
            Self::Config(_) => false,
        }
    }
}

impl Scheduler {
    /// Reserves the best execution of a lane that a worker with these capabilities may take. None
    /// if there is none. What the reservation is good for, it says itself.
    pub async fn claim_for_worker(
        &self,
        lane: &LaneId,
        worker_id: &WorkerId,
        worker_instance_id: &WorkerInstanceId,
        worker_capabilities: &BTreeSet<String>,
        grant_ttl_ms: u64,
    ) -> Result<Option<NextGrant>, SchedulerError> {
        let capabilities = CapabilitySet::try_new(worker_capabilities.iter().map(String::as_str))
            .map_err(|error| SchedulerError::Config(error.to_string()))?;
        let request = NextGrantRequest {
            lane: lane.clone(),
            worker_instance_id: worker_instance_id.clone(),
            capabilities,
            grant_ttl_ms,
        };
        Ok(self.grant_next(worker_id.clone(), request).await?)
    }
}
