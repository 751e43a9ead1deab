//! A worker process of the demo: this binary again, with handlers for the demo's kinds. It says
//! what it does on standard output and lives as long as its standard input is open, so that it
//! never outlives the demo.

use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;

use ff_sdk::{
    Condition, Context, ExecutionId, HandleKind, SuspendRequest, SuspensionReason, TaskError,
    Worker,
};
use serde::{Deserialize, Serialize};

use super::{flow, scenarios};
use crate::failure::Failure;
use crate::remote::{Remote, block_on};

/// A lost worker's work is taken over when its lease has lapsed: short, because somebody watches.
const LEASE_TTL: Duration = Duration::from_millis(2000);
const WORK: Duration = Duration::from_millis(60);
/// What the gate waits for.
pub(super) const APPROVED: &str = "approved";
const FOR_EVER: Duration = Duration::from_secs(600);

/// Which worker to be.
#[derive(clap::Args)]
pub(crate) struct DemoWorker {
    /// The name of the worker.
    name: String,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Took,
    Waits,
    Finished,
    Failed,
    RanOutOfTime,
}

/// What a worker tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) execution_id: ExecutionId,
    pub(super) action: Action,
    pub(super) worker: String,
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) attempt: u32,
    /// Whether the attempt follows a lost worker.
    pub(super) taken_over: bool,
}

pub(crate) fn run_worker(remote: &Remote, worker: &DemoWorker) -> Result<(), Failure> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    block_on(async {
        let connection = remote.connect().await?;
        let mut builder = Worker::builder(&worker.name)
            .state(worker.name.clone())
            .connection(&connection)
            .lease_ttl(LEASE_TTL);
        let kinds: BTreeSet<&str> = scenarios::SCENARIOS
            .iter()
            .map(|scenario| scenario.kind)
            .chain(flow::kinds())
            .collect();
        for kind in kinds {
            builder = builder.on_raw(kind, handle);
        }
        builder.build()?.run().await?;
        Ok(())
    })
}

async fn handle(context: Context<String>, payload: Vec<u8>) -> Result<Vec<u8>, TaskError> {
    let title = String::from_utf8_lossy(&payload).into_owned();
    if context.kind() == scenarios::GATE && context.resumed_by().is_none() {
        tell(&context, &title, Action::Waits);
        return Err(TaskError::suspend(approval()));
    }
    tell(&context, &title, Action::Took);
    match context.kind() {
        scenarios::ORPHAN if context.claim_kind() != HandleKind::Reclaimed => hang().await,
        "slow" if context.attempt() == 1 => {
            tell_if_lost(&context, &title);
            hang().await;
        }
        _ => tokio::time::sleep(WORK).await,
    }
    match (context.kind(), context.attempt()) {
        ("flaky", 1 | 2) | ("hopeless", _) => {
            tell(&context, &title, Action::Failed);
            Err(TaskError::retry("the network hiccuped"))
        }
        (flow::POSTER, _) => {
            tell(&context, &title, Action::Failed);
            Err(TaskError::fail("there is no camera here"))
        }
        (flow::JOIN, _) => {
            let joined = joined(&context).await?;
            tell(&context, &title, Action::Finished);
            Ok(joined)
        }
        _ => {
            tell(&context, &title, Action::Finished);
            Ok(format!("{title}, by {}", context.state()).into_bytes())
        }
    }
}

/// What all parts of the clip gave.
async fn joined(context: &Context<String>) -> Result<Vec<u8>, TaskError> {
    let mut parts = Vec::new();
    for input in context.inputs() {
        let part = context.input_raw(&input.name).await.map_err(TaskError::retry)?;
        parts.push(part.unwrap_or_default());
    }
    Ok(parts.join(&b"; "[..]))
}

fn approval() -> SuspendRequest {
    let reason = Some(SuspensionReason::WaitingForApproval);
    SuspendRequest { reason, ..SuspendRequest::new(Condition::any([APPROVED])) }
}

/// Somebody else ends this: the clock, or a SIGKILL.
async fn hang() {
    tokio::time::sleep(FOR_EVER).await;
}

/// The handler itself is dropped with its lease and cannot tell.
fn tell_if_lost(context: &Context<String>, title: &str) {
    let (context, title) = (context.clone(), title.to_owned());
    tokio::spawn(async move {
        context.cancelled().await;
        tell(&context, &title, Action::RanOutOfTime);
    });
}

fn tell(context: &Context<String>, title: &str, action: Action) {
    let report = Report {
        execution_id: context.execution_id(),
        action,
        worker: context.state().clone(),
        kind: context.kind().to_owned(),
        title: title.to_owned(),
        attempt: context.attempt(),
        taken_over: context.claim_kind() == HandleKind::Reclaimed,
    };
    // Nobody listens any more: standard input is closed too, and the process ends.
    let _ = serde_json::to_string(&report).map(|line| say!("{line}"));
}
