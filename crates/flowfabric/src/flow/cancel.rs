//! `flow cancel`: nothing of a flow begins any more, and what became of its tasks is told.

use std::collections::BTreeMap;

use ff_sdk::{
    CancelFlow, CancelFlowPolicy, CancelReceipt, CancelledMember, Client, FlowId, MemberFate,
};

use super::{explain, show};
use crate::failure::Failure;
use crate::table::Table;
use crate::{terminal, time};

/// Which flow to cancel, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The flow.
    #[arg(value_name = "ID")]
    id: FlowId,
    /// Which of its tasks are cancelled: cancel_all, cancel_pending (those without an attempt) or
    /// flow_only (none).
    #[arg(long, default_value_t = CancelFlowPolicy::CancelAll)]
    policy: CancelFlowPolicy,
    /// Why; it is kept with the flow.
    #[arg(long, default_value = "")]
    reason: String,
    /// Wait until nothing of it runs any more, and print what became of each task.
    #[arg(long)]
    wait: bool,
    /// Try tasks again that could not be cancelled because their records could not be read.
    #[arg(long, conflicts_with_all = ["policy", "reason", "wait"])]
    retry_stuck: bool,
}

pub(super) async fn run(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let Options { id, policy, reason, wait, retry_stuck } = options;
    if *retry_stuck {
        return retry(client, json, id).await;
    }
    let request = CancelFlow { cancellation_policy: Some(*policy), reason: reason.clone() };
    let cancelled = client.cancel_flow(id, request).await.map_err(|error| explain(id, &error))?;
    if *wait {
        show::await_end(client, id).await?;
        return tell(&client.cancel_receipt(id).await?, json, id);
    }
    if json {
        say!("{}", serde_json::to_string(&cancelled)?);
    } else {
        let rest = if cancelled.is_done() { "" } else { "; the rest is being cancelled" };
        say!("{id} is cancelled ({} tasks{rest})", cancelled.member_count());
    }
    Ok(())
}

/// Prints a receipt. What could not be cancelled is no success.
fn tell(receipt: &CancelReceipt, json: bool, id: &FlowId) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::to_string(receipt)?);
    } else {
        say!("{}", table(receipt));
        note!("{}", counts(receipt));
    }
    match receipt.stuck_count {
        0 => Ok(()),
        count => Err(Failure::from(format!(
            "{count} tasks could not be cancelled: what is stored of them cannot be read. When \
             that is mended: flowfabric flow cancel {id} --retry-stuck"
        ))),
    }
}

fn table(receipt: &CancelReceipt) -> Table {
    let mut table = Table::new(&["task", "state", "what"]);
    for member in &receipt.members {
        let name = member.name.clone().unwrap_or_else(|| member.execution_id.uuid().to_string());
        let state = member.public_state.map(|state| state.to_string());
        table.row([name, state.unwrap_or_default(), what_happened(member)]);
    }
    if terminal::has_colours() {
        table.paint(1, crate::list::colour);
    }
    table
}

fn what_happened(member: &CancelledMember) -> String {
    match (member.fate, member.fenced_until) {
        (MemberFate::Fenced, Some(until)) => {
            format!("stopped; its worker may go on until {}", time::moment(until))
        }
        (MemberFate::Stopped | MemberFate::Fenced, _) => "stopped".to_owned(),
        (MemberFate::HadEnded, _) => "had ended".to_owned(),
        (MemberFate::RunsOn, _) => "runs on".to_owned(),
        (MemberFate::Owed, _) => "is still to be stopped".to_owned(),
        (MemberFate::Stuck, _) => "could not be stopped".to_owned(),
    }
}

/// For how many it meant what.
fn counts(receipt: &CancelReceipt) -> String {
    let mut fates: BTreeMap<&str, usize> = BTreeMap::new();
    for member in &receipt.members {
        *fates.entry(member.fate.as_str()).or_default() += 1;
    }
    let fates = fates.iter().map(|(fate, count)| format!("{count} {}", fate.replace('_', " ")));
    fates.collect::<Vec<_>>().join(", ")
}

async fn retry(client: &Client, json: bool, id: &FlowId) -> Result<(), Failure> {
    let tried = client.retry_stuck_members(id).await.map_err(|error| explain(id, &error))?;
    if json {
        say!("{}", serde_json::to_string(&tried)?);
    } else {
        let (count, settled) = (tried.tried_count, tried.settled_count);
        say!("{settled} of {count} tasks are not stuck any more");
    }
    match tried.stuck_count {
        0 => Ok(()),
        count => Err(Failure::from(format!("{count} tasks still cannot be cancelled"))),
    }
}
