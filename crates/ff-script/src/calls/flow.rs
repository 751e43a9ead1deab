//! Flows: made, joined, sealed and tagged.

use ff_core::types::{ExecutionId, ExecutionKind, FlowId, Namespace, TimestampMs};

use crate::call::functions;
use crate::wire::Rest;

functions! {
    /// Creates an empty flow, which is open until it is sealed.
    write ff_create_flow(CreateFlow {
        flow_id: FlowId,
        flow_kind: ExecutionKind,
        namespace: Namespace,
        on_failure: Option<String>,
        deadline_at: Option<TimestampMs>,
        retention_ms: Option<u64>,
        tags_json: String,
    })
    -> CreateFlowReply {
        "OK" => Created { flow_id: FlowId },
        "ALREADY_SATISFIED" => CreatedBefore { flow_id: FlowId },
    }
    refuses [IdempotencyConflict, InvalidTagKey];

    /// Makes an execution a member of an open flow.
    write ff_add_execution_to_flow(AddExecutionToFlow {
        flow_id: FlowId,
        execution_id: ExecutionId,
        name: Option<String>,
        optional: bool,
    })
    -> AddExecutionToFlowReply {
        "OK" => Added { execution_id: ExecutionId, node_count: u32 },
        "ALREADY_SATISFIED" => AddedBefore { execution_id: ExecutionId, node_count: u32 },
    }
    refuses [FlowNotFound, FlowAlreadyTerminal, FlowCancelled, FlowSealed, ExecutionNotFound,
        ExecutionAlreadyInFlow, GraphTooLarge, Terminal];

    /// Makes a flow whole: it takes no more members, and ends when the last one has.
    write ff_seal_flow(SealFlow { flow_id: FlowId })
    -> SealFlowReply {
        "OK" => Sealed { node_count: u32 },
        "ALREADY_SATISFIED" => SealedBefore { node_count: u32 },
    }
    refuses [FlowNotFound, FlowCancelled];

    /// Sets tags of a flow: names and values in turn.
    write ff_set_flow_tags(SetFlowTags { flow_id: FlowId, pairs: Rest<String> })
    -> SetFlowTagsReply { "OK" => Tagged { count: u32 } }
    refuses [FlowNotFound, InvalidTagKey];
}
