//! `flowfabric ls`: executions as a table, newest first.

mod newest;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ff_sdk::{Client, ExecutionSummary, ListFilter, PublicState, TimestampMs};

use crate::failure::Failure;
use crate::progress_bar::ProgressBar;
use crate::remote::{Remote, block_on};
use crate::table::Table;
use crate::{output, terminal, time};

/// So many are looked at to find the newest of a state. A state is listed in the order of its
/// queue, so that the newest are known when all were seen.
const LOOK_MAX: usize = 20_000;

/// A page of a server: whoever has fewer has shown everything.
const PAGE: usize = 1000;

/// Which executions to list.
#[derive(clap::Args, Clone)]
pub(crate) struct Filter {
    /// Only this state.
    #[arg(long, value_parser = state())]
    state: Option<PublicState>,
    /// Only this lane.
    #[arg(long)]
    lane: Option<ff_sdk::LaneId>,
    /// Only this kind.
    #[arg(long)]
    kind: Option<ff_sdk::ExecutionKind>,
    /// Only this namespace.
    #[arg(long)]
    namespace: Option<ff_sdk::Namespace>,
    /// Only what was submitted since: an age like 10m, 2h, 7d, or a time like 2026-11-15 (UTC).
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<TimestampMs>,
    /// Only what was submitted before: an age or a time.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<TimestampMs>,
    /// How many at most.
    #[arg(long, value_name = "N", default_value = "50", value_parser = positive)]
    pub(crate) limit: usize,
}

/// A state by its word, which help and completions list.
pub(crate) fn state() -> impl TypedValueParser<Value = PublicState> {
    PossibleValuesParser::new(PublicState::WORDS).try_map(|word| word.parse())
}

/// A number of things to show.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "must be a number from 1".to_owned())
}

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) newest: Vec<ExecutionSummary>,
    /// How many were looked at.
    pub(crate) seen: usize,
    /// Whether those were all.
    pub(crate) complete: bool,
    /// Whether none of the others is newer.
    pub(crate) exact: bool,
}

impl Found {
    fn add(&mut self, page: Vec<ExecutionSummary>, limit: usize) {
        self.seen += page.len();
        self.newest.extend(page);
        self.newest.sort_by_key(newest_first);
        self.newest.truncate(limit);
    }
}

impl Filter {
    fn conditions(&self) -> ListFilter {
        ListFilter {
            state: self.state,
            lane: self.lane.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            from: self.since,
            to: self.until,
            ..ListFilter::default()
        }
    }

    /// Looks at everything if that is not much, and asks each partition for its newest otherwise.
    pub(crate) async fn fetch(
        &self,
        client: &Client,
        bar: &mut ProgressBar,
    ) -> Result<Found, Failure> {
        let mut listing = client.list(self.conditions());
        let mut found = Found::default();
        while found.seen < LOOK_MAX.max(self.limit) {
            let Some(page) = listing.next_page().await? else {
                (found.complete, found.exact) = (true, true);
                return Ok(found);
            };
            found.add(page, self.limit);
            bar.set(0, &format!("{} executions", found.seen));
            if self.state.is_none() && found.seen >= PAGE {
                return newest::newest(client, self.conditions(), self.limit).await;
            }
        }
        Ok(found)
    }
}

/// Ids of one millisecond are in the order of their making.
fn newest_first(summary: &ExecutionSummary) -> impl Ord + use<> {
    std::cmp::Reverse((summary.created_at, summary.execution_id.uuid()))
}

pub(crate) fn run(remote: &Remote, json: bool, filter: &Filter) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let mut bar = ProgressBar::new("looking", None, json);
        let found = filter.fetch(&client, &mut bar).await?;
        drop(bar);
        if json {
            for summary in found.newest {
                say!("{}", row(summary)?);
            }
            return Ok(());
        }
        if output::is_quiet() {
            let ids = found.newest.iter().map(|one| client.connection().shortest(one.execution_id));
            ids.for_each(|id| say!("{id}"));
        } else if !found.newest.is_empty() {
            say!("{}", table(&client, &found.newest));
        }
        note!("{}", conclusion(&found));
        Ok(())
    })
}

/// One execution as a line of JSON.
pub(crate) fn row(summary: ExecutionSummary) -> serde_json::Result<String> {
    serde_json::to_string(&summary)
}

fn conclusion(found: &Found) -> String {
    let (shown, seen) = (found.newest.len(), found.seen);
    match (found.complete, found.exact) {
        (true, _) if seen == 0 => "nothing found".to_owned(),
        (true, _) if seen == 1 => "1 execution".to_owned(),
        (true, _) if shown == seen => format!("{seen} executions"),
        (true, _) => format!("{shown} of {seen} executions; see more with --limit"),
        (false, true) => format!("the newest {shown} executions; see more with --limit"),
        (false, false) => format!(
            "{shown} of the first {seen} executions; there are more: narrow the list with \
             --lane, --kind, --namespace or --since"
        ),
    }
}

/// The table of `ls` and `watch`.
pub(crate) fn table(client: &Client, found: &[ExecutionSummary]) -> Table {
    let head = ["execution", "kind", "lane", "state", "attempts", "worker", "created"];
    let mut table = Table::new(&head);
    for summary in found {
        let worker = summary.worker_id.as_ref().map(ToString::to_string).unwrap_or_default();
        table.row([
            client.connection().shortest(summary.execution_id).to_string(),
            summary.kind.to_string(),
            summary.lane.to_string(),
            summary.public_state.to_string(),
            summary.total_attempt_count.to_string(),
            worker,
            time::moment(summary.created_at),
        ]);
    }
    if terminal::has_colours() {
        table.paint(3, colour);
    }
    table
}

/// Green for what went well, red for what did not, blue for what is going on, faint for what never
/// began.
pub(crate) fn colour(state: &str) -> &'static str {
    match state {
        "completed" => "\x1b[32m",
        "failed" | "expired" | "cancelled" => "\x1b[31m",
        "active" => "\x1b[34m",
        "skipped" => "\x1b[2m",
        _ => "",
    }
}
