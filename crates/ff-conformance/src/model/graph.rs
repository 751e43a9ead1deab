//! What the test knows of flows: every member and edge that a call was acknowledged for, and a
//! plain evaluation of them. It shares no code with the library, and reads no counter of it.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::partition::Partition;
use ff_script::call::Call;
use ff_script::calls::create::CreateExecution;

use super::sent::{Sent, uuid_of};
use super::view::View;
use crate::answer::Answer;

/// How many arguments stand before those a member is created from.
const OWN_WIDTH: usize = 3;

/// How many arguments an edge has.
const EDGE_WIDTH: usize = 5;

/// A member as it was submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) optional: bool,
    /// How many of its edges must be satisfied; all of them if absent.
    pub(super) needed: Option<u64>,
    /// The deadline that its submission gave it. Nothing is known of one that joined later.
    pub(super) deadline_at: Option<Option<u64>>,
}

/// An edge as it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) id: String,
    pub(super) up: String,
    pub(super) down: String,
    pub(super) kind: String,
    /// The name of the input, if it passes one.
    pub(super) input: Option<String>,
    pub(super) applied: bool,
}

impl Edge {
    /// Is it satisfied by this end?
    pub(super) fn is_satisfied_by(&self, outcome: &str) -> bool {
        match self.kind.as_str() {
            "success_only" => outcome == "success",
            "failure_only" => matches!(outcome, "failed" | "expired" | "cancelled"),
            _ => true,
        }
    }
}

/// A flow as it was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) partition: Partition,
    /// Submitted whole: its members are held until it is sealed.
    pub(super) whole: bool,
    pub(super) sealed: bool,
    pub(super) fails_fast: bool,
    pub(super) deadline_at: Option<u64>,
    /// The policy of its cancellation.
    pub(super) cancelled: Option<String>,
    pub(super) members: BTreeMap<String, Member>,
    pub(super) edges: Vec<Edge>,
}

/// What the ends of its upstreams mean for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Free,
    Waits,
    Hopeless,
}

impl Graph {
    fn new(partition: Partition, sent: &Sent) -> Self {
        Self {
            partition,
            whole: sent.name() == "ff_submit_graph",
            sealed: false,
            fails_fast: sent.text("on_failure") == "fail_fast",
            deadline_at: sent.text("deadline_at").parse().ok(),
            cancelled: None,
            members: BTreeMap::new(),
            edges: Vec::new(),
        }
    }

    /// The edges that a member waits for.
    pub(super) fn before<'a>(&'a self, down: &'a str) -> impl Iterator<Item = &'a Edge> {
        self.edges.iter().filter(move |edge| edge.applied && edge.down == down)
    }

