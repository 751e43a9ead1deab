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
    /// Also run again what ran behind them.
    #[arg(long)]
    downstream: bool,
    /// Why; it is kept with the tasks.
    #[arg(long, default_value = "")]
    reason: String,
}

pub(super) async fn run(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let Options { id, downstream, reason, .. } = options;
    let (reason, requested_by) = (reason.clone(), "cli".to_owned());
    let request =
        ReplayFailed { reason, requested_by, downstream: *downstream, ..ReplayFailed::default() };
    let told = client.replay_failed(id, request).await.map_err(|error| explain(id, &error))?;
    if json {
        say!("{}", serde_json::to_string(&told)?);
    } else if told.replayed.is_empty() && told.refused.is_empty() {
        eprintln!("nothing of it has failed");
    } else {
        say!("{}", table(&told, &client.members(id).await?));
    }
    match told.refused.len() {
        0 => Ok(()),
        count => Err(Failure::from(format!("{count} tasks cannot run again"))),
    }
}

fn table(told: &FailedReplayed, members: &[FlowMember]) -> Table {
    let names: BTreeMap<ExecutionId, String> =
        members.iter().map(|member| (member.execution_id, graph::label(member))).collect();
    let name = |id: &ExecutionId| names.get(id).cloned().unwrap_or_else(|| id.to_string());
    let mut table = Table::new(&["task", "what"]);
    for id in &told.replayed {
        table.row([name(id), "runs again".to_owned()]);
    }
    for refused in &told.refused {
        let what = format!("cannot run again: {}", refused.code);
        table.row([name(&refused.execution_id), what]);
    }
    table
}
