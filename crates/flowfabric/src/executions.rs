//! Commands on executions: submit, get, ls, watch, result, cancel, replay.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use ff_sdk::{
    AwaitError, Client, ExecutionId, ExecutionPolicy, ExecutionSnapshot, ExecutionSummary,
    ListFilter, PublicState,
};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::table::Table;
use crate::time;

/// What to submit.
#[derive(clap::Args)]
pub(crate) struct Submit {
    /// The kind of execution: which handler runs it.
    kind: String,
    /// The input: a text, @file, or - for standard input.
    #[arg(long, short, default_value = "")]
    input: String,
    /// The lane to wait in.
    #[arg(long, default_value = "default")]
    lane: String,
    /// The namespace it belongs to.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// 0 to 9000; higher runs first.
    #[arg(long, default_value_t = 0)]
    priority: u16,
    /// Submitting the same key again answers the same execution.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Not before this many milliseconds from now.
    #[arg(long, value_name = "MS")]
    delay_ms: Option<u64>,
    /// The policy as JSON: retries, timeouts, retention, capabilities.
    #[arg(long, value_name = "JSON")]
    policy: Option<String>,
    /// A tag, as in team.name=search; may be given several times.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    /// Wait for the result and print it.
    #[arg(long)]
    wait: bool,
    /// How long to wait with --wait.
    #[arg(long, value_name = "MS", default_value_t = 600_000)]
    timeout_ms: u64,
}

pub(crate) fn submit(remote: &Remote, json: bool, options: &Submit) -> Result<(), Failure> {
    let payload = read_input(&options.input)?;
    block_on(async {
        let client = remote.client().await?;
        let mut submission = client
            .submit_raw(&options.kind, payload)
            .lane(&options.lane)
            .namespace(&options.namespace)
            .priority(options.priority)
            .creator("cli");
        if let Some(key) = &options.idempotency_key {
            submission = submission.idempotency_key(key);
        }
        if let Some(delay_ms) = options.delay_ms {
            submission = submission.delay(Duration::from_millis(delay_ms));
        }
        if let Some(policy) = &options.policy {
            submission = submission.policy(ExecutionPolicy::from_json(policy.as_bytes())?);
        }
        for tag in &options.tags {
            let (name, value) = tag.split_once('=').ok_or("a tag is written NAME=VALUE")?;
            submission = submission.tag(name, value);
        }
        let created = submission.send().await?;
        if options.wait {
            return print_result(&client, created.execution_id(), Some(options.timeout_ms)).await;
        }
        if json {
            println!(
                "{}",
                serde_json::to_string(&ff_api::create::CreatedExecution::from(created))?
            );
        } else {
            println!("{}", created.execution_id());
        }
        Ok(())
    })
}

fn read_input(input: &str) -> Result<Vec<u8>, Failure> {
    if input == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    match input.strip_prefix('@') {
        Some(path) => {
            let path = PathBuf::from(path);
            std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()).into())
        }
        None => Ok(input.as_bytes().to_vec()),
    }
}

pub(crate) fn get(remote: &Remote, json: bool, id: ExecutionId) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let snapshot = client.describe(&id).await?.ok_or("there is no such execution")?;
        if json {
            println!("{}", serde_json::to_string(&ff_api::execution::Execution::from(snapshot))?);
        } else {
            print_snapshot(&snapshot);
        }
        Ok(())
    })
}

fn print_snapshot(snapshot: &ExecutionSnapshot) {
    let line = |name: &str, value: String| println!("{name:<12} {value}");
    line("execution", snapshot.execution_id.to_string());
    line("kind", snapshot.kind.to_string());
    line("lane", snapshot.lane.to_string());
    line("namespace", snapshot.namespace.to_string());
    line("state", snapshot.public_state().to_string());
    if let Some(detail) = &snapshot.blocking_detail {
        line("because", detail.clone());
    }
    line("attempts", snapshot.total_attempt_count.to_string());
    line("created", time::moment(snapshot.created_at));
    if let Some(at) = snapshot.completed_at {
        line("ended", time::moment(at));
    }
    if let Some(lease) = &snapshot.current_lease {
        let until = time::moment(lease.expires_at);
        line("held by", format!("{} until {until}", lease.worker_instance_id));
    }
    if let Some(progress) = &snapshot.progress {
        let percent = progress.percent.map(|percent| format!("{percent} % ")).unwrap_or_default();
        line("progress", percent + progress.message.as_deref().unwrap_or_default());
    }
    if let Some(failure) = &snapshot.failure {
        line("failure", format!("{} ({})", failure.reason, failure.category));
    }
    for (name, value) in &snapshot.tags {
        line("tag", format!("{name} = {value}"));
    }
}

