//! A flow in the languages of Graphviz and Mermaid.

use ff_sdk::{DependencyKind, PublicState};

use super::graph::Graph;

/// The colours of a state: of its box, and of the line around it.
pub(super) fn colours(state: PublicState) -> (&'static str, &'static str) {
    match state {
        PublicState::Completed => ("#dcfce7", "#15803d"),
        PublicState::Failed | PublicState::Expired => ("#fee2e2", "#b91c1c"),
        PublicState::Cancelled => ("#ffedd5", "#c2410c"),
        PublicState::Active => ("#dbeafe", "#1d4ed8"),
        PublicState::Suspended | PublicState::Delayed | PublicState::RateLimited => {
            ("#fef9c3", "#a16207")
        }
        PublicState::Skipped => ("#f3f4f6", "#9ca3af"),
        PublicState::Waiting => ("#f8fafc", "#334155"),
        PublicState::WaitingChildren => ("#ffffff", "#9ca3af"),
    }
}

pub(super) fn dot(graph: &Graph) -> String {
    let mut lines = vec![
        "digraph flow {".to_owned(),
        "  rankdir=LR;".to_owned(),
        "  node [shape=box, style=\"rounded,filled\"];".to_owned(),
    ];
    for (place, member) in graph.members.iter().enumerate() {
        let name = graph.label(place).replace('\\', "\\\\").replace('"', "\\\"");
        let (state, (fill, line)) = (member.public_state, colours(member.public_state));
        lines.push(format!(
            "  n{place} [label=\"{name}\\n{state}\", fillcolor=\"{fill}\", color=\"{line}\"];"
        ));
    }
    for edge in &graph.edges {
        let style = match edge.kind {
            DependencyKind::SuccessOnly => "",
            DependencyKind::FailureOnly => " [style=dashed, color=\"#b91c1c\"]",
            DependencyKind::AnyOutcome => " [style=dotted]",
        };
        lines.push(format!("  n{} -> n{}{style};", edge.up, edge.down));
    }
    lines.push("}".to_owned());
    lines.join("\n")
}

pub(super) fn mermaid(graph: &Graph) -> String {
    let mut lines = vec!["graph LR".to_owned()];
    let mut used: Vec<PublicState> = Vec::new();
    for (place, member) in graph.members.iter().enumerate() {
        let (name, state) = (mermaid_text(&graph.label(place)), member.public_state);
        lines.push(format!("  n{place}[\"{name}<br/>{state}\"]:::{state}"));
        if !used.contains(&state) {
            used.push(state);
        }
    }
    for edge in &graph.edges {
        let arrow = match edge.kind {
            DependencyKind::SuccessOnly => "-->",
            DependencyKind::FailureOnly => "-. on failure .->",
            DependencyKind::AnyOutcome => "-. on any end .->",
        };
        lines.push(format!("  n{} {arrow} n{}", edge.up, edge.down));
    }
    for state in used {
        let (fill, line) = colours(state);
        lines.push(format!("  classDef {state} fill:{fill},stroke:{line}"));
    }
    lines.join("\n")
}

/// A text in quotes, where Mermaid takes what is in `#…;` and `<…>` for more than letters.
fn mermaid_text(text: &str) -> String {
    let letter = |letter: char| match letter {
        '"' => "#quot;".to_owned(),
        '#' => "#35;".to_owned(),
        '<' => "#lt;".to_owned(),
        '>' => "#gt;".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::super::graph::sketch::graph;
    use super::*;

    #[test]
    fn names_keep_their_quotes() {
        let quoted = graph("say\"hi\" b", "say\"hi\">b");
        assert!(dot(&quoted).contains(r#"n0 [label="say\"hi\"\nwaiting", "#), "{}", dot(&quoted));
        assert!(dot(&quoted).contains("n0 -> n1;"));
        assert!(mermaid(&quoted).contains("n0[\"say#quot;hi#quot;<br/>waiting\"]:::waiting"));
        assert!(mermaid(&quoted).contains("n0 --> n1"));
        assert_eq!(mermaid_text("a#1<b>"), "a#35;1#lt;b#gt;");
    }

    #[test]
    fn edges_on_failure_look_different() {
        let saga = graph("a b", "a!b");
        assert!(dot(&saga).contains("n0 -> n1 [style=dashed"), "{}", dot(&saga));
        assert!(mermaid(&saga).contains("n0 -. on failure .-> n1"), "{}", mermaid(&saga));
    }
}
