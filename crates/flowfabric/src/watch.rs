//! `flowfabric watch`: a live table on a terminal; elsewhere a line for every change.

use std::collections::{BTreeMap, HashMap};
use std::io::{IsTerminal, Write};
use std::time::Duration;

use ff_sdk::{Client, ExecutionId, ExecutionSummary, PublicState};

use crate::failure::Failure;
use crate::list::{self, Filter, Found};
use crate::output::Out;
use crate::progress_bar::ProgressBar;
use crate::remote::{Remote, block_on};
use crate::screen::Screen;
use crate::signals::Signals;
use crate::time;

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
        let found =
            options.filter.fetch(client, &mut ProgressBar::new("looking", None, true)).await;
        view.show(client, found)?;
        tokio::time::sleep(options.every).await;
    }
}

/// How what was found is shown.
enum View<'a> {
    /// Over the table before.
    Live { url: &'a str, screen: Screen },
    /// A line for each execution that is new or has changed.
    Lines { json: bool, known: HashMap<ExecutionId, (PublicState, u32)> },
}

impl<'a> View<'a> {
    fn live(url: &'a str) -> Self {
        Self::Live { url, screen: Screen::enter() }
    }

    fn lines(json: bool) -> Self {
        Self::Lines { json, known: HashMap::new() }
    }

    fn show(&mut self, client: &Client, found: Result<Found, Failure>) -> Result<(), Failure> {
        match (self, found) {
            (Self::Live { url, screen }, Ok(found)) => {
                screen.draw(picture(url, client, &found).lines())?;
            }
            // The table stays; its first line says that it is old.
            (Self::Live { screen, .. }, Err(failure)) => screen.complain(&failure.message)?,
            (Self::Lines { .. }, Err(failure)) => failure.report(false),
            (Self::Lines { json, known }, Ok(found)) => {
                let mut out = Out::new();
                for summary in changes(found.newest, known) {
                    writeln!(out, "{}", line(client, summary, *json)?)?;
                }
                out.flush()?;
            }
        }
        Ok(())
    }
}

/// A head, the counts, and the table.
fn picture(url: &str, client: &Client, found: &Found) -> String {
    let clock = time::time_of_day(time::now());
    let table = list::table(client, &found.newest);
    format!("{url}   {clock} UTC   Ctrl-C to leave\n{}\n\n{table}", counts(found))
}

/// How many of those listed are in which state.
fn counts(found: &Found) -> String {
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for summary in &found.newest {
        *states.entry(summary.public_state.as_str()).or_default() += 1;
    }
    let states = states.iter().map(|(state, count)| format!("{count} {state}"));
    let states = states.collect::<Vec<_>>().join(", ");
    match (found.complete, found.seen, found.newest.len()) {
        (true, 0, _) => "no executions".to_owned(),
        (true, seen, shown) if seen == shown => states,
        (true, seen, shown) => format!("{seen} executions; of the newest {shown}: {states}"),
        (false, _, shown) => format!("of the newest {shown}: {states}"),
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
