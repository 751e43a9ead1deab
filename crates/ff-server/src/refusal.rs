//! Turns errors into problem documents.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use ff_api::headers::PROBLEM_JSON;
use ff_api::problem::Problem;
use ff_core::error::{Code, EngineError, ErrorKind};
use ff_core::types::ExecutionRef;

use crate::request_id::Told;

/// A request that was not done, and why.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Problem>);

impl Refusal {
    /// A part of the request that breaks a rule.
    pub(crate) fn invalid(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Problem::invalid(field, rule).into()
    }

    /// What is told about it.
    pub(crate) fn problem(&self) -> &Problem {
        &self.0
    }

    /// The same, and in which line of the body.
    pub(crate) fn in_line(mut self, number: usize) -> Self {
        self.0.detail = format!("line {number}: {}", self.0.detail);
        self
    }

    /// The same, and if the execution of this name was not found, what else may find it.
    pub(crate) fn advise(mut self, name: Option<ExecutionRef>) -> Self {
        let advice = name.and_then(ExecutionRef::advice);
        if let Some(advice) = advice.filter(|_| self.0.code == Code::ExecutionNotFound.as_str()) {
            self.0.detail = advice.to_owned();
            self.0.details = vec![advice.to_owned()];
        }
        self
    }
}

/// The code of an answer, for those around who count.
#[derive(Clone)]
pub(crate) struct AnswerCode(pub(crate) Box<str>);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

/// What is wrong inside is told to the log, which is the only place that hears all of it.
impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        match error.kind() {
            ErrorKind::Bug => tracing::error!(%error, "the engine answered with a broken state"),
            ErrorKind::Unavailable => tracing::warn!(%error, "the store has trouble"),
            _ => {}
        }
        Problem::from(&error).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let problem = self.0;
        // A problem is made of numbers and texts, which always have a JSON form.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut answer = Response::new(Body::from(body));
        *answer.status_mut() =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(wait_ms) = problem.retry_after_ms {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1000)));
        }
        if problem.status == 401 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer.extensions_mut().insert(AnswerCode(problem.code.clone().into()));
        answer.extensions_mut().insert(Told(problem));
        answer
    }
}
