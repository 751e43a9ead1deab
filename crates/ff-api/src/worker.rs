//! The registry of workers, and asking for work.

use std::time::Duration;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{LeaseIds, WorkRequest, WorkerRecord, WorkerRegistration};
use ff_core::error::EngineError;
use ff_core::types::{
    ExecutionKind, LaneId, LeaseId, TimestampMs, WorkerId, WorkerInstanceId, WorkerSession,
};
use serde::{Deserialize, Serialize};

use crate::execution::same_fields;
#[cfg(feature = "openapi")]
use crate::schema;
use crate::task::Task;

/// Makes a worker process known, or renews that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterWorker {
    /// The kind of worker.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_id: WorkerId,
    /// The process. Only one live process may have it.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_instance_id: WorkerInstanceId,
    /// Chosen by the process at its start; the server chooses one if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub session: Option<WorkerSession>,
    /// The lanes it takes from.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::Lane>, max_items = 1000))]
    pub lanes: Vec<LaneId>,
    /// What it can do.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Capabilities))]
    pub capabilities: CapabilitySet,
    /// How long the registration lasts without a heartbeat.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TtlMs))]
    pub ttl_ms: u64,
}

impl RegisterWorker {
    /// The domain's request, once the session is known.
    pub fn into_registration(self, session: WorkerSession) -> WorkerRegistration {
        WorkerRegistration {
            worker_id: self.worker_id,
            worker_instance_id: self.worker_instance_id,
            session,
            lanes: self.lanes,
            capabilities: self.capabilities,
            ttl_ms: self.ttl_ms,
        }
    }
}

impl From<WorkerRegistration> for RegisterWorker {
    fn from(of: WorkerRegistration) -> Self {
        Self {
            worker_id: of.worker_id,
            worker_instance_id: of.worker_instance_id,
            session: Some(of.session),
            lanes: of.lanes,
            capabilities: of.capabilities,
            ttl_ms: of.ttl_ms,
        }
    }
}

/// The answer to a registration or a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Registered {
    /// To be given with every heartbeat.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Id))]
    pub session: WorkerSession,
    /// When the registration ends without a heartbeat.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub expires_at: TimestampMs,
}

/// Extends a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Heartbeat {
    /// As registered.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Id))]
    pub session: WorkerSession,
    /// How long the registration lasts from now.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TtlMs))]
    pub ttl_ms: u64,
}

/// Ends a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Disconnect {
    /// As registered.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Id))]
    pub session: WorkerSession,
}

/// The answer to the end of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Disconnected {
    /// How many leases were handed back: their attempts go on with any other worker.
    pub handed_back: u32,
}

/// The connected workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerList {
    /// Sorted by instance.
    pub workers: Vec<Worker>,
}

/// A connected worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worker {
    /// The kind of worker.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_id: WorkerId,
    /// The process.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_instance_id: WorkerInstanceId,
    /// The lanes it takes from.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::Lane>))]
    pub lanes: Vec<LaneId>,
    /// What it can do.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub capabilities: CapabilitySet,
    /// When it registered.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub registered_at: TimestampMs,
    /// When it vanishes unless it is heard of again.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub expires_at: TimestampMs,
}

same_fields! {
    Worker = WorkerRecord {
        worker_id, worker_instance_id, lanes, capabilities, registered_at, expires_at
    }
}

/// Asks for tasks, of one or several lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claim {
    /// The kind of worker.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_id: WorkerId,
    /// The process.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_instance_id: WorkerInstanceId,
    /// The lanes to take from, each in its turn.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Vec<schema::Lane>, min_items = 1, max_items = 1000)
    )]
    pub lanes: Vec<LaneId>,
    /// What the worker can do.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Capabilities))]
    pub capabilities: CapabilitySet,
    /// The kinds of executions to take; any if absent or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::Kind>, max_items = 256))]
    pub kinds: Vec<ExecutionKind>,
    /// How many tasks at most; 1 if absent.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 256))]
    pub count: u32,
    /// How long a lease lasts without renewal.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TtlMs))]
    pub lease_ttl_ms: u64,
    /// How long to wait for the first task; 0 if absent. The answer comes as soon as there is one.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WaitMs))]
    pub wait_ms: u64,
    /// Whether tasks carry their payload as text too, if it is UTF-8; true if absent.
    #[serde(default = "yes")]
    pub payload_text: bool,
    /// Fresh ids for the leases, one for each task wanted. A claim whose answer was lost can be
    /// repeated under the same ids. Made by the server if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<schema::Id>, max_items = 256))]
    pub lease_ids: Vec<LeaseId>,
    /// True for such a repetition: what was claimed under these ids before is answered again; only
    /// if there is none, tasks are claimed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
}

impl Claim {
    /// The leases that the client named, if it did.
    pub fn leases(&self) -> Result<Option<LeaseIds>, EngineError> {
        match (self.lease_ids.is_empty(), self.retry) {
            (true, false) => Ok(None),
            (true, true) => Err(EngineError::invalid("retry", "needs the lease_ids of before")),
            (false, repeated) => Ok(Some(LeaseIds { ids: self.lease_ids.clone(), repeated })),
        }
    }
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

impl From<Claim> for WorkRequest {
    fn from(of: Claim) -> Self {
        Self {
            lanes: of.lanes,
            worker_id: of.worker_id,
            worker_instance_id: of.worker_instance_id,
            capabilities: of.capabilities,
            kinds: of.kinds,
            lease_ttl_ms: of.lease_ttl_ms,
            count: of.count,
            max_wait: Duration::from_millis(of.wait_ms),
        }
    }
}

/// For clients, which read the payload as bytes and spare its text.
impl From<WorkRequest> for Claim {
    fn from(of: WorkRequest) -> Self {
        Self {
            worker_id: of.worker_id,
            worker_instance_id: of.worker_instance_id,
            lanes: of.lanes,
            capabilities: of.capabilities,
            kinds: of.kinds,
            count: of.count,
            lease_ttl_ms: of.lease_ttl_ms,
            wait_ms: u64::try_from(of.max_wait.as_millis()).unwrap_or(u64::MAX),
            payload_text: false,
            lease_ids: Vec::new(),
            retry: false,
        }
    }
}

/// The claimed tasks; none if the time passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClaimedTasks {
    /// The tasks, each with a lease of its own.
    pub tasks: Vec<Task>,
}
