//! What is known about one execution at one moment.

use serde::{Deserialize, Serialize};

use super::suspensions::SuspensionRecord;
use super::tags::Tags;
use crate::ToSchema;
use crate::bytes::{base64_text, json_text};
use crate::capability::CapabilitySet;
use crate::state::{AttemptLifecycle, AttemptType, BlockingReason, PublicState, StateVector};
use crate::types::{
    AttemptId, AttemptIndex, ExecutionId, ExecutionKind, FlowId, LaneId, LeaseEpoch, LeaseId,
    Namespace, TimestampMs, WaitpointId, WorkerId, WorkerInstanceId,
};

/// Everything about an execution but its payload and result, of one moment. Times are milliseconds
/// since the Unix epoch by the store's clock.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Execution)]
pub struct ExecutionSnapshot {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The flow it belongs to.
    pub flow_id: Option<FlowId>,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// The queue it waits or waited in.
    pub lane: LaneId,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// Who submitted it; may be empty.
    pub creator: String,
    /// The submitter's own name for what it belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub correlation_id: String,
    /// Higher runs first.
    #[schema(value_type = crate::schema::Priority)]
    pub priority: u16,
    /// The one word for where it stands.
    pub public_state: PublicState,
    /// Where it stands, in all dimensions.
    pub state: StateVector,
    /// More about what it waits for.
    pub blocking_detail: Option<String>,
    /// The latest attempt.
    pub current_attempt: Option<AttemptSummary>,
    /// The lease, if somebody holds one.
    pub current_lease: Option<LeaseSummary>,
    /// The waitpoint it is suspended on.
    pub current_waitpoint: Option<WaitpointId>,
    /// The latest suspensions, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspensions: Vec<SuspensionRecord>,
    /// How many attempts were started.
    pub total_attempt_count: u32,
    /// How many retries were scheduled in this run.
    pub retry_count: u32,
    /// How often it was taken over from a lost worker in this run.
    pub reclaim_count: u32,
    /// How often it was replayed.
    pub replay_count: u32,
    /// When it was submitted.
    pub created_at: TimestampMs,
    /// When it was first claimed.
    pub started_at: Option<TimestampMs>,
    /// When it ended.
    pub completed_at: Option<TimestampMs>,
    /// When its state last changed.
    pub last_transition_at: TimestampMs,
    /// When anything about it last changed.
    pub last_mutation_at: TimestampMs,
    /// Not to be claimed before.
    pub delay_until: Option<TimestampMs>,
    /// When the running attempt runs out of time.
    pub attempt_timeout_at: Option<TimestampMs>,
    /// When the execution runs out of time.
    pub deadline_at: Option<TimestampMs>,
    /// When it will be removed.
    pub purge_at: Option<TimestampMs>,
    /// Why it, or its latest attempt, failed.
    pub failure: Option<FailureSummary>,
    /// Why it was cancelled.
    pub cancel: Option<CancelSummary>,
    /// How far the worker says it is.
    pub progress: Option<ProgressSummary>,
    /// Who keeps it from being claimed, now or as soon as what it does is over.
    pub hold: Option<HoldSummary>,
    /// The policy that its submission gave, as JSON; none if it gave none.
    #[serde(rename = "policy", with = "json_text", skip_serializing_if = "json_text::is_none")]
    #[serde(default)]
    #[schema(value_type = Option<crate::policy::ExecutionPolicy>)]
    pub policy_json: Option<String>,
    /// The policy that holds, as JSON: what its submission said, then its kind and the deployment
    /// at that time, then what holds where nobody says anything. Unless somebody said how long it
    /// is kept, that is part of it from its end on.
    #[serde(rename = "effective_policy", with = "json_text")]
    #[serde(default, skip_serializing_if = "json_text::is_none")]
    #[schema(value_type = Option<crate::policy::ExecutionPolicy>)]
    pub effective_policy_json: Option<String>,
    /// What a worker must be able to do.
    #[serde(default)]
    pub required_capabilities: CapabilitySet,
    /// Labels.
    #[serde(default)]
    #[schema(value_type = crate::schema::Tags)]
    pub tags: Tags,
}

impl ExecutionSnapshot {
    /// The one word shown to people.
    pub const fn public_state(&self) -> PublicState {
        self.public_state
    }
}

/// The latest attempt of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = CurrentAttempt)]
pub struct AttemptSummary {
    /// Its id.
    pub attempt_id: AttemptId,
    /// Its number.
    pub attempt_index: AttemptIndex,
    /// Why it was started.
    pub attempt_type: AttemptType,
}

/// Who holds an execution, and until when.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseSummary {
    /// The lease.
    pub lease_id: LeaseId,
    /// Its epoch.
    pub lease_epoch: LeaseEpoch,
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// When it ends unless renewed.
    pub expires_at: TimestampMs,
    /// When its holder was last heard of: when it took or renewed the lease.
    pub heard_at: Option<TimestampMs>,
}

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Failure)]
pub struct FailureSummary {
    /// In the worker's or the store's words.
    pub reason: String,
    /// The category that the retry policy looks at.
    pub category: String,
    /// What else the worker had to say: opaque bytes, often empty.
    #[serde(rename = "detail_base64", with = "base64_text", skip_serializing_if = "Vec::is_empty")]
    #[serde(default)]
    #[schema(value_type = crate::schema::Base64)]
    pub detail: Vec<u8>,
}

/// Why an execution was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Cancellation)]
pub struct CancelSummary {
    /// In the words of who cancelled it.
    pub reason: String,
    /// Who: one of the cancel sources, or `lease_holder`.
    pub cancelled_by: String,
}

/// Who keeps an execution from being claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Hold)]
pub struct HoldSummary {
    /// What kind of hold it is.
    pub blocking_reason: BlockingReason,
    /// Since when.
    pub held_at: TimestampMs,
    /// Who asked for it; may be empty.
    #[serde(default)]
    pub requested_by: String,
    /// Why, for a person; may be empty.
    #[serde(default)]
    pub reason: String,
}

/// How far a worker says it is.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Progress)]
pub struct ProgressSummary {
    /// 0 to 100.
    pub percent: Option<u8>,
    /// A sentence for a person.
    pub message: Option<String>,
    /// When it said so.
    pub updated_at: TimestampMs,
}

/// One attempt, in an execution's history.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptRecord {
    /// Its number.
    pub index: AttemptIndex,
    /// Its id.
    pub id: AttemptId,
    /// Why it was started.
    pub attempt_type: AttemptType,
    /// What led to it, in words: the failure before a retry, the reason of a replay.
    pub cause: Option<String>,
    /// How far it got.
    pub state: AttemptLifecycle,
    /// When it was claimed.
    pub started_at: TimestampMs,
    /// When it ended.
    pub ended_at: Option<TimestampMs>,
    /// The kind of worker that ran it last.
    pub worker_id: WorkerId,
    /// The process that ran it last.
    pub worker_instance_id: WorkerInstanceId,
    /// The epoch of its last lease.
    pub lease_epoch: LeaseEpoch,
    /// Why it failed.
    pub failure_reason: Option<String>,
    /// The category of its failure.
    pub failure_category: Option<String>,
}
