//! A flow as a tree of tasks: each under the first that it waits for, with how it stands.

use std::collections::BTreeMap;

use ff_sdk::{DependencyKind, FlowMember, FlowState, PublicState, TimestampMs};

use super::graph::{Edge, Graph};
use crate::list::colour;
use crate::table::Table;
use crate::{terminal, time};

/// What is deeper is drawn no further to the right: its depth is told as a number.
const DEPTH_MAX: usize = 16;

/// So many of those that a task also waits for are named.
const NAMES_MAX: usize = 3;

/// The whole picture: what the flow is, how far, and its tasks.
pub(super) fn picture(graph: &Graph) -> String {
    let now = time::now();
    format!("{}\n\n{}", head(graph, now), table(graph, &rows(graph), now))
}

/// The picture in so many lines. If it does not fit, the tasks are shown where something happens.
pub(super) fn picture_within(graph: &Graph, lines: usize) -> String {
    let (now, mut rows) = (time::now(), rows(graph));
    // The head, an empty line, the table's head, and a last line.
    let room = lines.saturating_sub(5).max(1);
    let hidden = rows.len().saturating_sub(room);
    if hidden > 0 {
        rows = most_interesting(graph, rows, room);
    }
    let rest = if hidden > 0 { format!("\n… and {hidden} more") } else { String::new() };
    format!("{}\n\n{}{rest}", head(graph, now), table(graph, &rows, now))
}

/// Two lines about the flow itself.
fn head(graph: &Graph, now: TimestampMs) -> String {
    let flow = &graph.flow;
    let state = painted(flow.public_flow_state);
    let counted = flow.counts.iter().filter(|(_, count)| **count > 0);
    let mut parts: Vec<String> = counted.map(|(state, count)| format!("{count} {state}")).collect();
    parts.extend(flow.started_at.map(|started| match flow.completed_at {
        Some(ended) => format!("took {}", time::span(started, ended)),
        None => format!("for {} now", time::span(started, now)),
    }));
    if flow.stuck_count > 0 {
        parts.push(format!("{} could not be cancelled", flow.stuck_count));
    }
    format!("{} {} is {state}\n{}", flow.flow_kind, flow.flow_id, parts.join(", "))
}

fn painted(state: FlowState) -> String {
    let word = if state == FlowState::Running { "active" } else { state.as_str() };
    match colour(word) {
        begin if !begin.is_empty() && terminal::has_colours() => format!("{begin}{state}\x1b[0m"),
        _ => state.to_string(),
    }
}

/// A task in the tree.
struct Row {
    place: usize,
    /// The lines that lead to it, and its name.
    branch: String,
    /// For whom it waits, beside the one above it.
    note: String,
}

fn table(graph: &Graph, rows: &[Row], now: TimestampMs) -> Table {
    let mut table = Table::new(&["task", "kind", "state", "attempt", "time", ""]);
    for row in rows {
        let member = &graph.members[row.place];
        table.row([
            row.branch.clone(),
            member.kind.to_string(),
            member.public_state.to_string(),
            if member.attempt_count == 0 {
                String::new()
            } else {
                member.attempt_count.to_string()
            },
            lasted(member, now),
            row.note.clone(),
        ]);
    }
    if terminal::has_colours() {
        table.paint(2, colour);
    }
    table
}

/// How long a task took, or has run so far.
pub(super) fn lasted(member: &FlowMember, now: TimestampMs) -> String {
    let until = match member.public_state {
        state if state.is_terminal() => member.completed_at,
        _ => Some(now),
    };
    let span = member.started_at.zip(until).map(|(from, to)| time::span(from, to));
    span.unwrap_or_default()
}

/// Those where something happens or went wrong, in the order of the tree.
fn most_interesting(graph: &Graph, rows: Vec<Row>, most: usize) -> Vec<Row> {
    let mut ranked: Vec<(u8, usize)> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| (interest(graph.members[row.place].public_state), at))
        .collect();
    ranked.sort_unstable();
    let mut kept: Vec<bool> = vec![false; rows.len()];
    ranked.iter().take(most).for_each(|(_, at)| kept[*at] = true);
    let rows = rows.into_iter().zip(kept);
    rows.filter(|(_, kept)| *kept).map(|(row, _)| row).collect()
}

/// The lower, the more a person wants to see it.
fn interest(state: PublicState) -> u8 {
    match state {
        PublicState::Active => 0,
        PublicState::Failed | PublicState::Expired => 1,
        PublicState::Suspended | PublicState::Delayed | PublicState::RateLimited => 2,
        PublicState::Waiting | PublicState::WaitingChildren => 3,
        PublicState::Completed => 4,
        PublicState::Cancelled | PublicState::Skipped => 5,
    }
}

/// All tasks, from the top.
fn rows(graph: &Graph) -> Vec<Row> {
    let incoming = graph.incoming();
    let mut under: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (place, edges) in incoming.iter().enumerate() {
        under.entry(edges.first().map(|edge| edge.up)).or_default().push(place);
    }
    Drawing { graph, incoming, under }.rows()
}

struct Drawing<'a> {
    graph: &'a Graph,
    incoming: Vec<Vec<Edge>>,
    under: BTreeMap<Option<usize>, Vec<usize>>,
}

/// A task that is to be drawn.
struct Open {
    place: usize,
    depth: usize,
    indent: String,
    last: bool,
}

