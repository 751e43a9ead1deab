//! FlowFabric in one binary.

mod demo;
mod executions;
mod failure;
mod remote;
mod serve;
mod settings;
mod store;
mod table;
mod time;
mod worker;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use ff_sdk::ExecutionId;

use failure::Failure;
use remote::Remote;

/// Half of what the store does is allocate and free: this takes a third off a transition.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A durable execution engine: background jobs, agent runs, approvals and DAGs that survive
/// crashes.
#[derive(Parser)]
#[command(name = "flowfabric", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    remote: Remote,
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server.
    Serve(serve::Options),
    /// Show the settings that `serve` would use, and where each comes from.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Submit an execution.
    Submit(executions::Submit),
    /// Show an execution.
    Get {
        /// The execution.
        id: ExecutionId,
    },
    /// List executions, newest first.
    Ls(executions::Filter),
    /// List executions again and again.
    Watch {
        #[command(flatten)]
        filter: executions::Filter,
        /// How often to look.
        #[arg(long, value_name = "MS", default_value_t = 1000)]
        every_ms: u64,
    },
    /// Print the result of an execution. Exits with 3 if it did not succeed, 4 if it has not ended.
    Result {
        /// The execution.
        id: ExecutionId,
        /// Wait until it has ended.
        #[arg(long)]
        wait: bool,
        /// How long to wait with --wait.
        #[arg(long, value_name = "MS", default_value_t = 600_000)]
        timeout_ms: u64,
    },
    /// Cancel an execution.
    Cancel {
        /// The execution.
        id: ExecutionId,
        /// Why.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Run an ended execution again.
    Replay {
        /// The execution.
        id: ExecutionId,
        /// Why.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Work on executions with any program.
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// Run a few executions with retries, delays and a lost worker, told as a story.
    Demo(demo::Options),
    /// Check or export a data directory.
    #[command(subcommand)]
    Store(store::Command),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print every setting, its value and where it came from.
    Show(serve::Options),
}

#[derive(Subcommand)]
enum WorkerCommand {
    /// Take executions and run a program for each: payload on stdin, result from stdout.
    Run(worker::Run),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            eprintln!("flowfabric: {message}");
            ExitCode::from(code)
        }
    }
}

fn run(Cli { command, remote, json }: Cli) -> Result<(), Failure> {
    match command {
        Command::Serve(options) => serve::run(&options),
        Command::Config(ConfigCommand::Show(options)) => serve::show(&options, json),
        Command::Submit(options) => executions::submit(&remote, json, &options),
        Command::Get { id } => executions::get(&remote, json, id),
        Command::Ls(filter) => executions::list(&remote, json, &filter),
        Command::Watch { filter, every_ms } => executions::watch(&remote, &filter, every_ms),
        Command::Result { id, wait, timeout_ms } => {
            executions::result(&remote, id, wait.then_some(timeout_ms))
        }
        Command::Cancel { id, reason } => executions::cancel(&remote, json, id, &reason),
        Command::Replay { id, reason } => executions::replay(&remote, json, id, &reason),
        Command::Worker(WorkerCommand::Run(options)) => worker::run(&remote, &options),
        Command::Demo(options) => demo::run(&options),
        Command::Store(command) => store::run(&command, json),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Cli::command(),
                "flowfabric",
                &mut std::io::stdout(),
            );
            Ok(())
        }
    }
}
