//! One execution as one call saw it.

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{
    AttemptSummary, CancelSummary, ExecutionSnapshot, FailureSummary, LeaseSummary,
    ProgressSummary, Tags,
};
use ff_core::state::{AttemptType, PublicState, StateVector};
use ff_core::types::{
    AttemptId, AttemptIndex, ExecutionId, ExecutionKind, FlowId, LaneId, LeaseEpoch, LeaseId,
    Namespace, TimestampMs, WaitpointId, WorkerId, WorkerInstanceId,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::bytes::Base64;
#[cfg(feature = "openapi")]
use crate::schema;

/// Where an execution stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecutionState {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::ExecutionId))]
    pub execution_id: ExecutionId,
    /// The word.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::PublicState))]
    pub public_state: PublicState,
}

/// Everything about an execution but its payload and result, of one moment. Times are milliseconds
/// since the Unix epoch by the store's clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Execution {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::ExecutionId))]
    pub execution_id: ExecutionId,
    /// The flow it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub flow_id: Option<FlowId>,
    /// The tenant or environment it belongs to.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Namespace))]
    pub namespace: Namespace,
    /// The queue it waits or waited in.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Lane))]
    pub lane: LaneId,
    /// The handler that runs it.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Kind))]
    pub kind: ExecutionKind,
    /// Who submitted it; may be empty.
    pub creator: String,
    /// Higher runs first.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Priority))]
    pub priority: u16,
    /// The one word for where it stands.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::PublicState))]
    pub public_state: PublicState,
    /// Where it stands, in all dimensions.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::StateVector))]
    pub state: StateVector,
    /// More about what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking_detail: Option<String>,
    /// The latest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_attempt: Option<CurrentAttempt>,
    /// The lease, if somebody holds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_lease: Option<Lease>,
    /// The waitpoint it is suspended on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Id>))]
    pub current_waitpoint: Option<WaitpointId>,
    /// How many attempts were started.
    pub total_attempt_count: u32,
    /// How many retries were scheduled in this run.
    pub retry_count: u32,
    /// How often it was taken over from a lost worker in this run.
    pub reclaim_count: u32,
    /// How often it was replayed.
    pub replay_count: u32,
    /// When it was submitted.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub created_at: TimestampMs,
    /// When it was first claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub started_at: Option<TimestampMs>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub completed_at: Option<TimestampMs>,
    /// When its state last changed.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub last_transition_at: TimestampMs,
    /// When anything about it last changed.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub last_mutation_at: TimestampMs,
    /// Not to be claimed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub delay_until: Option<TimestampMs>,
    /// When the running attempt runs out of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub attempt_timeout_at: Option<TimestampMs>,
    /// When the execution runs out of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub deadline_at: Option<TimestampMs>,
    /// When it will be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub purge_at: Option<TimestampMs>,
    /// Why it, or its latest attempt, failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancellation>,
    /// How far the worker says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Its policy, if it was created with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::ExecutionPolicy>))]
    pub policy: Option<Box<RawValue>>,
    /// What a worker must be able to do.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub required_capabilities: CapabilitySet,
    /// Labels.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Tags))]
    pub tags: Tags,
}

/// The latest attempt of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CurrentAttempt {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Id))]
    pub attempt_id: AttemptId,
    /// Its number, from 0.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub attempt_index: AttemptIndex,
    /// Why it was started.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AttemptType))]
    pub attempt_type: AttemptType,
}

/// Who holds an execution, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    /// The lease.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Id))]
    pub lease_id: LeaseId,
    /// Grows with every new lease of the execution.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub lease_epoch: LeaseEpoch,
    /// The kind of worker.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_id: WorkerId,
    /// The process.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkerName))]
    pub worker_instance_id: WorkerInstanceId,
    /// When it ends unless renewed.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub expires_at: TimestampMs,
}

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Failure {
    /// In the worker's or the store's words.
    pub reason: String,
    /// The category that the retry policy looks at.
    pub category: String,
    /// What else the worker had to say: opaque bytes, often none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Base64>))]
    pub detail_base64: Option<Base64>,
}

