//! Why an execution does not run.

use ff_core::contracts::Explanation;
use ff_core::types::ExecutionRef;

use super::Client;
use crate::error::SdkError;

impl Client {
    /// Why an execution does not run, and since when: what it waits for, where it runs, or how it
    /// ended.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use ff_sdk::{BackendConfig, Client};
    /// # let client = Client::connect(BackendConfig::embedded_in_memory()).await?;
    /// let id = client.submit("charge", &42).await?.execution_id();
    /// assert_eq!(client.why(id).await?.summary, "no worker is connected");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn why(&self, execution: impl Into<ExecutionRef>) -> Result<Explanation, SdkError> {
        self.ask(execution, "why", |engine, id| engine.explain_execution(id)).await
    }

    /// Why no connected worker can take an execution that waits for one, in words; none if some
    /// can, or if it waits for something else.
    pub async fn without_worker(
        &self,
        execution: impl Into<ExecutionRef>,
    ) -> Result<Option<String>, SdkError> {
        let explained = self.why(execution).await?;
        Ok(explained.is_without_worker().then_some(explained.summary))
    }
}
