//! `flow cancel`: nothing of a flow begins any more.

use ff_sdk::{CancelFlow, CancelFlowPolicy, Client, FlowId, FlowMember};

use super::graph::label;
use super::{explain, show};
use crate::failure::Failure;
use crate::table::Table;
use crate::time;

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
    /// Wait until the last of them has ended, and print what became of each.
    #[arg(long)]
    wait: bool,
}

pub(super) async fn run(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let Options { id, policy, reason, wait } = options;
    let request = CancelFlow { cancellation_policy: Some(*policy), reason: reason.clone() };
    let cancelled = client.cancel_flow(id, request).await.map_err(|error| explain(id, &error))?;
    if *wait {
        show::await_end(client, id).await?;
        return receipt(client, json, id).await;
    }
    if json {
        say!("{}", serde_json::to_string(&cancelled)?);
    } else {
        let rest = if cancelled.done { "" } else { "; the rest is being cancelled" };
        say!("{id} is cancelled ({} tasks{rest})", cancelled.member_count);
    }
    Ok(())
}

/// Tells what became of each member of a cancelled flow.
async fn receipt(client: &Client, json: bool, id: &FlowId) -> Result<(), Failure> {
    let members = client.members(id).await?;
    if json {
        for member in &members {
            say!("{}", serde_json::to_string(member)?);
        }
        return Ok(());
    }
    let mut table = Table::new(&["task", "state", "what"]);
    for member in &members {
        table.row([label(member), member.public_state.to_string(), what_happened(member)]);
    }
    say!("{table}");
    Ok(())
}

fn what_happened(member: &FlowMember) -> String {
    match (member.cancelled_by.as_deref(), member.fenced_until) {
        (Some("flow_cascade"), Some(until)) if member.attempt_count > 0 => {
            let until = time::moment(until);
            format!("stopped; its worker may not know of it until {until}")
        }
        (Some("flow_cascade"), _) => "stopped".to_owned(),
        _ => "had ended".to_owned(),
    }
}
