//! `flowfabric worker run`: any program as a worker. The payload is its standard input, its
//! standard output the result, and a non-zero exit a failure with the end of its standard error
//! as the reason.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use ff_core::limits;
use ff_sdk::{Context, TaskError, Worker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};

/// Which executions to take, and what to run for them.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The kind of executions to take; may be given several times.
    #[arg(long = "kind", required = true, value_name = "KIND")]
    kinds: Vec<String>,
    /// The lane to take from; may be given several times.
    #[arg(long = "lane", default_value = "default", value_name = "LANE")]
    lanes: Vec<String>,
    /// How many programs run at the same time.
    #[arg(long, default_value_t = 1)]
    concurrency: usize,
    /// How long a lease lasts without renewal; it is renewed while the program runs.
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    lease_ttl_ms: u64,
    /// Name of this worker.
    #[arg(long, default_value = "cli")]
    name: String,
    /// What this worker can do; may be given several times.
    #[arg(long = "capability", value_name = "TOKEN")]
    capabilities: Vec<String>,
    /// The program and its arguments, after --.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(crate) fn run(remote: &Remote, options: &Run) -> Result<(), Failure> {
    block_on(async {
        let command: Arc<[String]> = options.command.clone().into();
        let mut builder = Worker::builder(&options.name)
            .state(command)
            .backend(remote.backend())
            .concurrency(options.concurrency)
            .lease_ttl(Duration::from_millis(options.lease_ttl_ms));
        for lane in &options.lanes {
            builder = builder.lane(lane);
        }
        for capability in &options.capabilities {
            builder = builder.capability(capability);
        }
        for kind in &options.kinds {
            builder = builder.on_raw(kind, handle);
        }
        let worker = builder.build()?;
        eprintln!(
            "working on {} with {:?}; stop with Ctrl-C",
            options.kinds.join(", "),
            options.command
        );
        let report = worker
            .run_until(async {
                let _ = tokio::signal::ctrl_c().await;
            })
            .await?;
        eprintln!("stopped: {report:?}");
        Ok(())
    })
}

async fn handle(context: Context<Arc<[String]>>, payload: Vec<u8>) -> Result<Vec<u8>, TaskError> {
    let mut child = start(&context).map_err(TaskError::retry)?;
    tokio::select! {
        done = converse(&mut child, payload) => done,
        // Whoever has the lease now runs it again; this run must not go on.
        _ = context.cancelled() => {
            let _ = child.start_kill();
            Err(TaskError::retry("the lease was lost"))
        }
    }
}

fn start(context: &Context<Arc<[String]>>) -> std::io::Result<Child> {
    let command = context.state();
    Command::new(&command[0])
        .args(&command[1..])
        .env("FLOWFABRIC_EXECUTION_ID", context.execution_id().to_string())
        .env("FLOWFABRIC_KIND", context.kind())
        .env("FLOWFABRIC_ATTEMPT", context.attempt().to_string())
        .env("FLOWFABRIC_FENCE", context.fence_header_value())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Feeds the program and listens to it at the same time, so that neither waits for the other.
async fn converse(child: &mut Child, payload: Vec<u8>) -> Result<Vec<u8>, TaskError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read all of its input is no failure.
            let _ = stdin.write_all(&payload).await;
        }
    };
    let (mut result, mut said) = (Vec::new(), Vec::new());
    let listen = async {
        let most = limits::RESULT_BYTES_MAX + 1;
        stdout.expect("piped").take(most).read_to_end(&mut result).await
    };
    let complain = async { stderr.expect("piped").read_to_end(&mut said).await };
    let ((), heard, complained) = tokio::join!(feed, listen, complain);
    heard.and(complained).map_err(TaskError::retry)?;
    if result.len() as u64 > limits::RESULT_BYTES_MAX {
        let most = limits::RESULT_BYTES_MAX;
        return Err(TaskError::fail(format!("the program wrote more than {most} bytes")));
    }
    let status = child.wait().await.map_err(TaskError::retry)?;
    if status.success() { Ok(result) } else { Err(TaskError::retry(reason(&said, status))) }
}

/// The end of what the program complained about; how it ended if it said nothing.
fn reason(said: &[u8], status: std::process::ExitStatus) -> String {
    let from = said.len().saturating_sub(limits::REASON_BYTES_MAX as usize / 2);
    let text = String::from_utf8_lossy(&said[from..]).trim().to_owned();
    if text.is_empty() { format!("the program ended with {status}") } else { text }
}
