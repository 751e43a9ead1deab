//! `flowfabric worker run`: any program as a worker. The payload is its standard input, its
//! standard output the result, and a non-zero exit a failure with the end of its standard error
//! as the reason. Whoever follows the execution sees its standard error as it comes.

mod files;
pub(crate) mod list;
mod log;
mod program;

use std::time::{Duration, Instant};

use ff_sdk::{Connection, Context, ExecutionPolicy, ExecutionRef, SdkError, TaskError, Worker};

use crate::failure::Failure;
use crate::policy::PolicyFlags;
use crate::remote::{Remote, block_on};
use crate::signals::Signals;
use crate::time;
use log::Log;

const AFTER_HELP: &str = "\
The program sees FLOWFABRIC_EXECUTION_ID, FLOWFABRIC_KIND, FLOWFABRIC_ATTEMPT (from 1) and \
FLOWFABRIC_FENCE.
It exits with 0 when it is done, with 81 when trying again would not help, and with anything else to be \
tried again as the policy says.
What it writes to standard error is the execution's output: `flowfabric tail ID` follows it.
To wait for signals it writes a suspension as JSON to the file $FLOWFABRIC_SUSPEND and exits with 80, \
as in
  {\"condition\":{\"type\":\"any\",\"signals\":[\"approved\",\"rejected\"]},\"timeout_ms\":86400000}
When the wait is over it is run again in the same attempt: $FLOWFABRIC_RESUMED_BY is signal, operator \
or timeout, and the file $FLOWFABRIC_SIGNALS has the signals, a line of JSON each.
--retries and the like hold for executions whose submissions do not say otherwise; workers that differ \
are told so, and the one that started last wins.
SIGTERM or Ctrl-C lets running programs finish; a second one stops at once.";

/// Which executions to take, and what to run for them.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The kind of executions to take; may be given several times.
    #[arg(long = "kind", required = true, value_name = "KIND")]
    kinds: Vec<String>,
    /// The lane to take from; may be given several times.
    #[arg(long = "lane", default_value = "default", value_name = "LANE")]
    lanes: Vec<String>,
    /// The namespace to take from; may be given several times. Any if not given.
    #[arg(long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// How many programs run at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrency: usize,
    /// How long a lease lasts without renewal; it is renewed while the program runs.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time::duration)]
    lease_ttl: Duration,
    /// How long running programs may take after the worker was told to stop; what is left then is
    /// killed and handed back.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time::duration)]
    drain: Duration,
    /// Name of this worker.
    #[arg(long, default_value = "cli")]
    name: String,
    /// What this worker can do; may be given several times.
    #[arg(long = "capability", value_name = "TOKEN")]
    capabilities: Vec<String>,
    #[command(flatten)]
    policy: PolicyFlags,
    /// The program and its arguments, after --.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Who stops at once still hands back what can be handed back in that time; other leases lapse.
const HANDING_BACK: Duration = Duration::from_millis(300);

/// What every run of the program needs.
struct Job {
    command: Vec<String>,
    connection: Connection,
    log: Log,
}

impl Job {
    /// What people and the program call an execution.
    fn name(context: &Context<Self>) -> ExecutionRef {
        context.state().connection.shortest(context.execution_id())
    }
}

pub(crate) fn run(remote: &Remote, json: bool, options: Options) -> Result<(), Failure> {
    program::check(&options.command[0])?;
    let policy = options.policy.policy()?;
    log::warnings_to_stderr();
    block_on(async {
        let mut signals = Signals::listen()?;
        let connection = remote.connect_for_long().await?;
        let log = Log::new(json);
        let job = Job { command: options.command.clone(), connection: connection.clone(), log };
        let mut builder = Worker::builder(&options.name)
            .state(job)
            .connection(&connection)
            .concurrency(options.concurrency)
            .lease_ttl(options.lease_ttl)
            .drain_timeout(options.drain);
        for lane in &options.lanes {
            builder = builder.lane(lane);
        }
        for namespace in &options.namespaces {
            builder = builder.namespace(namespace);
        }
        for capability in &options.capabilities {
            builder = builder.capability(capability);
        }
        for kind in &options.kinds {
            builder = builder.on_raw(kind, handle);
            if policy != ExecutionPolicy::default() {
                builder = builder.policy_of(kind, policy.clone());
            }
        }
        let worker = builder.build().map_err(|error| by_flag(&error))?;
        log.begin(&options.kinds, &options.command);
        let stop = worker.shutdown_handle();
        let mut working = Box::pin(worker.run());
        let report = tokio::select! {
            ended = &mut working => ended,
            () = signals.next() => {
                log.draining();
                stop.shutdown();
                tokio::select! {
                    ended = &mut working => ended,
                    // The programs are killed as they are let go.
                    () = signals.next() => {
                        drop(working);
                        tokio::time::sleep(HANDING_BACK).await;
                        return Err(Failure::interrupted());
                    }
                }
            }
        };
        let report = report.map_err(|error| by_flag(&error))?;
        log.end(report.handed_back);
        Ok(())
    })
}

/// What the SDK says of a setting, by the flag that gave it.
fn by_flag(error: &SdkError) -> Failure {
    match error {
        SdkError::Config { field: Some(field), message, .. } => {
            let (flag, message) = match field.strip_suffix("_ms") {
                Some(flag) => (flag, with_units(message)),
                None => (field.as_str(), message.clone()),
            };
            Failure::not_understood(format!("--{} {message}", flag.replace('_', "-")))
        }
        error => Failure::of(error),
    }
}

/// A rule about milliseconds as people write times: `from 1000 to 86400000` is `from 1s to 1d`.
fn with_units(rule: &str) -> String {
    let word = |word: &str| {
        let number = word.trim_end_matches(',');
        match number.parse() {
            Ok(ms) => format!("{}{}", time::written(ms), &word[number.len()..]),
            Err(_) => word.to_owned(),
        }
    };
    rule.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Runs the program for one execution.
async fn handle(context: Context<Job>, payload: Vec<u8>) -> Result<Vec<u8>, TaskError> {
    let begun = Instant::now();
    let log = context.state().log;
    let outcome = program::run(&context, payload).await;
    log.ran(&context, begun.elapsed(), outcome.as_ref().err());
    outcome
}
