//! What upstreams of a flow pass to a member, read with a budget of bytes.

use ff_core::types::ExecutionId;

use super::claim::PassedInputs;
use crate::call::functions;

functions! {
    /// Reads what upstreams pass to an execution, from a place on, so many bytes at a time.
    read ff_read_inputs(ReadInputs { execution_id: ExecutionId, from: u64, bytes_max: u64 })
    -> ReadInputsReply {
        "OK" => Inputs { input_count: u64, inputs: PassedInputs, next_from: Option<u64> },
    }
    refuses [ExecutionNotFound];
}
