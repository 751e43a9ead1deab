//! A flow with its members and who waits for whom, as it was read.

use std::collections::BTreeMap;

use ff_sdk::{
    Client, DependencyKind, EdgeSnapshot, ExecutionId, FlowGraph, FlowId, FlowMember, FlowSnapshot,
    SdkError,
};
use serde_json::{Value, json};

/// A flow as it stands.
pub(super) struct Graph {
    pub(super) flow: FlowSnapshot,
    pub(super) members: Vec<FlowMember>,
    pub(super) edges: Vec<Edge>,
    told: Vec<EdgeSnapshot>,
}

/// Who waits for whom, by their places among the members.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) up: usize,
    pub(super) down: usize,
    pub(super) kind: DependencyKind,
}

impl Graph {
    /// Reads a flow; none if it does not exist.
    pub(super) async fn read(client: &Client, id: &FlowId) -> Result<Option<Self>, SdkError> {
        let Some(flow) = client.describe_flow(id).await? else { return Ok(None) };
        let FlowGraph { members, edges, .. } = client.graph(id).await?;
        Ok(Some(Self::new(flow, members, edges)))
    }

    fn new(flow: FlowSnapshot, members: Vec<FlowMember>, told: Vec<EdgeSnapshot>) -> Self {
        let places: BTreeMap<ExecutionId, usize> = members
            .iter()
            .enumerate()
            .map(|(place, member)| (member.execution_id, place))
            .collect();
        let place = |id: &ExecutionId| places.get(id).copied();
        let edge = |one: &EdgeSnapshot| {
            let (up, down) =
                (place(&one.upstream_execution_id)?, place(&one.downstream_execution_id)?);
            Some(Edge { up, down, kind: one.dependency_kind })
        };
        let edges = told.iter().filter_map(edge).collect();
        Self { flow, members, edges, told }
    }

    /// True if nothing of it will happen any more by itself.
    pub(super) fn is_over(&self) -> bool {
        self.flow.is_at_rest()
    }

    /// What a member is called.
    pub(super) fn label(&self, place: usize) -> String {
        label(&self.members[place])
    }

    /// The edges that end at each member.
    pub(super) fn incoming(&self) -> Vec<Vec<Edge>> {
        let mut incoming = vec![Vec::new(); self.members.len()];
        self.edges.iter().for_each(|edge| incoming[edge.down].push(*edge));
        incoming
    }

    /// All of it, for programs.
    pub(super) fn json(&self) -> Value {
        json!({ "flow": self.flow, "members": self.members, "edges": self.told })
    }
}

/// A member's name; one that was added without a name is called by its id.
pub(super) fn label(member: &FlowMember) -> String {
    member.name.clone().unwrap_or_else(|| member.execution_id.uuid().to_string())
}

#[cfg(test)]
pub(super) mod sketch {
    use ff_sdk::{ExecutionKind, FlowState, Namespace, PublicState, TimestampMs};

    use super::*;

    /// A flow of members by name, and its edges, as in `a>b b!c`: b after a, c if b fails.
    pub(in crate::flow) fn graph(names: &str, edges: &str) -> Graph {
        let names: Vec<&str> = names.split(' ').collect();
        let place = |name: &str| names.iter().position(|one| *one == name).expect("a member");
        let edge = |text: &str| {
            let at = text.find(['>', '!']).expect("an edge");
            let failure = text.as_bytes()[at] == b'!';
            let kind =
                if failure { DependencyKind::FailureOnly } else { DependencyKind::SuccessOnly };
            Edge { up: place(&text[..at]), down: place(&text[at + 1..]), kind }
        };
        let edges = edges.split_whitespace().map(edge).collect();
        let members = names.iter().enumerate().map(|(at, name)| member(at, name)).collect();
        Graph { flow: flow(), members, edges, told: Vec::new() }
    }

    fn flow() -> FlowSnapshot {
        let id = "00000000-0000-4000-8000-000000000000".parse().expect("an id");
        let (kind, namespace) = (ExecutionKind::new("media"), Namespace::default());
        let at = TimestampMs::new(1_000);
        FlowSnapshot::new(id, kind, namespace, FlowState::Running, at, at)
    }

    fn member(at: usize, name: &str) -> FlowMember {
        let id = format!("{{fp:1}}:00000000-0000-4000-8000-{at:012}");
        FlowMember {
            execution_id: id.parse().expect("an id"),
            name: Some(name.to_owned()),
            ordinal: at as u64 + 1,
            kind: ExecutionKind::new("work"),
            public_state: PublicState::Waiting,
            optional: false,
            attempt_count: 0,
            edge_count: 0,
            started_at: None,
            completed_at: None,
            cancelled_by: None,
            fenced_until: None,
        }
    }
}
