//! `flow replay`: what failed in a flow is run again.

use std::collections::BTreeMap;

use ff_core::contracts::ReplayExecution;
use ff_sdk::{Client, Code, EngineError, ExecutionId, FlowId, FlowMember, PublicState};
use serde::Serialize;

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
    /// Why; it is kept with the tasks.
    #[arg(long, default_value = "")]
    reason: String,
}

/// What became of the tasks.
#[derive(Default, Serialize)]
struct Replayed {
    replayed: Vec<ExecutionId>,
    refused: Vec<Refused>,
}

/// A task that cannot run again.
#[derive(Serialize)]
struct Refused {
    execution_id: ExecutionId,
    reason: String,
}

/// One by one, in the order in which they came: what waited for a task that runs again may have to
/// wait for it again. If it breaks off, a repetition replays the rest.
pub(super) async fn run(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let Options { id, reason, .. } = options;
    let members = client.members(id).await.map_err(|error| explain(id, &error))?;
    let mut told = Replayed::default();
    for member in members.iter().filter(|member| went_wrong(member.public_state)) {
        match replay(client, member.execution_id, reason).await {
            Ok(()) => told.replayed.push(member.execution_id),
            // Another one that runs again has taken its end back already.
            Err(error) if error.code() == Some(Code::ExecutionNotTerminal) => {}
            Err(error) if error.code().is_some() => told
                .refused
                .push(Refused { execution_id: member.execution_id, reason: error.to_string() }),
            Err(error) => return Err(error.in_context("replay").into()),
        }
    }
    if json {
        say!("{}", serde_json::to_string(&told)?);
    } else if told.replayed.is_empty() && told.refused.is_empty() {
        eprintln!("nothing of it has failed");
    } else {
        say!("{}", table(&told, &members));
    }
    match told.refused.len() {
        0 => Ok(()),
        count => Err(Failure::from(format!("{count} tasks cannot run again"))),
    }
}

fn went_wrong(state: PublicState) -> bool {
    matches!(state, PublicState::Failed | PublicState::Expired | PublicState::Cancelled)
}

async fn replay(client: &Client, id: ExecutionId, reason: &str) -> Result<(), EngineError> {
    let (reason, requested_by) = (reason.to_owned(), "cli".to_owned());
    let request = ReplayExecution { reason, requested_by, ..ReplayExecution::default() };
    client.connection().engine().replay(id, request).await.map(drop)
}

fn table(told: &Replayed, members: &[FlowMember]) -> Table {
    let again = told.replayed.iter().map(|id| (*id, "runs again".to_owned()));
    let refused = told
        .refused
        .iter()
        .map(|one| (one.execution_id, format!("cannot run again: {}", one.reason)));
    let mut what: BTreeMap<ExecutionId, String> = again.chain(refused).collect();
    let mut table = Table::new(&["task", "what"]);
    for member in members {
        if let Some(what) = what.remove(&member.execution_id) {
            table.row([graph::label(member), what]);
        }
    }
    table
}