/// Why an execution was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cancellation {
    /// In the words of who cancelled it.
    pub reason: String,
    /// Who: `operator_override`, `flow_cascade`, `system_timeout` or `lease_holder`.
    pub cancelled_by: String,
}

/// How far a worker says it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Progress {
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// A sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it said so.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub updated_at: TimestampMs,
}

impl From<ExecutionSnapshot> for Execution {
    fn from(of: ExecutionSnapshot) -> Self {
        Self {
            execution_id: of.execution_id,
            flow_id: of.flow_id,
            namespace: of.namespace,
            lane: of.lane,
            kind: of.kind,
            creator: of.creator,
            priority: of.priority,
            public_state: of.state.public_state,
            state: of.state,
            blocking_detail: of.blocking_detail,
            current_attempt: of.current_attempt.map(Into::into),
            current_lease: of.current_lease.map(Into::into),
            current_waitpoint: of.current_waitpoint,
            total_attempt_count: of.total_attempt_count,
            retry_count: of.retry_count,
            reclaim_count: of.reclaim_count,
            replay_count: of.replay_count,
            created_at: of.created_at,
            started_at: of.started_at,
            completed_at: of.completed_at,
            last_transition_at: of.last_transition_at,
            last_mutation_at: of.last_mutation_at,
            delay_until: of.delay_until,
            attempt_timeout_at: of.attempt_timeout_at,
            deadline_at: of.deadline_at,
            purge_at: of.purge_at,
            failure: of.failure.map(Into::into),
            cancel: of.cancel.map(Into::into),
            progress: of.progress.map(Into::into),
            // What the store holds was checked when it came in; a damaged text is left out.
            policy: of.policy_json.and_then(|json| RawValue::from_string(json).ok()),
            required_capabilities: of.required_capabilities,
            tags: of.tags,
        }
    }
}

impl From<Execution> for ExecutionSnapshot {
    fn from(of: Execution) -> Self {
        Self {
            execution_id: of.execution_id,
            flow_id: of.flow_id,
            namespace: of.namespace,
            lane: of.lane,
            kind: of.kind,
            creator: of.creator,
            priority: of.priority,
            state: of.state,
            blocking_detail: of.blocking_detail,
            current_attempt: of.current_attempt.map(Into::into),
            current_lease: of.current_lease.map(Into::into),
            current_waitpoint: of.current_waitpoint,
            total_attempt_count: of.total_attempt_count,
            retry_count: of.retry_count,
            reclaim_count: of.reclaim_count,
            replay_count: of.replay_count,
            created_at: of.created_at,
            started_at: of.started_at,
            completed_at: of.completed_at,
            last_transition_at: of.last_transition_at,
            last_mutation_at: of.last_mutation_at,
            delay_until: of.delay_until,
            attempt_timeout_at: of.attempt_timeout_at,
            deadline_at: of.deadline_at,
            purge_at: of.purge_at,
            failure: of.failure.map(Into::into),
            cancel: of.cancel.map(Into::into),
            progress: of.progress.map(Into::into),
            policy_json: of.policy.map(|policy| policy.get().to_owned()),
            required_capabilities: of.required_capabilities,
            tags: of.tags,
        }
    }
}

/// Wire parts that have the same fields as the domain's.
macro_rules! same_fields {
    ($($wire:ident = $domain:ident { $($field:ident),* })*) => {$(
        impl From<$domain> for $wire {
            fn from(of: $domain) -> Self {
                Self { $($field: of.$field),* }
            }
        }

        impl From<$wire> for $domain {
            fn from(of: $wire) -> Self {
                Self { $($field: of.$field),* }
            }
        }
    )*};
}

