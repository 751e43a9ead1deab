//! `flowfabric why`: why executions do not run, and since when.

use ff_core::state::BlockingReason;
use ff_sdk::{Client, Code, EngineError, ExecutionRef, Explanation, SdkError, TimestampMs, Why};

use crate::failure::Failure;
use crate::get::missing;
use crate::remote::{Remote, block_on};
use crate::time;

/// Which executions.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The execution; several may be given.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<ExecutionRef>,
}

pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        for (index, name) in options.ids.iter().enumerate() {
            let explained = client.why(*name).await.map_err(|error| explain(*name, &error))?;
            if json {
                say!("{}", serde_json::to_string(&explained)?);
            } else {
                let gap = if index > 0 { "\n" } else { "" };
                say!("{gap}{}", text(&client, &explained));
            }
        }
        Ok(())
    })
}

fn explain(name: ExecutionRef, error: &SdkError) -> Failure {
    match error.engine().and_then(EngineError::code) {
        Some(Code::ExecutionNotFound) => missing(name),
        _ => Failure::of(error),
    }
}

fn text(client: &Client, of: &Explanation) -> String {
    let mut lines = vec![
        ("execution", client.connection().shortest(of.execution_id).to_string()),
        ("kind", format!("{} in lane {}", of.kind, of.lane)),
        ("state", of.public_state.to_string()),
        ("why", summary(client, of)),
        ("since", format!("{} ({} ago)", time::moment(of.since), time::between(of.since, of.now))),
    ];
    lines.extend(details(client, of));
    if let Some(hold) = &of.held_next {
        let by = if hold.requested_by.is_empty() { "somebody" } else { &hold.requested_by };
        lines.push(("then", format!("held by {by}, from when it could be claimed next")));
    }
    lines.extend(of.deadline_at.map(|at| ("deadline", until(of.now, at))));
    let lines = lines.into_iter().map(|(name, value)| format!("{name:<12} {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The sentence, with ids as they are given back.
fn summary(client: &Client, of: &Explanation) -> String {
    let other = match &of.why {
        Why::Singleton { execution_id } => Some(*execution_id),
        Why::Dependencies { open, .. } => open.first().map(|first| first.execution_id),
        _ => None,
    };
    let short = |id| client.connection().shortest(id).to_string();
    other.map_or(of.summary.clone(), |id| of.summary.replace(&id.to_string(), &short(id)))
}

/// What the sentence leaves out: times, names and advice.
fn details(client: &Client, of: &Explanation) -> Vec<(&'static str, String)> {
    match &of.why {
        Why::Delayed { until: at, .. } => vec![("until", until(of.now, *at))],
        Why::Dependencies { open, .. } => {
            let shown = open.iter().map(|up| {
                let id = client.connection().shortest(up.execution_id);
                ("waits for", format!("{id} {} ({})", up.name, up.public_state))
            });
            shown.collect()
        }
        Why::Suspended { blocking_reason, waitpoint_key, signal_count, timeout_at, .. } => {
            let mut lines = vec![("waits on", format!("{waitpoint_key}, {signal_count} signals"))];
            lines.extend(timeout_at.map(|at| ("until", until(of.now, at))));
            let id = client.connection().shortest(of.execution_id);
            match blocking_reason {
                BlockingReason::WaitingForApproval => {
                    lines.push(("to go on", format!("flowfabric approve {id}")));
                }
                BlockingReason::WaitingForSignal => {
                    lines.push(("to go on", format!("flowfabric signal {id} NAME, or approve")));
                }
                _ => {}
            }
            lines
        }
        Why::Budget { opens_at, holders, .. } | Why::Quota { opens_at, holders, .. } => {
            let opens = opens_at.map(|at| ("opens", until(of.now, at)));
            let shortest = |id: &ff_sdk::ExecutionId| client.connection().shortest(*id).to_string();
            let holders = holders.iter().map(|id| ("held by", shortest(id)));
            opens.into_iter().chain(holders).collect()
        }
        Why::Reserved { until: at, .. } => vec![("until", until(of.now, *at))],
        Why::Running { lease_expires_at, heard_at, .. } => {
            let heard = heard_at.map(|at| format!("{} ago", time::span(at, of.now)));
            let lease = ("lease", until(of.now, *lease_expires_at));
            heard.map(|heard| ("heard of", heard)).into_iter().chain([lease]).collect()
        }
        Why::NoCapableWorker { nearest, required } => {
            let near = |one: &ff_sdk::NearWorker| {
                format!("{} lacks {}", one.worker_instance_id, one.missing.join(", "))
            };
            let near = nearest.iter().map(|one| ("nearest", near(one)));
            let flags = required.iter().map(|name| format!("--capability {name}"));
            let flags = flags.collect::<Vec<_>>().join(" ");
            near.chain([("to go on", format!("start a worker with {flags}"))]).collect()
        }
        Why::LanePaused => {
            vec![("to go on", format!("flowfabric lane resume {}", of.lane))]
        }
        Why::Held { .. } => {
            let id = client.connection().shortest(of.execution_id);
            vec![("to go on", format!("flowfabric release {id}"))]
        }
        Why::NoWorkerInNamespace { namespace, .. } => {
            let what = format!("start a worker with --namespace {namespace}, or without any");
            vec![("to go on", what)]
        }
        Why::NoWorkerInLane { .. } | Why::NoWorkerForKind { .. } => {
            vec![("to go on", worker_of(of))]
        }
        _ => Vec::new(),
    }
}

/// The command that starts a worker for it.
fn worker_of(of: &Explanation) -> String {
    let lane = of.lane.as_str();
    let lane = if lane == "default" { String::new() } else { format!(" --lane {lane}") };
    format!("flowfabric worker run --kind {}{lane} -- PROGRAM", of.kind)
}

fn until(now: TimestampMs, at: TimestampMs) -> String {
    format!("{} (in {})", time::moment(at), time::span(now, at))
}
