//! `flowfabric waits`: what waits for whom, since when and until when.

use ff_sdk::{Client, ListSuspended, SuspendedExecutionEntry, TimestampMs};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::table::Table;
use crate::time;

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
        if !found.is_empty() {
            say!("{}", table(&client, &found, time::now()));
        }
        eprintln!("{}", conclusion(found.len(), complete));
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

fn conclusion(count: usize, complete: bool) -> String {
    match (count, complete) {
        (0, true) => "nothing waits".to_owned(),
        (1, true) => "1 execution waits".to_owned(),
        (count, true) => format!("{count} executions wait"),
        (count, false) => format!("{count} of those that wait; see more with --limit"),
    }
}

fn table(client: &Client, found: &[SuspendedExecutionEntry], now: TimestampMs) -> Table {
    let mut table = Table::new(&["execution", "kind", "for", "since", "until"]);
    for entry in found {
        let until = entry.timeout_at.map(|at| format!("in {}", time::between(now, at)));
        table.row([
            client.connection().shortest(entry.execution_id).to_string(),
            cut(entry.kind.as_str(), KIND_MAX),
            cut(waited_for(entry), REASON_MAX),
            format!("{} ago", time::between(entry.suspended_at_ms, now)),
            until.unwrap_or_else(|| "ever".to_owned()),
        ]);
    }
    table
}

/// The key that somebody gave the waitpoint; else, why the execution waits.
fn waited_for(entry: &SuspendedExecutionEntry) -> &str {
    if entry.waitpoint_key.starts_with(NO_KEY) {
        return entry.reason.strip_prefix("waiting_for_").unwrap_or(&entry.reason);
    }
    &entry.waitpoint_key
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_and_say_so() {
        assert_eq!(cut("approval", 8), "approval");
        assert_eq!(cut("approvals", 8), "approva…");
        assert_eq!(cut("éééé", 3), "éé…");
    }
}