/// Which executions to list.
#[derive(clap::Args, Clone)]
pub(crate) struct Filter {
    /// Only this state: waiting, delayed, active, completed, failed, cancelled, expired.
    #[arg(long)]
    state: Option<PublicState>,
    /// Only this lane.
    #[arg(long)]
    lane: Option<ff_sdk::LaneId>,
    /// Only this kind.
    #[arg(long)]
    kind: Option<ff_sdk::ExecutionKind>,
    /// Only this namespace.
    #[arg(long)]
    namespace: Option<ff_sdk::Namespace>,
    /// How many at most.
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

impl Filter {
    async fn fetch(&self, client: &Client) -> Result<Vec<ExecutionSummary>, Failure> {
        let mut listing = client.list(ListFilter {
            state: self.state,
            lane: self.lane.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            ..ListFilter::default()
        });
        let mut found = Vec::new();
        while found.len() < self.limit {
            let Some(page) = listing.next_page().await? else { break };
            found.extend(page);
        }
        found.sort_by_key(|summary| std::cmp::Reverse(summary.created_at));
        found.truncate(self.limit);
        Ok(found)
    }
}

pub(crate) fn list(remote: &Remote, json: bool, filter: &Filter) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let found = filter.fetch(&client).await?;
        if json {
            for summary in found {
                let row = ff_api::listing::ExecutionSummary::from(summary);
                println!("{}", serde_json::to_string(&row)?);
            }
        } else if found.is_empty() {
            eprintln!("nothing found");
        } else {
            println!("{}", table_of(&found));
        }
        Ok(())
    })
}

fn table_of(found: &[ExecutionSummary]) -> Table {
    let mut table = Table::new(&["execution", "kind", "lane", "state", "attempts", "created"]);
    for summary in found {
        table.row([
            summary.execution_id.to_string(),
            summary.kind.to_string(),
            summary.lane.to_string(),
            summary.public_state.to_string(),
            summary.total_attempt_count.to_string(),
            time::moment(summary.created_at),
        ]);
    }
    table
}

/// Prints the table again and again until it is interrupted.
pub(crate) fn watch(remote: &Remote, filter: &Filter, every_ms: u64) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let live = std::io::stdout().is_terminal();
        loop {
            let found = filter.fetch(&client).await?;
            // Home and clear: the table is drawn over the one before.
            let clear = if live { "\x1b[H\x1b[2J" } else { "" };
            println!("{clear}{}", table_of(&found));
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(()),
                () = tokio::time::sleep(Duration::from_millis(every_ms)) => {}
            }
        }
    })
}

pub(crate) fn result(
    remote: &Remote,
    id: ExecutionId,
    wait_ms: Option<u64>,
) -> Result<(), Failure> {
    block_on(async { print_result(&remote.client().await?, id, wait_ms).await })
}

async fn print_result(
    client: &Client,
    id: ExecutionId,
    wait_ms: Option<u64>,
) -> Result<(), Failure> {
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    match client.await_result_raw(&id, wait).await {
        Ok(bytes) => {
            let mut out = std::io::stdout().lock();
            out.write_all(&bytes)?;
            if out.is_terminal() {
                out.write_all(b"\n")?;
            }
            Ok(out.flush()?)
        }
        Err(AwaitError::TimedOut) => Err(Failure::not_yet("it has not ended yet")),
        Err(error @ AwaitError::NotFound) => Err(error.into()),
        Err(error @ AwaitError::Sdk(_)) => Err(error.into()),
        Err(error) => Err(Failure::unsuccessful(error.to_string())),
    }
}

pub(crate) fn cancel(
    remote: &Remote,
    json: bool,
    id: ExecutionId,
    reason: &str,
) -> Result<(), Failure> {
    block_on(async {
        remote.client().await?.cancel(&id, reason).await?;
        say(json, id, "cancelled");
        Ok(())
    })
}

pub(crate) fn replay(
    remote: &Remote,
    json: bool,
    id: ExecutionId,
    reason: &str,
) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let state = client.connection().engine().replay(id, reason, "cli").await?;
        say(json, id, state.as_str());
        Ok(())
    })
}

fn say(json: bool, id: ExecutionId, state: &str) {
    if json {
        println!("{}", serde_json::json!({ "execution_id": id, "public_state": state }));
    } else {
        println!("{id} is {state}");
    }
}
