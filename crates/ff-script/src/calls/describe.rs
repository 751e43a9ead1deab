//! Reading one execution.

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{SuspensionRecord, Tags};
use ff_core::state::{
    AttemptState, AttemptType, BlockingReason, EligibilityState, LifecyclePhase, OwnershipState,
    PublicState, TerminalOutcome,
};
use ff_core::types::{
    AttemptId, ExecutionId, ExecutionKind, FlowId, LaneId, LeaseEpoch, LeaseId, Namespace,
    TimestampMs, WorkerId, WorkerInstanceId,
};

use crate::call::{Call, Values, functions};
use crate::value::Value;
use crate::wire::{List, Reading};

functions! {
    /// Reads everything about an execution but its payload and result.
    read ff_describe_execution(DescribeExecution { execution_id: ExecutionId })
    -> DescribeExecutionReply {
        "OK" => Execution {
            namespace: Namespace,
            lane: LaneId,
            kind: ExecutionKind,
            priority: u16,
            creator: String,
            lifecycle_phase: LifecyclePhase,
            ownership_state: OwnershipState,
            eligibility_state: EligibilityState,
            blocking_reason: BlockingReason,
            terminal_outcome: TerminalOutcome,
            attempt_state: AttemptState,
            public_state: PublicState,
            blocking_detail: Option<String>,
            created_at: TimestampMs,
            started_at: Option<TimestampMs>,
            ended_at: Option<TimestampMs>,
            last_transition_at: TimestampMs,
            last_mutation_at: TimestampMs,
            delay_until: Option<TimestampMs>,
            deadline_at: Option<TimestampMs>,
            attempt_count: u32,
            attempt_id: Option<AttemptId>,
            attempt_type: Option<AttemptType>,
            lease_id: Option<LeaseId>,
            lease_epoch: LeaseEpoch,
            lease_expires_at: Option<TimestampMs>,
            worker_id: Option<WorkerId>,
            worker_instance_id: Option<WorkerInstanceId>,
            attempt_timeout_at: Option<TimestampMs>,
            retry_count: u32,
            reclaim_count: u32,
            replay_count: u32,
            failure_reason: Option<String>,
            failure_category: Option<String>,
            failure_detail: Vec<u8>,
            cancel_reason: Option<String>,
            cancelled_by: Option<String>,
            progress_pct: Option<u8>,
            progress_message: Option<String>,
            progress_at: Option<TimestampMs>,
            required_capabilities: CapabilitySet,
            flow_id: Option<FlowId>,
            purge_at: Option<TimestampMs>,
            policy_json: Option<String>,
            tags: Tags,
            lease_heard_at: Option<TimestampMs>,
            correlation_id: String,
            suspensions: List<SuspensionRecord>,
            hold_reason: Option<BlockingReason>,
            held_at: Option<TimestampMs>,
            held_by: String,
            hold_note: String,
            effective_policy: Option<String>,
        },
    }
    refuses [ExecutionNotFound];

    /// Reads the input of an execution.
    read ff_read_payload(ReadPayload { execution_id: ExecutionId })
    -> ReadPayloadReply { "OK" => Payload { payload: Vec<u8> } }
    refuses [ExecutionNotFound, DataLost];

    /// Reads the state of an execution and, if it succeeded, its result.
    read ff_read_result(ReadResult { execution_id: ExecutionId })
    -> ReadResultReply {
        "OK" => Result {
            public_state: PublicState,
            result: Vec<u8>,
            failure_reason: Option<String>,
            failure_category: Option<String>,
        },
    }
    refuses [ExecutionNotFound, DataLost];

    /// Lists the attempts of an execution, oldest first, each packed in one line.
    read ff_list_attempts(ListAttempts { execution_id: ExecutionId, limit: u32 })
    -> ListAttemptsReply { "OK" => Attempts { attempts: List<Vec<u8>> } }
    refuses [ExecutionNotFound];
}

/// As an inner array, in the answer to another question.
impl Reading for DescribeExecutionReply {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let values = Values::inside(DescribeExecution::CONTRACT.name, values);
        DescribeExecution::decode("OK", values).ok()
    }
}
