//! Flows that are submitted whole.

use ff_core::contracts::FailurePolicy;
use ff_core::types::{ExecutionId, ExecutionKind, FlowId, Namespace, TimestampMs};

use super::create::CreateExecution;
use crate::args::Args;
use crate::call::{Call as _, functions};
use crate::digest::Digest;
use crate::wire::{Argument as _, Rest};

functions! {
    /// Adds members and edges to a flow that is submitted whole; the last part seals it.
    /// `items` are `nodes` members, `node_width` arguments each, and then edges, five each.
    write ff_submit_graph(SubmitGraph {
        flow_id: FlowId,
        flow_kind: ExecutionKind,
        namespace: Namespace,
        on_failure: Option<String>,
        deadline_at: Option<TimestampMs>,
        retention_ms: Option<u64>,
        tags_json: String,
        digest: String,
        nodes_before: u64,
        edges_before: u64,
        seal: bool,
        nodes: u64,
        node_width: u64,
        items: Rest<Vec<u8>>,
    })
    -> SubmitGraphReply {
        "OK" => Accepted { flow_id: FlowId, node_count: u32 },
        "ALREADY_SATISFIED" => AcceptedBefore { flow_id: FlowId, node_count: u32 },
    }
    refuses [IdempotencyConflict, FlowCancelled, FlowAlreadyTerminal, GraphTooLarge,
        StaleGraphRevision, ExecutionNotInFlow, SelfReferencingEdge, CycleDetected,
        DependencyAlreadyExists, InvalidPolicyJson, InvalidCapabilities, InvalidTagKey,
        TooManyNeeds, QuotaPolicyNotFound];
}

/// A member of a graph.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// Its name in the flow.
    pub name: String,
    /// Its failure is not the flow's.
    pub optional: bool,
    /// How many of its edges must be satisfied; all of them if absent.
    pub needed: Option<u64>,
    /// What it is created from.
    pub create: CreateExecution,
    /// Upstreams that nobody needs any more are cancelled when it is freed.
    pub cancel_rest: bool,
}

/// An edge of a graph.
#[derive(Clone, Debug)]
pub struct GraphEdge {
    /// Who must be over first.
    pub upstream: ExecutionId,
    /// Who waits.
    pub downstream: ExecutionId,
    /// Which outcomes satisfy it.
    pub kind: String,
    /// The upstream's result becomes an input.
    pub pass: bool,
    /// The name of that input.
    pub name: String,
}

/// How many arguments stand before those a member is created from.
const OWN_WIDTH: usize = 3;

/// Where among those one more of a member's own stands; what submissions were given later comes
/// behind it.
const EARLY_WIDTH: usize = 16;

/// How many arguments a member has.
pub(super) const NODE_WIDTH: usize = OWN_WIDTH + CreateExecution::CONTRACT.args.len() + 1;

/// Members and then edges, as arguments.
pub(super) fn encode(nodes: &[GraphNode], edges: &[GraphEdge]) -> Rest<Vec<u8>> {
    let mut items: Vec<Vec<u8>> = Vec::new();
    for node in nodes {
        let mut own = Args::with_capacity(OWN_WIDTH);
        node.name.encode(&mut own);
        node.optional.encode(&mut own);
        node.needed.encode(&mut own);
        items.extend(own.iter().map(<[u8]>::to_vec));
        let mut create: Vec<_> = node.create.encode().iter().map(<[u8]>::to_vec).collect();
        let mut more = Args::with_capacity(1);
        node.cancel_rest.encode(&mut more);
        create.splice(EARLY_WIDTH..EARLY_WIDTH, more.iter().map(<[u8]>::to_vec));
        items.extend(create);
    }
    let mut rest = Args::with_capacity(edges.len() * 5);
    for edge in edges {
        edge.upstream.encode(&mut rest);
        edge.downstream.encode(&mut rest);
        edge.kind.encode(&mut rest);
        edge.pass.encode(&mut rest);
        edge.name.encode(&mut rest);
    }
    items.extend(rest.iter().map(<[u8]>::to_vec));
    Rest(items)
}

impl SubmitGraph {
    /// Puts members and edges into the arguments.
    pub fn fill(&mut self, nodes: &[GraphNode], edges: &[GraphEdge]) {
        self.nodes = nodes.len() as u64;
        self.node_width = NODE_WIDTH as u64;
        self.items = encode(nodes, edges);
    }

    /// Tells whether two submissions of a flow ask for the same work. Delays and deadlines are left
    /// out, as they are for single executions.
    pub(crate) fn content_digest(&self, nodes: &[GraphNode], edges: &[GraphEdge]) -> String {
        let mut digest = Digest::default();
        digest.text(self.flow_kind.as_str()).text(self.namespace.as_str());
        digest.text(self.on_failure.as_deref().unwrap_or(FailurePolicy::Continue.as_str()));
        digest.number(self.retention_ms.map_or(0, |ms| ms + 1)).text(&self.tags_json);
        digest.number(nodes.len() as u64);
        for node in nodes {
            node.tell(&mut digest);
        }
        for edge in edges {
            edge.tell(&mut digest);
        }
        digest.hex()
    }
}

