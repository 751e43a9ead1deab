//! `flowfabric cancel` and `flowfabric replay`.

use ff_core::contracts::ReplayExecution;
use ff_sdk::{Client, ExecutionRef};

use crate::failure::Failure;
use crate::get::missing;
use crate::remote::{Remote, block_on};

/// Which executions, and why.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The execution; several may be given.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<ExecutionRef>,
    /// Why; it is kept with the execution.
    #[arg(long, default_value = "")]
    reason: String,
}

/// Cancels what has not ended, and what has been cancelled already.
pub(crate) fn cancel(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        for name in &options.ids {
            let cancelled = client.cancel(*name, &options.reason).await;
            cancelled.map_err(|error| explain(*name, &error, "it has ended"))?;
            say(&client, json, *name, "cancelled")?;
        }
        Ok(())
    })
}

/// Runs what has ended again, from the beginning.
pub(crate) fn replay(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        for name in &options.ids {
            let engine = client.connection().engine();
            let (reason, requested_by) = (options.reason.clone(), "cli".to_owned());
            let request = ReplayExecution { reason, requested_by, ..ReplayExecution::default() };
            let replayed = engine.replay(client.connection().resolve(*name)?, request).await;
            let state = replayed.map_err(|error| {
                explain(*name, &error.in_context("replay").into(), "only what has ended can be")
            })?;
            say(&client, json, *name, state.public_state.as_str())?;
        }
        Ok(())
    })
}

/// The refusals that people meet, in words that help them.
fn explain(name: ExecutionRef, error: &ff_sdk::SdkError, hint: &str) -> Failure {
    use ff_sdk::{Code, EngineError};
    match error.engine().and_then(EngineError::code) {
        Some(Code::ExecutionNotFound) => missing(name),
        Some(_) => Failure::from(format!("{name}: {error} ({hint})")),
        None => Failure::of(error),
    }
}

fn say(client: &Client, json: bool, name: ExecutionRef, state: &str) -> Result<(), Failure> {
    let id = client.connection().resolve(name)?;
    if json {
        say!("{}", serde_json::json!({ "execution_id": id, "public_state": state }));
    } else {
        say!("{} is {state}", client.connection().shortest(id));
    }
    Ok(())
}
