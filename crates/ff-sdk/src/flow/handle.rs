//! A flow that was submitted.

use std::fmt;
use std::time::Duration;

use ff_core::contracts::{
    CancelFlow, CancelFlowResult, FlowMember, FlowSnapshot, GraphAccepted, member_id,
};
use ff_core::error::{Code, EngineError};
use ff_core::types::{ExecutionId, FlowId};
use serde::de::DeserializeOwned;

use super::{CONTEXT, Draft, Flow, FlowTask};
use crate::client::{AwaitError, Client};
use crate::error::SdkError;
use crate::kind::Kind;

/// A flow that was submitted: its end, and the results of its tasks by their types.
#[derive(Clone)]
pub struct FlowHandle {
    client: Client,
    flow_id: FlowId,
    /// What it was put together in; none for a flow that is only known by its id.
    draft: Option<Draft>,
    created: bool,
}

impl FlowHandle {
    /// The flow's id.
    pub fn id(&self) -> FlowId {
        self.flow_id
    }

    /// True if it was not there before: one with a key, or an id of its own, may have been.
    pub fn is_new(&self) -> bool {
        self.created
    }

    /// The execution of a task.
    pub fn execution_id<O>(&self, task: &FlowTask<O>) -> Result<ExecutionId, SdkError> {
        match &self.draft {
            Some(draft) if task.is_of(draft) => Ok(self.execution_named(task.name())),
            _ => {
                let message = format!("{:?} is a task of another flow", task.name());
                Err(SdkError::config(CONTEXT, "task", message))
            }
        }
    }

    /// The execution of the task of this name.
    pub fn execution_named(&self, name: &str) -> ExecutionId {
        member_id(&self.flow_id, name, &self.client.connection().partition_config())
    }

    /// Waits until a task has ended, and answers what it gave.
    pub async fn result<O: DeserializeOwned>(&self, task: &FlowTask<O>) -> Result<O, AwaitError> {
        let id = self.execution_id(task).map_err(AwaitError::Sdk)?;
        self.client.await_result(id, Duration::MAX).await
    }

    /// The same of the task of this name, which is of this kind: for who did not put the flow
    /// together.
    pub async fn result_of<I, O: DeserializeOwned>(
        &self,
        kind: &Kind<I, O>,
        name: &str,
    ) -> Result<O, AwaitError> {
        let id = self.execution_named(name);
        self.client.await_result_of(kind, id, Duration::MAX).await
    }

    /// Waits until the last of its tasks has ended. The flow as it stands is answered when the
    /// time is up, too: [`completed_at`](FlowSnapshot::completed_at) says which it is.
    pub async fn await_end(&self, timeout: Duration) -> Result<FlowSnapshot, SdkError> {
        let flow = self.client.await_flow(&self.flow_id, timeout).await?;
        flow.ok_or_else(|| self.missing())
    }

    /// How it stands.
    pub async fn describe(&self) -> Result<FlowSnapshot, SdkError> {
        let flow = self.client.describe_flow(&self.flow_id).await?;
        flow.ok_or_else(|| self.missing())
    }

    /// Its tasks, and how each stands.
    pub async fn members(&self) -> Result<Vec<FlowMember>, SdkError> {
        self.client.members(&self.flow_id).await
    }

    /// Cancels all that has not ended: nothing of it is claimed from then on.
    pub async fn cancel(&self, reason: &str) -> Result<CancelFlowResult, SdkError> {
        let request = CancelFlow { cancellation_policy: None, reason: reason.to_owned() };
        self.client.cancel_flow(&self.flow_id, request).await
    }

    fn missing(&self) -> SdkError {
        EngineError::refused(Code::FlowNotFound).in_context("flow").into()
    }
}

impl fmt::Debug for FlowHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlowHandle").field(&self.flow_id).finish()
    }
}

impl Client {
    /// Submits a flow that was put together with types. Nothing of it runs before all of it is
    /// there: see [`Flow`].
    pub async fn submit_flow(&self, flow: Flow) -> Result<FlowHandle, SdkError> {
        let (graph, draft) = flow.finish()?;
        let GraphAccepted { flow_id, created, .. } = self.submit_graph(graph).await?;
        Ok(FlowHandle { client: self.clone(), flow_id, draft: Some(draft), created })
    }

    /// A flow that somebody submitted, by its id.
    pub fn flow(&self, flow_id: &FlowId) -> FlowHandle {
        FlowHandle { client: self.clone(), flow_id: *flow_id, draft: None, created: false }
    }
}
