//! Keeping single executions from being claimed.

use ff_core::contracts::{ExecutionState, HoldExecution, ListHeld, ListHeldPage, ReleaseExecution};
use ff_core::types::ExecutionRef;

use super::Client;
use crate::error::{Context as _, SdkError};

impl Client {
    /// Holds an execution: nobody claims it until it is released. One that runs goes on to the end
    /// of its attempt, one that is suspended or waits for others goes on waiting; they are held
    /// where they would be claimable next. Deadlines count on. `requested_by` and `reason` are for
    /// people.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use ff_sdk::{BackendConfig, Client};
    /// # let client = Client::connect(BackendConfig::embedded_in_memory()).await?;
    /// let id = client.submit("charge", &42).await?.execution_id();
    /// client.hold(id, "mia", "the amount looks wrong").await?;
    /// client.release(id, "mia").await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn hold(
        &self,
        execution: impl Into<ExecutionRef>,
        requested_by: &str,
        reason: &str,
    ) -> Result<ExecutionState, SdkError> {
        let (reason, requested_by) = (reason.to_owned(), requested_by.to_owned());
        let request = HoldExecution { reason, requested_by, request_id: None };
        self.ask(execution, "hold", |engine, id| engine.hold_execution(id, request)).await
    }

    /// Lets a held execution go on as if it had not been held.
    pub async fn release(
        &self,
        execution: impl Into<ExecutionRef>,
        requested_by: &str,
    ) -> Result<ExecutionState, SdkError> {
        let request = ReleaseExecution { requested_by: requested_by.to_owned(), request_id: None };
        self.ask(execution, "release", |engine, id| engine.release_execution(id, request)).await
    }

    /// What is held, partition by partition, longest first.
    pub async fn list_held(&self, query: ListHeld) -> Result<ListHeldPage, SdkError> {
        self.engine().list_held(query).await.context("list_held")
    }
}
