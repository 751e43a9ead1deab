//! `flowfabric waits`: what waits for whom, since when and until when.

use ff_sdk::{
    Approval, Approver, Client, Code, ListSuspended, SdkError, SuspendedExecutionEntry, TimestampMs,
};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::table::{Table, cut};
use crate::{output, time};

/// A page of a server.
const PAGE: u32 = 1000;

/// The widest cells of people's own words: with the others a line has 80 columns.
const KIND_MAX: usize = 10;
const REASON_MAX: usize = 11;

/// What the engine calls a waitpoint that nobody gave a key.
const NO_KEY: &str = "wpk:";

/// How much to list.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let (mut found, complete) = fetch(&client, options.limit).await?;
        found.sort_by_key(|entry| entry.suspended_at_ms);
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
            let mut rows = Vec::new();
            for entry in &found {
                rows.push((entry, asked(&client, entry).await?));
            }
            say!("{}", table(&client, &rows, time::now()));
        }
        note!("{}", conclusion(found.len(), complete));
        Ok(())
    })
}

/// As many as are wanted, and whether those are all.
async fn fetch(
    client: &Client,
    limit: usize,
) -> Result<(Vec<SuspendedExecutionEntry>, bool), Failure> {
    let (mut found, mut cursor) = (Vec::new(), None);
    while found.len() < limit {
        let wanted = u32::try_from(limit - found.len()).unwrap_or(PAGE).min(PAGE);
        let query = ListSuspended { partition: None, cursor, limit: Some(wanted) };
        let page = client.list_suspended(query).await?;
        found.extend(page.entries);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((found, true));
        }
    }
    Ok((found, false))
}

/// The approvers whom an execution waits for: those that it names and who have not decided.
async fn asked(client: &Client, entry: &SuspendedExecutionEntry) -> Result<Vec<Approver>, Failure> {
    let listed = client.connection().engine().list_approvals(entry.execution_id).await;
    let approvals = match listed {
        Ok(listed) => listed.approvals,
        // It may be over by now.
        Err(error) if error.code() == Some(Code::ExecutionNotFound) => return Ok(Vec::new()),
        Err(error) => return Err(Failure::of(&SdkError::from(error.in_context("waits")))),
    };
    let waits_on = |one: &Approval| one.open && one.waitpoint_id == entry.waitpoint_id;
    let Some(approval) = approvals.into_iter().find(waits_on) else { return Ok(Vec::new()) };
    let undecided = |one: &&Approver| approval.decision_of(one).is_none();
    Ok(approval.request.approvers.iter().filter(undecided).cloned().collect())
}

fn conclusion(count: usize, complete: bool) -> String {
    match (count, complete) {
        (0, true) => "nothing waits".to_owned(),
        (1, true) => "1 execution waits".to_owned(),
        (count, true) => format!("{count} executions wait"),
        (count, false) => format!("{count} of those that wait; see more with --limit"),
    }
}

fn table(
    client: &Client,
    rows: &[(&SuspendedExecutionEntry, Vec<Approver>)],
    now: TimestampMs,
) -> Table {
    let mut table = Table::new(&["execution", "kind", "for", "since", "until"]);
    for (entry, approvers) in rows {
        let until = entry.timeout_at.map(|at| format!("in {}", time::between(now, at)));
        table.row([
            client.connection().shortest(entry.execution_id).to_string(),
            cut(entry.kind.as_str(), KIND_MAX),
            waited_for(entry, approvers),
            format!("{} ago", time::between(entry.suspended_at_ms, now)),
            until.unwrap_or_else(|| "ever".to_owned()),
        ]);
    }
    table
}

/// Who is to decide; else the key that somebody gave the waitpoint; else, why the execution waits.
fn waited_for(entry: &SuspendedExecutionEntry, approvers: &[Approver]) -> String {
    match approvers {
        [] if entry.waitpoint_key.starts_with(NO_KEY) => {
            let reason = entry.reason.strip_prefix("waiting_for_").unwrap_or(&entry.reason);
            cut(reason, REASON_MAX)
        }
        [] => cut(&entry.waitpoint_key, REASON_MAX),
        [only] => cut(only.as_str(), REASON_MAX),
        [first, others @ ..] => {
            let more = format!(" +{}", others.len());
            cut(first.as_str(), REASON_MAX - more.len()) + &more
        }
    }
}
