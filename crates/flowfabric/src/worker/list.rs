//! `flowfabric worker ls`: who is there, and who runs what.

use std::collections::BTreeMap;

use ff_sdk::{
    Client, ExecutionSummary, ListFilter, PublicState, TimestampMs, WorkerInstanceId, WorkerRecord,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::table::{Table, cut};
use crate::{output, time};

/// The widest cells of people's own words: with the others a line has 80 columns.
const NAME_MAX: usize = 22;
const LANES_MAX: usize = 12;
const KINDS_MAX: usize = 14;
const ABLE_MAX: usize = 10;

/// How much to list of what runs.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many running executions to list at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// A worker with what it runs, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    worker: &'a WorkerRecord,
    executions: Vec<&'a ExecutionSummary>,
}

pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let workers = client.workers().await?;
        let (running, complete) = running(&client, options.limit).await?;
        if json {
            for worker in &workers {
                let of = |one: &&ExecutionSummary| is_of(one, worker);
                let executions = running.iter().filter(of).collect();
                say!("{}", serde_json::to_string(&Line { worker, executions })?);
            }
            return Ok(());
        }
        if output::is_quiet() {
            output::ids(workers.iter().map(|worker| &worker.worker_instance_id));
            return Ok(());
        }
        if !workers.is_empty() {
            say!("{}", who(&workers, &running, time::now()));
        }
        if !running.is_empty() {
            say!("\n{}", what(&client, &workers, &running));
        }
        note!("{}", conclusion(workers.len(), running.len(), complete));
        Ok(())
    })
}

/// What runs, as many as are wanted, and whether that is all.
async fn running(client: &Client, limit: usize) -> Result<(Vec<ExecutionSummary>, bool), Failure> {
    let filter = ListFilter { state: Some(PublicState::Active), ..ListFilter::default() };
    let (mut listing, mut found) = (client.list(filter), Vec::new());
    while found.len() < limit {
        match listing.next_page().await? {
            Some(page) => found.extend(page),
            None => return Ok((found, true)),
        }
    }
    let complete = found.len() <= limit;
    found.truncate(limit);
    Ok((found, complete))
}

fn is_of(execution: &ExecutionSummary, worker: &WorkerRecord) -> bool {
    execution.worker_instance_id.as_ref() == Some(&worker.worker_instance_id)
}

fn who(workers: &[WorkerRecord], running: &[ExecutionSummary], now: TimestampMs) -> Table {
    let mut counts: BTreeMap<&WorkerInstanceId, u32> = BTreeMap::new();
    for instance in running.iter().filter_map(|one| one.worker_instance_id.as_ref()) {
        *counts.entry(instance).or_default() += 1;
    }
    let mut table = Table::new(&["worker", "runs", "lanes", "kinds", "can", "up"]);
    for worker in workers {
        // What is listed as running is newer than what the worker said last.
        let counted = counts.get(&worker.worker_instance_id).copied();
        let runs = counted.or(worker.running).unwrap_or(0);
        let most = worker.capacity.map(|most| format!("/{most}")).unwrap_or_default();
        table.row([
            cut(worker.worker_instance_id.as_str(), NAME_MAX),
            format!("{runs}{most}"),
            cut(&joined(&worker.lanes), LANES_MAX),
            cut(&any_or(joined(&worker.kinds)), KINDS_MAX),
            cut(&worker.capabilities.csv(), ABLE_MAX),
            time::between(worker.registered_at, now),
        ]);
    }
    table
}

fn joined<T: ToString>(names: &[T]) -> String {
    names.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// Who names no kind takes any.
fn any_or(kinds: String) -> String {
    if kinds.is_empty() { "any".to_owned() } else { kinds }
}

fn what(client: &Client, workers: &[WorkerRecord], running: &[ExecutionSummary]) -> Table {
    let mut table = Table::new(&["execution", "kind", "by"]);
    for execution in running {
        let by = execution.worker_instance_id.as_ref().map(WorkerInstanceId::as_str);
        let by = by.unwrap_or("nobody");
        table.row([
            client.connection().shortest(execution.execution_id).to_string(),
            cut(execution.kind.as_str(), KINDS_MAX),
            match workers.iter().any(|worker| is_of(execution, worker)) {
                true => cut(by, NAME_MAX),
                false => format!("gone: {}", cut(by, NAME_MAX - 2)),
            },
        ]);
    }
    table
}

fn conclusion(workers: usize, running: usize, complete: bool) -> String {
    let workers = match workers {
        0 => "no worker is connected".to_owned(),
        1 => "1 worker".to_owned(),
        many => format!("{many} workers"),
    };
    let more = if complete { "" } else { " or more; see them with --limit" };
    match running {
        0 => format!("{workers}, nothing runs"),
        1 => format!("{workers}, 1 execution runs{more}"),
        many => format!("{workers}, {many} executions run{more}"),
    }
}
