//! The errors that callers of the host see, all of them.

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};

use super::FunctionError;

/// The store was closed; the call was not run.
pub(crate) fn closed() -> BackendError {
    BackendError::new(BackendErrorKind::Closed, Retry::Safe, "the embedded store is closed")
}

/// The store was closed while the call was under way.
pub(crate) fn closed_midway() -> BackendError {
    let message = "the embedded store was closed before the call was answered";
    BackendError::new(BackendErrorKind::Closed, Retry::IfReplaySafe, message)
}

/// The store stopped itself for this reason; the call was not run, or nothing of it is kept.
pub(crate) fn stopped(reason: &str) -> BackendError {
    let message = format!("the store has stopped, restart to recover: {reason}");
    BackendError::new(BackendErrorKind::Closed, Retry::Safe, message)
}

/// The store stopped itself for this reason while the call was under way.
pub(crate) fn stopped_midway(reason: &str) -> BackendError {
    BackendError { retry: Retry::IfReplaySafe, ..stopped(reason) }
}

/// Too much is under way in the call's shard; the call was not run.
pub(crate) fn too_many_calls() -> BackendError {
    BackendError::new(
        BackendErrorKind::Resource,
        Retry::Safe,
        "too many calls are under way: try again when some are done",
    )
}

/// Keys and values take as much memory as they may; the call was not run.
pub(crate) fn store_full() -> BackendError {
    let message = "the store is at its memory limit: what adds work is refused until there is room";
    BackendError::new(BackendErrorKind::StoreFull, Retry::Safe, message)
}

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
pub(crate) fn function_failed(name: &str, error: FunctionError) -> BackendError {
    let message = match error {
        FunctionError::NoMemory => {
            let message = format!("{name}: there is not enough memory");
            return BackendError::new(BackendErrorKind::Resource, Retry::Safe, message);
        }
        FunctionError::Raised { text, line: Some(line) } => format!("{name}: {text} (line {line})"),
        FunctionError::Raised { text, line: None } => format!("{name}: {text}"),
        FunctionError::CommandPanicked => format!("{name}: a command panicked"),
    };
    BackendError::new(BackendErrorKind::Protocol, Retry::Never, message)
}
