//! Waitpoints before the execution is suspended on them.

use ff_core::contracts::{OpenWaitpoint, SuspendedExecutionEntry, SuspensionRecord};
use ff_core::types::{
    AttemptId, ExecutionId, LeaseEpoch, LeaseId, TimestampMs, WaitpointId, WaitpointToken,
};

use crate::call::functions;
use crate::value::Value;
use crate::wire::{List, Reading};

functions! {
    /// Opens a waitpoint for signals before the execution is suspended on it.
    write ff_create_pending_waitpoint(CreatePendingWaitpoint {
        execution_id: ExecutionId,
        lease_id: LeaseId,
        lease_epoch: LeaseEpoch,
        attempt_id: AttemptId,
        waitpoint_id: WaitpointId,
        waitpoint_key: String,
        expires_in_ms: u64,
    })
    -> CreatePendingWaitpointReply {
        "OK" => Opened {
            waitpoint_id: WaitpointId,
            waitpoint_key: String,
            waitpoint_token: WaitpointToken,
            expires_at: Option<TimestampMs>,
        },
        "DUPLICATE" => OpenedBefore {
            waitpoint_id: WaitpointId,
            waitpoint_key: String,
            waitpoint_token: WaitpointToken,
            expires_at: Option<TimestampMs>,
        },
    }
    refuses [ExecutionNotFound, ExecutionNotActive, FenceRequired, PartialFenceTriple, LeaseRevoked,
        LeaseExpired, StaleLease, WaitpointAlreadyExists, WaitpointLimitExceeded,
        HmacSecretNotInitialized, InvalidSecret];

    /// Closes a waitpoint that the execution will not be suspended on.
    write ff_close_waitpoint(CloseWaitpoint {
        execution_id: ExecutionId,
        lease_id: LeaseId,
        lease_epoch: LeaseEpoch,
        attempt_id: AttemptId,
        waitpoint_id: WaitpointId,
        reason: Option<String>,
    })
    -> CloseWaitpointReply {
        "OK" => Closed {},
        "ALREADY_SATISFIED" => ClosedBefore { reason: String },
    }
    refuses [ExecutionNotFound, ExecutionNotActive, FenceRequired, PartialFenceTriple, LeaseRevoked,
        LeaseExpired, StaleLease, WaitpointNotFound, WaitpointActive,
        InvalidWaitpointForExecution];

    /// Lists the open waitpoints of an execution, each with a token under the current key.
    read ff_list_pending_waitpoints(ListPendingWaitpoints { execution_id: ExecutionId })
    -> ListPendingWaitpointsReply { "OK" => Waitpoints { waitpoints: List<OpenWaitpoint> } }
    refuses [ExecutionNotFound, HmacSecretNotInitialized, InvalidSecret];
}

/// A row of `lua/verb/waitpoint.lua`.
impl Reading for OpenWaitpoint {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let mut values = values.into_iter();
        let mut next = || values.next();
        Some(Self {
            waitpoint_id: Reading::read(next()?)?,
            waitpoint_key: Reading::read(next()?)?,
            state: Reading::read(next()?)?,
            waitpoint_token: Reading::read(next()?)?,
            required_signal_names: List::read(next()?)?.0,
            created_at: Reading::read(next()?)?,
            activated_at: Reading::read(next()?)?,
            expires_at: Reading::read(next()?)?,
            suspension_id: Reading::read(next()?)?,
            reason: Reading::read(next()?)?,
            requested_by: Reading::read(next()?)?,
            signal_count: Reading::read(next()?)?,
            condition_json: Reading::read(next()?)?,
            details_json: Reading::read(next()?)?,
        })
    }
}

/// A row of `lua/verb/waits.lua`.
impl Reading for SuspendedExecutionEntry {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let mut values = values.into_iter();
        let mut next = || values.next();
        Some(Self {
            execution_id: Reading::read(next()?)?,
            namespace: Reading::read(next()?)?,
            lane: Reading::read(next()?)?,
            kind: Reading::read(next()?)?,
            suspended_at_ms: Reading::read(next()?)?,
            reason: Reading::read(next()?)?,
            timeout_at: Reading::read(next()?)?,
            timeout_behavior: Reading::read(next()?)?,
            waitpoint_id: Reading::read(next()?)?,
            waitpoint_key: Reading::read(next()?)?,
            requested_by: Reading::read(next()?)?,
            signal_count: Reading::read(next()?)?,
        })
    }
}

/// A row of `lua/verb/describe.lua`.
impl Reading for SuspensionRecord {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let mut values = values.into_iter();
        let mut next = || values.next();
        Some(Self {
            suspension_id: Reading::read(next()?)?,
            waitpoint_id: Reading::read(next()?)?,
            waitpoint_key: Reading::read(next()?)?,
            reason: Reading::read(next()?)?,
            requested_by: Reading::read(next()?)?,
            since: Reading::read(next()?)?,
            timeout_at: Reading::read(next()?)?,
            timeout_behavior: Reading::read(next()?)?,
            signal_count: Reading::read(next()?)?,
            matched_signal_count: Reading::read(next()?)?,
            closed_at: Reading::read(next()?)?,
            close_reason: Reading::read(next()?)?,
            worker_instance_id: Reading::read(next()?)?,
            ended_by: Reading::read(next()?)?,
        })
    }
}
