//! A flow, drawn.

use std::collections::BTreeMap;

use ff_sdk::{
    Client, EdgeDirection, EdgeQuery, EdgeSnapshot, ExecutionId, FlowMember, FlowSnapshot,
    PublicState,
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
    told: Vec<EdgeSnapshot>,
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
        let Graph { members, told, .. } = &graph;
        say!("{}", serde_json::json!({ "flow": flow, "members": members, "edges": told }));
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
    let (mut edges, mut told) = (Vec::new(), Vec::new());
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
            told.extend(page.edges);
        }
    }
    Ok(Graph { members, edges, told })
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
    Drawing { graph, above, under }.lines()
}

struct Drawing<'a> {
    graph: &'a Graph,
    above: BTreeMap<usize, Vec<usize>>,
    under: BTreeMap<Option<usize>, Vec<usize>>,
}

impl Drawing<'_> {
    /// All lines, from the top. A chain may be longer than a stack is deep.
    fn lines(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut open = self.branch(None, "");
        while let Some((place, indent, last)) = open.pop() {
            let (fork, bar) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            lines.push(format!("{indent}{fork}{}", self.line(place)));
            open.extend(self.branch(Some(place), &format!("{indent}{bar}")));
        }
        lines
    }

    /// Those under a task, the first one at the end.
    fn branch(&mut self, up: Option<usize>, indent: &str) -> Vec<(usize, String, bool)> {
        let places = self.under.remove(&up).unwrap_or_default();
        let rows = places.into_iter().rev().enumerate();
        rows.map(|(behind, place)| (place, indent.to_owned(), behind == 0)).collect()
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

#[cfg(test)]
mod tests {
    use ff_sdk::ExecutionKind;

    use super::*;

    /// A flow by its edges, as in `a>b b>c`.
    fn graph(names: &str, edges: &str) -> Graph {
        let names: Vec<&str> = names.split(' ').collect();
        let place = |name: &str| names.iter().position(|one| *one == name).expect("a member");
        let ends = edges.split_whitespace().filter_map(|edge| edge.split_once('>'));
        let edges = ends.map(|(up, down)| (place(up), place(down))).collect();
        let members = names.iter().enumerate().map(|(at, name)| member(at, name)).collect();
        Graph { members, edges, told: Vec::new() }
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

    fn drawn(graph: &Graph) -> String {
        tree(graph).join("\n").replace(" waiting", "")
    }

    #[test]
    fn each_task_is_drawn_once_under_the_first_it_waits_for() {
        let diamond = graph("a b c d e", "a>b a>c b>d c>d");
        let expected = "\
            ├─ a\n\
            │  ├─ b\n\
            │  │  └─ d (also after c)\n\
            │  └─ c\n\
            └─ e";
        assert_eq!(drawn(&diamond), expected);
    }

    #[test]
    fn a_task_that_waits_for_many_names_all_of_them() {
        let join = graph("a b c d", "a>d b>d c>d");
        let expected = "├─ a\n│  └─ d (also after b, c)\n├─ b\n└─ c";
        assert_eq!(drawn(&join), expected);
    }

    #[test]
    fn a_long_chain_is_drawn_to_its_end() {
        let names: Vec<String> = (0..2_000).map(|at| format!("t{at}")).collect();
        let edges: Vec<String> =
            names.windows(2).map(|two| format!("{}>{}", two[0], two[1])).collect();
        let lines = tree(&graph(&names.join(" "), &edges.join(" ")));
        assert_eq!(lines.len(), 2_000);
        assert!(lines[1_999].ends_with("└─ t1999 waiting"));
    }

    #[test]
    fn a_task_that_was_tried_again_tells_its_attempt() {
        let mut again = graph("a", "");
        again.members[0].attempt_count = 3;
        assert_eq!(drawn(&again), "└─ a, attempt 3");
        again.members[0].name = None;
        assert!(!drawn(&again).contains("None"), "{}", drawn(&again));
    }

    #[test]
    fn names_keep_their_quotes_in_other_languages() {
        let quoted = graph("say\"hi\" b", "say\"hi\">b");
        assert!(dot(&quoted).contains(r#"n0 [label="say\"hi\"\nwaiting"];"#), "{}", dot(&quoted));
        assert!(dot(&quoted).contains("n0 -> n1;"));
        assert!(mermaid(&quoted).contains("n0[\"say#quot;hi#quot;<br/>waiting\"]"));
        assert!(mermaid(&quoted).contains("n0 --> n1"));
    }
}
