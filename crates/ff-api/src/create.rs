//! Submitting executions: one, as JSON or as raw bytes, or several.

#[cfg(feature = "openapi")]
use ff_core::contracts::CreatedExecution;
use ff_core::contracts::{CreateExecution, Created};
use ff_core::error::EngineError;
use ff_core::object::Object;
use ff_core::operation::{Nothing, Operation};
use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::problem::Problem;

/// Submits an execution.
#[derive(Clone, Copy, Debug)]
pub struct Create;

impl Operation for Create {
    type Target = Nothing;
    type Request = CreateExecution;
    type Reply = Created;

    const PATH: &'static str = "/v1/executions";
    const NAME: &'static str = "createExecution";
    const SUMMARY: &'static str = "Submits an execution.";
    const ANSWERS: &'static str = "It is new.";
    const ABOUT: &'static str = "The body is JSON, or the payload as raw bytes with everything else \
        in headers. Submitting an id or an idempotency key that is known answers 200 and changes \
        nothing; an idempotency key that was used for a different submission is refused with 409.";
    const STATUS: u16 = 201;
    const REFUSES: &'static [u16] = &[404, 409];
}

/// The most executions of one bulk request.
pub const BULK_MAX: usize = 1000;

/// Several submissions, each on its own: one refusal does not affect the others.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkCreate {
    /// The submissions, at most 1000.
    #[schema(value_type = Vec<CreateExecution>, min_items = 1, max_items = 1000)]
    pub executions: Vec<Object<CreateExecution>>,
}

impl Operation for BulkCreate {
    type Target = Nothing;
    type Request = Self;
    type Reply = BulkCreated;

    const PATH: &'static str = "/v1/executions/bulk";
    const NAME: &'static str = "createExecutions";
    const SUMMARY: &'static str = "Submits several executions, each on its own.";
    const ANSWERS: &'static str = "One answer for each, in the order of the request.";
    const REFUSES: &'static [u16] = &[];
}

/// The answers to several submissions, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkCreated {
    /// One for each submission.
    pub results: Vec<BulkItem>,
}

/// What became of one submission: exactly one of the two is there.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkItem {
    /// It was accepted.
    #[schema(value_type = Option<CreatedExecution>)]
    pub execution: Option<Created>,
    /// It was refused.
    pub problem: Option<Problem>,
}

impl From<Result<Created, EngineError>> for BulkItem {
    fn from(answer: Result<Created, EngineError>) -> Self {
        match answer {
            Ok(created) => Self { execution: Some(created), problem: None },
            Err(error) => Self { execution: None, problem: Some(Problem::from(&error)) },
        }
    }
}

impl From<BulkItem> for Result<Created, EngineError> {
    fn from(item: BulkItem) -> Self {
        match (item.execution, item.problem) {
            (Some(created), _) => Ok(created),
            (None, Some(problem)) => Err(problem.into()),
            (None, None) => Err(EngineError::corrupt("bulk answer", "results", "an empty item")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_submission_is_an_object() {
        assert!(serde_json::from_str::<BulkCreate>(r#"{"executions":[{"kind":"k"}]}"#).is_ok());
        assert!(serde_json::from_str::<BulkCreate>(r#"{"executions":[["k"]]}"#).is_err());
    }
}
