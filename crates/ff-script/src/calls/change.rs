//! What an operator may alter without moving the state.

use ff_core::types::{ExecutionId, RequestId};

use crate::call::functions;
use crate::wire::Rest;

functions! {
    /// Gives an execution that is not over another priority; it counts from the next claim on.
    write ff_change_priority(ChangePriority {
        execution_id: ExecutionId,
        priority: u16,
        request_id: Option<RequestId>,
    })
    -> ChangePriorityReply {
        "OK" => Changed { old_priority: u16, new_priority: u16 },
        "DUPLICATE" => ChangedBefore { old_priority: u16, new_priority: u16 },
    }
    refuses [ExecutionNotFound, ExecutionNotActive];

    /// Sets tags of an execution, given as names and values in turn.
    write ff_set_execution_tags(SetExecutionTags {
        execution_id: ExecutionId,
        request_id: Option<RequestId>,
        tags: Rest<String>,
    })
    -> SetExecutionTagsReply { "OK" => Set { count: u32 }, "ALREADY_SATISFIED" => SetBefore {} }
    refuses [ExecutionNotFound, InvalidTagKey];
}
