//! `flowfabric flow`: graphs of executions, submitted from a file, looked at, cancelled and run
//! again.

mod file;
mod schema;
mod submit;

mod graph;
mod languages;
mod layout;
mod svg;
mod tree;
mod written;

mod attended;
mod cancel;
mod list;
mod replay;
mod result;
mod show;

use clap::Subcommand;
use ff_sdk::{Code, EngineError, FlowId, SdkError};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Submit a whole flow from a file.
    Submit(submit::Options),
    /// Show a flow and its tasks: live on a terminal, or as a picture.
    Show(show::Options),
    /// List flows, newest first.
    Ls(list::Options),
    /// Cancel a flow.
    Cancel(cancel::Options),
    /// Run tasks of a flow again that failed.
    Replay(replay::Options),
    /// Print the result of a task of a flow.
    Result(result::Options),
    /// Print the JSON schema of the files that `submit` takes.
    Schema,
}

pub(crate) fn run(remote: &Remote, json: bool, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Schema => schema::print(json),
        Command::Submit(options) => {
            let graph = submit::read(options)?;
            block_on(async {
                submit::run(remote, &remote.client().await?, json, graph, options).await
            })
        }
        Command::Show(options) => {
            block_on(async { show::run(remote, &remote.client().await?, json, options).await })
        }
        Command::Ls(options) => {
            block_on(async { list::run(&remote.client().await?, json, options).await })
        }
        Command::Replay(options) => {
            block_on(async { replay::run(&remote.client().await?, json, options).await })
        }
        Command::Result(options) => {
            block_on(async { result::run(&remote.client().await?, json, options).await })
        }
        Command::Cancel(options) => {
            block_on(async { cancel::run(&remote.client().await?, json, options).await })
        }
    }
}

fn missing(id: &FlowId) -> Failure {
    Failure::from(format!(
        "there is no flow {id}: it never was, or its retention is over (`flowfabric get` shows \
         executions)"
    ))
}

/// The refusals that people meet, in words that help them.
fn explain(id: &FlowId, error: &SdkError) -> Failure {
    match error.engine().and_then(EngineError::code) {
        Some(Code::FlowNotFound) => missing(id),
        _ => Failure::of(error),
    }
}
