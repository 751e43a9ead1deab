//! Children are sent in parts that the store takes in a few milliseconds each. A child travels with
//! all of its edges, so that each part is whole: one that broke off is finished by its repetition.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::Handle;
use ff_core::contracts::{
    AddedChild, ChildrenAdded, GraphTask, PlannedChild, child_id, plan_children,
};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::types::{ExecutionId, LaneId};

use super::flows::{PART_BYTES_MAX, graph_node};
use super::{ScriptBackend, held};
use crate::calls::children::{AddChildren, AddChildrenReply, content_digest};
use crate::calls::graph::{GraphEdge, GraphNode};
use crate::host::Host;
use crate::wire::Rest;

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Adds children, part by part.
    pub(super) async fn send_children(
        &self,
        handle: &Handle,
        tasks: Vec<GraphTask>,
    ) -> Result<ChildrenAdded, EngineError> {
        let names: Vec<String> = tasks.iter().map(|task| task.name.clone()).collect();
        let waits = tasks.iter().flat_map(|task| &task.after).map(|one| one.task.clone());
        let waits: Vec<String> = waits.collect();
        let planned = plan_children(&handle.execution_id, &handle.lane, tasks, &self.config)?;
        let children: Vec<Child> =
            planned.children.into_iter().map(Child::try_from).collect::<Result<_, _>>()?;
        self.register_lanes(&children).await?;
        let mut flow_id = planned.flow_id;
        let mut added = BTreeSet::new();
        for part in parts(&children) {
            let (nodes, items) = (0, Rest(Vec::new()));
            let mut call = held!(handle, AddChildren { flow_id, nodes, node_width: 0, items });
            let nodes: Vec<GraphNode> = part.iter().map(|child| child.node.clone()).collect();
            let edges: Vec<GraphEdge> =
                part.iter().flat_map(|child| child.edges.iter().cloned()).collect();
            call.fill(&nodes, &edges);
            let (AddChildrenReply::Added { flow_id: id, added: new }
            | AddChildrenReply::AddedBefore { flow_id: id, added: new }) = self
                .call_on(handle.execution_id, call)
                .await
                .map_err(|error| self.told_by_name(error, &handle.execution_id, &waits))?;
            flow_id = id;
            added.extend(new.0);
        }
        let children = in_order(names, &children, &added);
        Ok(ChildrenAdded { flow_id, children })
    }

    /// Who waits for a name that nobody has is told the name: the id made of it says nothing.
    fn told_by_name(
        &self,
        error: EngineError,
        parent: &ExecutionId,
        waits: &[String],
    ) -> EngineError {
        let id_of = |name: &&String| child_id(parent, name, &self.config).to_string();
        let unknown = waits.iter().find(|name| error.details().contains(&id_of(name)));
        match (error.code(), unknown) {
            (Some(code @ Code::ExecutionNotInFlow), Some(name)) => {
                let detail = format!(
                    "no child is called {name:?}; other members of the flow are named by their \
                     whole ids, {{fp:N}}:<uuid>"
                );
                EngineError::Refused { code, details: vec![detail] }
            }
            _ => error,
        }
    }

    async fn register_lanes(&self, children: &[Child]) -> Result<(), EngineError> {
        let lanes: BTreeSet<&LaneId> =
            children.iter().map(|child| &child.node.create.lane).collect();
        for lane in lanes {
            self.register_lane(lane).await?;
        }
        Ok(())
    }
}

/// A child as it travels, with the edges that end at it.
struct Child {
    node: GraphNode,
    edges: Vec<GraphEdge>,
}

impl TryFrom<PlannedChild> for Child {
    type Error = EngineError;

    fn try_from(planned: PlannedChild) -> Result<Self, EngineError> {
        let mut node = graph_node(planned.node)?;
        let downstream = node.create.execution_id;
        let edges: Vec<GraphEdge> = planned
            .after
            .into_iter()
            .map(|wait| GraphEdge {
                upstream: wait.upstream,
                downstream,
                kind: wait.kind.as_str().to_owned(),
                pass: wait.pass.is_some(),
                name: wait.pass.unwrap_or_default(),
            })
            .collect();
        node.create.content_digest = content_digest(&node, &edges);
        Ok(Self { node, edges })
    }
}

/// So many children at a time, by their number, that of their edges, and their size.
fn parts(children: &[Child]) -> Vec<&[Child]> {
    let most = limits::GRAPH_BATCH_MAX as usize;
    let (mut parts, mut first, mut edges, mut bytes) = (Vec::new(), 0, 0, 0);
    for (place, child) in children.iter().enumerate() {
        let full = place - first == most || edges + child.edges.len() > most;
        if full || bytes >= PART_BYTES_MAX {
            parts.push(&children[first..place]);
            (first, edges, bytes) = (place, 0, 0);
        }
        edges += child.edges.len();
        bytes += child.node.create.payload.len();
    }
    parts.push(&children[first..]);
    parts
}

fn in_order(
    names: Vec<String>,
    children: &[Child],
    added: &BTreeSet<ExecutionId>,
) -> Vec<AddedChild> {
    let named = |child: &Child| (child.node.name.clone(), child.node.create.execution_id);
    let mut ids: BTreeMap<String, ExecutionId> = children.iter().map(named).collect();
    let mut told = |name: String| {
        let execution_id = ids.remove(&name)?;
        Some(AddedChild { name, execution_id, added: added.contains(&execution_id) })
    };
    names.into_iter().filter_map(&mut told).collect()
}
