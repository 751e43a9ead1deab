//! `flow ls`: flows as a table, newest first.

use std::fmt::Write as _;

use ff_sdk::{Client, FlowQuery, FlowState, FlowSummary, Namespace, TimestampMs};

use crate::failure::Failure;
use crate::list::{colour, positive};
use crate::table::{Table, cut};
use crate::{output, terminal, time};

/// A page of a server.
const PAGE: u32 = 1000;

/// So many are looked at to find the newest: flows are listed by their ids.
const LOOK_MAX: usize = 100_000;

/// What is left for kinds in a line of 80 columns.
const KIND_MAX: usize = 11;

/// Which flows to list.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this state: open, running, blocked, completed, failed, cancelled.
    #[arg(long)]
    state: Option<FlowState>,
    /// Only this kind.
    #[arg(long)]
    kind: Option<ff_sdk::ExecutionKind>,
    /// Only this namespace.
    #[arg(long)]
    namespace: Option<Namespace>,
    /// Only what was submitted since: an age like 10m, 2h, 7d, or a time like 2026-11-15 (UTC).
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<TimestampMs>,
    /// Only those that are being cancelled, or of which tasks could not be.
    #[arg(long)]
    stuck: bool,
    /// How many at most.
    #[arg(long, value_name = "N", default_value = "50", value_parser = positive)]
    limit: usize,
}

impl Options {
    fn wants(&self, flow: &FlowSummary) -> bool {
        self.state.is_none_or(|state| flow.status == state)
            && self.kind.as_ref().is_none_or(|kind| flow.flow_kind == *kind)
            && self.namespace.as_ref().is_none_or(|namespace| flow.namespace == *namespace)
            && self.since.is_none_or(|since| flow.created_at >= since)
    }
}

/// What was found.
struct Found {
    newest: Vec<FlowSummary>,
    /// How many there are of those wanted.
    wanted: usize,
    /// Whether all flows were looked at.
    complete: bool,
}

pub(super) async fn run(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let found = fetch(client, options).await?;
    if json {
        for flow in &found.newest {
            say!("{}", serde_json::to_string(flow)?);
        }
        return Ok(());
    }
    if output::is_quiet() {
        output::ids(found.newest.iter().map(|flow| flow.flow_id));
        return Ok(());
    }
    if !found.newest.is_empty() {
        say!("{}", table(&found.newest, time::now()));
    }
    note!("{}", conclusion(&found));
    Ok(())
}

async fn fetch(client: &Client, options: &Options) -> Result<Found, Failure> {
    let mut found = Found { newest: Vec::new(), wanted: 0, complete: false };
    let (mut seen, mut cursor) = (0, None);
    while seen < LOOK_MAX {
        let page = client
            .list_flows(FlowQuery {
                partition: None,
                owing: options.stuck,
                cursor,
                limit: Some(PAGE),
            })
            .await?;
        seen += page.flows.len();
        let before = found.newest.len();
        found.newest.extend(page.flows.into_iter().filter(|flow| options.wants(flow)));
        found.wanted += found.newest.len() - before;
        found.newest.sort_by_key(|flow| std::cmp::Reverse((flow.created_at, flow.flow_id)));
        found.newest.truncate(options.limit);
        cursor = page.next_cursor;
        if cursor.is_none() {
            found.complete = true;
            break;
        }
    }
    Ok(found)
}

fn conclusion(found: &Found) -> String {
    let shown = found.newest.len();
    match (shown, found.complete) {
        (0, true) => "there are no such flows".to_owned(),
        (1, true) if found.wanted == 1 => "1 flow".to_owned(),
        (shown, true) if found.wanted == shown => format!("{shown} flows"),
        (shown, true) => {
            format!("the newest {shown} of {} flows; see more with --limit", found.wanted)
        }
        (shown, false) => format!("{shown} of the first {LOOK_MAX} flows: there are more"),
    }
}

/// How many of its tasks have ended, and how many of those not well.
fn progress(flow: &FlowSummary) -> String {
    let ended = flow.node_count.saturating_sub(flow.live_count);
    let mut progress = format!("{ended}/{}", flow.node_count);
    let not_well = match flow.status {
        FlowState::Cancelled => "cancelled or failed",
        _ => "failed",
    };
    for (count, what) in [(flow.failed_count, not_well), (flow.stuck_count, "stuck")] {
        if count > 0 {
            let _ = write!(progress, ", {count} {what}");
        }
    }
    progress
}

fn table(found: &[FlowSummary], now: TimestampMs) -> Table {
    let mut table = Table::new(&["flow", "kind", "state", "done", "age"]);
    for flow in found {
        table.row([
            flow.flow_id.to_string(),
            cut(flow.flow_kind.as_str(), KIND_MAX),
            flow.status.to_string(),
            progress(flow),
            time::between(flow.created_at, now),
        ]);
    }
    if terminal::has_colours() {
        table.paint(2, |state| colour(if state == "running" { "active" } else { state }));
    }
    table
}
