//! The errors that callers see, in one place.

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};

use crate::vm::Failure;

/// The store was closed, or closed itself.
pub(crate) fn closed() -> BackendError {
    BackendError::new(BackendErrorKind::Closed, Retry::Safe, "the embedded store is closed")
}

/// The store went away while the call was under way.
pub(crate) fn lost() -> BackendError {
    BackendError::new(
        BackendErrorKind::Closed,
        Retry::IfReplaySafe,
        "the embedded store was closed before the call was answered",
    )
}

/// The store stopped itself for this reason; the call was not run, or nothing of it is kept.
pub(crate) fn stopped_because(reason: &str) -> BackendError {
    let message = format!("the store has stopped, restart to recover: {reason}");
    BackendError::new(BackendErrorKind::Closed, Retry::Safe, message)
}

/// The store stopped itself for this reason while the call was under way.
pub(crate) fn stopped_unanswered(reason: &str) -> BackendError {
    BackendError { retry: Retry::IfReplaySafe, ..stopped_because(reason) }
}

/// Too much is under way in the call's shard; the call was not run.
pub(crate) fn too_much() -> BackendError {
    BackendError::new(
        BackendErrorKind::Resource,
        Retry::Safe,
        "too many calls are under way: try again when some are done",
    )
}

/// A disk error ended the store; this call came too late to be run.
pub(crate) fn stopped() -> BackendError {
    BackendError::new(BackendErrorKind::Closed, Retry::Safe, STOPPED)
}

/// A disk error ended the store while this call waited for its effects to be kept.
pub(crate) fn stopped_midway() -> BackendError {
    BackendError::new(BackendErrorKind::Closed, Retry::IfReplaySafe, STOPPED)
}

const STOPPED: &str =
    "the journal could not be written or synced and the store has stopped: restart to recover";

/// The disk is full; the call was not run.
pub(crate) fn disk_full() -> BackendError {
    BackendError::new(
        BackendErrorKind::Resource,
        Retry::Safe,
        "the disk is full: writes are refused until there is room",
    )
}

/// The library has no such function.
pub(crate) fn unknown_function(name: &str) -> BackendError {
    let message = format!("the library has no function {name}");
    BackendError::new(BackendErrorKind::ScriptNotLoaded, Retry::Never, message)
}

/// A function that may write was called as one that only reads.
pub(crate) fn not_read_only(name: &str) -> BackendError {
    let message = format!("{name} is called as read-only but not registered with no-writes");
    BackendError::new(BackendErrorKind::Protocol, Retry::Never, message)
}

/// A function failed: a bug, unless there was no memory for it.
pub(crate) fn failed(name: &str, failure: Failure) -> BackendError {
    let message = match failure {
        Failure::NoMemory => {
            let message = format!("{name}: there is not enough memory");
            return BackendError::new(BackendErrorKind::Resource, Retry::Safe, message);
        }
        Failure::Raised { text, line: Some(line) } => format!("{name}: {text} (line {line})"),
        Failure::Raised { text, line: None } => format!("{name}: {text}"),
        Failure::Broken => format!("{name}: a command panicked"),
    };
    BackendError::new(BackendErrorKind::Protocol, Retry::Never, message)
}
