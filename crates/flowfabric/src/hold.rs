//! `flowfabric hold`, `flowfabric release` and `flowfabric held`.

use ff_core::state::BlockingReason;
use ff_sdk::{
    Client, Code, EngineError, ExecutionRef, ExecutionState, HeldExecution, ListHeld, PublicState,
    SdkError, TimestampMs,
};

use crate::failure::Failure;
use crate::get::missing;
use crate::remote::{Remote, block_on};
use crate::table::{Table, cut};
use crate::{output, time};

/// A page of a server.
const PAGE: u32 = 1000;

/// The widest cells of people's own words: with the others a line has 80 columns.
const KIND_MAX: usize = 10;
const WHO_MAX: usize = 8;
const REASON_MAX: usize = 13;

/// Which executions, who says so, and why.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The execution; several may be given.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<ExecutionRef>,
    /// Why; it is kept with the execution.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    operator: Operator,
}

/// Which executions, and who says so.
#[derive(clap::Args)]
pub(crate) struct ReleaseOptions {
    /// The execution; several may be given.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<ExecutionRef>,
    #[command(flatten)]
    operator: Operator,
}

#[derive(clap::Args)]
struct Operator {
    /// Who says so, for those who look later.
    #[arg(long = "by", value_name = "NAME", env = "USER", hide_env_values = true)]
    #[arg(default_value = "cli")]
    by: String,
}

/// How much to list.
#[derive(clap::Args)]
pub(crate) struct ListOptions {
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Keeps executions from being claimed.
pub(crate) fn hold(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        for name in &options.ids {
            let held = client.hold(*name, &options.operator.by, &options.reason).await;
            let state = held.map_err(|error| explain(*name, &error))?;
            say(&client, json, &state, held_as(state.public_state))?;
        }
        Ok(())
    })
}

/// Lets them be claimed again.
pub(crate) fn release(
    remote: &Remote,
    json: bool,
    options: &ReleaseOptions,
) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        for name in &options.ids {
            let released = client.release(*name, &options.operator.by).await;
            let state = released.map_err(|error| explain(*name, &error))?;
            say(&client, json, &state, &format!("is {}", state.public_state))?;
        }
        Ok(())
    })
}

/// Lists what is held, longest first.
pub(crate) fn list(remote: &Remote, json: bool, options: &ListOptions) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let (mut found, complete) = fetch(&client, options.limit).await?;
        found.sort_by_key(|entry| entry.held_at);
        if json {
            for entry in &found {
                say!("{}", serde_json::to_string(entry)?);
            }
            return Ok(());
        }
        if output::is_quiet() {
            let short = |id| client.connection().shortest(id);
            output::ids(found.iter().map(|entry| short(entry.execution_id)));
            return Ok(());
        }
        if !found.is_empty() {
            say!("{}", table(&client, &found, time::now()));
        }
        note!("{}", conclusion(found.len(), complete));
        Ok(())
    })
}

/// What a hold means for an execution that stands there.
fn held_as(state: PublicState) -> &'static str {
    match state {
        PublicState::Active => "runs; it is held when this attempt is over, unless that ends it",
        PublicState::Suspended => "is suspended; it is held when its wait is over",
        PublicState::WaitingChildren => "waits for others; it is held when they are done",
        _ => "is held",
    }
}

fn say(client: &Client, json: bool, state: &ExecutionState, what: &str) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::to_string(state)?);
    } else {
        say!("{} {what}", client.connection().shortest(state.execution_id));
    }
    Ok(())
}

fn explain(name: ExecutionRef, error: &SdkError) -> Failure {
    match error.engine().and_then(EngineError::code) {
        Some(Code::ExecutionNotFound) => missing(name),
        Some(Code::ExecutionNotActive) => Failure::from(format!("{name} has ended")),
        _ => Failure::of(error),
    }
}

/// As many as are wanted, and whether those are all.
async fn fetch(client: &Client, limit: usize) -> Result<(Vec<HeldExecution>, bool), Failure> {
    let (mut found, mut cursor) = (Vec::new(), None);
    while found.len() < limit {
        let wanted = u32::try_from(limit - found.len()).unwrap_or(PAGE).min(PAGE);
        let query = ListHeld { partition: None, cursor, limit: Some(wanted) };
        let page = client.list_held(query).await?;
        // What waits for its turn under a singleton key is nothing that somebody could release.
        let by_operator =
            |one: &HeldExecution| one.blocking_reason == BlockingReason::PausedByOperator;
        found.extend(page.entries.into_iter().filter(by_operator));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((found, true));
        }
    }
    Ok((found, false))
}

fn table(client: &Client, found: &[HeldExecution], now: TimestampMs) -> Table {
    let mut table = Table::new(&["execution", "kind", "by", "since", "reason"]);
    for entry in found {
        table.row([
            client.connection().shortest(entry.execution_id).to_string(),
            cut(entry.kind.as_str(), KIND_MAX),
            cut(&entry.requested_by, WHO_MAX),
            format!("{} ago", time::between(entry.held_at, now)),
            cut(&entry.reason, REASON_MAX),
        ]);
    }
    table
}

fn conclusion(count: usize, complete: bool) -> String {
    match (count, complete) {
        (0, true) => "nothing is held".to_owned(),
        (1, true) => "1 execution is held".to_owned(),
        (count, true) => format!("{count} executions are held"),
        (count, false) => format!("{count} of those that are held; see more with --limit"),
    }
}
