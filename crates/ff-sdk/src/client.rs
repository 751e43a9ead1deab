//! The client: submits executions and waits for their results.

mod budgets;
mod call;
mod flow;
mod follow;
mod hold;
mod lanes;
mod list;
mod quotas;
mod result;
mod signal;
mod submit;
mod why;
mod workers;

pub use call::Call;
pub use follow::{Follow, FollowFlow, Followed};
pub use list::Listing;
pub use result::AwaitError;
pub use submit::Submission;

pub(crate) use submit::DEFAULT_LANE;

use std::sync::Arc;

use ff_core::contracts::{
    AttemptRecord, CancelExecution, Created, ExecutionSnapshot, ExecutionState, ListFilter,
    ReplayExecution,
};
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::types::{ExecutionId, ExecutionRef, Namespace};
use serde::Serialize;

use crate::backend_config::BackendConfig;
use crate::connection::Connection;
use crate::error::SdkError;
use crate::kind::Takes;

/// Submits executions, waits for their results, and looks after them. Executions are named by their
/// id or by its UUID alone: see [`ExecutionRef`].
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use ff_sdk::{BackendConfig, Client};
///
/// let client = Client::connect(BackendConfig::embedded_in_memory()).await?;
/// let submitted = client
///     .submit("resize", &serde_json::json!({ "image": "cat.png", "width": 80 }))
///     .lane("images")
///     .priority(10)
///     .idempotency_key("cat-80")
///     .delay(Duration::from_secs(3600))
///     .tag("team.owner", "pets")
///     .await?;
/// let id = submitted.execution_id();
/// client.cancel(&id, "nobody wants it").await?;
/// assert!(client.describe(&id).await?.is_some());
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    connection: Connection,
    namespace: Namespace,
}

impl Client {
    /// Opens a connection of its own. A store in memory is then this client's alone: see
    /// [`Client::new`].
    pub async fn connect(config: BackendConfig) -> Result<Self, SdkError> {
        Ok(Self::new(&Connection::open(config).await?))
    }

    /// A client over a connection that others use too.
    pub fn new(connection: &Connection) -> Self {
        Self { connection: connection.clone(), namespace: Namespace::default() }
    }

    /// The same, which submits in this namespace unless told otherwise.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// The connection, to share it with others.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn engine(&self) -> &Arc<dyn EngineBackend> {
        self.connection.engine()
    }

    /// An execution for the handler of this name, or of this [`Kind`](crate::Kind), with an input
    /// that is encoded as JSON. It is submitted when the answer is awaited.
    pub fn submit<I: Serialize + ?Sized>(&self, kind: impl Takes<I>, input: &I) -> Submission {
        Submission::new(self, kind, serde_json::to_vec(input))
    }

    /// The same with an input of bytes that are passed on as they are.
    pub fn submit_raw(&self, kind: &str, payload: impl Into<Vec<u8>>) -> Submission {
        Submission::new::<[u8]>(self, kind, Ok(payload.into()))
    }

    /// Submits several with few calls, each on its own: one refusal does not affect the others.
    /// Answers in the order of the request.
    ///
    /// ```
    /// # async fn example(client: ff_sdk::Client) -> Result<(), ff_sdk::SdkError> {
    /// let orders = (1..=1000).map(|number| client.submit("ship", &number).lane("orders"));
    /// for answer in client.submit_many(orders).await {
    ///     println!("{}", answer?.execution_id());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn submit_many(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
    ) -> Vec<Result<Created, SdkError>> {
        submit::submit_all(self, submissions.into_iter().collect()).await
    }

    /// Asks the engine about one execution. Who named it by a UUID that is not found is told what a
    /// whole id is.
    async fn ask<T>(
        &self,
        execution: impl Into<ExecutionRef>,
        context: &str,
        ask: impl FnOnce(&dyn EngineBackend, ExecutionId) -> Answer<'_, T>,
    ) -> Result<T, SdkError> {
        let name = execution.into();
        let answer = ask(self.engine().as_ref(), self.connection.resolve(name)?).await;
        answer.map_err(|error| name.advise(error).in_context(context).into())
    }

    /// Cancels an execution, whatever it is doing. Repeating it is harmless.
    pub async fn cancel(
        &self,
        execution: impl Into<ExecutionRef>,
        reason: &str,
    ) -> Result<(), SdkError> {
        let request = CancelExecution { reason: reason.to_owned(), request_id: None };
        let cancelled =
            self.ask(execution, "cancel", |engine, id| engine.cancel_execution(id, request)).await;
        cancelled.map(drop)
    }

    /// Runs an ended execution again; one that has not ended is refused.
    pub async fn replay(
        &self,
        execution: impl Into<ExecutionRef>,
        request: ReplayExecution,
    ) -> Result<ExecutionState, SdkError> {
        self.ask(execution, "replay", |engine, id| engine.replay(id, request)).await
    }

    /// The attempts of an execution, oldest first: who made them, when, and how each ended.
    pub async fn attempts(
        &self,
        execution: impl Into<ExecutionRef>,
    ) -> Result<Vec<AttemptRecord>, SdkError> {
        let listed = self.ask(execution, "attempts", |engine, id| engine.list_attempts(id)).await?;
        Ok(listed.attempts)
    }

    /// Everything about an execution at one moment; none if it does not exist.
    pub async fn describe(
        &self,
        execution: impl Into<ExecutionRef>,
    ) -> Result<Option<ExecutionSnapshot>, SdkError> {
        self.ask(execution, "describe", |engine, id| engine.describe_execution(id)).await
    }

    /// The executions that pass a filter, page by page.
    ///
    /// ```
    /// # async fn example(client: ff_sdk::Client) -> Result<(), ff_sdk::SdkError> {
    /// use ff_sdk::{ListFilter, PublicState};
    ///
    /// let failed = ListFilter { state: Some(PublicState::Failed), ..ListFilter::default() };
    /// let mut listing = client.list(failed);
    /// while let Some(page) = listing.next_page().await? {
    ///     for execution in page {
    ///         println!("{} {}", execution.execution_id, execution.kind);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, filter: ListFilter) -> Listing {
        Listing::new(self.connection.clone(), filter)
    }
}
