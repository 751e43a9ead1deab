//! `flowfabric cancel` and `flowfabric replay`.

use ff_sdk::ExecutionId;

use crate::failure::Failure;
use crate::get::missing;
use crate::remote::{Remote, block_on};

/// Which executions, and why.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The execution; several may be given.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<ExecutionId>,
    /// Why; it is kept with the execution.
    #[arg(long, default_value = "")]
    reason: String,
}

/// Cancels what has not ended, and what has been cancelled already.
pub(crate) fn cancel(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        for id in &options.ids {
            let cancelled = client.cancel(id, &options.reason).await;
            cancelled.map_err(|error| explain(id, &error, "it has ended"))?;
            say(json, *id, "cancelled");
        }
        Ok(())
    })
}

/// Runs what has ended again, from the beginning.
pub(crate) fn replay(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        for id in &options.ids {
            let engine = client.connection().engine();
            let replayed = engine.replay(*id, &options.reason, "cli", None).await;
            let state = replayed.map_err(|error| {
                explain(id, &error.in_context("replay").into(), "only what has ended can be")
            })?;
            say(json, *id, state.as_str());
        }
        Ok(())
    })
}

/// The refusals that people meet, in words that help them.
fn explain(id: &ExecutionId, error: &ff_sdk::SdkError, hint: &str) -> Failure {
    use ff_sdk::{Code, EngineError};
    match error.engine().and_then(EngineError::code) {
        Some(Code::ExecutionNotFound) => missing(id),
        Some(_) => Failure::from(format!("{id}: {error} ({hint})")),
        None => Failure::from(error),
    }
}

fn say(json: bool, id: ExecutionId, state: &str) {
    if json {
        say!("{}", serde_json::json!({ "execution_id": id, "public_state": state }));
    } else {
        say!("{id} is {state}");
    }
}
