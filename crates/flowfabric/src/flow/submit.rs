//! `flow submit`: a whole flow from a file.

use ff_sdk::{Client, SdkError};

use super::file;
use super::show::{self, Format};
use crate::failure::{EXIT_CODES, Failure};
use crate::input;
use crate::remote::Remote;

/// Which flow to submit.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Options {
    /// The file, in YAML or JSON; - is standard input. `flow schema` prints its format as a JSON
    /// schema.
    file: String,
    /// Wait until it has ended, and show it: live on a terminal.
    #[arg(long)]
    wait: bool,
}

/// A file that is wrong is refused before a server is asked.
pub(super) fn read(options: &Options) -> Result<ff_sdk::SubmitGraph, Failure> {
    let bytes = input::read("FILE", &input::of_file(&options.file))?;
    file::read(&bytes).map_err(|failure| in_file(&options.file, &failure))
}

fn in_file(file: &str, failure: &Failure) -> Failure {
    let name = if file == "-" { "standard input" } else { file };
    Failure::not_understood(format!("{name}: {}", failure.message))
}

pub(super) async fn run(
    remote: &Remote,
    client: &Client,
    json: bool,
    graph: ff_sdk::SubmitGraph,
    options: &Options,
) -> Result<(), Failure> {
    let accepted = client.submit_graph(graph).await.map_err(explain)?;
    if options.wait {
        let tasks = if accepted.node_count == 1 { "task" } else { "tasks" };
        note!("{} {tasks} in flow {}", accepted.node_count, accepted.flow_id);
        let format = if json { Format::Json } else { Format::Tree };
        return show::until_ended(remote, client, &accepted.flow_id, format).await;
    }
    if json {
        say!("{}", serde_json::to_string(&accepted)?);
    } else {
        say!("{}", accepted.flow_id);
    }
    Ok(())
}

fn explain(error: SdkError) -> Failure {
    use ff_sdk::{Code, EngineError};
    match error.engine().and_then(EngineError::code) {
        Some(Code::IdempotencyConflict) => Failure::from(format!(
            "{error}\nThe flow of this key has other content: give the file another key."
        )),
        _ => error.into(),
    }
}
