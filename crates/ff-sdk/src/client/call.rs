//! Submitting an execution and waiting for its result, in one.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{AwaitError, Client, Submission};
use crate::kind::Kind;

/// An execution whose result is waited for: awaiting it submits it, and answers what its handler
/// gives. Dropped, it waits no longer; the execution goes on.
#[derive(Debug)]
#[must_use = "a call is made when it is awaited"]
pub struct Call<O> {
    client: Client,
    submission: Submission,
    timeout: Duration,
    result: PhantomData<fn() -> O>,
}

impl<O> Call<O> {
    /// How long to wait; for ever if not said. The execution goes on when the time is up.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Says more about the execution: `.with(|it| it.lane("images").priority(10))`.
    pub fn with(mut self, settings: impl FnOnce(Submission) -> Submission) -> Self {
        self.submission = settings(self.submission);
        self
    }
}

impl<O: DeserializeOwned + Send + 'static> IntoFuture for Call<O> {
    type Output = Result<O, AwaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let created = self.submission.send().await.map_err(AwaitError::Sdk)?;
            self.client.await_result(created.execution_id(), self.timeout).await
        })
    }
}

impl Client {
    /// Submits an execution of a kind and waits for its result, both of the kind's types:
    ///
    /// ```
    /// # async fn example(client: ff_sdk::Client) -> Result<(), ff_sdk::AwaitError> {
    /// use std::time::Duration;
    /// use ff_sdk::Kind;
    ///
    /// const SQUARE: Kind<i64, i64> = Kind::new("square");
    ///
    /// let call = client.call(&SQUARE, 7).with(|it| it.lane("sums").idempotency_key("7"));
    /// let result: i64 = call.timeout(Duration::from_secs(30)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<I: Serialize, O>(&self, kind: &Kind<I, O>, input: I) -> Call<O> {
        let submission = self.submit(kind, &input);
        Call { client: self.clone(), submission, timeout: Duration::MAX, result: PhantomData }
    }
}
