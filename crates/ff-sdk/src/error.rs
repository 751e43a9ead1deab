//! What can go wrong, by who must act.

use std::fmt;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::error::EngineError;

use crate::task::ClaimedTask;
use crate::worker::WorkerStatus;

/// Why an SDK call did not do what was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum SdkError {
    /// The store, or the way to it, had trouble.
    Backend(BackendError),
    /// The same, with what was being done.
    BackendContext {
        /// What went wrong.
        source: BackendError,
        /// While doing what.
        context: String,
    },
    /// The engine refused, or could not make sense of what it found.
    Engine(Box<EngineError>),
    /// Bad settings or input. Nothing was sent.
    Config {
        /// What was being set up.
        context: String,
        /// Which field is wrong.
        field: Option<String>,
        /// The rule it breaks.
        message: String,
    },
    /// What others passed to an execution is not there, or is not what its handler asks for.
    WrongInput {
        /// What is wrong with it.
        message: String,
    },
    /// The worker already holds as many tasks as it may.
    WorkerAtCapacity,
    /// The worker takes no more work: it is shutting down, or another process took its place.
    WorkerStopped {
        /// Why.
        status: WorkerStatus,
    },
    /// An HTTP request got no answer.
    Http {
        /// What went wrong.
        source: HttpError,
        /// While doing what.
        context: String,
    },
    /// A server answered an HTTP request with an error.
    AdminApi {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        message: String,
        /// The stable code, if the server gave one.
        kind: Option<String>,
        /// Whether the server says that trying again can help.
        retryable: Option<bool>,
        /// The body as it came.
        raw_body: String,
    },
}

/// Statuses that promise better luck later, if the server says nothing else.
const RETRYABLE_STATUSES: [u16; 4] = [429, 502, 503, 504];

/// The context of what was to be submitted.
pub(crate) const SUBMISSION: &str = "submission";

impl SdkError {
    /// A rule that a setting breaks.
    pub(crate) fn config(
        context: &str,
        field: impl Into<Option<&'static str>>,
        message: impl fmt::Display,
    ) -> Self {
        let field = field.into().map(str::to_owned);
        Self::Config { context: context.to_owned(), field, message: message.to_string() }
    }

    pub(crate) fn wrong_input(message: impl fmt::Display) -> Self {
        Self::WrongInput { message: message.to_string() }
    }

    /// True if waiting a little and calling again can help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Backend(source) | Self::BackendContext { source, .. } => {
                source.retry != Retry::Never
            }
            Self::Engine(error) => error.is_retryable(),
            Self::Config { .. } | Self::WrongInput { .. } | Self::WorkerStopped { .. } => false,
            Self::WorkerAtCapacity => true,
            Self::Http { source, .. } => source.is_retryable(),
            Self::AdminApi { status, retryable, .. } => {
                retryable.unwrap_or_else(|| RETRYABLE_STATUSES.contains(status))
            }
        }
    }

    /// What kind of trouble the store had, if it was that.
    pub fn backend_kind(&self) -> Option<BackendErrorKind> {
        match self {
            Self::Backend(source) | Self::BackendContext { source, .. } => Some(source.kind),
            Self::Engine(error) => match error.through() {
                EngineError::Backend(source) => Some(source.kind),
                _ => None,
            },
            _ => None,
        }
    }

    /// The engine's error, if the engine answered.
    pub fn engine(&self) -> Option<&EngineError> {
        match self {
            Self::Engine(error) => Some(error),
            _ => None,
        }
    }
}

impl From<EngineError> for SdkError {
    /// Trouble of the store is told apart from a refusal, however deep it is wrapped.
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Backend(source) => Self::Backend(source),
            EngineError::Contextual { source, context } => match source.through() {
                EngineError::Backend(source) => {
                    Self::BackendContext { source: source.clone(), context }
                }
                _ => Self::Engine(Box::new(source.in_context(context))),
            },
            other => Self::Engine(Box::new(other)),
        }
    }
}

impl From<TerminalError> for SdkError {
    /// Lets go of the task: it is handed back.
    fn from(error: TerminalError) -> Self {
        error.source
    }
}

impl fmt::Display for SdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(source) => source.fmt(f),
            Self::BackendContext { source, context } => write!(f, "{context}: {source}"),
            Self::Engine(error) => error.fmt(f),
            // What was to be submitted is no setting.
            Self::Config { context, field: Some(field), message } if context == SUBMISSION => {
                write!(f, "{field} {message}")
            }
            Self::Config { context, field: Some(field), message } => {
                write!(f, "config: {context}.{field}: {message}")
            }
            Self::Config { context, field: None, message } => {
                write!(f, "config: {context}: {message}")
            }
            Self::WrongInput { message } => f.write_str(message),
            Self::WorkerAtCapacity => f.write_str("the worker holds as many tasks as it may"),
            Self::WorkerStopped { status } => write!(f, "the worker takes no more work: {status}"),
            Self::Http { source, context } => write!(f, "{context}: {source}"),
            Self::AdminApi { status, message, kind, .. } => {
                let kind = kind.as_deref().unwrap_or("no code");
                write!(f, "the server answered {status} ({kind}): {message}")
            }
        }
    }
}

