//! What can go wrong between us and the store, classified in one place by who must act.

use std::fmt;

/// What kind of trouble the store or the way to it had. The names are part of the wire contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendErrorKind {
    /// The connection failed or broke.
    Transport,
    /// No answer in time.
    Timeout,
    /// The cluster is moving slots, failing over or not covering the slot.
    Cluster,
    /// The store is loading its data or busy with a long call.
    BusyLoading,
    /// The credentials were refused or lack a permission.
    Auth,
    /// An answer that makes no sense, or an error inside a function: a bug.
    Protocol,
    /// The function library is missing, older than ours, or not ours.
    ScriptNotLoaded,
    /// The store is at its memory limit: what adds work is refused, all else goes on.
    StoreFull,
    /// The store refuses writes: its disk is full, or too few replicas follow.
    Resource,
    /// The store's data is damaged.
    Corrupt,
    /// The store has been closed.
    Closed,
}

impl BackendErrorKind {
    /// The stable name used in messages, metrics and HTTP answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Timeout => "timeout",
            Self::Cluster => "cluster",
            Self::BusyLoading => "busy_loading",
            Self::Auth => "auth",
            Self::Protocol => "protocol",
            Self::ScriptNotLoaded => "script_not_loaded",
            Self::StoreFull => "store_full",
            Self::Resource => "resource",
            Self::Corrupt => "corrupt",
            Self::Closed => "closed",
        }
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)
    }
}

impl std::error::Error for BackendError {}
