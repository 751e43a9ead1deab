//! `flow replay`: what failed in a flow is run again.

use std::collections::BTreeMap;

use ff_sdk::{Client, ExecutionId, FailedReplayed, FlowId, FlowMember, ReplayFailed};

use super::{explain, graph};
use crate::failure::Failure;
use crate::table::Table;

/// Which flow, and which of its tasks.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The flow.
    #[arg(value_name = "ID")]
    id: FlowId,
    /// Every task that failed, expired or was cancelled. What was skipped because of it waits
    /// again.
    #[arg(long, required = true)]
    failed: bool,
    /// What ran behind them runs again, too.
    #[arg(long)]
    downstream: bool,
    /// Why; it is kept with the tasks.
    #[arg(long, default_value = "")]
    reason: String,
}

/// If it breaks off, a repetition replays the rest.
pub(super) async fn run(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let (id, reason, requested_by) = (&options.id, options.reason.clone(), "cli".to_owned());
    let downstream = options.downstream;
    let request = ReplayFailed { reason, requested_by, downstream, ..ReplayFailed::default() };
    let told = client.replay_failed(id, request).await.map_err(|error| explain(id, &error))?;
    if json {
        say!("{}", serde_json::to_string(&told)?);
    } else if told.replayed.is_empty() && told.refused.is_empty() {
        note!("nothing of it has failed");
    } else {
        say!("{}", table(&told, &client.members(id).await?));
    }
    match told.refused.len() {
        0 => Ok(()),
        count => Err(Failure::from(format!("{count} tasks cannot run again"))),
    }
}

fn table(told: &FailedReplayed, members: &[FlowMember]) -> Table {
    let again = told.replayed.iter().map(|id| (*id, "runs again".to_owned()));
    let refused = told
        .refused
        .iter()
        .map(|one| (one.execution_id, format!("cannot run again: {}", one.code)));
    let mut what: BTreeMap<ExecutionId, String> = again.chain(refused).collect();
    let mut table = Table::new(&["task", "what"]);
    for member in members {
        if let Some(what) = what.remove(&member.execution_id) {
            table.row([graph::label(member), what]);
        }
    }
    table
}
