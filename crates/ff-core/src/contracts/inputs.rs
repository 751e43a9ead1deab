//! What upstreams of a flow pass to a member.

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::bytes::Base64;
use crate::operation::{Method, Operation};
use crate::types::ExecutionId;

/// What an upstream of a flow passes to a member: its result, under a name.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PassedInput {
    /// The name of the input.
    pub name: String,
    /// Whose result it is.
    pub execution_id: ExecutionId,
    /// The result; none if it is too large for a claim, which is read later, or is gone.
    #[schema(value_type = Option<crate::schema::Base64>)]
    pub bytes_base64: Option<Base64>,
}

/// Which inputs of an execution to read.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputQuery {
    /// Where to go on: `next_from` of the page before.
    #[schema(maximum = 500_000)]
    pub from: Option<u64>,
    /// How many bytes; 1 MiB if absent. An input that is larger comes alone.
    #[schema(minimum = 1, maximum = 4_194_304)]
    pub bytes_max: Option<u64>,
}

impl Operation for InputQuery {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = InputPage;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/inputs";
    const NAME: &'static str = "readExecutionInputs";
    const GROUP: &'static str = "flows";
    const SUMMARY: &'static str = "Reads what upstreams of its flow pass to an execution.";
    const ANSWERS: &'static str = "The inputs, in the order in which they came.";
    const ABOUT: &'static str = "They are results of upstreams, and fixed when the execution is \
        freed. A claim brings the first 64 KiB of them.";
}

/// Inputs of an execution.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputPage {
    /// How many there are in all.
    pub input_count: u64,
    /// The inputs.
    pub inputs: Vec<PassedInput>,
    /// Where to go on, if there may be more.
    pub next_from: Option<u64>,
}