    /// The evaluation: `end_of` tells how a member ended, and nothing of one that is not over.
    pub(super) fn verdict<'a>(
        &self,
        uuid: &str,
        end_of: impl Fn(&str) -> Option<&'a str>,
    ) -> Verdict {
        let edges: Vec<&Edge> = self.before(uuid).collect();
        let ends: Vec<Option<bool>> = edges
            .iter()
            .map(|edge| end_of(&edge.up).map(|outcome| edge.is_satisfied_by(outcome)))
            .collect();
        let count = |wanted: Option<bool>| ends.iter().filter(|end| **end == wanted).count() as u64;
        let needed = self.members.get(uuid).and_then(|member| member.needed);
        let needed = needed.unwrap_or(edges.len() as u64);
        match (count(Some(true)), count(None)) {
            (satisfied, _) if satisfied >= needed => Verdict::Free,
            (satisfied, pending) if satisfied + pending >= needed => Verdict::Waits,
            _ => Verdict::Hopeless,
        }
    }

    /// Everybody behind a member, however far.
    pub(super) fn behind(&self, uuid: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut next = vec![uuid];
        while let Some(up) = next.pop() {
            for edge in self.edges.iter().filter(|edge| edge.up == up) {
                if found.insert(edge.down.as_str()) {
                    next.push(&edge.down);
                }
            }
        }
        found
    }

    fn add_part(&mut self, sent: &Sent) {
        let items = sent.rest();
        let (nodes, width) = (sent.number("nodes") as usize, sent.number("node_width") as usize);
        let (nodes, edges) = items.split_at((nodes * width).min(items.len()));
        let known = self.members.len().saturating_sub(sent.number("nodes_before") as usize);
        for item in nodes.chunks(width.max(1)).skip(known) {
            self.add_node(item);
        }
        let known = self.edges.len().saturating_sub(sent.number("edges_before") as usize);
        for item in edges.chunks(EDGE_WIDTH).skip(known) {
            let [up, down, kind, pass, name] = item else { continue };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let uuid = |bytes: &[u8]| uuid_of(&text(bytes)).unwrap_or_default().to_owned();
            self.edges.push(Edge {
                id: String::new(),
                up: uuid(up),
                down: uuid(down),
                kind: text(kind),
                input: (pass == b"1").then(|| text(name)),
                applied: true,
            });
        }
    }

    fn add_node(&mut self, item: &[Vec<u8>]) {
        let (own, create) = item.split_at(OWN_WIDTH);
        let text = |bytes: Option<&Vec<u8>>| {
            bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
        };
        let place = |name: &str| CreateExecution::CONTRACT.args.iter().position(|arg| *arg == name);
        let given = |name: &str| text(place(name).and_then(|place| create.get(place)));
        let id = given("execution_id");
        let deadline_at = given("deadline_at").parse().ok().filter(|at| *at > 0);
        let member = Member {
            optional: own[1] == b"1",
            needed: text(Some(&own[2])).parse().ok(),
            deadline_at: Some(deadline_at),
        };
        self.members.insert(uuid_of(&id).unwrap_or_default().to_owned(), member);
    }

    fn add_edge(&mut self, sent: &Sent) {
        let uuid = |name: &str| uuid_of(sent.text(name)).unwrap_or_default().to_owned();
        let kind = match sent.text("dependency_kind") {
            "" => "success_only",
            kind => kind,
        };
        let input = sent.text("data_passing_ref");
        self.edges.push(Edge {
            id: sent.text("edge_id").to_owned(),
            up: uuid("upstream_execution_id"),
            down: uuid("downstream_execution_id"),
            kind: kind.to_owned(),
            input: (!input.is_empty()).then(|| input.to_owned()),
            applied: sent.name() == "ff_add_dependency",
        });
    }
}

/// Every flow that the test knows of, by its id.
#[derive(Clone, Debug, Default)]
pub(super) struct Graphs(pub(super) BTreeMap<String, Graph>);

impl Graphs {
    /// Takes from a call that was done what it added. What is gone from the store is forgotten.
    pub(super) fn learn(&mut self, sent: &Sent, answer: &Answer, after: View<'_>) {
        self.0.retain(|id, graph| {
            graph.partition != sent.partition || after.stored(&format!("f:{id}")).is_some()
        });
        if !answer.done || answer.word != "OK" {
            return;
        }
        let id = sent.text("flow_id").to_owned();
        if matches!(sent.name(), "ff_create_flow" | "ff_submit_graph") {
            self.0.entry(id.clone()).or_insert_with(|| Graph::new(sent.partition, sent));
        }
        let Some(graph) = self.0.get_mut(&id) else { return };
        match sent.name() {
            "ff_submit_graph" => {
                graph.add_part(sent);
                graph.sealed |= sent.text("seal") == "1";
            }
            "ff_add_execution_to_flow" => {
                let optional = sent.text("optional") == "1";
                let uuid = sent.execution().unwrap_or_default().to_owned();
                graph.members.insert(uuid, Member { optional, ..Member::default() });
            }
            "ff_stage_dependency_edge" | "ff_add_dependency" => graph.add_edge(sent),
            "ff_apply_dependency_to_child" => {
                let named = |edge: &&mut Edge| edge.id == sent.text("edge_id");
                if let Some(edge) = graph.edges.iter_mut().find(named) {
                    edge.applied = true;
                }
            }
            "ff_seal_flow" => graph.sealed = true,
            "ff_cancel_flow" => graph.cancelled = Some(sent.text("policy").to_owned()),
            _ => {}
        }
    }
}
