//! `flowfabric priority`: who comes first.

use ff_core::contracts::ChangePriority;
use ff_sdk::{Code, EngineError, ExecutionRef, SdkError};

use crate::failure::Failure;
use crate::get::missing;
use crate::remote::{Remote, block_on};
use crate::submit::priority;

/// Which execution, and how urgent it is.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The execution.
    #[arg(value_name = "ID")]
    id: ExecutionRef,
    /// 0 to 9000; higher runs first.
    #[arg(value_parser = priority)]
    priority: u16,
}

pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let id = client.connection().resolve(options.id)?;
        let request = ChangePriority { priority: options.priority, request_id: None };
        let changed = client.connection().engine().change_priority(id, request).await;
        let changed = changed.map_err(|error| match error.code() {
            Some(Code::ExecutionNotFound) => missing(options.id),
            Some(Code::ExecutionNotActive) => Failure::from(format!("{} has ended", options.id)),
            _ => Failure::of(&SdkError::from(EngineError::in_context(error, "priority"))),
        })?;
        if json {
            say!("{}", serde_json::to_string(&changed)?);
        } else {
            let name = client.connection().shortest(id);
            say!("{name} has priority {}, before {}", changed.new, changed.old);
        }
        Ok(())
    })
}
