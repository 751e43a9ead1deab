//! A flow, drawn.

use std::collections::{BTreeMap, BTreeSet};

use ff_sdk::{
    Client, EdgeDirection, EdgeQuery, ExecutionId, FlowMember, FlowSnapshot, PublicState,
};

use super::{Format, counts};
use crate::failure::Failure;
use crate::list::colour;
use crate::table::Table;
use crate::terminal;

/// Edges that one request brings.
const PAGE: u32 = 1000;

/// A flow with its members, and who waits for whom, by their places.
struct Graph {
    members: Vec<FlowMember>,
    edges: Vec<(usize, usize)>,
}

/// Shows a flow as it stands.
pub(super) async fn flow(
    client: &Client,
    json: bool,
    flow: &FlowSnapshot,
    format: Format,
) -> Result<(), Failure> {
    let graph = read(client, flow).await?;
    if json {
        say!("{}", serde_json::json!({ "flow": flow, "members": graph.members }));
        return Ok(());
    }
    match format {
        Format::Tree => {
            say!("{} {} is {}", flow.flow_kind, flow.flow_id, flow.public_flow_state);
            say!("{}", counts(flow));
            for line in tree(&graph) {
                say!("{line}");
            }
        }
        Format::Dot => say!("{}", dot(&graph)),
        Format::Mermaid => say!("{}", mermaid(&graph)),
    }
    Ok(())
}

/// Shows what became of each member of a cancelled flow.
pub(super) async fn receipt(
    client: &Client,
    json: bool,
    flow: &FlowSnapshot,
) -> Result<(), Failure> {
    let members = client.members(&flow.flow_id).await?;
    if json {
        for member in &members {
            say!("{}", serde_json::to_string(member)?);
        }
        return Ok(());
    }
    let mut table = Table::new(&["task", "state", "what"]);
    for member in &members {
        table.row([label(member), member.public_state.to_string(), what_happened(member)]);
    }
    say!("{table}");
    Ok(())
}

fn what_happened(member: &FlowMember) -> String {
    match (member.cancelled_by.as_deref(), member.fenced_until) {
        (Some("flow_cascade"), Some(until)) if member.attempt_count > 0 => {
            format!("stopped; its worker may not know of it until {until}")
        }
        (Some("flow_cascade"), _) => "stopped".to_owned(),
        _ => "had ended".to_owned(),
    }
}

async fn read(client: &Client, flow: &FlowSnapshot) -> Result<Graph, Failure> {
    let members = client.members(&flow.flow_id).await?;
    let places: BTreeMap<ExecutionId, usize> =
        members.iter().enumerate().map(|(place, member)| (member.execution_id, place)).collect();
    let mut edges = Vec::new();
    for (up, member) in members.iter().enumerate() {
        let mut from = (member.edge_count > 0).then_some(0);
        while let Some(place) = from {
            let direction = EdgeDirection::Outgoing;
            let query = EdgeQuery { direction, from: Some(place), limit: Some(PAGE) };
            let engine = client.connection().engine();
            let page = engine.list_edges(member.execution_id, query).await?;
            let ends = page.edges.iter().map(|edge| edge.downstream_execution_id);
            edges.extend(ends.filter_map(|id| Some((up, *places.get(&id)?))));
            from = page.next_from;
        }
    }
    Ok(Graph { members, edges })
}

fn label(member: &FlowMember) -> String {
    member.name.clone().unwrap_or_else(|| member.execution_id.uuid().to_string())
}

/// Each member under the first that it waits for; the others that it waits for are named.
fn tree(graph: &Graph) -> Vec<String> {
    let mut above: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (up, down) in &graph.edges {
        above.entry(*down).or_default().push(*up);
    }
    let mut under: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for place in 0..graph.members.len() {
        let first = above.get(&place).and_then(|ups| ups.first().copied());
        under.entry(first).or_default().push(place);
    }
    let mut drawing = Drawing { graph, above, under, lines: Vec::new(), seen: BTreeSet::new() };
    drawing.branch(None, "");
    drawing.lines
}

struct Drawing<'a> {
    graph: &'a Graph,
    above: BTreeMap<usize, Vec<usize>>,
    under: BTreeMap<Option<usize>, Vec<usize>>,
    lines: Vec<String>,
    seen: BTreeSet<usize>,
}

impl Drawing<'_> {
    fn branch(&mut self, up: Option<usize>, indent: &str) {
        let places = self.under.get(&up).cloned().unwrap_or_default();
        for (at, place) in places.iter().enumerate() {
            let last = at + 1 == places.len();
            let (fork, bar) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let line = format!("{indent}{fork}{}", self.line(*place));
            self.lines.push(line);
            if self.seen.insert(*place) {
                self.branch(Some(*place), &format!("{indent}{bar}"));
            }
        }
    }

    fn line(&self, place: usize) -> String {
        let member = &self.graph.members[place];
        let others = self.above.get(&place).map_or(&[][..], |ups| &ups[1..]);
        let names: Vec<String> = others.iter().map(|up| label(&self.graph.members[*up])).collect();
        let also = if names.is_empty() {
            String::new()
        } else {
            format!(" (also after {})", names.join(", "))
        };
        let attempts = match member.attempt_count {
            0 | 1 => String::new(),
            count => format!(", attempt {count}"),
        };
        format!("{} {}{attempts}{also}", label(member), painted(member.public_state))
    }
}

fn painted(state: PublicState) -> String {
    match colour(state.as_str()) {
        begin if !begin.is_empty() && terminal::has_colours() => format!("{begin}{state}\x1b[0m"),
        _ => state.to_string(),
    }
}

fn dot(graph: &Graph) -> String {
    let mut lines = vec!["digraph flow {".to_owned(), "  rankdir=LR;".to_owned()];
    for (place, member) in graph.members.iter().enumerate() {
        let name = label(member).replace('\\', "\\\\").replace('"', "\\\"");
        lines.push(format!("  n{place} [label=\"{name}\\n{}\"];", member.public_state));
    }
    lines.extend(graph.edges.iter().map(|(up, down)| format!("  n{up} -> n{down};")));
    lines.push("}".to_owned());
    lines.join("\n")
}

fn mermaid(graph: &Graph) -> String {
    let mut lines = vec!["graph LR".to_owned()];
    for (place, member) in graph.members.iter().enumerate() {
        let name = label(member).replace('"', "#quot;");
        lines.push(format!("  n{place}[\"{name}<br/>{}\"]", member.public_state));
    }
    lines.extend(graph.edges.iter().map(|(up, down)| format!("  n{up} --> n{down}")));
    lines.join("\n")
}
