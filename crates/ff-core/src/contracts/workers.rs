//! The registry of connected workers.

use serde::{Deserialize, Serialize};

use super::grants::check_namespaces;
use crate::ToSchema;
use crate::argument::check_range;
use crate::capability::CapabilitySet;
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::operation::{Method, Nothing, Operation, PLAIN_BODY_BYTES};
use crate::types::{
    ExecutionKind, ExecutionRef, LaneId, Namespace, TimestampMs, WorkerId, WorkerInstanceId,
    WorkerSession,
};

/// Knows the connected workers.
pub trait Workers: Send + Sync {
    /// Makes a worker process known, or renews that. A live process with the same instance id and
    /// another session is in the way: refused with `worker_instance_in_use` and that process,
    /// unless the caller saw it go (`replaces`); then its leases are handed back.
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
    /// The kinds it has handlers for; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub kinds: Vec<ExecutionKind>,
    /// The namespaces it takes from; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub namespaces: Vec<Namespace>,
    /// How many tasks it runs now, for those who look.
    #[schema(maximum = 1000000)]
    pub running: Option<u32>,
    /// How many it may run at a time.
    #[schema(maximum = 1000000)]
    pub capacity: Option<u32>,
    /// What tells the process from all others, those of its machine and of others: told to whoever
    /// wants the same instance id.
    #[schema(max_length = 128, pattern = "^[!-~]*$")]
    pub process: Option<String>,
    /// The process that was in the way, which the caller saw go: it is replaced at once, and its
    /// leases are handed back.
    #[schema(max_length = 128, pattern = "^[!-~]*$")]
    pub replaces: Option<String>,
    /// How long the registration lasts without a heartbeat.
    #[schema(value_type = crate::schema::TtlMs)]
    pub ttl_ms: u64,
}

impl WorkerRegistration {
    /// A registration of a process that takes from no lane yet.
    pub fn new(worker_id: WorkerId, worker_instance_id: WorkerInstanceId, ttl_ms: u64) -> Self {
        Self {
            worker_id,
            worker_instance_id,
            session: None,
            lanes: Vec::new(),
            capabilities: CapabilitySet::default(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            running: None,
            capacity: None,
            process: None,
            replaces: None,
            ttl_ms,
        }
    }

    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_ttl(self.ttl_ms)?;
        check_range("number of lanes", self.lanes.len() as u64, 0..=limits::LANES_MAX)?;
        check_range("number of kinds", self.kinds.len() as u64, 0..=limits::KINDS_MAX)?;
        check_namespaces(&self.namespaces)?;
        for (name, count) in [("running", self.running), ("capacity", self.capacity)] {
            check_range(name, count.unwrap_or(0).into(), 0..=limits::WORKER_TASKS_MAX)?;
        }
        Ok(())
    }
}

/// The answer to a registration or a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    /// To be given with every heartbeat.
    pub session: WorkerSession,
    /// When the registration ends without a heartbeat.
    pub expires_at: TimestampMs,
    /// It runs as many tasks as it may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_capacity: bool,
}

/// Extends a registration.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// As registered.
    pub session: WorkerSession,
    /// How long the registration lasts from now.
    #[schema(value_type = crate::schema::TtlMs)]
    pub ttl_ms: u64,
    /// How many tasks it runs now, for those who look.
    #[schema(maximum = 1000000)]
    pub running: Option<u32>,
}

impl Heartbeat {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_ttl(self.ttl_ms)?;
        check_range("running", self.running.unwrap_or(0).into(), 0..=limits::WORKER_TASKS_MAX)
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
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Disconnect {
    /// As registered.
    pub session: WorkerSession,
    /// The executions that it holds: their leases are handed back, at the cost of those alone. If
    /// absent, every partition is looked through for leases of the instance.
    #[schema(max_items = 1000)]
    pub executions: Option<Vec<ExecutionRef>>,
}

impl Disconnect {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        let count = self.executions.as_ref().map_or(0, Vec::len) as u64;
        check_range("number of executions", count, 0..=limits::DISCONNECT_EXECUTIONS_MAX)
    }
}

impl Operation for Disconnect {
    type Target = WorkerInstanceId;
    type Request = Self;
    type Reply = Disconnected;

    const PATH: &'static str = "/v1/workers/{worker}/disconnect";
    const NAME: &'static str = "disconnectWorker";
    const SUMMARY: &'static str = "Ends a registration and hands its leases back.";
    const ANSWERS: &'static str = "It is unknown, and holds nothing.";
    /// A thousand ids, quoted.
    const BODY_BYTES_MAX: usize = 2 * PLAIN_BODY_BYTES;
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
#[serde_with_macros::skip_serializing_none]
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
    /// The kinds it has handlers for; none: any.
    #[serde(default)]
    pub kinds: Vec<ExecutionKind>,
    /// The namespaces it takes from; none: any.
    #[serde(default)]
    pub namespaces: Vec<Namespace>,
    /// How many tasks it ran when it was last heard of, if it says so.
    pub running: Option<u32>,
    /// How many it may run at a time, if it says so.
    pub capacity: Option<u32>,
    /// When it said how many it runs.
    pub heard_at: Option<TimestampMs>,
    /// When it registered.
    pub registered_at: TimestampMs,
    /// When it vanishes unless it is heard of again.
    pub expires_at: TimestampMs,
}

impl WorkerRecord {
    /// Does it have a handler for this kind?
    pub fn serves(&self, kind: &ExecutionKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(kind)
    }

    /// Does it take from this namespace?
    pub fn takes_from(&self, namespace: &Namespace) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }
}

fn check_ttl(ttl_ms: u64) -> Result<(), EngineError> {
    check_range("ttl_ms", ttl_ms, 1..=limits::LEASE_TTL_MS_MAX)
}
