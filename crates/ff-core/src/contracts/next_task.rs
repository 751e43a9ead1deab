//! Ending a task and taking the next one, in one call.

use serde::{Deserialize, Serialize};

use super::grants::{
    ClaimRequest, Claimed, TakeFrom, check_kinds, check_lease_ttl, check_namespaces,
};
use crate::ToSchema;
use crate::argument;
use crate::backend::{FailOutcome, FailureClass, FailureReason, Handle};
use crate::capability::CapabilitySet;
use crate::error::EngineError;
use crate::limits;
use crate::types::{ExecutionKind, LaneId, LeaseId, Namespace};

/// How a task ends with which the next one is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// Its execution succeeds, with a result or without.
    Complete(Option<Vec<u8>>),
    /// Its attempt has failed; the policy decides between a retry and the end.
    Fail(FailureReason, FailureClass),
}

impl TaskEnd {
    /// Checks what a failure says.
    pub fn validate(&self) -> Result<(), EngineError> {
        let Self::Fail(reason, class) = self else { return Ok(()) };
        reason.validate()?;
        class.validate()
    }
}

/// What became of such a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnded {
    /// Its execution is completed.
    Completed,
    /// Its attempt has failed.
    Failed(FailOutcome),
}

/// What the worker of a task that ends takes next: at once, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NextTask {
    /// The lanes to take from; that of the task if absent or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
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
    /// How long the next lease lasts without renewal; as long as that of the task if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<crate::schema::TtlMs>)]
    pub lease_ttl_ms: Option<u64>,
    /// A fresh id for the next lease. Whoever lost the answer repeats the request with the same
    /// one, and is given the same task. Made by the server if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<LeaseId>,
    /// Whether the next task carries its payload as text too, if it is UTF-8; false if absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub payload_text: bool,
}

impl NextTask {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_lease_ttl(self.lease_ttl_ms.unwrap_or(limits::LEASE_TTL_MS_MIN))?;
        check_kinds(&self.kinds)?;
        check_namespaces(&self.namespaces)?;
        argument::check_range("number of lanes", self.lanes.len() as u64, 0..=limits::LANES_MAX)
    }

    /// The lanes to take from, after a task of this handle.
    pub fn lanes_after(&self, handle: &Handle) -> Vec<LaneId> {
        if self.lanes.is_empty() { vec![handle.lane.clone()] } else { self.lanes.clone() }
    }

    /// The claim of the next task, by the worker that holds this one; of several under as many
    /// lease ids, where the workers of several go on alike.
    pub fn claim_after(
        &self,
        handle: &Handle,
        lane: LaneId,
        from: TakeFrom,
        lease_ids: Vec<LeaseId>,
    ) -> ClaimRequest {
        ClaimRequest {
            lane,
            worker_id: handle.worker_id.clone(),
            worker_instance_id: handle.worker_instance_id.clone(),
            capabilities: self.capabilities.clone(),
            kinds: self.kinds.clone(),
            namespaces: self.namespaces.clone(),
            from,
            lease_ttl_ms: self.lease_ttl_ms.unwrap_or(handle.lease_ttl_ms),
            lease_ids,
            retry: false,
        }
    }
}

/// A task that ended, and the next one if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What became of it.
    pub ended: TaskEnded,
    /// What its worker goes on with.
    pub next: Option<Claimed>,
}

/// The same as a partition tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedNext {
    /// The task, and the next one.
    pub finished: Finished,
    /// The score of the best one that is left: the lowest is taken first. Nothing is known of that
    /// after a repetition.
    pub next_score: Option<i64>,
    /// The task had ended before, by this very call.
    pub is_repetition: bool,
}

/// The same of several tasks that ended together.
#[derive(Clone, Debug, PartialEq)]
pub struct AllFinished {
    /// What became of each, and its next one, in the order in which they were named.
    pub finished: Vec<Result<Finished, EngineError>>,
    /// The score of the best one that is left.
    pub next_score: Option<i64>,
    /// One of the tasks at least had ended before, by such a call.
    pub is_repetition: bool,
}
