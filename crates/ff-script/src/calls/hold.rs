//! Keeping single executions from being claimed.

use ff_core::contracts::HeldExecution;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, RequestId};

use crate::call::functions;
use crate::wire::{List, row};

functions! {
    /// Keeps an execution from being claimed; one that runs is held when its attempt is over.
    write ff_hold_execution(HoldExecution {
        execution_id: ExecutionId,
        requested_by: String,
        reason: String,
        request_id: Option<RequestId>,
    })
    -> HoldExecutionReply {
        "OK" => Held { public_state: PublicState },
        "ALREADY_SATISFIED" => HeldBefore { public_state: PublicState },
    }
    refuses [ExecutionNotFound, ExecutionNotActive];

    /// Lets an execution that an operator holds be claimed again.
    write ff_release_execution(ReleaseExecution {
        execution_id: ExecutionId,
        requested_by: String,
        request_id: Option<RequestId>,
    })
    -> ReleaseExecutionReply {
        "OK" => Released { public_state: PublicState },
        "ALREADY_SATISFIED" => NotHeld { public_state: PublicState },
    }
    refuses [ExecutionNotFound, FlowCancelled];

    /// Lists what must not be claimed in a partition, longest first, from a cursor.
    read ff_list_held(ListHeld { cursor: String, limit: u32 })
    -> ListHeldReply {
        "OK" => Page { held: List<HeldExecution>, next_cursor: Option<String> },
    }
    refuses [];
}

// In the order of `lua/verb/hold.lua`.
row!(HeldExecution {
    execution_id,
    namespace,
    lane,
    kind,
    public_state,
    blocking_reason,
    held_at,
    requested_by,
    reason,
});
