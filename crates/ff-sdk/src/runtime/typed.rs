//! Handlers of kinds whose types are known.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::builder::WorkerBuilder;
use super::context::Context;
use super::task_error::TaskError;
use crate::kind::Kind;

impl<S: Send + Sync + 'static> WorkerBuilder<S> {
    /// The handler of a kind, with the types that those who submit it know: see [`Kind`]. The
    /// worker tells the kind's policy when it starts: it is the default of all executions of the
    /// kind, whoever submits them.
    pub fn handle<I, O, E, F, Fut>(self, kind: &Kind<I, O>, handler: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<TaskError> + 'static,
        F: Fn(Context<S>, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
    {
        let policy = kind.policy().unwrap_or_default();
        self.policy_of(kind.name(), policy).on(kind.name(), handler)
    }

    /// The handler of a kind that blocks its thread: see [`WorkerBuilder::on_blocking`].
    pub fn handle_blocking<I, O, E, F>(self, kind: &Kind<I, O>, handler: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<TaskError> + 'static,
        F: Fn(Context<S>, I) -> Result<O, E> + Send + Sync + 'static,
    {
        let policy = kind.policy().unwrap_or_default();
        self.policy_of(kind.name(), policy).on_blocking(kind.name(), handler)
    }
}
