//! `flowfabric history` and `flowfabric attempts`: what happened to an execution, and who did it.

use ff_core::contracts::{AttemptRecord, Attempts, Event, History};
use ff_core::state::AttemptLifecycle;
use ff_sdk::{Client, Code, ExecutionRef, ExecutionSnapshot, SdkError};

use crate::failure::Failure;
use crate::get::missing;
use crate::remote::{Remote, block_on};
use crate::table::{Table, cut};
use crate::time;

/// How wide a table is at most.
const WIDTH: usize = 80;
/// The widest cells of people's own words.
const WORKER_MAX: usize = 18;

/// The events that are of a worker's making.
const WORKERS_DO: [&str; 6] =
    ["claimed", "retry_scheduled", "delayed", "suspended", "children_added", "waitpoint_opened"];

/// Which execution.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The execution.
    #[arg(value_name = "ID")]
    id: ExecutionRef,
}

pub(crate) fn history(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let history = read_history(&client, options.id).await?;
        if json {
            for event in &history.events {
                say!("{}", serde_json::to_string(event)?);
            }
            return Ok(());
        }
        let known = client.describe(options.id).await?;
        say!("{}", timeline(&history, known.as_ref()));
        if !history.complete {
            note!("what came before is gone: the log is bounded");
        }
        Ok(())
    })
}

pub(crate) fn attempts(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let Attempts { attempts } = read_attempts(&client, options.id).await?;
        if json {
            for attempt in &attempts {
                say!("{}", serde_json::to_string(attempt)?);
            }
            return Ok(());
        }
        if attempts.is_empty() {
            note!("no attempt was started yet");
        } else {
            say!("{}", attempt_table(&attempts));
        }
        Ok(())
    })
}

pub(crate) async fn read_history(client: &Client, name: ExecutionRef) -> Result<History, Failure> {
    let id = client.connection().resolve(name)?;
    let read = client.connection().engine().read_history(id).await;
    read.map_err(|error| not_read(name, error.in_context("history").into()))
}

pub(crate) async fn read_attempts(
    client: &Client,
    name: ExecutionRef,
) -> Result<Attempts, Failure> {
    let id = client.connection().resolve(name)?;
    let read = client.connection().engine().list_attempts(id).await;
    read.map_err(|error| not_read(name, error.in_context("attempts").into()))
}

fn not_read(name: ExecutionRef, error: SdkError) -> Failure {
    match error.engine().and_then(ff_sdk::EngineError::code) {
        Some(Code::ExecutionNotFound) => missing(name),
        _ => Failure::of(&error),
    }
}

/// Attempts as a table. People count them from 1.
pub(crate) fn attempt_table(attempts: &[AttemptRecord]) -> Table {
    let mut table = Table::new(&["attempt", "began as", "state", "started", "took", "by", "why"]);
    for one in attempts {
        let took = one.ended_at.map(|ended_at| time::span(one.started_at, ended_at));
        let why = one.failure_reason.clone().or_else(|| one.cause.clone()).unwrap_or_default();
        table.row([
            (one.index.get() + 1).to_string(),
            one.attempt_type.to_string(),
            word(one.state).to_owned(),
            time::time_of_day(one.started_at),
            took.unwrap_or_default(),
            cut(one.worker_instance_id.as_str(), WORKER_MAX),
            one_line(&why),
        ]);
    }
    table.fit(WIDTH);
    table
}

/// How an attempt stands, in the words of executions.
fn word(state: AttemptLifecycle) -> &'static str {
    match state {
        AttemptLifecycle::Created => "waiting",
        AttemptLifecycle::Started => "active",
        AttemptLifecycle::Suspended => "suspended",
        AttemptLifecycle::EndedSuccess => "completed",
        AttemptLifecycle::EndedFailure => "failed",
        AttemptLifecycle::EndedCancelled => "cancelled",
        AttemptLifecycle::InterruptedReclaimed => "lost",
    }
}

/// Events as a table; who submitted and who cancelled is told by a description.
pub(crate) fn timeline(history: &History, known: Option<&ExecutionSnapshot>) -> Table {
    let mut table = Table::new(&["time", "event", "attempt", "by", "why"]);
    for event in &history.events {
        let attempt = event.attempt_index.map(|index| (index.get() + 1).to_string());
        table.row([
            time::moment(event.at)[5..].to_owned(),
            event.kind.replace('_', " "),
            attempt.unwrap_or_default(),
            cut(&actor(event, known).unwrap_or_default(), WORKER_MAX),
            reason(event),
        ]);
    }
    table.fit(WIDTH);
    table
}

/// Whether a worker did it. Most else becomes due, or is asked for from outside.
fn is_of_worker(event: &Event) -> bool {
    match event.kind.as_str() {
        "ended" => matches!(reason(event).split(':').next(), Some("completed" | "failed")),
        kind => WORKERS_DO.contains(&kind),
    }
}

/// Who did it, as far as that is told.
fn actor(event: &Event, known: Option<&ExecutionSnapshot>) -> Option<String> {
    let why = event.reason.as_deref().unwrap_or_default();
    match event.kind.as_str() {
        _ if is_of_worker(event) => event.worker_instance_id.as_ref().map(ToString::to_string),
        "created" => known.map(|known| one_line(&known.creator)),
        "ended" if why.starts_with("cancelled") => {
            let cancel = known?.cancel.as_ref()?;
            Some(canceller(&cancel.cancelled_by))
        }
        "replayed" => Some(one_line(why)),
        "parked" | "unparked" | "resumed" => operator(why).map(one_line),
        _ => None,
    }
}

/// Who cancelled an execution, in words; what else there may be is told as it is.
pub(crate) fn canceller(source: &str) -> String {
    match source {
        "operator_override" => "an operator".to_owned(),
        "flow_cascade" => "its flow".to_owned(),
        other => other.replace('_', " "),
    }
}

/// The name behind a reason that is an operator's.
fn operator(why: &str) -> Option<&str> {
    why.strip_prefix("paused_by_operator:").or_else(|| why.strip_prefix("operator:"))
}

/// Why it happened. The end is told as `outcome:cause:lane`.
fn reason(event: &Event) -> String {
    let reason = one_line(event.reason.as_deref().unwrap_or_default());
    match event.kind.as_str() {
        "ended" => {}
        "priority_changed" => return format!("from {reason}"),
        "replayed" => return String::new(),
        "parked" | "unparked" | "resumed" if operator(&reason).is_some() => {
            return reason.split(':').next().unwrap_or_default().replace('_', " ");
        }
        "blocked" | "unblocked" | "parked" | "unparked" | "suspended" => {
            return reason.replace('_', " ");
        }
        _ => return reason,
    }
    let mut parts = reason.split(':');
    let outcome = parts.next().unwrap_or_default();
    match parts.next().filter(|cause| !cause.is_empty() && *cause != outcome) {
        Some(cause) => format!("{outcome}: {}", cause.replace('_', " ")),
        None => outcome.to_owned(),
    }
}

/// What a terminal would obey is left out.
fn one_line(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}
