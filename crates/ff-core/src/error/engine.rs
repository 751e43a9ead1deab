//! The error of every backend call.

use std::fmt;

use super::details::Details;
use super::{Code, ErrorClass, ErrorKind};
use crate::backend_error::{BackendError, BackendErrorKind, Retry};
use crate::capability::CapabilityError;
use crate::policy::PolicyError;
use crate::types::{ExecutionIdParseError, IdParseError, NameError, PartitionOutOfRange};

/// Why a call did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineError {
    /// The library refused, with a known code. Nothing was changed unless the code says so.
    Refused {
        /// Why.
        code: Code,
        /// What the function had to add, in its documented order.
        details: Vec<String>,
    },
    /// The library refused with a code we do not know: it is newer than we are, or broken.
    UnknownCode {
        /// The code as it came.
        code: String,
        /// The details as they came.
        details: Vec<String>,
    },
    /// The store, or the way to it, had trouble.
    Backend(BackendError),
    /// A stored record makes no sense.
    Corrupt {
        /// Which record.
        record: String,
        /// Which of its fields.
        field: String,
        /// What stood there.
        value: String,
    },
    /// What carried an operation out is gone, and nobody knows how far it came.
    Unavailable {
        /// The operation.
        op: &'static str,
    },
    /// An argument was refused before the store was called.
    InvalidArgument {
        /// Which argument.
        field: String,
        /// The rule it breaks, as a phrase that follows the field's name.
        rule: String,
    },
    /// One of the above, with the operation it happened in.
    Contextual {
        /// What went wrong.
        source: Box<EngineError>,
        /// While doing what.
        context: String,
    },
}

impl EngineError {
    /// A refusal as it came over the wire.
    pub fn from_reply(code: &str, details: Vec<String>) -> Self {
        match Code::parse(code) {
            Ok(code) => Self::Refused { code, details },
            Err(unknown) => Self::UnknownCode { code: unknown.text, details },
        }
    }

    /// A refusal without details.
    pub const fn refused(code: Code) -> Self {
        Self::Refused { code, details: Vec::new() }
    }

    /// An argument that breaks a rule.
    pub fn invalid(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::InvalidArgument { field: field.into(), rule: rule.into() }
    }

    /// A record that makes no sense.
    pub fn corrupt(
        record: impl Into<String>,
        field: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self::Corrupt { record: record.into(), field: field.into(), value: value.into() }
    }

    /// The same error, with the operation it happened in.
    #[must_use]
    pub fn in_context(self, context: impl Into<String>) -> Self {
        Self::Contextual { source: Box::new(self), context: context.into() }
    }

    /// The error itself, without the contexts around it. Whoever inspects an error starts here.
    pub fn through(&self) -> &Self {
        match self {
            Self::Contextual { source, .. } => source.through(),
            plain => plain,
        }
    }

