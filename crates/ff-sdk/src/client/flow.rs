//! Flows: graphs of executions, submitted whole, followed and cancelled.

use std::time::Duration;

use ff_core::contracts::{
    CancelFlow, CancelFlowResult, FlowMember, FlowMembers, FlowQuery, FlowSnapshot, GraphAccepted,
    ListFlowsPage, MemberQuery, SubmitGraph,
};
use ff_core::error::EngineError;
use ff_core::types::FlowId;
use tokio::time::Instant;

use super::Client;
use super::result::outlast;
use crate::deadline;
use crate::endings::Awaited;
use crate::error::SdkError;

/// Members that one request brings.
const MEMBERS_PAGE: u32 = 1000;

impl Client {
    /// Submits a whole graph. Nothing of it runs before all of it is there, and a repetition with
    /// the same flow id or key adds nothing.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use ff_sdk::{
    ///     BackendConfig, Client, CreateExecution, CreateFlow, ExecutionKind, GraphDependency,
    ///     GraphTask, SubmitGraph,
    /// };
    ///
    /// let client = Client::connect(BackendConfig::embedded_in_memory()).await?;
    /// let work = |name: &str| CreateExecution::new(ExecutionKind::new(name));
    /// let task = |name: &str| GraphTask::new(name, work(name));
    /// let mut join = task("join");
    /// join.after = ["left", "right"].map(GraphDependency::on_success).into();
    /// let flow = CreateFlow::new(ExecutionKind::new("media"));
    /// let graph = SubmitGraph::new(flow, vec![task("left"), task("right"), join]);
    /// let accepted = client.submit_graph(graph).await?;
    /// assert_eq!(accepted.node_count, 3);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn submit_graph(&self, mut graph: SubmitGraph) -> Result<GraphAccepted, SdkError> {
        graph.flow.namespace.get_or_insert_with(|| self.namespace.clone());
        let accepted = self.engine().submit_graph(graph).await;
        accepted.map_err(|error| error.in_context("submit_graph").into())
    }

    /// Everything about a flow but its members and edges; none if it does not exist.
    pub async fn describe_flow(&self, flow_id: &FlowId) -> Result<Option<FlowSnapshot>, SdkError> {
        let described = self.engine().describe_flow(*flow_id).await;
        described.map_err(|error| error.in_context("describe_flow").into())
    }

    /// A page of the members of a flow, in the order in which they came.
    pub async fn list_members(
        &self,
        flow_id: &FlowId,
        query: MemberQuery,
    ) -> Result<FlowMembers, SdkError> {
        let members = self.engine().list_members(*flow_id, query).await;
        members.map_err(|error| error.in_context("list_members").into())
    }

    /// All members of a flow.
    pub async fn members(&self, flow_id: &FlowId) -> Result<Vec<FlowMember>, SdkError> {
        let (mut members, mut from) = (Vec::new(), None);
        loop {
            let query = MemberQuery { state: None, from, limit: Some(MEMBERS_PAGE) };
            let page = self.list_members(flow_id, query).await?;
            members.extend(page.members);
            from = page.next_from;
            if from.is_none() {
                return Ok(members);
            }
        }
    }

    /// A page of flows, partition by partition.
    pub async fn list_flows(&self, query: FlowQuery) -> Result<ListFlowsPage, SdkError> {
        let page = self.engine().list_flows(query).await;
        page.map_err(|error| error.in_context("list_flows").into())
    }

    /// Cancels a flow: nothing of it is claimed from then on.
    pub async fn cancel_flow(
        &self,
        flow_id: &FlowId,
        request: CancelFlow,
    ) -> Result<CancelFlowResult, SdkError> {
        let cancelled = self.engine().cancel_flow(*flow_id, request).await;
        cancelled.map_err(|error| error.in_context("cancel_flow").into())
    }

    /// Waits until the last member of a flow has ended; none if there is no such flow. The flow as
    /// it stands is answered when the time is up, too. The wait is ended by a push of the store.
    pub async fn await_flow(
        &self,
        flow_id: &FlowId,
        timeout: Duration,
    ) -> Result<Option<FlowSnapshot>, SdkError> {
        let deadline = deadline::after(timeout);
        let waited = self.wait_for_flow(*flow_id, deadline).await;
        waited.map_err(|error| error.in_context("await_flow").into())
    }

    async fn wait_for_flow(
        &self,
        flow_id: FlowId,
        deadline: Instant,
    ) -> Result<Option<FlowSnapshot>, EngineError> {
        let home = self.connection.partition_config().flow_partition_of(flow_id.as_bytes());
        let mut watch = self.connection.endings().watch(Awaited::Flow(home, flow_id)).await?;
        loop {
            let lives = |flow: &FlowSnapshot| flow.completed_at.is_none();
            let heard = match self.engine().describe_flow(flow_id).await {
                Ok(Some(flow)) if lives(&flow) && Instant::now() < deadline => {
                    watch.news(deadline - Instant::now()).await.map(|_| None)
                }
                Ok(other) => Ok(Some(other)),
                Err(error) => Err(error),
            };
            if let Some(flow) = outlast(heard, deadline).await? {
                return Ok(flow);
            }
        }
    }
}
