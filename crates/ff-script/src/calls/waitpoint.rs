//! Waitpoints before the execution is suspended on them.

use ff_core::contracts::{OpenWaitpoint, SuspendedExecutionEntry, SuspensionRecord};
use ff_core::types::{ExecutionId, TimestampMs, WaitpointId, WaitpointToken};

use crate::call::functions;
use crate::wire::{List, row};

functions! {
    /// Opens a waitpoint for signals before the execution is suspended on it.
    write ff_create_pending_waitpoint(CreatePendingWaitpoint {
        held,
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
    refuses held [WaitpointAlreadyExists, WaitpointLimitExceeded,
        HmacSecretNotInitialized, InvalidSecret];

    /// Closes a waitpoint that the execution will not be suspended on.
    write ff_close_waitpoint(CloseWaitpoint {
        held,
        waitpoint_id: WaitpointId,
        reason: Option<String>,
    })
    -> CloseWaitpointReply {
        "OK" => Closed {},
        "ALREADY_SATISFIED" => ClosedBefore { reason: String },
    }
    refuses held [WaitpointNotFound, WaitpointActive,
        InvalidWaitpointForExecution];

    /// Lists the open waitpoints of an execution, each with a token under the current key.
    read ff_list_pending_waitpoints(ListPendingWaitpoints { execution_id: ExecutionId })
    -> ListPendingWaitpointsReply { "OK" => Waitpoints { waitpoints: List<OpenWaitpoint> } }
    refuses [ExecutionNotFound, HmacSecretNotInitialized, InvalidSecret];
}

// In the order of `lua/verb/waitpoint.lua`.
row!(OpenWaitpoint {
    waitpoint_id,
    waitpoint_key,
    state,
    waitpoint_token,
    required_signal_names,
    created_at,
    activated_at,
    expires_at,
    suspension_id,
    reason,
    requested_by,
    signal_count,
    condition_json,
    details_json,
});

// In the order of `lua/verb/waits.lua`.
row!(SuspendedExecutionEntry {
    execution_id,
    namespace,
    lane,
    kind,
    suspended_at_ms,
    reason,
    timeout_at,
    timeout_behavior,
    waitpoint_id,
    waitpoint_key,
    requested_by,
    signal_count,
});

// In the order of `lua/verb/describe.lua`.
row!(SuspensionRecord {
    suspension_id,
    waitpoint_id,
    waitpoint_key,
    reason,
    requested_by,
    since,
    timeout_at,
    timeout_behavior,
    signal_count,
    matched_signal_count,
    closed_at,
    close_reason,
    worker_instance_id,
    ended_by,
});
