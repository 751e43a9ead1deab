//! What travels as raw bytes or text.

use ff_core::operation::{Method, Nothing, Operation};
use ff_core::types::ExecutionId;
use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// How a result is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultQuery {
    /// How long to wait for the end; 0 if absent. The answer comes as soon as it has ended.
    #[serde(default)]
    #[schema(value_type = ff_core::schema::WaitMs)]
    pub wait_ms: u64,
}

impl Operation for ResultQuery {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = Nothing;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/result";
    const NAME: &'static str = "getExecutionResult";
    const SUMMARY: &'static str = "The result of an execution, as raw bytes.";
    const ANSWERS: &'static str = "The result.";
    const ABOUT: &'static str = "Answers the bytes that the worker gave, as they were. Until the \
        execution has ended the answer is 409 execution_not_ended; with wait_ms it comes as soon as \
        the execution ends. An execution that did not complete answers 409 with its failure.";
    const WAITS: bool = true;
    const REFUSES: &'static [u16] = &[404, 409];
}

/// Reads the input of an execution.
#[derive(Clone, Copy, Debug)]
pub struct ReadPayload;

impl Operation for ReadPayload {
    type Target = ExecutionId;
    type Request = Nothing;
    type Reply = Nothing;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/payload";
    const NAME: &'static str = "getExecutionPayload";
    const SUMMARY: &'static str = "The input of an execution, as raw bytes.";
    const ANSWERS: &'static str = "The input.";
}

/// Reads the server's numbers, in the text format of Prometheus.
#[derive(Clone, Copy, Debug)]
pub struct Metrics;

impl Operation for Metrics {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = Nothing;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/metrics";
    const NAME: &'static str = "getMetrics";
    const GROUP: &'static str = "health";
    const SUMMARY: &'static str = "Numbers for Prometheus.";
    const ANSWERS: &'static str = "The numbers.";
}

/// Reads the OpenAPI document.
#[derive(Clone, Copy, Debug)]
pub struct OpenApi;

impl Operation for OpenApi {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = Nothing;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/openapi.json";
    const NAME: &'static str = "getOpenApi";
    const GROUP: &'static str = "health";
    const SUMMARY: &'static str = "This API as an OpenAPI document.";
    const ANSWERS: &'static str = "The document.";
}

/// Reads this API as a page.
#[derive(Clone, Copy, Debug)]
pub struct Reference;

impl Operation for Reference {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = Nothing;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/reference";
    const NAME: &'static str = "getReference";
    const GROUP: &'static str = "health";
    const SUMMARY: &'static str = "This API as a page to read.";
    const ANSWERS: &'static str = "The page.";
    const ABOUT: &'static str = "Needs no token: it says what every server of this version can do, \
        and nothing about this one. It loads nothing and runs nothing.";
}
