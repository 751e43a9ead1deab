//! A flow as a picture: boxes in columns, arrows between them, colours by state.

use std::fmt::Write as _;

use ff_sdk::{DependencyKind, FlowMember};

use super::graph::{Edge, Graph};
use super::languages::colours;
use super::layout::Layout;
use super::tree;
use crate::table::cut;
use crate::time;

/// Around everything, and above the first box, where the caption is.
const MARGIN: f64 = 24.0;
const TOP: f64 = 84.0;
const BOX_HEIGHT: f64 = 44.0;
/// Between a column and the next.
const GAP: f64 = 72.0;
/// How wide a letter is, at most.
const LETTER: f64 = 7.3;
/// A longer text is cut; the whole one is shown by the pointer.
const TEXT_MAX: usize = 32;

const STYLE: &str = "\
text{font-family:ui-sans-serif,system-ui,Helvetica,Arial,sans-serif;fill:#111827}\
.name{font-size:13px;font-weight:600}.about{font-size:11px;fill:#4b5563}\
.title{font-size:16px;font-weight:600}.edge{fill:none;stroke:#6b7280;stroke-width:1.4}\
.failure{stroke:#b91c1c;stroke-dasharray:6 4}.any{stroke-dasharray:2 3}";

/// An arrow's head.
fn head(name: &str, colour: &str) -> String {
    format!(
        "<marker id=\"{name}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"{colour}\"/></marker>"
    )
}

pub(super) fn svg(graph: &Graph) -> String {
    let picture = Picture::of(graph);
    let (width, height) = picture.size();
    let heads = head("arrow", "#6b7280") + &head("red", "#b91c1c");
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>{STYLE}</style>\n<defs>{heads}</defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    text.push_str(&caption(graph));
    for (at, edge) in graph.edges.iter().enumerate() {
        text.push_str(&picture.edge(at, edge));
    }
    for place in 0..graph.members.len() {
        text.push_str(&picture.task(place));
    }
    text + "</svg>"
}

/// The flow's name and state, and what kinds of arrows there are.
fn caption(graph: &Graph) -> String {
    let flow = &graph.flow;
    let title = format!("{} is {}", flow.flow_kind, flow.public_flow_state);
    let has = |kind| graph.edges.iter().any(|edge| edge.kind == kind);
    let mut about = flow.flow_id.to_string();
    if has(DependencyKind::FailureOnly) {
        about.push_str(" · dashed: runs on failure");
    }
    if has(DependencyKind::AnyOutcome) {
        about.push_str(" · dotted: runs on any end");
    }
    format!(
        "<text class=\"title\" x=\"{MARGIN}\" y=\"32\">{}</text>\n\
         <text class=\"about\" x=\"{MARGIN}\" y=\"50\">{about}</text>\n",
        escaped(&title)
    )
}

/// Everything with its place.
struct Picture<'a> {
    graph: &'a Graph,
    layout: Layout,
    /// Where each column begins, and how wide it is.
    columns: Vec<(f64, f64)>,
    abouts: Vec<String>,
}

impl<'a> Picture<'a> {
    fn of(graph: &'a Graph) -> Self {
        let layout = Layout::of(graph.members.len(), &graph.edges);
        let now = time::now();
        let about = |member: &FlowMember| about(member, &tree::lasted(member, now));
        let abouts: Vec<String> = graph.members.iter().map(about).collect();
        let mut widths = vec![0_usize; layout.width()];
        for (place, about) in abouts.iter().enumerate() {
            let width = &mut widths[layout.columns[place]];
            let letters = graph.label(place).chars().count().max(about.chars().count());
            *width = (*width).max(letters.min(TEXT_MAX));
        }
        let mut columns = Vec::with_capacity(widths.len());
        let mut left = MARGIN;
        for letters in widths {
            let width = letters as f64 * LETTER + 24.0;
            columns.push((left, width));
            left += width + GAP;
        }
        Self { graph, layout, columns, abouts }
    }

    fn size(&self) -> (f64, f64) {
        let right = self.columns.last().map_or(MARGIN, |(left, width)| left + width);
        // The caption has a width of its own.
        ((right + MARGIN).max(560.0), TOP + self.layout.depth() + BOX_HEIGHT + MARGIN)
    }

