//! What a worker may ask about flows.

use ff_core::contracts::{EdgeDirection, EdgeOf, EdgeQuery, EdgeSnapshot, FlowSnapshot};
use ff_core::types::{EdgeId, ExecutionRef, FlowId};

use super::FlowFabricWorker;
use crate::error::{Context as _, SdkError};

impl FlowFabricWorker {
    /// Everything about a flow but its members and edges; none if it does not exist.
    pub async fn describe_flow(&self, id: &FlowId) -> Result<Option<FlowSnapshot>, SdkError> {
        self.shared.engine().describe_flow(*id).await.context("describe_flow")
    }

    /// One edge of a flow; none if there is no such.
    pub async fn describe_edge(
        &self,
        flow_id: &FlowId,
        edge_id: &EdgeId,
    ) -> Result<Option<EdgeSnapshot>, SdkError> {
        let edge = EdgeOf { flow_id: *flow_id, edge_id: *edge_id };
        self.shared.engine().describe_edge(edge).await.context("describe_edge")
    }

    /// The edges that begin at a member of a flow; none for an execution that is in no flow.
    pub async fn list_outgoing_edges(
        &self,
        upstream: impl Into<ExecutionRef>,
    ) -> Result<Vec<EdgeSnapshot>, SdkError> {
        self.list_edges(upstream.into(), EdgeDirection::Outgoing).await
    }

    /// The edges that end at a member of a flow; none for an execution that is in no flow.
    pub async fn list_incoming_edges(
        &self,
        downstream: impl Into<ExecutionRef>,
    ) -> Result<Vec<EdgeSnapshot>, SdkError> {
        self.list_edges(downstream.into(), EdgeDirection::Incoming).await
    }

    async fn list_edges(
        &self,
        execution: ExecutionRef,
        direction: EdgeDirection,
    ) -> Result<Vec<EdgeSnapshot>, SdkError> {
        let id = self.client().connection().resolve(execution)?;
        let (mut edges, mut from) = (Vec::new(), None);
        loop {
            let query = EdgeQuery { direction, from, limit: None };
            let page = self.shared.engine().list_edges(id, query).await.context("list_edges")?;
            edges.extend(page.edges);
            from = page.next_from;
            if from.is_none() {
                return Ok(edges);
            }
        }
    }
}
