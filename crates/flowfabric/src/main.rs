//! FlowFabric in one binary.

mod demo;
mod failure;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// A durable execution engine: background jobs, agent runs, approvals and DAGs that survive
/// crashes.
#[derive(Parser)]
#[command(name = "flowfabric", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a few executions with retries, delays and a lost worker, told as a story.
    Demo(demo::Options),
    /// Check or export a data directory.
    #[command(subcommand)]
    Store(store::Command),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Store(command) => store::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            eprintln!("flowfabric: {message}");
            ExitCode::from(code)
        }
    }
}
