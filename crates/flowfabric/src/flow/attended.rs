//! The wait of a person for a flow: they are told of a task that nobody serves, and may leave.

use std::pin::pin;

use ff_sdk::{Client, FlowId, PublicState};
use tokio::time::sleep;

use super::graph::{Graph, label};
use super::show::await_end;
use crate::failure::Failure;
use crate::result::PATIENCE;
use crate::signals::Signals;

/// Waits until the last member of a flow has ended.
pub(super) async fn wait(client: &Client, id: &FlowId) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let (mut ended, mut unserved) = (pin!(await_end(client, id)), pin!(unserved(client, id)));
    let mut is_told = false;
    loop {
        tokio::select! {
            ended = &mut ended => return ended.map(|_| ()),
            task = &mut unserved, if !is_told => {
                is_told = true;
                if let Some(task) = task {
                    note!("{task}; still waiting");
                }
            }
            () = signals.next() => return Err(left_alone(id)),
        }
    }
}

/// A task that no worker takes after a while, and why.
async fn unserved(client: &Client, id: &FlowId) -> Option<String> {
    sleep(PATIENCE).await;
    // The wait itself says what is wrong with the server.
    let graph = Graph::read(client, id).await.ok()??;
    let task = graph.members.iter().find(|one| one.public_state == PublicState::Waiting)?;
    let trouble = client.without_worker(&task.execution_id).await.ok()??;
    Some(format!("task {}: {trouble}", label(task)))
}

fn left_alone(id: &FlowId) -> Failure {
    Failure::interrupted_with(format!(
        "flow {id} goes on; come back to it with `flowfabric flow show {id} --wait`"
    ))
}
