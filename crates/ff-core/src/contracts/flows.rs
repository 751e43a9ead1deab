//! Flows: executions that depend on each other.

use crate::types::ExecutionId;

/// What an upstream of a flow passes to a member: its result, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedInput {
    /// The name of the input.
    pub name: String,
    /// Whose result it is.
    pub execution_id: ExecutionId,
    /// The result; none if it is too large for a claim and must be read.
    pub bytes: Option<Vec<u8>>,
}
