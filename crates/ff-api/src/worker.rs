//! Workers that make themselves known and ask for work.

use std::time::Duration;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{LeaseIds, Registered, WorkRequest, WorkerRegistration};
use ff_core::error::EngineError;
use ff_core::operation::{Input, Nothing, Operation, PLAIN_BODY_BYTES};
use ff_core::types::{ExecutionKind, LaneId, LeaseId, WorkerId, WorkerInstanceId};
use serde::{Deserialize, Serialize};

use crate::task::Task;

/// Makes a worker process known, or renews that.
#[derive(Clone, Copy, Debug)]
pub struct Register;

impl Operation for Register {
    type Target = Nothing;
    type Request = WorkerRegistration;
    type Reply = Registered;

    const PATH: &'static str = "/v1/workers";
    const NAME: &'static str = "registerWorker";
    const SUMMARY: &'static str = "Makes a worker process known, or renews that.";
    const ANSWERS: &'static str = "It is known until then.";
    const ABOUT: &'static str = "A process that restarts and still knows its session takes over \
        at once; one that does not waits until the old registration runs out, or takes another \
        instance id.";
    const INPUT: Input = Input::Body;
    /// A thousand lanes of 64 letters, quoted.
    const BODY_BYTES_MAX: usize = 2 * PLAIN_BODY_BYTES;
    const STATUS: u16 = 201;
    const REFUSES: &'static [u16] = &[409];
}

/// Asks for tasks, of one or several lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claim {
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// The lanes to take from, each in its turn.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub lanes: Vec<LaneId>,
    /// What the worker can do.
    #[serde(default)]
    pub capabilities: CapabilitySet,
    /// The kinds of executions to take; any if absent or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 256))]
    pub kinds: Vec<ExecutionKind>,
    /// How many tasks at most; 1 if absent.
    #[serde(default = "one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 256))]
    pub count: u32,
    /// How long a lease lasts without renewal.
    #[cfg_attr(feature = "openapi", schema(value_type = ff_core::schema::TtlMs))]
    pub lease_ttl_ms: u64,
    /// How long to wait for the first task; 0 if absent. The answer comes as soon as there is one.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = ff_core::schema::WaitMs))]
    pub wait_ms: u64,
    /// Whether tasks carry their payload as text too, if it is UTF-8; true if absent.
    #[serde(default = "yes")]
    pub payload_text: bool,
    /// Fresh ids for the leases, one for each task wanted. A claim whose answer was lost can be
    /// repeated under the same ids. Made by the server if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 256))]
    pub lease_ids: Vec<LeaseId>,
    /// True for such a repetition: what was claimed under these ids before is answered again; only
    /// if there is none, tasks are claimed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
}

impl Operation for Claim {
    type Target = Nothing;
    type Request = Self;
    type Reply = ClaimedTasks;

    const PATH: &'static str = "/v1/claims";
    const NAME: &'static str = "claimTasks";
    const GROUP: &'static str = "workers";
    const SUMMARY: &'static str = "Claims tasks of one or several lanes.";
    const ANSWERS: &'static str = "The tasks; none if the time passed.";
    const ABOUT: &'static str = "Answers at once if there is work, otherwise as soon as there is \
        some, at the latest after wait_ms with no tasks. Each task has a lease of its own: renew it, \
        and end it with complete, fail, delay or cancel. A client that hangs up gets nothing, and \
        what it would have got is handed back. A client whose answer was lost on the way repeats the \
        claim, with retry, under the lease_ids of the first one: then it is given the same tasks, by \
        this server or any other. An answer carries no more than 8 MiB of payloads, or one larger \
        than that.";
    const INPUT: Input = Input::Body;
    const WAITS: bool = true;
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
