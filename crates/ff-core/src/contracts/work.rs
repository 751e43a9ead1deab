//! Asking for work, in one place for several lanes, with a wait.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::grants::{check_kinds, check_lease_ttl, check_namespaces};
use crate::ToSchema;
use crate::argument;
use crate::capability::CapabilitySet;
use crate::error::EngineError;
use crate::limits;
use crate::types::{ExecutionKind, LaneId, LeaseId, Namespace, WorkerId, WorkerInstanceId};

/// Asks for tasks, of one or several lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
pub struct WorkRequest {
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// The lanes to take from, each in its turn.
    #[schema(min_items = 1, max_items = 1000)]
    pub lanes: Vec<LaneId>,
    /// What the worker can do.
    #[serde(default)]
    pub capabilities: CapabilitySet,
    /// The kinds of executions to take; any if absent or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub kinds: Vec<ExecutionKind>,
    /// The namespaces to take from; any if absent or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub namespaces: Vec<Namespace>,
    /// How many tasks at most; 1 if absent.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 256)]
    pub count: u32,
    /// How long a lease lasts without renewal.
    #[schema(value_type = crate::schema::TtlMs)]
    pub lease_ttl_ms: u64,
    /// How long to wait for the first task; 0 if absent. The answer comes as soon as there is one.
    #[serde(default)]
    #[schema(value_type = crate::schema::WaitMs)]
    pub wait_ms: u64,
    /// Whether tasks carry their payload as text too, if it is UTF-8; true if absent.
    #[serde(default = "yes")]
    pub payload_text: bool,
    /// Fresh ids for the leases, one for each task wanted. A claim whose answer was lost can be
    /// repeated under the same ids. Made by the server if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub lease_ids: Vec<LeaseId>,
    /// True for such a repetition: what was claimed under these ids before is answered again; only
    /// if there is none, tasks are claimed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

impl WorkRequest {
    /// One task of these lanes under this lease, at once or not at all. Whoever asks in a program
    /// reads payloads as bytes, and spares their text.
    pub fn new(
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        lanes: Vec<LaneId>,
        lease_ttl_ms: u64,
    ) -> Self {
        Self {
            worker_id,
            worker_instance_id,
            lanes,
            capabilities: CapabilitySet::default(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            count: one(),
            lease_ttl_ms,
            wait_ms: 0,
            payload_text: false,
            lease_ids: Vec::new(),
            retry: false,
        }
    }

    /// How long to wait for the first task.
    pub const fn max_wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }

    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_lease_ttl(self.lease_ttl_ms)?;
        check_kinds(&self.kinds)?;
        check_namespaces(&self.namespaces)?;
        argument::check_range("number of lanes", self.lanes.len() as u64, 1..=limits::LANES_MAX)?;
        argument::check_range("count", self.count.into(), 1..=limits::CLAIM_COUNT_MAX)?;
        argument::check_range("wait", self.wait_ms, 0..=limits::CLAIM_WAIT_MS_MAX)?;
        self.check_lease_ids()
    }

    /// There must be a different one for each of the tasks wanted, or none.
    fn check_lease_ids(&self) -> Result<(), EngineError> {
        let distinct: BTreeSet<&LeaseId> = self.lease_ids.iter().collect();
        match distinct.len() {
            0 if self.retry => Err(EngineError::invalid("retry", "needs the lease_ids of before")),
            0 => Ok(()),
            ids if ids == self.lease_ids.len() && ids == self.count as usize => Ok(()),
            _ => {
                let rule = "must be different ones, as many as count says";
                Err(EngineError::invalid("lease_ids", rule))
            }
        }
    }
}
