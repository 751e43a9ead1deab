//! `flowfabric get`: everything about executions, with input, result, attempts and history.

use ff_core::bytes::Base64;
use ff_core::contracts::{Attempts, History};
use ff_sdk::{Client, EngineError, ExecutionRef, ExecutionSnapshot, PublicState, SdkError};

use crate::excerpt::excerpt;
use crate::failure::Failure;
use crate::history;
use crate::policy;
use crate::remote::{Remote, block_on};
use crate::time;

/// What stands behind a name in a line of 80 columns.
const VALUE_MAX: usize = 67;

/// Which executions to show.
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
            let whole = Whole::read(&client, *name).await?;
            if json {
                say!("{}", whole.json()?);
            } else {
                let gap = if index > 0 { "\n" } else { "" };
                let name = client.connection().shortest(whole.snapshot.execution_id);
                say!("{gap}{}", whole.text(name));
            }
        }
        Ok(())
    })
}

/// All that is known about an execution.
struct Whole {
    snapshot: ExecutionSnapshot,
    input: Vec<u8>,
    result: Option<Vec<u8>>,
    attempts: Attempts,
    history: History,
    /// Why nobody takes it, if nobody can.
    without_worker: Option<String>,
}

impl Whole {
    async fn read(client: &Client, name: ExecutionRef) -> Result<Self, Failure> {
        let found = client.describe(name).await?;
        let Some(snapshot) = found else { return Err(not_there(client, name).await) };
        let (engine, id) = (client.connection().engine(), snapshot.execution_id);
        let context = |error: EngineError| SdkError::from(error.in_context("get"));
        let input = engine.read_payload(id).await.map_err(context)?.unwrap_or_default();
        let result = match snapshot.public_state() {
            PublicState::Completed => engine.read_result(id).await.map_err(context)?,
            _ => None,
        };
        let attempts = history::read_attempts(client, name).await?;
        let history = history::read_history(client, name).await?;
        let is_free = snapshot.current_lease.is_none();
        let without_worker = match snapshot.public_state() {
            PublicState::Waiting | PublicState::Active if is_free => {
                client.without_worker(name).await?
            }
            _ => None,
        };
        Ok(Self { snapshot, input, result, attempts, history, without_worker })
    }

    fn json(&self) -> serde_json::Result<String> {
        let mut whole = serde_json::to_value(&self.snapshot)?;
        put_bytes(&mut whole, "input", Some(&self.input))?;
        put_bytes(&mut whole, "result", self.result.as_deref())?;
        whole["attempts"] = serde_json::to_value(&self.attempts.attempts)?;
        whole["history"] = serde_json::to_value(&self.history)?;
        if let Some(trouble) = &self.without_worker {
            whole["without_worker"] = trouble.as_str().into();
        }
        serde_json::to_string(&whole)
    }

    fn text(&self, name: ExecutionRef) -> String {
        let mut lines = vec![text(name, &self.snapshot)];
        lines.extend(self.without_worker.as_ref().map(|trouble| line("but", trouble)));
        let mut add = |name: &str, bytes: &[u8]| lines.push(line(name, &excerpt(bytes)));
        add("input", &self.input);
        if let Some(result) = &self.result {
            add("result", result);
        }
        if !self.attempts.attempts.is_empty() {
            lines.push(format!("\n{}", history::attempt_table(&self.attempts.attempts)));
        }
        lines.push(format!("\n{}", history::timeline(&self.history, Some(&self.snapshot))));
        lines.join("\n")
    }
}

/// Bytes under `name_text` if they are text, else under `name_base64`.
fn put_bytes(
    whole: &mut serde_json::Value,
    name: &str,
    bytes: Option<&[u8]>,
) -> serde_json::Result<()> {
    let Some(bytes) = bytes else { return Ok(()) };
    let (form, value) = match std::str::from_utf8(bytes) {
        Ok(text) => ("text", text.into()),
        Err(_) => ("base64", serde_json::to_value(Base64(bytes.to_vec()))?),
    };
    whole[format!("{name}_{form}")] = value;
    Ok(())
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<12} {value}")
}

/// For a person who mistyped an id, or came too late.
pub(crate) fn missing(name: ExecutionRef) -> Failure {
    let advice = name.advice().map(|advice| format!("\n({advice})")).unwrap_or_default();
    let reason = "it never was, or its retention is over";
    Failure::from(format!("there is no execution {name}: {reason}{advice}"))
}

/// The same, unless the id is that of a flow: it looks like any other.
async fn not_there(client: &Client, name: ExecutionRef) -> Failure {
    if let Ok(flow) = name.to_string().parse()
        && let Ok(Some(_)) = client.describe_flow(&flow).await
    {
        return Failure::from(format!("{name} is a flow: see `flowfabric flow show {name}`"));
    }
    missing(name)
}

