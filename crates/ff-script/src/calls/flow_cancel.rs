//! Flows: cancelled, and what became of their members.

use ff_core::contracts::{CancelFlowPolicy, CancelledMember};
use ff_core::types::{ExecutionId, FlowId, TimestampMs};

use crate::call::functions;
use crate::wire::{List, row};

functions! {
    /// Cancels a flow; its members are cancelled in steps that survive any crash.
    write ff_cancel_flow(CancelFlow {
        flow_id: FlowId,
        reason: String,
        policy: String,
        grace_ms: Option<u64>,
    })
    -> CancelFlowReply {
        "OK" => Cancelled { policy: CancelFlowPolicy, member_count: u32, done: bool, stuck: u32 },
        "ALREADY_SATISFIED" => CancelledBefore {
            policy: CancelFlowPolicy,
            member_count: u32,
            done: bool,
            stuck: u32,
        },
    }
    refuses [FlowNotFound, FlowAlreadyTerminal, InvalidGraceMs];

    /// Tells what a cancel meant for the members of a flow, from an ordinal on.
    read ff_read_cancel_receipt(ReadCancelReceipt {
        flow_id: FlowId,
        fate: Option<String>,
        from: u64,
        limit: u32,
    })
    -> ReadCancelReceiptReply {
        "OK" => Receipt {
            policy: CancelFlowPolicy,
            cancelled_at: TimestampMs,
            done: bool,
            stuck: u32,
            entries: List<CancelledMember>,
            next_from: Option<u64>,
        },
    }
    refuses [FlowNotFound, FlowNotCancelled];

    /// Tries members again that could not be dealt with, from an ordinal on.
    write ff_retry_stuck_members(RetryStuckMembers { flow_id: FlowId, from: u64 })
    -> RetryStuckMembersReply {
        "OK" => Retried { tried: u32, settled: u32, stuck: u32, next_from: Option<u64> },
    }
    refuses [FlowNotFound];

    /// Takes a member off the list of those that could not be cancelled.
    write ff_ack_cancel_member(AckCancelMember { flow_id: FlowId, execution_id: ExecutionId })
    -> AckCancelMemberReply { "OK" => Acknowledged {} }
    refuses [FlowNotFound];
}

row!(CancelledMember {
    execution_id,
    ordinal,
    name,
    fate,
    public_state,
    completed_at,
    fenced_until,
});
