//! Waiting for a result.

use std::time::Duration;

use ff_core::contracts::{CancelSummary, ExecutionSnapshot, FailureSummary};
use ff_core::error::{Code, EngineError};
use ff_core::state::PublicState;
use ff_core::types::ExecutionRef;
use ff_script::endings::{Ended, how_ended};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::Client;
use crate::deadline;
use crate::error::SdkError;
use crate::json;
use crate::kind::Kind;

/// Pause before the store is asked again after trouble.
const PAUSE: Duration = Duration::from_millis(200);

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwaitError {
    /// It has not ended in time. It goes on; ask again.
    #[error("the execution has not ended in time")]
    TimedOut,
    /// There is no such execution, or its retention time is over.
    #[error(
        "there is no such execution (a UUID alone is looked for only where it hashes to; one that \
         was placed elsewhere needs its whole id, {{fp:N}}:<uuid>)"
    )]
    NotFound,
    /// It failed, and will not be tried again.
    #[error("the execution failed ({}): {}", .0.category, .0.reason)]
    Failed(FailureSummary),
    /// It was cancelled.
    #[error("the execution was cancelled: {}", .0.reason)]
    Cancelled(CancelSummary),
    /// Its deadline or its attempt's time passed.
    #[error("the execution ran out of time")]
    Expired,
    /// What it depended on can no longer happen.
    #[error("the execution was skipped")]
    Skipped,
    /// It completed, with a result of another shape than was asked for.
    #[error("the result has another shape: {0}")]
    Decode(#[source] serde_json::Error),
    /// The store could not be asked.
    #[error("{0}")]
    Sdk(#[source] SdkError),
}

impl From<EngineError> for AwaitError {
    fn from(error: EngineError) -> Self {
        match error.code() {
            Some(Code::ExecutionNotFound) => Self::NotFound,
            _ => Self::Sdk(error.in_context("await_result").into()),
        }
    }
}

impl Client {
    /// Waits until an execution has ended, and reads its result as JSON. The wait is ended by a
    /// push of the store, not by asking again and again.
    ///
    /// ```
    /// # async fn example(client: ff_sdk::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let id = client.submit("add", &(1, 2)).await?.execution_id();
    /// let sum: i64 = client.await_result(&id, Duration::from_secs(30)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn await_result<T: DeserializeOwned>(
        &self,
        execution: impl Into<ExecutionRef>,
        timeout: Duration,
    ) -> Result<T, AwaitError> {
        let bytes = self.await_result_raw(execution, timeout).await?;
        json::decode(&bytes).map_err(AwaitError::Decode)
    }

    /// The same of an execution of a [`Kind`], which knows the type of its result.
    pub async fn await_result_of<I, O: DeserializeOwned>(
        &self,
        _: &Kind<I, O>,
        execution: impl Into<ExecutionRef>,
        timeout: Duration,
    ) -> Result<O, AwaitError> {
        self.await_result(execution, timeout).await
    }

    /// The same, with the result's bytes as they are.
    pub async fn await_result_raw(
        &self,
        execution: impl Into<ExecutionRef>,
        timeout: Duration,
    ) -> Result<Vec<u8>, AwaitError> {
        let deadline = deadline::after(timeout);
        let id = self.connection.resolve(execution).map_err(AwaitError::Sdk)?;
        let mut watch = self.connection.endings().watch(id).await?;
        loop {
            let heard = match how_ended(self.engine().as_ref(), id).await {
                Ok(Some(Ended::Completed(result))) => return Ok(result),
                Ok(Some(Ended::Otherwise(snapshot))) => return Err(without_result(*snapshot)),
                Ok(None) if Instant::now() >= deadline => return Err(AwaitError::TimedOut),
                Ok(None) => watch.news(deadline - Instant::now()).await,
                Err(error) => Err(error),
            };
            // A wait outlasts an outage of the store, as long as its time is not up.
            match heard {
                // The news brought the result along.
                Ok(Some(result)) => return Ok(result),
                Ok(None) => {}
                Err(error) if error.is_retryable() && Instant::now() < deadline => {
                    tracing::debug!(execution_id = %id, %error, "asking for a result again");
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Why an execution has no result that has ended.
fn without_result(snapshot: ExecutionSnapshot) -> AwaitError {
    let unknown = || FailureSummary {
        reason: "no reason was given".to_owned(),
        category: String::new(),
        detail: Vec::new(),
    };
    match snapshot.public_state() {
        PublicState::Cancelled => {
            let none = CancelSummary { reason: String::new(), cancelled_by: String::new() };
            AwaitError::Cancelled(snapshot.cancel.unwrap_or(none))
        }
        PublicState::Expired => AwaitError::Expired,
        PublicState::Skipped => AwaitError::Skipped,
        _ => AwaitError::Failed(snapshot.failure.unwrap_or_else(unknown)),
    }
}
