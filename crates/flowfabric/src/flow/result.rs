//! `flow result`: what a task of a flow gave.

use ff_sdk::{Client, FlowId};

use super::{explain, graph};
use crate::failure::{EXIT_CODES, Failure};
use crate::result;
use crate::wait::Wait;

/// Which task, and whether to wait for it.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Options {
    /// The flow.
    #[arg(value_name = "ID")]
    id: FlowId,
    /// The name of the task.
    task: String,
    #[command(flatten)]
    wait: Wait,
}

pub(super) async fn run(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let Options { id, task, wait } = options;
    let members = client.members(id).await.map_err(|error| explain(id, &error))?;
    let member = members.iter().find(|member| graph::label(member) == *task);
    let member = member.ok_or_else(|| format!("flow {id} has no task {task:?}"))?;
    result::print(client, member.execution_id.into(), wait.limit(), json).await
}
