//! `flowfabric cancel` and `flowfabric replay`: some executions by id, or all that pass a filter.

mod many;

use ff_core::contracts::ReplayExecution;
use ff_sdk::{Client, ExecutionRef};

use crate::failure::Failure;
use crate::get::missing;
use crate::remote::{Remote, block_on};
use crate::selection::Selection;

/// Which executions, and why.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The execution; several may be given. Instead of ids, say which by --state, --kind, --tag and
    /// the like.
    #[arg(value_name = "ID")]
    ids: Vec<ExecutionRef>,
    #[command(flatten)]
    selection: Selection,
    /// All executions.
    #[arg(long)]
    all: bool,
    /// Change nothing; tell how many it would be.
    #[arg(long)]
    dry_run: bool,
    /// Why; it is kept with the execution.
    #[arg(long, default_value = "")]
    reason: String,
}

impl Options {
    /// Whether it is about all that pass a filter, which somebody must have asked for.
    fn are_many(&self) -> Result<bool, Failure> {
        let many = self.all || !self.selection.is_empty();
        match (self.ids.is_empty(), many) {
            (false, false) if self.dry_run => {
                Err(Failure::not_understood("--dry-run goes with --state, --kind and the like"))
            }
            (false, true) => {
                Err(Failure::not_understood("give ids, or say which by --state and the like"))
            }
            (true, false) => Err(Failure::not_understood(
                "say which: ids, or --state, --kind, --lane, --namespace, --tag, --since, --until, \
                 or --all",
            )),
            (_, many) => Ok(many),
        }
    }
}

/// Cancels what has not ended, and what has been cancelled already.
pub(crate) fn cancel(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    let many = options.are_many()?;
    block_on(async {
        let client = remote.client().await?;
        if many {
            return many::cancel(&client, json, options).await;
        }
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
    let many = options.are_many()?;
    block_on(async {
        let client = remote.client().await?;
        if many {
            return many::replay(&client, json, options).await;
        }
        for name in &options.ids {
            let engine = client.connection().engine();
            let (reason, requested_by) = (options.reason.clone(), requested_by());
            let request = ReplayExecution { reason, requested_by, ..ReplayExecution::default() };
            let replayed = engine.replay(client.connection().resolve(*name)?, request).await;
            let state = replayed.map_err(|error| {
                explain(
                    *name,
                    &error.in_context("replay").into(),
                    "it has not ended, and only what has ended can be replayed",
                )
            })?;
            say(&client, json, *name, state.public_state.as_str())?;
        }
        Ok(())
    })
}

/// Who replays, in what is told of an execution.
fn requested_by() -> String {
    std::env::var("USER").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "cli".to_owned())
}

/// The refusals that people meet, in words that help them.
fn explain(name: ExecutionRef, error: &ff_sdk::SdkError, hint: &str) -> Failure {
    use ff_sdk::{Code, EngineError};
    match error.engine().and_then(EngineError::code) {
        Some(Code::ExecutionNotFound) => missing(name),
        Some(Code::ExecutionNotActive | Code::ExecutionNotTerminal) => {
            Failure::from(format!("{name}: {hint}"))
        }
        Some(_) => Failure::from(format!("{name}: {}", Failure::of(error).message)),
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
