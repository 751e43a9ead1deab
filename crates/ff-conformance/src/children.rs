//! Children under test: graphs whose members are added by a running execution.

use ff_core::types::ExecutionId;
use ff_script::calls::children::{AddChildren, AddChildrenReply};
use ff_script::calls::claim::{ClaimExecution, ClaimResumedExecution, ClaimRow};
use ff_script::calls::graph::GraphEdge;
use ff_script::wire::Rest;

use crate::deployment::Deployment;
use crate::flows::{Flow, Graph, arrow_kind};
use crate::held::Held;

impl Held {
    /// Adds the members of a graph as children. If the parent is in no flow, that of the graph is
    /// made.
    pub fn add_children(&self, graph: &Graph) -> AddChildren {
        let Self { id: execution_id, lease_id, lease_epoch, attempt_id, .. } = *self;
        let (flow_id, items) = (graph.flow_id, Rest(Vec::new()));
        let mut call = AddChildren {
            execution_id,
            lease_id,
            lease_epoch,
            attempt_id,
            flow_id,
            nodes: 0,
            node_width: 0,
            items,
        };
        call.fill(&graph.nodes, &graph.edges);
        call
    }

    /// What the claim told of the children, as `a completed "a", b failed`.
    pub fn told_children(&self) -> String {
        let told = self.row.children.0.iter().map(|child| {
            let bytes = child.bytes_base64.as_ref().map(|bytes| bytes.0.escape_ascii().to_string());
            let bytes = bytes.map(|text| format!(" {text:?}")).unwrap_or_default();
            format!("{} {}{bytes}", child.name, child.public_state)
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

impl Graph {
    /// Lets a member wait for an execution that is there.
    pub fn after(&mut self, upstream: ExecutionId, arrow: &str, name: &str) {
        let downstream = self.create(name).execution_id;
        let ((kind, pass), name) = (arrow_kind(arrow), "passed".to_owned());
        let name = if pass { name } else { String::new() };
        let kind = kind.to_owned();
        self.edges.push(GraphEdge { upstream, downstream, kind, pass, name });
    }
}

impl Flow {
    /// The same flow with more members known by name.
    pub fn with(mut self, graph: &Graph) -> Self {
        self.ids.extend(graph.flow().ids);
        self
    }
}

impl Deployment {
    /// Adds children, all of which must be new, to an execution that is in no flow; gives the flow
    /// that they are in, with their parent as `parent`.
    pub async fn begin_family(&self, parent: &Held, text: &str) -> Flow {
        let graph = self.graph(text);
        let mut flow = graph.flow();
        flow.ids.insert("parent".to_owned(), parent.id);
        assert_eq!(self.adopt(parent, &graph).await, graph.nodes.len());
        flow
    }

    /// Adds children; gives how many of them were new.
    pub async fn adopt(&self, parent: &Held, graph: &Graph) -> usize {
        match self.call(parent.add_children(graph)).await {
            AddChildrenReply::Added { added, .. } => added.0.len(),
            AddChildrenReply::AddedBefore { added, .. } => {
                assert_eq!(added.0, []);
                0
            }
        }
    }

    /// Claims an execution whose attempt goes on.
    pub async fn resume(&self, execution_id: ExecutionId) -> Held {
        let grant = self.claim_grant_call(execution_id);
        let claim = self.member_claim(execution_id, grant.grant_id);
        self.call(grant).await;
        let ClaimExecution { worker_id, worker_instance_id, lane, grant_id, .. } = claim;
        let (lease_id, lease_ttl_ms) = (claim.lease_id, claim.lease_ttl_ms);
        let claim = ClaimResumedExecution {
            execution_id,
            worker_id,
            worker_instance_id,
            lane,
            grant_id,
            lease_id,
            lease_ttl_ms,
        };
        Held::from(ClaimRow::from(self.call(claim).await))
    }
}
