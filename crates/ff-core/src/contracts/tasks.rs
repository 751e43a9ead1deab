//! Tasks: what the holder of a lease says about its execution.

use futures_core::future::BoxFuture;

use crate::backend::{FailOutcome, FailureClass, FailureReason, Handle, LeaseRenewal};
use crate::contracts::{ChildrenAdded, GraphTask};
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::types::Moment;

/// The end of one of several tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The right to end it.
    pub handle: Handle,
    /// Its result, if it has one.
    pub result: Option<Vec<u8>>,
}

/// Hears from workers. Whatever ends a lease recognises its own repetition, by the handle.
pub trait Tasks: Send + Sync {
    /// Extends the lease by its TTL from now; never shortens it. Repeating it is harmless.
    fn renew<'a>(&'a self, handle: &'a Handle) -> Answer<'a, LeaseRenewal>;

    /// Says how far the work is. What is absent stays as it was. Repeating it is harmless.
    fn progress<'a>(
        &'a self,
        handle: &'a Handle,
        percent: Option<u8>,
        message: Option<String>,
    ) -> Answer<'a, ()>;

    /// Ends the execution successfully, with a result or without.
    fn complete<'a>(&'a self, handle: &'a Handle, result: Option<Vec<u8>>) -> Answer<'a, ()>;

    /// Ends several executions successfully, each on its own: one refusal does not affect the
    /// others. The answers come in the order of what was asked for.
    fn complete_many(
        &self,
        completions: Vec<Completion>,
    ) -> BoxFuture<'_, Vec<Result<(), EngineError>>>;

    /// Ends the attempt as failed; the policy decides between a retry and the end.
    fn fail<'a>(
        &'a self,
        handle: &'a Handle,
        reason: FailureReason,
        class: FailureClass,
    ) -> Answer<'a, FailOutcome>;

    /// Ends the execution as cancelled, by the holder of its lease.
    fn cancel<'a>(&'a self, handle: &'a Handle, reason: &'a str) -> Answer<'a, ()>;

    /// Gives the execution back until a time; then the same attempt goes on, with any worker.
    fn delay<'a>(&'a self, handle: &'a Handle, until: Moment) -> Answer<'a, ()>;

    /// Adds members to the execution's flow, as its children. Repeating it adds nothing; a name
    /// that is there with other content is refused.
    fn add_children<'a>(
        &'a self,
        handle: &'a Handle,
        tasks: Vec<GraphTask>,
    ) -> Answer<'a, ChildrenAdded>;

    /// Gives the execution back until its children have ended; then the same attempt goes on, with
    /// any worker. At once if all have, or if it has none.
    fn wait_children<'a>(&'a self, handle: &'a Handle) -> Answer<'a, ()>;
}
