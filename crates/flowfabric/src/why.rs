//! `flowfabric why`: why executions do not run, and since when.

use ff_core::state::BlockingReason;
use ff_sdk::{
    Client, Code, EngineError, ExecutionId, ExecutionRef, Explanation, LaneId, SdkError,
    TimestampMs, Why,
};

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
        Why::Suspended {
            blocking_reason,
            waitpoint_key,
            signal_names,
            signal_count,
            timeout_at,
            ..
        } => {
            let signals = if *signal_count == 1 { "signal" } else { "signals" };
            let on = format!("{waitpoint_key}, {signal_count} {signals} so far");
            let mut lines = vec![("waits on", on)];
            lines.extend(timeout_at.map(|at| ("until", until(of.now, at))));
            let id = client.connection().shortest(of.execution_id);
            match blocking_reason {
                BlockingReason::WaitingForApproval => {
                    lines.push(("to go on", format!("flowfabric approve {id}")));
                }
                BlockingReason::WaitingForSignal => {
                    let name = signal_names.first().map_or("NAME", String::as_str);
                    lines.push(("to go on", format!("flowfabric signal {id} {}", word(name))));
                }
                _ => {}
            }
            lines
        }
        Why::Budget { budget_id, dimension, opens_at, holders, .. } => {
            let raise = |of: &String| format!("flowfabric budget set {budget_id} --hard {of}=N");
            let raise = dimension.as_ref().map(|of| ("to go on", raise(of)));
            held_up(client, of, *opens_at, holders).chain(raise).collect()
        }
        Why::Quota { opens_at, holders, .. } => held_up(client, of, *opens_at, holders).collect(),
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
            near.chain([to_serve(of, required.iter().map(|name| ("--capability", name)))]).collect()
        }
        Why::LanePaused => {
            vec![("to go on", format!("flowfabric lane resume {}", of.lane))]
        }
        Why::Held { .. } => {
            let id = client.connection().shortest(of.execution_id);
            vec![("to go on", format!("flowfabric release {id}"))]
        }
        Why::NoWorkerInNamespace { namespace, .. } => {
            vec![to_serve(of, [("--namespace", namespace.as_str())].into_iter())]
        }
        Why::NoWorkerInLane { .. } | Why::NoWorkerForKind { .. } => {
            vec![to_serve(of, std::iter::empty())]
        }
        _ => Vec::new(),
    }
}

/// When a gate opens, and who runs behind it.
fn held_up<'a>(
    client: &'a Client,
    of: &Explanation,
    opens_at: Option<TimestampMs>,
    holders: &'a [ExecutionId],
) -> impl Iterator<Item = (&'static str, String)> + 'a {
    let opens = opens_at.map(|at| ("opens", until(of.now, at)));
    let shortest = |id: &ExecutionId| client.connection().shortest(*id).to_string();
    opens.into_iter().chain(holders.iter().map(move |id| ("held by", shortest(id))))
}

/// The worker that could take it.
fn to_serve<'a>(
    of: &'a Explanation,
    more: impl Iterator<Item = (&'static str, &'a str)>,
) -> (&'static str, String) {
    let mut command = format!("flowfabric worker run --kind {}", word(of.kind.as_str()));
    let lane = (of.lane != LaneId::default()).then(|| ("--lane", of.lane.as_str()));
    for (flag, value) in lane.into_iter().chain(more) {
        command += &format!(" {flag} {}", word(value));
    }
    ("to go on", command + " -- PROGRAM")
}

/// A word as a shell takes it.
fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,:/@+=%".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn until(now: TimestampMs, at: TimestampMs) -> String {
    format!("{} (in {})", time::moment(at), time::span(now, at))
}
