//! `flowfabric demo`: a server, worker processes and a few dozen executions, told as a story whose
//! end is checked.

mod approval;
mod flow;
mod output;
mod processes;
mod scenarios;
mod summary;
mod worker;

pub(crate) use worker::{DemoWorker, run_worker};

use std::path::{Path, PathBuf};
use std::time::Duration;

use ff_backend_embedded::SyncMode;
use ff_sdk::{Client, ExecutionId, FlowId, FlowSnapshot};
use ff_server::{RunningServer, Server, ServerConfig, StoreConfig};

use crate::failure::Failure;
use crate::remote::Remote;
use crate::signals::Signals;
use output::Output;
use processes::WorkerProcesses;
use tokio::task::JoinSet;
use worker::Action;

/// Longer than the story takes on a slow machine.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Options of the demo.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Keep the data in this directory instead of a temporary one that is removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, json: bool) -> Result<(), Failure> {
    let temporary = std::env::temp_dir().join(format!("flowfabric-demo-{}", std::process::id()));
    let dir = options.dir.as_ref().unwrap_or(&temporary);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // The workers are killed when the story is dropped, however it ends.
    let told = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            told = tell(dir, json) => told,
            () = signals.next() => Err(Failure::interrupted()),
        }
    });
    drop(runtime);
    if options.dir.is_none() {
        // It may not be there yet.
        let _ = std::fs::remove_dir_all(&temporary);
    } else if told.is_ok() && !json {
        say!("The data stays: flowfabric store check {}", dir.display());
    }
    told
}

async fn tell(dir: &Path, json: bool) -> Result<(), Failure> {
    let output = Output::begin(json);
    let server = serve(dir).await?;
    let url = format!("http://{}", server.local_addr());
    output.server_started(&url, dir);
    let mut processes = WorkerProcesses::start(&url)?;
    output.workers_started(&processes);
    let client = Remote::at(url).client().await?;
    let submitted = submit(&client, &output).await?;

    let ended = follow(&client, &mut processes, &output, &submitted);
    let ended = tokio::time::timeout(TIME_LIMIT, ended).await;
    let killed = ended.map_err(|_| format!("the story did not end within {TIME_LIMIT:?}"))??;
    let summary = summary::Summary::reach(&client, &submitted, &killed).await?;
    processes.stop().await;
    server.shutdown(Duration::from_secs(2)).await;
    output.conclude(&summary);
    summary.check()
}

async fn serve(dir: &Path) -> Result<RunningServer, Failure> {
    let config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        store: StoreConfig::directory(dir, SyncMode::Always),
        ..ServerConfig::default()
    };
    Ok(Server::start(config).await?)
}

/// What the story is about.
struct Submitted {
    ids: Vec<ExecutionId>,
    flow: FlowId,
}

/// Submits everything at once; the one whose worker will be killed comes first.
async fn submit(client: &Client, output: &Output) -> Result<Submitted, Failure> {
    let answers = client.submit_many(scenarios::submissions(client)).await;
    let mut ids = Vec::with_capacity(answers.len());
    for answer in answers {
        ids.push(answer?.execution_id());
    }
    let flow = client.submit_graph(flow::graph()).await?.flow_id;
    output.submitted();
    Ok(Submitted { ids, flow })
}

/// Follows what the workers do until every execution has ended, has the gate approved, and kills
/// the one that takes the orphan. Answers who that was.
async fn follow(
    client: &Client,
    processes: &mut WorkerProcesses,
    output: &Output,
    submitted: &Submitted,
) -> Result<String, Failure> {
    let (mut killed, mut approvals, mut flows) = (None, JoinSet::new(), JoinSet::new());
    flows.spawn(flow_ended(client.clone(), submitted.flow));
    let ended = all_ended(client, &submitted.ids);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            Some(flow) = flows.join_next() => output.flow_ended(&flow??),
            ended = &mut ended, if flows.is_empty() => {
                ended?;
                while let Some(report) = processes.already_told() {
                    output.reported(&report, killed.as_deref());
                }
                return killed.ok_or_else(|| "nobody took the orphan".into());
            }
            Some(given) = approvals.join_next() => output.approved(given??),
            report = processes.next() => {
                output.reported(&report, killed.as_deref());
                if report.action == Action::Waits {
                    let (client, id) = (client.clone(), report.execution_id);
                    approvals.spawn(approval::give(client, id, output.asks));
                }
                let took = report.action == Action::Took;
                if took && report.kind == scenarios::ORPHAN && killed.is_none() {
                    let pid = processes.kill(&report.worker).await?;
                    output.killed(&report.worker, pid);
                    killed = Some(report.worker);
                }
            }
        }
    }
}

/// Waits until each has ended, one way or the other.
async fn all_ended(client: &Client, ids: &[ExecutionId]) -> Result<(), Failure> {
    for id in ids {
        // How it ended is looked at later.
        if let Err(error @ ff_sdk::AwaitError::Sdk(_)) =
            client.await_result_raw(id, TIME_LIMIT).await
        {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Waits until the last task of the flow has ended.
async fn flow_ended(client: Client, id: FlowId) -> Result<FlowSnapshot, Failure> {
    client.await_flow(&id, TIME_LIMIT).await?.ok_or_else(|| "the flow is gone".into())
}
