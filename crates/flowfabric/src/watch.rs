//! `flowfabric watch`: on a terminal totals by state and kind, how fast they go and how long they
//! will take, and a live table; elsewhere a line for every change.

mod speed;

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use ff_core::contracts::{ExecutionCounts, KindCounts};
use ff_sdk::{Client, EngineError, ExecutionId, ExecutionSummary, PublicState, SdkError};

use crate::failure::Failure;
use crate::list::{self, Filter, Found};
use crate::output::Out;
use crate::progress_bar::ProgressBar;
use crate::remote::{Remote, block_on};
use crate::screen::Screen;
use crate::signals::Signals;
use crate::time;
use speed::Speeds;

/// The pause after a look lasts so many times as long as the look.
const IDLE_FACTOR: u32 = 2;

/// What to watch, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    filter: Filter,
    /// How often to look.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    every: Duration,
}

/// Often enough to see something, and not so often that it is a load.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = time::duration(text)?;
    let range = Duration::from_millis(100)..=Duration::from_secs(3600);
    if range.contains(&pause) { Ok(pause) } else { Err("must be from 100ms to 1h".to_owned()) }
}

/// Looks again and again until it is interrupted. A server that is away for a while is waited for.
pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let mut signals = Signals::listen()?;
        let live = !json && std::io::stdout().is_terminal();
        let mut view = if live { View::live(remote.url()) } else { View::lines(json) };
        tokio::select! {
            () = signals.next() => Ok(()),
            failed = look(&client, options, &mut view) => failed,
        }
    })
}

async fn look(client: &Client, options: &Options, view: &mut View<'_>) -> Result<(), Failure> {
    loop {
        let begun = Instant::now();
        let seen = see(client, options, view.is_live()).await;
        view.show(client, options, seen)?;
        // A deployment that takes long to look at is looked at less often.
        tokio::time::sleep(options.every.max(begun.elapsed() * IDLE_FACTOR)).await;
    }
}

/// What is shown: the newest executions, and for a person how many there are.
struct Seen {
    found: Found,
    counts: Option<(ExecutionCounts, KindCounts)>,
}

/// Two or four requests, whatever there is.
async fn see(client: &Client, options: &Options, counted: bool) -> Result<Seen, Failure> {
    let mut bar = ProgressBar::new("looking", None, true);
    let found = options.filter.fetch(client, &mut bar).await?;
    if !counted {
        return Ok(Seen { found, counts: None });
    }
    let engine = client.connection().engine();
    let context = |error: EngineError| SdkError::from(error.in_context("watch"));
    let totals = engine.count_executions().await.map_err(context)?;
    let mut kinds = engine.count_kinds().await.map_err(context)?;
    if let Some(only) = &options.filter.selection.kind {
        kinds.counts.retain(|count| count.kind == *only);
    }
    Ok(Seen { found, counts: Some((totals, kinds)) })
}

/// How what was found is shown.
enum View<'a> {
    /// Over the table before.
    Live { url: &'a str, screen: Screen, speeds: Speeds },
    /// A line for each execution that is new or has changed.
    Lines { json: bool, known: HashMap<ExecutionId, (PublicState, u32)> },
}

impl<'a> View<'a> {
    fn live(url: &'a str) -> Self {
        Self::Live { url, screen: Screen::enter(), speeds: Speeds::default() }
    }

    fn lines(json: bool) -> Self {
        Self::Lines { json, known: HashMap::new() }
    }

    fn is_live(&self) -> bool {
        matches!(self, Self::Live { .. })
    }

    fn show(
        &mut self,
        client: &Client,
        options: &Options,
        seen: Result<Seen, Failure>,
    ) -> Result<(), Failure> {
        match (self, seen) {
            (Self::Live { url, screen, speeds }, Ok(seen)) => {
                let table = options.filter.table(client, &seen.found.executions);
                let counts = speeds.describe(seen.counts, Instant::now());
                let clock = time::time_of_day(time::now());
                let head = format!("{url}   {clock} UTC   Ctrl-C to leave");
                screen.draw(format!("{head}\n{counts}\n\n{table}").lines())?;
            }
            // The table stays; its first line says that it is old.
            (Self::Live { screen, .. }, Err(failure)) => screen.complain(&failure.message)?,
            (Self::Lines { .. }, Err(failure)) => failure.report(false),
            (Self::Lines { json, known }, Ok(seen)) => {
                let mut out = Out::new();
                for summary in changes(seen.found.executions, known) {
                    writeln!(out, "{}", line(client, summary, *json)?)?;
                }
                out.flush()?;
            }
        }
        Ok(())
    }
}

/// Those that are new or have changed since they were seen, oldest first.
fn changes(
    found: Vec<ExecutionSummary>,
    known: &mut HashMap<ExecutionId, (PublicState, u32)>,
) -> Vec<ExecutionSummary> {
    let mut changed = Vec::new();
    for summary in found.into_iter().rev() {
        let now = (summary.public_state, summary.total_attempt_count);
        if known.insert(summary.execution_id, now) != Some(now) {
            changed.push(summary);
        }
    }
    changed
}

fn line(client: &Client, summary: ExecutionSummary, json: bool) -> serde_json::Result<String> {
    if json {
        return list::row(summary);
    }
    let name = client.connection().shortest(summary.execution_id);
    let ExecutionSummary { kind, public_state, total_attempt_count, .. } = summary;
    let clock = time::time_of_day(time::now());
    let state = public_state.to_string();
    Ok(format!("{clock}  {name}  {state:<9}  attempts {total_attempt_count}  {kind}"))
}
