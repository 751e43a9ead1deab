//! The registry of connected workers.

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::argument::check_range;
use crate::capability::CapabilitySet;
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::operation::{Method, Nothing, Operation};
use crate::types::{LaneId, TimestampMs, WorkerId, WorkerInstanceId, WorkerSession};

/// Knows the connected workers.
pub trait Workers: Send + Sync {
    /// Makes a worker process known, or renews that. A live process with the same instance id and
    /// another session is in the way: refused with `worker_instance_in_use`.
    fn register_worker(&self, registration: WorkerRegistration) -> Answer<'_, Registered>;

    /// Extends a registration. Refused with `worker_not_found` if it ran out: register again.
    fn heartbeat_worker(
        &self,
        worker_instance_id: WorkerInstanceId,
        request: Heartbeat,
    ) -> Answer<'_, Registered>;

    /// Takes a worker off the list and hands its leases back at once; their attempts go on with
    /// any other worker. Repeating it is harmless.
    fn disconnect_worker(
        &self,
        worker_instance_id: WorkerInstanceId,
        request: Disconnect,
    ) -> Answer<'_, Disconnected>;

    /// The connected workers. A read.
    fn list_workers(&self) -> Answer<'_, WorkerList>;
}

/// Makes a worker process known, or renews that.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RegisterWorker)]
pub struct WorkerRegistration {
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process. Only one live process may have it.
    pub worker_instance_id: WorkerInstanceId,
    /// Chosen by the process at its start, or for it if it is absent: proves that a heartbeat is
    /// its own. A process that restarts and still knows it takes over at once.
    pub session: Option<WorkerSession>,
    /// The lanes it takes from.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub lanes: Vec<LaneId>,
    /// What it can do.
    #[serde(default)]
    pub capabilities: CapabilitySet,
    /// How long the registration lasts without a heartbeat.
    #[schema(value_type = crate::schema::TtlMs)]
    pub ttl_ms: u64,
}

impl WorkerRegistration {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_ttl(self.ttl_ms)?;
        check_range("number of lanes", self.lanes.len() as u64, 0..=limits::LANES_MAX)
    }
}

/// The answer to a registration or a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// To be given with every heartbeat.
    pub session: WorkerSession,
    /// When the registration ends without a heartbeat.
    pub expires_at: TimestampMs,
}

/// Extends a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// As registered.
    pub session: WorkerSession,
    /// How long the registration lasts from now.
    #[schema(value_type = crate::schema::TtlMs)]
    pub ttl_ms: u64,
}

impl Heartbeat {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_ttl(self.ttl_ms)
    }
}

impl Operation for Heartbeat {
    type Target = WorkerInstanceId;
    type Request = Self;
    type Reply = Registered;

    const PATH: &'static str = "/v1/workers/{worker}/heartbeat";
    const NAME: &'static str = "heartbeatWorker";
    const SUMMARY: &'static str = "Extends a registration.";
    const ANSWERS: &'static str = "It is known until then.";
}

/// Ends a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Disconnect {
    /// As registered.
    pub session: WorkerSession,
}

impl Operation for Disconnect {
    type Target = WorkerInstanceId;
    type Request = Self;
    type Reply = Disconnected;

    const PATH: &'static str = "/v1/workers/{worker}/disconnect";
    const NAME: &'static str = "disconnectWorker";
    const SUMMARY: &'static str = "Ends a registration and hands its leases back.";
    const ANSWERS: &'static str = "It is unknown, and holds nothing.";
    const REFUSES: &'static [u16] = &[409];
}

/// The answer to the end of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disconnected {
    /// How many leases were handed back: their attempts go on with any other worker.
    pub handed_back: u32,
}

/// Lists the connected workers.
#[derive(Clone, Copy, Debug)]
pub struct ListWorkers;

impl Operation for ListWorkers {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = WorkerList;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/workers";
    const NAME: &'static str = "listWorkers";
    const SUMMARY: &'static str = "The connected workers, sorted by instance.";
    const ANSWERS: &'static str = "The workers.";
}

/// The connected workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerList {
    /// Sorted by instance.
    pub workers: Vec<WorkerRecord>,
}

/// A connected worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Worker)]
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

fn check_ttl(ttl_ms: u64) -> Result<(), EngineError> {
    check_range("ttl_ms", ttl_ms, 1..=limits::LEASE_TTL_MS_MAX)
}