fn text(name: ExecutionRef, snapshot: &ExecutionSnapshot) -> String {
    let mut lines = vec![
        ("execution", name.to_string()),
        ("kind", snapshot.kind.to_string()),
        ("lane", snapshot.lane.to_string()),
        ("namespace", snapshot.namespace.to_string()),
        ("state", snapshot.public_state().to_string()),
    ];
    lines.extend(because(snapshot).map(|because| ("because", because)));
    if !snapshot.creator.is_empty() {
        lines.push(("creator", snapshot.creator.clone()));
    }
    if snapshot.priority > 0 {
        lines.push(("priority", snapshot.priority.to_string()));
    }
    lines.extend(attempts(snapshot));
    lines.extend(times(snapshot));
    if let Some(lease) = &snapshot.current_lease {
        let until = time::moment(lease.expires_at);
        lines.push(("held by", format!("{} until {until}", lease.worker_instance_id)));
    }
    lines.extend(hold(snapshot).map(|hold| ("hold", hold)));
    lines.extend(progress(snapshot).map(|progress| ("progress", progress)));
    if let Some(failure) = &snapshot.failure {
        lines.push(("failure", format!("{} ({})", failure.reason, failure.category)));
    }
    if let Some(cancel) = &snapshot.cancel {
        let by = history::canceller(&cancel.cancelled_by);
        let reason = if cancel.reason.is_empty() { "no reason was given" } else { &cancel.reason };
        lines.push(("cancelled", format!("{reason} (by {by})")));
    }
    lines.extend(policy_lines(snapshot));
    lines.extend(snapshot.tags.iter().map(|(name, value)| ("tag", format!("{name} = {value}"))));
    let lines = lines.into_iter().map(|(name, value)| line(name, &value));
    lines.collect::<Vec<_>>().join("\n")
}

/// What it waits for. What is delayed says so below, as a time that people can read.
fn because(snapshot: &ExecutionSnapshot) -> Option<String> {
    if snapshot.public_state() != PublicState::Suspended {
        return snapshot.blocking_detail.clone().filter(|_| snapshot.delay_until.is_none());
    }
    let wait = snapshot.suspensions.iter().find(|wait| wait.closed_at.is_none())?;
    let until = wait.timeout_at.map(|at| format!(", until {}", time::moment(at)));
    Some(format!("{}{}", wait.reason.replace('_', " "), until.unwrap_or_default()))
}

/// The policy that holds, in lines of 80 columns.
fn policy_lines(snapshot: &ExecutionSnapshot) -> Vec<(&'static str, String)> {
    let Some(json) = &snapshot.effective_policy_json else { return Vec::new() };
    // A newer server may know more of a policy.
    let Ok(flags) = serde_json::from_str(json).and_then(policy::in_force) else {
        return vec![("policy", json.clone())];
    };
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    for flag in flags {
        match lines.last_mut() {
            Some((_, line)) if line.len() + flag.len() < VALUE_MAX => {
                line.push(' ');
                line.push_str(&flag);
            }
            Some(_) => lines.push(("", flag)),
            None => lines.push(("policy", flag)),
        }
    }
    lines
}

/// A hold that does not keep it from running yet; one that does is what it waits for.
fn hold(snapshot: &ExecutionSnapshot) -> Option<String> {
    let hold = snapshot.hold.as_ref()?;
    if snapshot.state.blocking_reason == hold.blocking_reason {
        return None;
    }
    let by = if hold.requested_by.is_empty() { "somebody" } else { &hold.requested_by };
    let reason = if hold.reason.is_empty() { String::new() } else { format!(": {}", hold.reason) };
    Some(format!("by {by}, from when it could be claimed next{reason}"))
}

fn attempts(snapshot: &ExecutionSnapshot) -> Option<(&'static str, String)> {
    let counts = [
        (snapshot.retry_count, "retries"),
        (snapshot.reclaim_count, "taken over"),
        (snapshot.replay_count, "replays"),
    ];
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let notes: Vec<String> = some.map(|(count, what)| format!("{what} {count}")).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    Some(("attempts", format!("{}{notes}", snapshot.total_attempt_count)))
}

fn times(snapshot: &ExecutionSnapshot) -> impl Iterator<Item = (&'static str, String)> {
    let times = [
        ("created", Some(snapshot.created_at)),
        ("not before", snapshot.delay_until.filter(|_| snapshot.completed_at.is_none())),
        ("started", snapshot.started_at),
        ("deadline", snapshot.deadline_at),
        ("ended", snapshot.completed_at),
    ];
    times.into_iter().filter_map(|(name, at)| Some((name, time::moment(at?))))
}

/// How far its worker says it is.
pub(crate) fn progress(snapshot: &ExecutionSnapshot) -> Option<String> {
    let progress = snapshot.progress.as_ref()?;
    let percent = progress.percent.map(|percent| format!("{percent} %"));
    let parts = [percent, progress.message.clone()];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("  "))
}