impl GraphNode {
    pub(super) fn tell(&self, digest: &mut Digest) {
        let it = &self.create;
        digest.text(&self.name).text(it.namespace.as_str());
        digest.text(it.lane.as_str()).text(it.kind.as_str());
        digest.text(&it.policy_json).text(&it.tags_json).bytes(&it.payload);
        digest.number(it.priority.into()).number(self.optional.into());
        digest.number(self.needed.unwrap_or(0));
        if self.cancel_rest {
            digest.text("cancel_rest");
        }
    }
}

impl GraphEdge {
    pub(super) fn tell(&self, digest: &mut Digest) {
        digest.text(&self.upstream.to_string()).text(&self.downstream.to_string());
        digest.text(&self.kind).number(self.pass.into()).text(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use ff_core::contracts;
    use ff_core::partition::PartitionConfig;

    use super::*;

    fn call() -> SubmitGraph {
        SubmitGraph {
            flow_id: FlowId::from_uuid(uuid::Uuid::from_u128(7)),
            flow_kind: "media".parse().expect("a kind"),
            namespace: Namespace::default(),
            on_failure: None,
            deadline_at: None,
            retention_ms: None,
            tags_json: String::new(),
            digest: String::new(),
            nodes_before: 0,
            edges_before: 0,
            seal: false,
            nodes: 0,
            node_width: 1,
            items: Rest(Vec::new()),
        }
    }

    fn node(name: &str) -> GraphNode {
        let id: ExecutionId = "{fp:3}:00000000-0000-4000-8000-000000000003".parse().expect("an id");
        let new = contracts::CreateExecution::new("encode".parse().expect("a kind")).with_id(id);
        let new = new.place(uuid::Uuid::nil(), &PartitionConfig::default()).expect("it is right");
        let create = CreateExecution::try_from(new).expect("it fits");
        GraphNode {
            name: name.to_owned(),
            optional: false,
            needed: None,
            create,
            cancel_rest: false,
        }
    }

    fn edge(nodes: &[GraphNode]) -> GraphEdge {
        let id = nodes[0].create.execution_id;
        let kind = "success_only".to_owned();
        GraphEdge { upstream: id, downstream: id, kind, pass: false, name: "a".to_owned() }
    }

    #[test]
    fn the_digest_of_a_graph_is_the_same_in_every_build() {
        let nodes = [node("a"), node("b")];
        assert_eq!(call().content_digest(&nodes, &[edge(&nodes)]), "c06497584ef9b38e");
        let mut told = call();
        told.on_failure = Some("continue".to_owned());
        assert_eq!(told.content_digest(&nodes, &[edge(&nodes)]), "c06497584ef9b38e");
    }

    #[test]
    fn whatever_is_asked_for_changes_the_digest_of_a_graph() {
        let nodes = || vec![node("a"), node("b")];
        let mut digests = vec![call().content_digest(&nodes(), &[edge(&nodes())])];
        let flows: [fn(&mut SubmitGraph); 5] = [
            |it| it.flow_kind = "other".parse().expect("a kind"),
            |it| it.namespace = "other".parse().expect("a namespace"),
            |it| it.on_failure = Some("fail_fast".to_owned()),
            |it| it.retention_ms = Some(0),
            |it| it.tags_json = r#"{"a":"b"}"#.to_owned(),
        ];
        for change in flows {
            let mut changed = call();
            change(&mut changed);
            digests.push(changed.content_digest(&nodes(), &[edge(&nodes())]));
        }
        let members: [fn(&mut GraphNode); 10] = [
            |it| it.cancel_rest = true,
            |it| it.name = "c".to_owned(),
            |it| it.optional = true,
            |it| it.needed = Some(1),
            |it| it.create.lane = "other".parse().expect("a lane"),
            |it| it.create.kind = "other".parse().expect("a kind"),
            |it| it.create.priority = 1,
            |it| it.create.policy_json = "{}".to_owned(),
            |it| it.create.payload = b"{}".to_vec(),
            |it| it.create.tags_json = "{}".to_owned(),
        ];
        for change in members {
            let mut changed = nodes();
            change(&mut changed[1]);
            digests.push(call().content_digest(&changed, &[edge(&changed)]));
        }
        let edges: [fn(&mut GraphEdge); 3] = [
            |it| it.kind = "any_outcome".to_owned(),
            |it| it.pass = true,
            |it| it.name = "left".to_owned(),
        ];
        for change in edges {
            let mut changed = edge(&nodes());
            change(&mut changed);
            digests.push(call().content_digest(&nodes(), &[changed]));
        }
        digests.push(call().content_digest(&nodes(), &[]));
        let count = digests.len();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }
}