pub(crate) use same_fields;

same_fields! {
    CurrentAttempt = AttemptSummary { attempt_id, attempt_index, attempt_type }
    Lease = LeaseSummary { lease_id, lease_epoch, worker_id, worker_instance_id, expires_at }
    Cancellation = CancelSummary { reason, cancelled_by }
    Progress = ProgressSummary { percent, message, updated_at }
}

impl From<FailureSummary> for Failure {
    fn from(of: FailureSummary) -> Self {
        let detail_base64 = (!of.detail.is_empty()).then_some(Base64(of.detail));
        Self { reason: of.reason, category: of.category, detail_base64 }
    }
}

impl From<Failure> for FailureSummary {
    fn from(of: Failure) -> Self {
        let detail = of.detail_base64.map(|detail| detail.0).unwrap_or_default();
        Self { reason: of.reason, category: of.category, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::partition::Partition;
    use ff_core::state::LEGAL;
    use uuid::Uuid;

    fn snapshot() -> ExecutionSnapshot {
        let time = TimestampMs::new;
        ExecutionSnapshot {
            execution_id: ExecutionId::from_parts(Partition::flow(3), Uuid::from_u128(9)),
            flow_id: Some(FlowId::from_uuid(Uuid::from_u128(1))),
            namespace: Namespace::default(),
            lane: LaneId::try_new("gpu").expect("valid"),
            kind: ExecutionKind::try_new("render").expect("valid"),
            creator: "ann".to_owned(),
            priority: 7,
            state: LEGAL[0].vectors().next().expect("a vector"),
            blocking_detail: Some("why".to_owned()),
            current_attempt: Some(AttemptSummary {
                attempt_id: AttemptId::from_uuid(Uuid::from_u128(2)),
                attempt_index: AttemptIndex(1),
                attempt_type: AttemptType::Retry,
            }),
            current_lease: Some(LeaseSummary {
                lease_id: LeaseId::from_uuid(Uuid::from_u128(3)),
                lease_epoch: LeaseEpoch(4),
                worker_id: WorkerId::try_new("w").expect("valid"),
                worker_instance_id: WorkerInstanceId::try_new("w-1").expect("valid"),
                expires_at: time(5),
            }),
            current_waitpoint: None,
            total_attempt_count: 2,
            retry_count: 1,
            reclaim_count: 0,
            replay_count: 3,
            created_at: time(1),
            started_at: Some(time(2)),
            completed_at: None,
            last_transition_at: time(3),
            last_mutation_at: time(4),
            delay_until: Some(time(6)),
            attempt_timeout_at: None,
            deadline_at: Some(time(8)),
            purge_at: None,
            failure: Some(FailureSummary {
                reason: "no".to_owned(),
                category: "transient".to_owned(),
                detail: vec![0, 255],
            }),
            cancel: None,
            progress: Some(ProgressSummary {
                percent: Some(40),
                message: None,
                updated_at: time(9),
            }),
            policy_json: Some(r#"{"retention_ms":5}"#.to_owned()),
            required_capabilities: CapabilitySet::try_new(["gpu"]).expect("valid"),
            tags: Tags::from([("a.b".to_owned(), "c".to_owned())]),
        }
    }

    #[test]
    fn a_snapshot_survives_the_wire() {
        let json = serde_json::to_string(&Execution::from(snapshot())).expect("text");
        assert!(json.contains(r#""policy":{"retention_ms":5}"#), "{json}");
        let back: Execution = serde_json::from_str(&json).expect("an execution");
        assert_eq!(ExecutionSnapshot::from(back), snapshot());
    }

    #[test]
    fn an_answer_with_fields_of_the_future_is_understood() {
        let json = serde_json::to_string(&Execution::from(snapshot())).expect("text");
        let json = json.replacen('{', r#"{"brand_new":1,"#, 1);
        assert!(serde_json::from_str::<Execution>(&json).is_ok());
    }
}