    /// The code, if the library refused with a known one.
    pub fn code(&self) -> Option<Code> {
        match self.through() {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The details of a refusal.
    pub fn details(&self) -> &[String] {
        match self.through() {
            Self::Refused { details, .. } | Self::UnknownCode { details, .. } => details,
            _ => &[],
        }
    }

    /// The details of a refusal by name, for a person.
    pub fn details_by_name(&self) -> String {
        let names = self.code().map_or(&[][..], Code::detail_names);
        Details { names, values: self.details() }.named()
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self.through() {
            Self::Refused { code, .. } => code.kind(),
            Self::UnknownCode { .. } | Self::Corrupt { .. } | Self::Contextual { .. } => {
                ErrorKind::Bug
            }
            Self::Backend(error) => backend_kind(error),
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::InvalidArgument { .. } => ErrorKind::Validation,
        }
    }

    /// What the caller should do. Every call of a backend may be repeated, so trouble on the way
    /// counts as retryable even if the call may have been applied.
    pub fn class(&self) -> ErrorClass {
        match self.through() {
            Self::Refused { code, .. } => code.class(),
            Self::Backend(error) => backend_class(error),
            Self::Corrupt { .. } => ErrorClass::Bug,
            Self::Unavailable { .. } => ErrorClass::Retryable,
            Self::UnknownCode { .. } | Self::InvalidArgument { .. } | Self::Contextual { .. } => {
                ErrorClass::Terminal
            }
        }
    }

    /// True if waiting and calling again can help.
    pub fn is_retryable(&self) -> bool {
        self.class() == ErrorClass::Retryable
    }

    /// Whether the call may be sent again as it is: only trouble on the way is worth it.
    pub fn retry(&self) -> Retry {
        match self.through() {
            Self::Backend(error) => error.retry,
            Self::Unavailable { .. } => Retry::IfReplaySafe,
            _ => Retry::Never,
        }
    }

    /// The stable word for logs, metrics and HTTP answers.
    pub fn wire_code(&self) -> &str {
        match self.through() {
            Self::Refused { code, .. } => code.as_str(),
            Self::UnknownCode { .. } => "unknown_code",
            Self::Backend(error) => error.kind.as_str(),
            Self::Corrupt { .. } => "corrupt_record",
            Self::Unavailable { .. } => "unavailable",
            Self::InvalidArgument { .. } => Code::InvalidInput.as_str(),
            Self::Contextual { .. } => "internal",
        }
    }

    /// The status of an HTTP answer that carries this error.
    pub fn http_status(&self) -> u16 {
        match self.through() {
            Self::Refused { code, .. } => code.http_status(),
            Self::Backend(error) if error.kind == BackendErrorKind::Timeout => 504,
            Self::Backend(error) if backend_kind(error) == ErrorKind::Unavailable => 503,
            Self::Unavailable { .. } => 503,
            Self::InvalidArgument { .. } => 400,
            Self::Backend(_)
            | Self::UnknownCode { .. }
            | Self::Corrupt { .. }
            | Self::Contextual { .. } => 500,
        }
    }
}

/// Answers that make no sense and damaged data are nobody's outage.
fn backend_kind(error: &BackendError) -> ErrorKind {
    match error.kind {
        BackendErrorKind::Protocol | BackendErrorKind::Corrupt => ErrorKind::Bug,
        _ => ErrorKind::Unavailable,
    }
}

fn backend_class(error: &BackendError) -> ErrorClass {
    match error.retry {
        Retry::Safe | Retry::IfReplaySafe => ErrorClass::Retryable,
        Retry::Never if backend_kind(error) == ErrorKind::Bug => ErrorClass::Bug,
        Retry::Never => ErrorClass::Terminal,
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code, details } => {
                let told = Details { names: code.detail_names(), values: details };
                write!(f, "{code}: {}{told}", code.sentence())
            }
            Self::UnknownCode { code, details } => write!(
                f,
                "the function library answered with the unknown code {code:?}{}; \
                 is it newer than this program?",
                Details { names: &[], values: details }
            ),
            Self::Backend(error) => error.fmt(f),
            Self::Corrupt { record, field, value } => {
                write!(f, "record {record} is damaged: field {field} holds {value:?}")
            }
            Self::Unavailable { op } => write!(f, "{op} ended without an answer"),
            Self::InvalidArgument { field, rule } => write!(f, "{field} {rule}"),
            Self::Contextual { source, context } => write!(f, "{context}: {source}"),
        }
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Backend(error) => Some(error),
            Self::Contextual { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

impl From<BackendError> for EngineError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl From<NameError> for EngineError {
    fn from(error: NameError) -> Self {
        Self::invalid(error.field, error.rule.to_string())
    }
}

impl From<IdParseError> for EngineError {
    fn from(error: IdParseError) -> Self {
        let rule = format!("{:?} is not a hyphenated lower-case UUID", error.text);
        Self::invalid(error.what, rule)
    }
}

impl From<ExecutionIdParseError> for EngineError {
    fn from(error: ExecutionIdParseError) -> Self {
        Self::invalid("execution id", format!("is malformed: {error}"))
    }
}

impl From<PolicyError> for EngineError {
    fn from(error: PolicyError) -> Self {
        Self::Refused { code: Code::InvalidPolicyJson, details: vec![error.to_string()] }
    }
}

impl From<CapabilityError> for EngineError {
    fn from(error: CapabilityError) -> Self {
        Self::Refused { code: Code::InvalidCapabilities, details: vec![error.to_string()] }
    }
}

impl From<PartitionOutOfRange> for EngineError {
    fn from(error: PartitionOutOfRange) -> Self {
        Self::Refused { code: Code::PartitionMismatch, details: vec![error.to_string()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(kind: BackendErrorKind, retry: Retry) -> EngineError {
        BackendError::new(kind, retry, "it happened").into()
    }

    #[test]
    fn a_known_code_becomes_a_refusal_with_its_details() {
        let details = vec!["success".to_owned(), "3".to_owned()];
        let error = EngineError::from_reply("execution_not_active", details.clone());
        assert_eq!(error.code(), Some(Code::ExecutionNotActive));
        assert_eq!(error.details(), details);
        assert!(error.to_string().ends_with("[outcome: completed, lease epoch: 3]"), "{error}");
    }

    #[test]
    fn an_unknown_code_is_kept_terminal_and_loud() {
        let error = EngineError::from_reply("brand_new", vec!["x".to_owned()]);
        assert_eq!(error.class(), ErrorClass::Terminal);
        assert_eq!((error.kind(), error.http_status()), (ErrorKind::Bug, 500));
        assert_eq!(error.details(), ["x"]);
        assert!(error.to_string().contains("unknown code \"brand_new\" [x]"), "{error}");
    }

    #[test]
    fn whoever_inspects_an_error_sees_through_its_contexts() {
        let plain = EngineError::refused(Code::LeaseConflict);
        let wrapped = plain.clone().in_context("claim").in_context("worker");
        assert_eq!(wrapped.through(), &plain);
        assert_eq!(wrapped.code(), Some(Code::LeaseConflict));
        assert!(wrapped.is_retryable());
        assert_eq!(wrapped.http_status(), 409);
        assert!(wrapped.to_string().starts_with("worker: claim: lease_conflict: "), "{wrapped}");
    }

    #[test]
    fn trouble_on_the_way_is_retryable_unless_repeating_cannot_help() {
        use BackendErrorKind::{Auth, Corrupt, Protocol, Timeout, Transport};
        let table = [
            (backend(Transport, Retry::Safe), ErrorClass::Retryable, 503),
            (backend(Timeout, Retry::IfReplaySafe), ErrorClass::Retryable, 504),
            (backend(Auth, Retry::Never), ErrorClass::Terminal, 503),
            (backend(Protocol, Retry::Never), ErrorClass::Bug, 500),
            (backend(Corrupt, Retry::Never), ErrorClass::Bug, 500),
            (EngineError::Unavailable { op: "claim" }, ErrorClass::Retryable, 503),
        ];
        for (error, class, status) in table {
            assert_eq!((error.class(), error.http_status()), (class, status), "{error}");
        }
    }

    #[test]
    fn messages_name_what_is_wrong() {
        let table = [
            (EngineError::invalid("limit", "must be at least 1"), "limit must be at least 1"),
            (
                EngineError::corrupt("{fp:1}:x", "priority", "abc"),
                "record {fp:1}:x is damaged: field priority holds \"abc\"",
            ),
            (EngineError::Unavailable { op: "suspend" }, "suspend ended without an answer"),
        ];
        for (error, message) in table {
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn broken_names_and_policies_become_the_callers_error() {
        let name = crate::types::LaneId::try_new("").expect_err("empty");
        assert_eq!(EngineError::from(name), EngineError::invalid("lane", "must not be empty"));
        let policy = crate::policy::ExecutionPolicy::from_json(b"[]").expect_err("not an object");
        assert_eq!(EngineError::from(policy).code(), Some(Code::InvalidPolicyJson));
    }
}
