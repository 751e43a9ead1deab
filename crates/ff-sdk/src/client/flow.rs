//! Flows: graphs of executions, submitted whole, followed and cancelled.

use std::time::Duration;

use ff_core::contracts::{
    CancelFlow, CancelFlowResult, CancelFlowWait, CancelReceipt, CancelReceiptQuery,
    FailedReplayed, FlowGraph, FlowMember, FlowMembers, FlowQuery, FlowSnapshot, GraphAccepted,
    GraphQuery, ListFlowsPage, MemberQuery, ReplayFailed, RetryStuck, StuckRetried, SubmitGraph,
};
use ff_core::error::EngineError;
use ff_core::types::{ExecutionRef, FlowId, RequestId};
use ff_script::ids::{IdSource as _, SystemIds};
use tokio::time::Instant;

use super::Client;
use super::result::outlast;
use crate::deadline;
use crate::endings::Awaited;
use crate::error::{Context as _, SdkError};

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
        self.engine().submit_graph(graph).await.context("submit_graph")
    }

    /// Everything about a flow but its members and edges; none if it does not exist.
    pub async fn describe_flow(&self, flow_id: &FlowId) -> Result<Option<FlowSnapshot>, SdkError> {
        self.engine().describe_flow(*flow_id).await.context("describe_flow")
    }

    /// A page of the members of a flow, in the order in which they came.
    pub async fn list_members(
        &self,
        flow_id: &FlowId,
        query: MemberQuery,
    ) -> Result<FlowMembers, SdkError> {
        self.engine().list_members(*flow_id, query).await.context("list_members")
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

    /// A page of the members of a flow and the edges that begin at them.
    pub async fn read_graph(
        &self,
        flow_id: &FlowId,
        query: GraphQuery,
    ) -> Result<FlowGraph, SdkError> {
        self.engine().read_graph(*flow_id, query).await.context("read_graph")
    }

    /// All members of a flow and all edges between them, a thousand in each request. A flow that
    /// changes meanwhile is told as it was when each part of it was read.
    pub async fn graph(&self, flow_id: &FlowId) -> Result<FlowGraph, SdkError> {
        let mut whole = FlowGraph::default();
        let mut query = GraphQuery::default();
        loop {
            let page = self.read_graph(flow_id, query).await?;
            whole.members.extend(page.members);
            whole.edges.extend(page.edges);
            if page.next_cursor.is_none() {
                return Ok(whole);
            }
            query = GraphQuery { cursor: page.next_cursor, limit: None };
        }
    }

    /// The flow that an execution belongs to; none if it belongs to none, or does not exist.
    pub async fn resolve_execution_flow_id(
        &self,
        execution: impl Into<ExecutionRef>,
    ) -> Result<Option<FlowId>, SdkError> {
        let context = "resolve_execution_flow_id";
        self.ask(execution, context, |engine, id| engine.resolve_execution_flow_id(id)).await
    }

    /// A page of flows, partition by partition.
    pub async fn list_flows(&self, query: FlowQuery) -> Result<ListFlowsPage, SdkError> {
        self.engine().list_flows(query).await.context("list_flows")
    }

    /// Cancels a flow: nothing of it is claimed from then on.
    pub async fn cancel_flow(
        &self,
        flow_id: &FlowId,
        request: CancelFlow,
    ) -> Result<CancelFlowResult, SdkError> {
        self.engine().cancel_flow(*flow_id, request).await.context("cancel_flow")
    }

    /// Runs all members of a flow again that failed, expired or were cancelled, if no upstream
    /// stands in their way. What was skipped because of them waits again by itself.
    pub async fn replay_failed(
        &self,
        flow_id: &FlowId,
        mut request: ReplayFailed,
    ) -> Result<FailedReplayed, SdkError> {
        request.request_id.get_or_insert_with(|| RequestId::from_uuid(SystemIds.random()));
        let mut whole = FailedReplayed::default();
        loop {
            let page = self.engine().replay_failed(*flow_id, request.clone()).await;
            let page = page.context("replay_failed")?;
            whole.replayed.extend(page.replayed);
            whole.refused.extend(page.refused);
            request.from = page.next_from;
            if request.from.is_none() {
                return Ok(whole);
            }
        }
    }

    /// Cancels a flow, waits until nothing of it runs any more, as long as that is asked for, and
    /// tells what became of each member.
    pub async fn cancel_flow_with_receipt(
        &self,
        flow_id: &FlowId,
        request: CancelFlow,
        wait: CancelFlowWait,
    ) -> Result<CancelReceipt, SdkError> {
        self.cancel_flow(flow_id, request).await?;
        let timeout = match wait {
            CancelFlowWait::NoWait => Duration::ZERO,
            CancelFlowWait::WaitTimeout(timeout) => timeout,
            CancelFlowWait::WaitIndefinite => Duration::MAX,
        };
        self.await_flow(flow_id, timeout).await?;
        self.cancel_receipt(flow_id).await
    }

    /// A page of what a cancel meant for the members of a flow.
    pub async fn read_cancel_receipt(
        &self,
        flow_id: &FlowId,
        query: CancelReceiptQuery,
    ) -> Result<CancelReceipt, SdkError> {
        self.engine().read_cancel_receipt(*flow_id, query).await.context("read_cancel_receipt")
    }

    /// What a cancel meant for each member of a flow.
    pub async fn cancel_receipt(&self, flow_id: &FlowId) -> Result<CancelReceipt, SdkError> {
        let mut query = CancelReceiptQuery { limit: Some(MEMBERS_PAGE), ..Default::default() };
        let mut whole = self.read_cancel_receipt(flow_id, query).await?;
        while let Some(from) = whole.next_from {
            query.from = Some(from);
            let page = self.read_cancel_receipt(flow_id, query).await?;
            whole.members.extend(page.members);
            whole.next_from = page.next_from;
        }
        Ok(whole)
    }

    /// Tries all members of a flow again that could not be dealt with.
    pub async fn retry_stuck_members(&self, flow_id: &FlowId) -> Result<StuckRetried, SdkError> {
        let (mut whole, mut request) = (StuckRetried::default(), RetryStuck::default());
        loop {
            let tried = self.engine().retry_stuck_members(*flow_id, request).await;
            let tried = tried.context("retry_stuck_members")?;
            whole.tried_count += tried.tried_count;
            whole.settled_count += tried.settled_count;
            whole.stuck_count = tried.stuck_count;
            request.from = tried.next_from;
            if request.from.is_none() {
                return Ok(whole);
            }
        }
    }

    /// Waits until the last member of a flow has ended; none if there is no such flow. Members that
    /// a cancel could not end are not waited for. The flow as it stands is answered when the time
    /// is up, too. The wait is ended by a push of the store.
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
            let heard = match self.engine().describe_flow(flow_id).await {
                Ok(Some(flow)) if !flow.is_at_rest() && Instant::now() < deadline => {
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
