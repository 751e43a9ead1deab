//! `flowfabric flow`: graphs of executions, submitted from a file, looked at and cancelled.

mod file;
mod show;

use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use ff_sdk::{
    CancelFlow, CancelFlowPolicy, Client, FlowId, FlowQuery, FlowSnapshot, FlowState, FlowSummary,
};

use crate::failure::Failure;
use crate::input;
use crate::remote::{Remote, block_on};
use crate::table::Table;
use crate::time;

/// A page of a server.
const PAGE: u32 = 1000;

/// How long a wait for a flow may last: the person ends it.
const FOR_EVER: Duration = Duration::MAX;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Submit a whole flow from a file.
    Submit(SubmitOptions),
    /// Show a flow and its tasks.
    Show(ShowOptions),
    /// List flows.
    Ls(ListOptions),
    /// Cancel a flow.
    Cancel(CancelOptions),
}

/// Which flow to submit.
#[derive(clap::Args)]
pub(crate) struct SubmitOptions {
    /// The file, in YAML or JSON; - is standard input. docs/flows.md has the format.
    file: String,
    /// Wait until it has ended.
    #[arg(long)]
    wait: bool,
}

/// Which flow to show.
#[derive(clap::Args)]
pub(crate) struct ShowOptions {
    /// The flow.
    #[arg(value_name = "ID")]
    id: FlowId,
    /// Wait until it has ended.
    #[arg(long)]
    wait: bool,
    /// How to draw it.
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,
}

/// How a flow is drawn.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// As a tree of tasks, each under the first that it waits for.
    Tree,
    /// In the language of Graphviz.
    Dot,
    /// In the language of Mermaid.
    Mermaid,
}

/// How much to list.
#[derive(clap::Args)]
pub(crate) struct ListOptions {
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Which flow to cancel, and how.
#[derive(clap::Args)]
pub(crate) struct CancelOptions {
    /// The flow.
    #[arg(value_name = "ID")]
    id: FlowId,
    /// Which of its executions are cancelled: cancel_all, cancel_pending (those without an
    /// attempt) or flow_only (none).
    #[arg(long, default_value_t = CancelFlowPolicy::CancelAll)]
    policy: CancelFlowPolicy,
    /// Why; it is kept with the flow.
    #[arg(long, default_value = "")]
    reason: String,
    /// Wait until the last of them has ended, and print what became of each.
    #[arg(long)]
    wait: bool,
}

pub(crate) fn run(remote: &Remote, json: bool, command: &Command) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        match command {
            Command::Submit(options) => submit(&client, json, options).await,
            Command::Show(options) => show_flow(&client, json, options).await,
            Command::Ls(options) => list(&client, json, options.limit).await,
            Command::Cancel(options) => cancel(&client, json, options).await,
        }
    })
}

async fn submit(client: &Client, json: bool, options: &SubmitOptions) -> Result<(), Failure> {
    let bytes = input::read("FILE", &input::of_file(&options.file))?;
    let graph = file::read(&bytes)?;
    let accepted = client.submit_graph(graph).await?;
    if !options.wait {
        if json {
            say!("{}", serde_json::to_string(&accepted)?);
        } else {
            say!("{}", accepted.flow_id);
        }
        return Ok(());
    }
    eprintln!("{} tasks in flow {}", accepted.node_count, accepted.flow_id);
    finished(client, json, &accepted.flow_id, Format::Tree).await
}

async fn show_flow(client: &Client, json: bool, options: &ShowOptions) -> Result<(), Failure> {
    if options.wait {
        return finished(client, json, &options.id, options.format).await;
    }
    let flow = client.describe_flow(&options.id).await?.ok_or_else(|| missing(&options.id))?;
    show::flow(client, json, &flow, options.format).await
}

/// Waits for the end of a flow, shows it, and says by the exit code how it ended.
async fn finished(client: &Client, json: bool, id: &FlowId, format: Format) -> Result<(), Failure> {
    let flow = client.await_flow(id, FOR_EVER).await?.ok_or_else(|| missing(id))?;
    show::flow(client, json, &flow, format).await?;
    match flow.public_flow_state {
        FlowState::Completed => Ok(()),
        other => Err(Failure::unsuccessful(format!("the flow is {other}"))),
    }
}

async fn list(client: &Client, json: bool, limit: usize) -> Result<(), Failure> {
    let (found, complete) = fetch(client, limit).await?;
    if json {
        for flow in &found {
            say!("{}", serde_json::to_string(flow)?);
        }
        return Ok(());
    }
    if !found.is_empty() {
        say!("{}", table(&found));
    }
    match (found.len(), complete) {
        (0, _) => eprintln!("there are no flows"),
        (1, true) => eprintln!("1 flow"),
        (count, true) => eprintln!("{count} flows"),
        (count, false) => eprintln!("the first {count} flows; see more with --limit"),
    }
    Ok(())
}

/// As many as are wanted, and whether those are all.
async fn fetch(client: &Client, limit: usize) -> Result<(Vec<FlowSummary>, bool), Failure> {
    let (mut found, mut cursor) = (Vec::new(), None);
    while found.len() < limit {
        let wanted = u32::try_from(limit - found.len()).unwrap_or(PAGE).min(PAGE);
        let page = client
            .list_flows(FlowQuery { cursor, limit: Some(wanted), ..FlowQuery::default() })
            .await?;
        found.extend(page.flows);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((found, true));
        }
    }
    Ok((found, false))
}

fn table(found: &[FlowSummary]) -> Table {
    let now = time::now();
    let mut table = Table::new(&["flow", "kind", "state", "tasks", "age"]);
    for flow in found {
        table.row([
            flow.flow_id.to_string(),
            flow.flow_kind.to_string(),
            flow.status.to_string(),
            flow.node_count.to_string(),
            time::between(flow.created_at, now),
        ]);
    }
    table
}

async fn cancel(client: &Client, json: bool, options: &CancelOptions) -> Result<(), Failure> {
    let request =
        CancelFlow { cancellation_policy: Some(options.policy), reason: options.reason.clone() };
    let cancelled = client.cancel_flow(&options.id, request).await?;
    if options.wait {
        let flow =
            client.await_flow(&options.id, FOR_EVER).await?.ok_or_else(|| missing(&options.id))?;
        return show::receipt(client, json, &flow).await;
    }
    if json {
        say!("{}", serde_json::to_string(&cancelled)?);
    } else {
        let rest = if cancelled.is_done() { "" } else { "; the rest is being cancelled" };
        say!("{} is cancelled ({} tasks{rest})", options.id, cancelled.member_count());
    }
    Ok(())
}

fn missing(id: &FlowId) -> Failure {
    Failure::from(format!("there is no flow {id}, or its retention time is over"))
}

/// How many of a flow's tasks are in which state, in words.
fn counts(flow: &FlowSnapshot) -> String {
    let parts: Vec<String> = flow
        .counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    parts.join(", ")
}