impl Drawing<'_> {
    /// A chain may be longer than a stack is deep: what is to be drawn is in a list.
    fn rows(mut self) -> Vec<Row> {
        let mut rows = Vec::with_capacity(self.graph.members.len());
        let mut open = self.branch(None, 0, "");
        while let Some(Open { place, depth, indent, last }) = open.pop() {
            let (branch, below) = self.lead(place, depth, &indent, last);
            rows.push(Row { place, branch, note: self.note(place) });
            open.extend(self.branch(Some(place), depth + 1, &below));
        }
        rows
    }

    /// Those under a task, the first one at the end.
    fn branch(&mut self, up: Option<usize>, depth: usize, indent: &str) -> Vec<Open> {
        let places = self.under.remove(&up).unwrap_or_default();
        let rows = places.into_iter().rev().enumerate();
        rows.map(|(behind, place)| {
            let (indent, last) = (indent.to_owned(), behind == 0);
            Open { place, depth, indent, last }
        })
        .collect()
    }

    /// How a task's line begins, and what is before those under it.
    fn lead(&self, place: usize, depth: usize, indent: &str, last: bool) -> (String, String) {
        let name = self.graph.label(place);
        match depth {
            0 => (name, String::new()),
            1..=DEPTH_MAX => {
                let (fork, bar) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                (format!("{indent}{fork}{name}"), format!("{indent}{bar}"))
            }
            _ => (format!("{indent}{depth}: {name}"), indent.to_owned()),
        }
    }

    /// What the place in the tree does not tell.
    fn note(&self, place: usize) -> String {
        let edges = &self.incoming[place];
        let mut parts = Vec::new();
        match edges.first().map(|edge| edge.kind) {
            Some(DependencyKind::FailureOnly) => parts.push("on failure".to_owned()),
            Some(DependencyKind::AnyOutcome) => parts.push("on any end".to_owned()),
            _ => {}
        }
        let others = edges.get(1..).unwrap_or_default();
        let mut names: Vec<String> =
            others.iter().take(NAMES_MAX).map(|edge| self.graph.label(edge.up)).collect();
        if others.len() > NAMES_MAX {
            names.push(format!("{} more", others.len() - NAMES_MAX));
        }
        if !names.is_empty() {
            parts.push(format!("also after {}", names.join(", ")));
        }
        if self.graph.members[place].optional {
            parts.push("optional".to_owned());
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::sketch::graph;
    use super::*;

    /// Names and notes, without what the tasks do.
    fn drawn(graph: &Graph) -> String {
        let lines = rows(graph).into_iter().map(|row| match row.note.as_str() {
            "" => row.branch,
            note => format!("{} ({note})", row.branch),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_task_is_drawn_once_under_the_first_it_waits_for() {
        let diamond = graph("a b c d e", "a>b a>c b>d c>d");
        let expected = "\
            a\n\
            ├─ b\n\
            │  └─ d (also after c)\n\
            └─ c\n\
            e";
        assert_eq!(drawn(&diamond), expected);
    }

    #[test]
    fn a_task_that_waits_for_many_names_some_and_counts_the_others() {
        let join = graph("a b c d", "a>d b>d c>d");
        assert_eq!(drawn(&join), "a\n└─ d (also after b, c)\nb\nc");
        let wide = graph("a b c d e f", "a>f b>f c>f d>f e>f");
        assert!(drawn(&wide).contains("f (also after b, c, d, 1 more)"), "{}", drawn(&wide));
    }

    #[test]
    fn what_runs_only_on_failure_says_so() {
        let mut saga = graph("book undo", "book!undo");
        saga.members[1].optional = true;
        assert_eq!(drawn(&saga), "book\n└─ undo (on failure; optional)");
    }

    #[test]
    fn a_long_chain_is_drawn_to_its_end_and_stays_narrow() {
        let names: Vec<String> = (0..2_000).map(|at| format!("t{at}")).collect();
        let edges: Vec<String> =
            names.windows(2).map(|two| format!("{}>{}", two[0], two[1])).collect();
        let chain = graph(&names.join(" "), &edges.join(" "));
        let lines: Vec<String> = rows(&chain).into_iter().map(|row| row.branch).collect();
        assert_eq!(lines.len(), 2_000);
        assert!(lines[1_999].ends_with(" 1999: t1999"), "{:?}", lines[1_999]);
        assert!(lines.iter().all(|line| line.chars().count() < 65));
    }

    #[test]
    fn attempts_and_times_are_told() {
        let mut again = graph("a", "");
        let member = &mut again.members[0];
        (member.attempt_count, member.public_state) = (3, PublicState::Completed);
        (member.started_at, member.completed_at) =
            (Some(TimestampMs::new(1_000)), Some(TimestampMs::new(2_500)));
        let shown = table(&again, &rows(&again), TimestampMs::new(9_000)).to_string();
        let expected = "\
            TASK  KIND  STATE      ATTEMPT  TIME\n\
            a     work  completed  3        1.5 s";
        assert_eq!(shown, expected);
        again.members[0].name = None;
        assert!(drawn(&again).starts_with("00000000-"), "{}", drawn(&again));
    }

    #[test]
    fn a_picture_that_does_not_fit_shows_where_something_happens() {
        let names: Vec<String> = (0..50).map(|at| format!("t{at}")).collect();
        let mut many = graph(&names.join(" "), "");
        many.members[40].public_state = PublicState::Active;
        many.members[20].public_state = PublicState::Failed;
        let shown = picture_within(&many, 10);
        assert_eq!(shown.lines().count(), 10, "{shown}");
        for part in ["t0 ", "t20", "t40", "… and 45 more"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("t49"), "{shown}");
    }
}
