//! How a command ends when it did not work.

use std::any::Any;

use ff_sdk::{BackendError, BackendErrorKind, Code, EngineError, ErrorKind, SdkError};

/// Shown by `--help`: what scripts may rely on.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  it was done
  1  it could not be done
  2  the command was not understood: an argument, or something in it
  3  the execution ended, but was not completed
  4  the execution has not ended yet
  5  the data is damaged
  6  the server could not be reached
  130  you interrupted it";

/// What to tell the person, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// One of [`EXIT_CODES`].
    pub(crate) code: u8,
    /// Told as JSON, whatever the command line says: the log is JSON.
    pub(crate) json: bool,
}

impl Failure {
    fn new(message: impl Into<String>, code: u8) -> Self {
        Self { message: message.into(), code, json: false }
    }

    /// The same, told as JSON if that is so.
    pub(crate) fn told_as_json(self, json: bool) -> Self {
        Self { json: self.json || json, ..self }
    }

    /// What was asked for makes no sense.
    pub(crate) fn not_understood(message: impl Into<String>) -> Self {
        Self::new(message, 2)
    }

    /// The execution ended, but was not completed.
    pub(crate) fn not_completed(message: impl Into<String>) -> Self {
        Self::new(message, 3)
    }

    /// The execution has not ended.
    pub(crate) fn not_yet(message: impl Into<String>) -> Self {
        Self::new(message, 4)
    }

    /// The data was read and is not in order.
    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        Self::new(message, 5)
    }

    /// Nobody answers at the server's address.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(message, 6)
    }

    /// Ended by the person, as shells count it: 128 and the number of SIGINT.
    pub(crate) fn interrupted() -> Self {
        Self::interrupted_with("interrupted")
    }

    /// The same, with what the person may want to know.
    pub(crate) fn interrupted_with(message: impl Into<String>) -> Self {
        Self::new(message, 130)
    }

    /// An error of the SDK: what it refuses of our input was not understood.
    pub(crate) fn of(error: &SdkError) -> Self {
        let refused = error.engine().map(EngineError::kind);
        let ours = matches!(error, SdkError::Config { .. });
        let code = if ours || refused == Some(ErrorKind::Validation) { 2 } else { 1 };
        let said = match error {
            SdkError::AdminApi { status, message, .. } => {
                return Self::new(of_server(message), if *status == 400 { 2 } else { 1 });
            }
            SdkError::Engine(error) => of_engine(error),
            SdkError::Backend(source) | SdkError::BackendContext { source, .. } => {
                of_backend(source)
            }
            error => error.to_string(),
        };
        Self::new(said, code)
    }

    /// Tells the person, or the program that reads JSON, on standard error.
    pub(crate) fn report(&self, json: bool) {
        if json || self.json {
            let report = serde_json::json!({ "error": self.message, "exit_code": self.code });
            eprintln!("{report}");
        } else {
            eprintln!("flowfabric: {}", self.message);
        }
    }
}

/// What was refused and why, without the name of the call: the person knows what was asked for.
fn of_engine(error: &EngineError) -> String {
    match error {
        EngineError::Contextual { source, .. } => of_engine(source),
        error => error.to_string(),
    }
}

/// A refusal in the server's words. That something is out of range is seen from the rule.
fn of_server(message: &str) -> &str {
    message.strip_prefix(Code::InvalidInput.sentence()).unwrap_or(message).trim()
}

fn of_backend(error: &BackendError) -> String {
    match error.kind {
        BackendErrorKind::Transport | BackendErrorKind::Timeout => {
            format!("the store, or the way to it, has trouble: {}", error.message)
        }
        _ => error.to_string(),
    }
}

/// Anything that went wrong on the way.
impl<E: std::fmt::Display + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<SdkError>() {
            Some(error) => Self::of(error),
            None => Self::new(error.to_string(), 1),
        }
    }
}
