//! Signals for executions that wait, and what operators do about them.

use ff_core::contracts::{
    DeliverSignal, ListSuspended, ListSuspendedPage, OpenWaitpoint, ResumeExecution,
    RotateWaitpointSecretRequest, RotateWaitpointSecretResponse, Signal, SignalOutcome,
};
use ff_core::types::{ExecutionRef, WaitpointId};

use super::Client;
use crate::error::{Context as _, SdkError};

impl Client {
    /// Gives a signal to a waitpoint of an execution, whether that is suspended already or not yet.
    /// The waitpoint's token is the right to do so.
    pub async fn deliver_signal(
        &self,
        execution: impl Into<ExecutionRef>,
        waitpoint_id: &WaitpointId,
        signal: Signal,
    ) -> Result<SignalOutcome, SdkError> {
        self.signal(execution, DeliverSignal::to_waitpoint(*waitpoint_id, signal)).await
    }

    /// The same with everything that can be said about it: a waitpoint that is named by its key, a
    /// payload of JSON.
    ///
    /// ```
    /// # async fn example(client: ff_sdk::Client, id: ff_sdk::ExecutionId, token: String)
    /// # -> Result<(), ff_sdk::SdkError> {
    /// use ff_sdk::{DeliverSignal, Signal, WaitpointToken};
    ///
    /// let paid = Signal {
    ///     signal_name: "paid".to_owned(),
    ///     idempotency_key: Some("invoice-7".to_owned()),
    ///     waitpoint_token: WaitpointToken::new(token),
    ///     ..Signal::default()
    /// };
    /// client.signal(&id, DeliverSignal::to_key("payment", paid)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn signal(
        &self,
        execution: impl Into<ExecutionRef>,
        request: DeliverSignal,
    ) -> Result<SignalOutcome, SdkError> {
        self.ask(execution, "deliver_signal", |engine, id| engine.deliver_signal(id, request)).await
    }

    /// The open waitpoints of an execution, oldest first, each with a token under the current key:
    /// for those who look after executions, and may signal them all.
    pub async fn pending_waitpoints(
        &self,
        execution: impl Into<ExecutionRef>,
    ) -> Result<Vec<OpenWaitpoint>, SdkError> {
        let open =
            self.ask(execution, "pending_waitpoints", |engine, id| engine.pending_waitpoints(id));
        Ok(open.await?.waitpoints)
    }

    /// Ends the wait of a suspended execution, whatever its condition. It finds no signals.
    pub async fn resume(
        &self,
        execution: impl Into<ExecutionRef>,
        requested_by: &str,
    ) -> Result<(), SdkError> {
        let requested_by = requested_by.to_owned();
        let request = ResumeExecution { requested_by, ..ResumeExecution::default() };
        let resumed =
            self.ask(execution, "resume", |engine, id| engine.resume_execution(id, request)).await;
        resumed.map(drop)
    }

    /// What is suspended, partition by partition, longest first.
    pub async fn list_suspended(
        &self,
        query: ListSuspended,
    ) -> Result<ListSuspendedPage, SdkError> {
        self.engine().list_suspended(query).await.context("list_suspended")
    }

    /// Makes a key the one that signs waitpoint tokens, in all partitions. It can be repeated.
    pub async fn rotate_waitpoint_secret(
        &self,
        request: RotateWaitpointSecretRequest,
    ) -> Result<RotateWaitpointSecretResponse, SdkError> {
        self.engine().rotate_waitpoint_secret(request).await.context("rotate_waitpoint_secret")
    }
}
