//! `flowfabric ls`: executions as a table, in one order over all partitions.

use ff_sdk::{Client, ExecutionSummary, ListFilter};

use crate::failure::Failure;
use crate::progress_bar::ProgressBar;
use crate::remote::{Remote, block_on};
use crate::selection::Selection;
use crate::table::{Table, cut};
use crate::{output, terminal, time};

/// A page of a server.
const PAGE: usize = 1000;

/// The widest cells of people's own words: with the others a line has 80 columns.
const KIND_MAX: usize = 12;
const STATE_MAX: usize = 12;

/// Which executions to list, and how.
#[derive(clap::Args, Clone)]
pub(crate) struct Filter {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// How many at most.
    #[arg(long, value_name = "N", default_value = "50", value_parser = positive)]
    pub(crate) limit: usize,
    /// Show lane, worker and time of creation, too: more than 80 columns.
    #[arg(long, short)]
    wide: bool,
}

/// A number of things to show.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "must be a number from 1".to_owned())
}

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) executions: Vec<ExecutionSummary>,
    /// Whether those are all.
    pub(crate) complete: bool,
}

impl Filter {
    /// As many as are wanted, page by page.
    pub(crate) async fn fetch(
        &self,
        client: &Client,
        bar: &mut ProgressBar,
    ) -> Result<Found, Failure> {
        let limit = Some(self.limit.min(PAGE) as u32);
        let mut listing = client.list(ListFilter { limit, ..self.selection.filter() });
        let mut executions = Vec::new();
        while executions.len() < self.limit {
            let Some(page) = listing.next_page().await? else {
                return Ok(Found { executions, complete: true });
            };
            executions.extend(page);
            bar.set(0, &format!("{} executions", executions.len()));
        }
        executions.truncate(self.limit);
        Ok(Found { executions, complete: false })
    }
}

pub(crate) fn run(remote: &Remote, json: bool, filter: &Filter) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let mut bar = ProgressBar::new("looking", None, json);
        let found = filter.fetch(&client, &mut bar).await?;
        drop(bar);
        if json {
            for summary in found.executions {
                say!("{}", row(summary)?);
            }
            return Ok(());
        }
        if output::is_quiet() {
            let short = |one: &ExecutionSummary| client.connection().shortest(one.execution_id);
            found.executions.iter().map(short).for_each(|id| say!("{id}"));
        } else if !found.executions.is_empty() {
            say!("{}", filter.table(&client, &found.executions));
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
    match (found.complete, found.executions.len()) {
        (true, 0) => "nothing found".to_owned(),
        (true, 1) => "1 execution".to_owned(),
        (true, count) => format!("{count} executions"),
        (false, 1) => "the first execution; see more with --limit".to_owned(),
        (false, count) => format!("the first {count} executions; see more with --limit"),
    }
}

impl Filter {
    /// The table of `ls` and `watch`.
    pub(crate) fn table(&self, client: &Client, found: &[ExecutionSummary]) -> Table {
        let mut table = if self.wide { wide(client, found) } else { narrow(client, found) };
        if terminal::has_colours() {
            table.paint(2, colour);
        }
        table
    }
}

fn narrow(client: &Client, found: &[ExecutionSummary]) -> Table {
    let now = time::now();
    let mut table = Table::new(&["execution", "kind", "state", "attempts", "age"]);
    for one in found {
        table.row([
            client.connection().shortest(one.execution_id).to_string(),
            cut(one.kind.as_str(), KIND_MAX),
            cut(one.public_state.as_str(), STATE_MAX),
            one.total_attempt_count.to_string(),
            time::between(one.created_at, now),
        ]);
    }
    table
}

fn wide(client: &Client, found: &[ExecutionSummary]) -> Table {
    let head = ["execution", "kind", "state", "attempts", "lane", "worker", "created"];
    let mut table = Table::new(&head);
    for one in found {
        table.row([
            client.connection().shortest(one.execution_id).to_string(),
            one.kind.to_string(),
            one.public_state.to_string(),
            one.total_attempt_count.to_string(),
            one.lane.to_string(),
            one.worker_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            time::moment(one.created_at),
        ]);
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
