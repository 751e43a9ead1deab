//! The one shape of every error: an RFC 9457 problem document with our code, what the caller should
//! do, and where possible the field and the rule.

mod http_code;

pub use http_code::HttpCode;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::contracts::FailureSummary;
use ff_core::error::{Code, EngineError, ErrorClass};
use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// How long to wait before trying again when nothing better is known.
const RETRY_AFTER_MS: u64 = 1000;

/// Why a request was not done, as `application/problem+json`.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of problem; `urn:flowfabric:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What happened in general, and what helps.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The stable word for the problem.
    pub code: String,
    /// What the caller should do.
    pub class: ErrorClass,
    /// True if waiting and sending the same request again can help.
    pub retryable: bool,
    /// The part of the request that breaks a rule.
    pub field: Option<String>,
    /// What the code documents to add, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// How long to wait before trying again.
    pub retry_after_ms: Option<u64>,
    /// Why the execution failed, when its result was asked for.
    pub failure: Option<FailureSummary>,
    /// What the request is called in the server's log; the header `x-request-id` of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Problem {
    /// A problem of the HTTP layer.
    pub fn new(code: HttpCode, detail: impl Into<String>) -> Self {
        let retryable = code.class() == ErrorClass::Retryable;
        Self {
            kind: kind(code.as_str()),
            title: code.sentence().to_owned(),
            status: code.http_status(),
            detail: detail.into(),
            code: code.as_str().to_owned(),
            class: code.class(),
            retryable,
            field: None,
            details: Vec::new(),
            retry_after_ms: (retryable && code.http_status() != 409).then_some(RETRY_AFTER_MS),
            failure: None,
            request_id: None,
        }
    }

    /// A part of the request that breaks a rule.
    pub fn invalid(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::from(&EngineError::invalid(field, rule))
    }

    /// The same problem, with the part of the request that it is about.
    #[must_use]
    pub fn about(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

fn kind(code: &str) -> String {
    format!("urn:flowfabric:problem:{code}")
}

impl From<&EngineError> for Problem {
    fn from(error: &EngineError) -> Self {
        let (code, status) = (error.wire_code(), error.http_status());
        let retryable = error.is_retryable();
        let wait = retryable && matches!(status, 429 | 503 | 504);
        Self {
            kind: kind(code),
            title: title(error),
            status,
            detail: detail(error),
            code: code.to_owned(),
            class: error.class(),
            retryable,
            field: field(error),
            details: error.details().to_vec(),
            retry_after_ms: wait.then_some(RETRY_AFTER_MS),
            failure: None,
            request_id: None,
        }
    }
}

fn title(error: &EngineError) -> String {
    let text = match error.through() {
        EngineError::Refused { code, .. } => code.sentence(),
        EngineError::InvalidArgument { .. } => Code::InvalidInput.sentence(),
        EngineError::Backend(_) => "The store, or the way to it, has trouble.",
        EngineError::Unavailable { .. } => "What carried it out is gone; it may be repeated.",
        _ => HttpCode::Internal.sentence(),
    };
    text.to_owned()
}

/// What went wrong inside is for the log: it may hold stored data.
fn detail(error: &EngineError) -> String {
    match error.through() {
        EngineError::Refused { .. } => error.details_by_name(),
        inner if inner.http_status() == 500 => "The server's log says more.".to_owned(),
        inner => inner.to_string(),
    }
}

fn field(error: &EngineError) -> Option<String> {
    match error.through() {
        EngineError::InvalidArgument { field, .. } => Some(field.clone()),
        EngineError::Refused { code: Code::InvalidPolicyJson, .. } => Some("policy".to_owned()),
        EngineError::Refused { code: Code::InvalidCapabilities, .. } => {
            Some("capabilities".to_owned())
        }
        EngineError::Refused { code: Code::InvalidTagKey, .. } => Some("tags".to_owned()),
        EngineError::Refused { code: Code::PartitionMismatch, .. } => {
            Some("execution_id".to_owned())
        }
        _ => None,
    }
}

/// What a client makes of a problem: as near to the error that the server had as it can be.
impl From<Problem> for EngineError {
    fn from(problem: Problem) -> Self {
        if let Ok(code) = Code::parse(&problem.code) {
            return refused(code, problem);
        }
        if let Ok(kind) = problem.code.parse::<BackendErrorKind>() {
            let retry = if problem.retryable { Retry::IfReplaySafe } else { Retry::Never };
            return BackendError::new(kind, retry, without_prefix(problem.detail, kind)).into();
        }
        match HttpCode::parse(&problem.code) {
            Some(code) => from_http(code, problem),
            None if problem.code == "unavailable" => Self::Unavailable { op: "the operation" },
            None if problem.code == "corrupt_record" => {
                Self::corrupt("of the server", "unknown", problem.detail)
            }
            None => Self::UnknownCode { code: problem.code, details: problem.details },
        }
    }
}

fn refused(code: Code, problem: Problem) -> EngineError {
    match problem.field {
        Some(field) if code == Code::InvalidInput => {
            let prefix = format!("{field} ");
            let rule = problem.detail.strip_prefix(&prefix).unwrap_or(&problem.detail).to_owned();
            EngineError::InvalidArgument { field, rule }
        }
        _ => EngineError::Refused { code, details: problem.details },
    }
}

/// Trouble before the request was looked at is certain not to have had an effect.
fn from_http(code: HttpCode, problem: Problem) -> EngineError {
    use BackendErrorKind::{Protocol, Timeout, Transport};
    let message = format!("{}: {} {}", problem.code, problem.title, problem.detail);
    let (kind, retry) = match code {
        HttpCode::Overloaded | HttpCode::Draining | HttpCode::TooManyWaiting => {
            (Transport, Retry::Safe)
        }
        HttpCode::RequestTimeout => (Timeout, Retry::Safe),
        HttpCode::BodyTooLarge => {
            return EngineError::Refused { code: Code::PayloadTooLarge, details: problem.details };
        }
        HttpCode::ExecutionNotEnded
        | HttpCode::ExecutionFailed
        | HttpCode::ExecutionCancelled
        | HttpCode::ExecutionExpired
        | HttpCode::ExecutionSkipped => {
            return EngineError::UnknownCode { code: problem.code, details: problem.details };
        }
        _ => (Protocol, Retry::Never),
    };
    BackendError::new(kind, retry, message).into()
}

fn without_prefix(detail: String, kind: BackendErrorKind) -> String {
    let prefix = format!("{}: ", kind.as_str());
    detail.strip_prefix(&prefix).map(str::to_owned).unwrap_or(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(error: &EngineError) -> EngineError {
        let json = serde_json::to_string(&Problem::from(error)).expect("text");
        serde_json::from_str::<Problem>(&json).expect("a problem").into()
    }

    #[test]
    fn every_code_comes_back_with_its_details() {
        for code in Code::ALL {
            let error = EngineError::Refused { code: *code, details: vec!["one".to_owned()] };
            assert_eq!(there_and_back(&error), error);
            let problem = Problem::from(&error);
            assert_eq!((problem.status, problem.class), (code.http_status(), code.class()));
        }
    }

    #[test]
    fn invalid_arguments_and_store_trouble_come_back_as_they_were() {
        let timeout = BackendError::new(BackendErrorKind::Timeout, Retry::IfReplaySafe, "late");
        let auth = BackendError::new(BackendErrorKind::Auth, Retry::Never, "no permission");
        for error in [
            EngineError::invalid("priority", "must be from 0 to 9000, got 9001"),
            timeout.into(),
            auth.into(),
        ] {
            assert_eq!(there_and_back(&error), error);
        }
    }

    #[test]
    fn what_is_damaged_inside_is_not_told_outside() {
        let error = EngineError::corrupt("{fp:1}:x", "payload", "secret").in_context("describe");
        let problem = Problem::from(&error);
        assert_eq!((problem.status, problem.code.as_str()), (500, "corrupt_record"));
        assert!(!serde_json::to_string(&problem).expect("text").contains("secret"));
    }

    #[test]
    fn a_busy_server_can_be_asked_again_and_unknown_codes_stay_loud() {
        let busy = Problem::new(HttpCode::Overloaded, "1024 requests are under way");
        assert_eq!(busy.retry_after_ms, Some(1000));
        assert!(EngineError::from(busy).is_retryable());
        let strange = Problem { code: "brand_new".to_owned(), ..Problem::invalid("a", "b") };
        assert!(matches!(EngineError::from(strange), EngineError::UnknownCode { .. }));
    }

    #[test]
    fn no_http_code_is_also_a_code_of_the_library() {
        for code in HttpCode::ALL {
            assert!(Code::parse(code.as_str()).is_err(), "{}", code.as_str());
            assert!(code.as_str().parse::<BackendErrorKind>().is_err(), "{}", code.as_str());
            assert_eq!(HttpCode::parse(code.as_str()), Some(*code));
        }
    }
}