    fn middle(&self, item: usize) -> f64 {
        TOP + self.layout.heights[item] + BOX_HEIGHT / 2.0
    }

    fn task(&self, place: usize) -> String {
        let (left, width) = self.columns[self.layout.columns[place]];
        let (middle, top) = (self.middle(place), self.middle(place) - BOX_HEIGHT / 2.0);
        let member = &self.graph.members[place];
        let (fill, line) = colours(member.public_state);
        let (name, about) = (self.graph.label(place), &self.abouts[place]);
        let dashed = if member.optional { " stroke-dasharray=\"4 3\"" } else { "" };
        format!(
            "<g><title>{} ({}) {}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" \
             width=\"{width:.1}\" height=\"{BOX_HEIGHT}\" rx=\"7\" fill=\"{fill}\" \
             stroke=\"{line}\" stroke-width=\"1.5\"{dashed}/>\
             <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"about\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>\n",
            escaped(&name),
            escaped(member.kind.as_str()),
            member.execution_id,
            left + 12.0,
            middle - 4.0,
            escaped(&cut(&name, TEXT_MAX)),
            left + 12.0,
            middle + 12.0,
            escaped(&cut(about, TEXT_MAX)),
        )
    }

    /// From the right side of a box, around what is between, to the left side of the other.
    fn edge(&self, at: usize, edge: &Edge) -> String {
        let path = &self.layout.paths[at];
        let mut line = String::new();
        for step in path.windows(2) {
            let (from, to) = (step[0], step[1]);
            let (left, width) = self.columns[self.layout.columns[from]];
            let (begin, end) = (left + width, self.columns[self.layout.columns[to]].0);
            let (high, low, half) = (self.middle(from), self.middle(to), f64::midpoint(begin, end));
            if line.is_empty() {
                let _ = write!(line, "M{begin:.1} {high:.1}");
            } else {
                let _ = write!(line, "H{begin:.1}");
            }
            let _ = write!(line, "C{half:.1} {high:.1} {half:.1} {low:.1} {end:.1} {low:.1}");
        }
        let (class, head) = match edge.kind {
            DependencyKind::SuccessOnly => ("edge", "arrow"),
            DependencyKind::FailureOnly => ("edge failure", "red"),
            DependencyKind::AnyOutcome => ("edge any", "arrow"),
        };
        format!("<path class=\"{class}\" d=\"{line}\" marker-end=\"url(#{head})\"/>\n")
    }
}

/// The second line of a box.
fn about(member: &FlowMember, lasted: &str) -> String {
    let mut parts = vec![member.public_state.to_string()];
    let named_alike = member.name.as_deref() == Some(member.kind.as_str());
    if !named_alike {
        parts.insert(0, member.kind.to_string());
    }
    if member.attempt_count > 1 {
        parts.push(format!("attempt {}", member.attempt_count));
    }
    if !lasted.is_empty() {
        parts.push(lasted.to_owned());
    }
    parts.join(" · ")
}

/// A text in which nothing is markup. Control characters have no place in a picture.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::graph::sketch::graph;
    use super::*;

    #[test]
    fn every_task_is_a_box_and_every_edge_an_arrow() {
        let saga = graph("book pay undo", "book>pay book!undo");
        let drawn = svg(&saga);
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>"), "{drawn}");
        assert_eq!(drawn.matches("<g><title>").count(), 3);
        assert_eq!(drawn.matches("class=\"edge\"").count(), 1);
        assert_eq!(drawn.matches("class=\"edge failure\"").count(), 1);
        assert!(drawn.contains("dashed: runs on failure"), "{drawn}");
    }

    #[test]
    fn no_name_becomes_markup() {
        let named = graph("<script>&\" b", "");
        let drawn = svg(&named);
        assert!(drawn.contains("&lt;script&gt;&amp;&quot;"), "{drawn}");
        assert!(!drawn.contains("<script"), "{drawn}");
    }

    #[test]
    fn a_long_name_is_cut_and_told_by_the_pointer() {
        let name = "x".repeat(100);
        let drawn = svg(&graph(&name, ""));
        assert!(drawn.contains(&format!("<title>{name} (work)")), "{drawn}");
        assert!(drawn.contains(&format!(">{}…</text>", "x".repeat(31))), "{drawn}");
    }
}
