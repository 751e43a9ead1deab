//! What approvers are asked, and what they decided.

use ff_core::contracts::{Approval, ApprovalDecision, ApprovalRequest};
use ff_core::types::{Approver, ExecutionId, SignalId, TimestampMs, WaitpointId};

use crate::args::Args;
use crate::call::functions;
use crate::value::Value;
use crate::wire::{Argument, List, Reading, row};

functions! {
    /// Takes the decision of an approver whom the caller has verified; the first one stands.
    write ff_record_decision(RecordDecision {
        execution_id: ExecutionId,
        waitpoint_id: WaitpointId,
        signal_id: SignalId,
        approver: Approver,
        signal_name: String,
    })
    -> RecordDecisionReply {
        "OK" => Recorded { decided_at: TimestampMs, effect: String },
        "DUPLICATE" => RecordedBefore { signal_name: String, decided_at: TimestampMs },
    }
    refuses [WaitpointNotFound, WaitpointClosed, TargetNotSignalable, SignalLimitExceeded];

    /// Reads what approvers are asked on one waitpoint, and what they decided.
    read ff_read_approval(ReadApproval { execution_id: ExecutionId, waitpoint_id: WaitpointId })
    -> ReadApprovalReply { "OK" => Found { approval: Approval } }
    refuses [WaitpointNotFound];

    /// Lists the approvals that an execution asked for, oldest first; the latest are kept.
    read ff_list_approvals(ListApprovals { execution_id: ExecutionId })
    -> ListApprovalsReply { "OK" => Approvals { approvals: List<Approval> } }
    refuses [ExecutionNotFound];
}

impl Argument for Approver {
    fn encode(&self, args: &mut Args) {
        args.push(self.as_str().as_bytes());
    }
}

impl Reading for Approver {
    fn read(value: Value) -> Option<Self> {
        String::read(value).and_then(|text| Self::try_new(text).ok())
    }
}

// In the order of `lua/model/decision.lua`.
row!(Approval {
    waitpoint_id,
    waitpoint_key,
    open,
    request,
    requested_by,
    asked_at,
    closes_at,
    closed_at,
    close_reason,
    decisions,
});
row!(ApprovalDecision { approver, signal, decided_at });

impl Reading for ApprovalRequest {
    fn read(value: Value) -> Option<Self> {
        serde_json::from_slice(value.as_bytes()?).ok()
    }
}
