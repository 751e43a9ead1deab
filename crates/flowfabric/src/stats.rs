//! `flowfabric stats`: how many executions are in which state, by kind and by lane.

pub(crate) mod kinds;

use ff_core::contracts::{ExecutionCounts, KindCounts, LaneList, LaneQuery};
use ff_sdk::{Client, EngineError, PublicState, SdkError};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::table::{Table, cut};
use crate::time;
use kinds::Kinds;

/// The widest name of a lane or kind.
const NAME_MAX: usize = 30;

pub(crate) fn run(remote: &Remote, json: bool) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let (totals, kinds, lanes) = read(&client).await?;
        if json {
            let KindCounts { counts, exact } = kinds;
            let all = serde_json::json!({
                "totals": totals, "kinds": counts, "kinds_exact": exact, "lanes": lanes.lanes,
            });
            say!("{all}");
            return Ok(());
        }
        say!("{}", line(&totals, &kinds));
        if !kinds.counts.is_empty() {
            let kinds = Kinds::of(&kinds);
            say!("\n{}", kinds.table(&[], usize::MAX));
            if !kinds.exact {
                note!("numbers with ~ are estimates: there are too many to count by kind");
            }
        }
        if !lanes.lanes.is_empty() {
            say!("\n{}", lane_table(&lanes));
        }
        Ok(())
    })
}

async fn read(client: &Client) -> Result<(ExecutionCounts, KindCounts, LaneList), Failure> {
    let engine = client.connection().engine();
    let context = |error: EngineError| SdkError::from(error.in_context("stats"));
    Ok((
        engine.count_executions().await.map_err(context)?,
        engine.count_kinds().await.map_err(context)?,
        engine.list_lanes(LaneQuery::default()).await.map_err(context)?,
    ))
}

/// The totals in a line: what there is none of is left out.
pub(crate) fn line(totals: &ExecutionCounts, kinds: &KindCounts) -> String {
    let mut counts = live(totals, kinds);
    counts.extend([
        (totals.completed, "completed"),
        (totals.failed, "failed"),
        (totals.cancelled, "cancelled"),
        (totals.expired, "expired"),
        (totals.skipped, "skipped"),
    ]);
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = some.map(|(count, word)| format!("{count} {word}")).collect();
    if parts.is_empty() { "no executions".to_owned() } else { parts.join(", ") }
}

/// What is not over: by state, if all were counted. The totals know only what a worker holds.
fn live(totals: &ExecutionCounts, kinds: &KindCounts) -> Vec<(u64, &'static str)> {
    if !kinds.exact {
        return vec![(totals.waiting, "waiting or put aside"), (totals.active, "active")];
    }
    let of = |state| {
        let same = kinds.counts.iter().filter(|one| one.public_state == state);
        same.map(|one| one.count).sum()
    };
    let live = PublicState::ALL.iter().filter(|state| !state.is_terminal());
    live.map(|state| (of(*state), state.as_str())).collect()
}

fn lane_table(lanes: &LaneList) -> Table {
    let now = time::now();
    let mut table = Table::new(&["lane", "waiting", "oldest"]);
    for lane in &lanes.lanes {
        let oldest = lane.head_created_at.map(|at| time::between(at, now));
        table.row([
            cut(lane.lane.as_str(), NAME_MAX),
            lane.waiting.to_string(),
            oldest.unwrap_or_default(),
        ]);
    }
    table
}
