//! What can go wrong between us and the store, classified in one place by who must act.

use std::time::Duration;

use crate::literal::literals;

literals! {
    /// What kind of trouble the store or the way to it had. The names are part of the wire
    /// contract.
    BackendErrorKind("kind of trouble with the store") {
        /// The connection failed or broke.
        Transport = "transport",
        /// No answer in time.
        Timeout = "timeout",
        /// The cluster is moving slots, failing over or not covering the slot.
        Cluster = "cluster",
        /// The store is loading its data or busy with a long call.
        BusyLoading = "busy_loading",
        /// The credentials were refused or lack a permission.
        Auth = "auth",
        /// An answer that makes no sense, or an error inside a function: a bug.
        Protocol = "protocol",
        /// The function library is missing, older than ours, or not ours.
        ScriptNotLoaded = "script_not_loaded",
        /// The store is at its memory limit: what adds work is refused, all else goes on.
        StoreFull = "store_full",
        /// The store refuses writes: its disk is full, or too few replicas follow.
        Resource = "resource",
        /// The store has done it, but no replica has confirmed in time that it has it, too.
        NotReplicated = "not_replicated",
        /// The store's data is damaged.
        Corrupt = "corrupt",
        /// The store has been closed.
        Closed = "closed",
    }
}

/// Whether a failed call may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The call was certainly not applied.
    Safe,
    /// The call may have been applied: repeat it only if a repeat is recognised.
    IfReplaySafe,
    /// Sending it again cannot help.
    Never,
}

/// A call that got no answer from the library: the store, or the way to it, had trouble.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct BackendError {
    /// What kind of trouble.
    pub kind: BackendErrorKind,
    /// Whether the call may be repeated.
    pub retry: Retry,
    /// What happened, for a person. Never contains payload bytes or credentials.
    pub message: String,
}

impl BackendError {
    /// An error of this kind, with this answer to "may I send it again?".
    pub fn new(kind: BackendErrorKind, retry: Retry, message: impl Into<String>) -> Self {
        Self { kind, retry, message: message.into() }
    }

    /// A call that took longer than it may. It may have been applied.
    pub fn timed_out(limit: Duration) -> Self {
        let message = format!("no answer within {limit:?}");
        Self::new(BackendErrorKind::Timeout, Retry::IfReplaySafe, message)
    }
}