impl std::error::Error for SdkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Backend(source) | Self::BackendContext { source, .. } => Some(source),
            Self::Engine(error) => Some(error.as_ref()),
            Self::Http { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Says what was being done when the engine had an error.
pub(crate) trait Context<T> {
    fn context(self, context: &str) -> Result<T, SdkError>;
}

impl<T> Context<T> for Result<T, EngineError> {
    fn context(self, context: &str) -> Result<T, SdkError> {
        self.map_err(|error| error.in_context(context).into())
    }
}

/// Why an HTTP request got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HttpError {
    /// How far it got.
    pub kind: HttpErrorKind,
    /// What happened, for a person. Never contains a token.
    pub message: String,
}

/// How far an HTTP request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpErrorKind {
    /// No connection: the request was not sent.
    Connect,
    /// What answers is not trusted: its certificate, or it speaks TLS where the address says that
    /// it does not, or the other way round. No request was taken.
    Untrusted,
    /// No answer in time.
    Timeout,
    /// The connection broke while the request was under way.
    Broken,
    /// The answer makes no sense.
    Malformed,
}

impl HttpError {
    pub(crate) fn new(kind: HttpErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// True if sending it again can help and does no harm.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, HttpErrorKind::Connect | HttpErrorKind::Timeout)
    }
}

/// An outcome could not be reported.
///
/// The task comes back whenever its lease may still be held: renewal goes on, and the call may be
/// repeated, also after a lost answer: the store recognises the repetition. Letting go of it hands
/// the execution back. There is no task if the lease is gone.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct TerminalError {
    /// The task, to try again with.
    pub task: Option<Box<ClaimedTask>>,
    /// What went wrong.
    pub source: SdkError,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::error::Code;

    fn backend(retry: Retry) -> BackendError {
        BackendError::new(BackendErrorKind::Transport, retry, "it broke")
    }

    #[test]
    fn trouble_of_the_store_is_recognised_through_its_contexts() {
        let wrapped =
            EngineError::from(backend(Retry::Safe)).in_context("ff_x").in_context("claim");
        let error = SdkError::from(wrapped);
        assert_eq!(error.backend_kind(), Some(BackendErrorKind::Transport));
        assert!(matches!(&error, SdkError::BackendContext { context, .. } if context == "claim"));
        let refused = EngineError::refused(Code::StaleLease).in_context("complete");
        assert_eq!(
            SdkError::from(refused).engine().and_then(EngineError::code),
            Some(Code::StaleLease)
        );
    }

    #[test]
    fn each_variant_says_whether_to_try_again() {
        let api = |status, retryable| SdkError::AdminApi {
            status,
            message: String::new(),
            kind: None,
            retryable,
            raw_body: String::new(),
        };
        let http =
            |kind| SdkError::Http { source: HttpError::new(kind, ""), context: String::new() };
        let table = [
            (SdkError::Backend(backend(Retry::IfReplaySafe)), true),
            (SdkError::Backend(backend(Retry::Never)), false),
            (EngineError::refused(Code::LeaseConflict).into(), true),
            (EngineError::refused(Code::StaleLease).into(), false),
            (SdkError::config("worker_config", "lanes", "must not be empty"), false),
            (SdkError::WorkerAtCapacity, true),
            (http(HttpErrorKind::Connect), true),
            (http(HttpErrorKind::Timeout), true),
            (http(HttpErrorKind::Broken), false),
            (api(503, None), true),
            (api(503, Some(false)), false),
            (api(409, None), false),
        ];
        for (error, expected) in table {
            assert_eq!(error.is_retryable(), expected, "{error}");
        }
    }

    #[test]
    fn a_config_error_names_its_field() {
        let error = SdkError::config("worker_config", "lanes", "must not be empty");
        assert_eq!(error.to_string(), "config: worker_config.lanes: must not be empty");
        let error = SdkError::config("worker_connect", None, "no");
        assert_eq!(error.to_string(), "config: worker_connect: no");
    }

    #[test]
    fn a_field_of_a_submission_is_no_setting() {
        let error = SdkError::config(SUBMISSION, "lane", "must not be empty");
        assert_eq!(error.to_string(), "lane must not be empty");
    }
}
