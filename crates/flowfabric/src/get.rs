//! `flowfabric get`: everything about executions but their bytes.

use ff_sdk::{ExecutionRef, ExecutionSnapshot};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::time;

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
            let found = client.describe(*name).await?;
            let snapshot = found.ok_or_else(|| missing(*name))?;
            if json {
                say!("{}", serde_json::to_string(&snapshot)?);
            } else {
                let gap = if index > 0 { "\n" } else { "" };
                let name = client.connection().shortest(snapshot.execution_id);
                say!("{gap}{}", text(name, &snapshot));
            }
        }
        Ok(())
    })
}

/// For a person who mistyped an id, or came too late.
pub(crate) fn missing(name: ExecutionRef) -> Failure {
    let advice = name.advice().map(|advice| format!("\n({advice})")).unwrap_or_default();
    let reason = "it never was, or its retention is over";
    Failure::from(format!("there is no execution {name}: {reason}{advice}"))
}

fn text(name: ExecutionRef, snapshot: &ExecutionSnapshot) -> String {
    let mut lines = vec![
        ("execution", name.to_string()),
        ("kind", snapshot.kind.to_string()),
        ("lane", snapshot.lane.to_string()),
        ("namespace", snapshot.namespace.to_string()),
        ("state", snapshot.public_state().to_string()),
    ];
    // What is delayed says so below, as a time that people can read.
    let detail = snapshot.blocking_detail.clone().filter(|_| snapshot.delay_until.is_none());
    lines.extend(detail.map(|detail| ("because", detail)));
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
        lines.push(("cancelled", cancel.reason.clone()));
    }
    lines.extend(snapshot.policy_json.clone().map(|policy| ("policy", policy)));
    lines.extend(snapshot.tags.iter().map(|(name, value)| ("tag", format!("{name} = {value}"))));
    let lines = lines.into_iter().map(|(name, value)| format!("{name:<12} {value}"));
    lines.collect::<Vec<_>>().join("\n")
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
