//! `flowfabric result`: the bytes that an execution ended with.

use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use ff_core::bytes::Base64;
use ff_sdk::{AwaitError, Client, ExecutionId, ExecutionRef, Why};
use serde_json::{Value, json};

use crate::failure::{EXIT_CODES, Failure};
use crate::get;
use crate::output::Out;
use crate::progress_bar::ProgressBar;
use crate::remote::{Remote, block_on};
use crate::signals::Signals;
use crate::wait::Wait;

/// Whose result, and how long to wait for it.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Options {
    /// The execution.
    id: ExecutionRef,
    #[command(flatten)]
    wait: Wait,
}

/// How long what keeps an execution from going on may last before that is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How often somebody who waits at a terminal sees how it stands.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    let limit = options.wait.limit();
    block_on(async { print(&remote.client().await?, options.id, limit, json).await })
}

/// Waits for one execution and prints how it ended.
pub(crate) async fn print(
    client: &Client,
    name: ExecutionRef,
    limit: Duration,
    json: bool,
) -> Result<(), Failure> {
    let outcome = wait(client, name, limit, json).await?;
    let id = client.connection().resolve(name)?;
    if json {
        say!("{}", outcome.json(id)?);
    }
    match outcome {
        Outcome::Completed(bytes) if !json => write_bytes(&bytes),
        outcome => outcome.failure(client.connection().shortest(id)).map_or(Ok(()), Err),
    }
}

/// The bytes as they are; a terminal gets the line's end that a result may lack.
fn write_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = Out::new();
    out.write_all(bytes)?;
    if std::io::stdout().is_terminal() && !bytes.ends_with(b"\n") {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Waits, and shows meanwhile how the execution stands.
async fn wait(
    client: &Client,
    name: ExecutionRef,
    limit: Duration,
    json: bool,
) -> Result<Outcome, Failure> {
    let mut signals = Signals::listen()?;
    let mut bar = ProgressBar::new("waiting", None, json || limit.is_zero());
    let ended = Outcome::await_end(client, name, limit);
    let mut stuck = pin!(stuck(client, name));
    let (mut ended, mut is_told) = (pin!(ended), limit.is_zero());
    loop {
        tokio::select! {
            ended = &mut ended => return ended,
            trouble = &mut stuck, if !is_told => {
                is_told = true;
                if let Some(trouble) = trouble {
                    drop(bar);
                    note!("{trouble}; still waiting");
                    bar = ProgressBar::new("waiting", None, json);
                }
            }
            () = signals.next() => {
                drop(bar);
                return Err(left_alone(shown(client, name)));
            }
            () = tokio::time::sleep(LOOK), if bar.is_shown() => {
                let note = standing(client, name).await;
                bar.set(0, &note);
            }
        }
    }
}

/// Who stops waiting may come back: the execution goes on without them.
fn left_alone(name: ExecutionRef) -> Failure {
    Failure::interrupted_with(format!(
        "{name} goes on; come back to it with `flowfabric result {name} --wait`"
    ))
}

fn shown(client: &Client, name: ExecutionRef) -> ExecutionRef {
    let id = client.connection().resolve(name);
    id.map_or(name, |id| client.connection().shortest(id))
}

/// Why it does not go on by itself, if that is so after a while: workers that are started together
/// with it need a moment.
pub(crate) async fn stuck(client: &Client, name: ExecutionRef) -> Option<String> {
    tokio::time::sleep(PATIENCE).await;
    // The wait itself says what is wrong with the server.
    let explained = client.why(name).await.ok()?;
    let by_people = matches!(
        explained.why,
        Why::LanePaused | Why::Held { .. } | Why::Suspended { .. } | Why::Budget { .. }
    );
    (by_people || explained.is_without_worker()).then_some(explained.summary)
}

async fn standing(client: &Client, name: ExecutionRef) -> String {
    match client.describe(name).await {
        Ok(Some(snapshot)) => {
            let state = snapshot.public_state();
            let attempt = snapshot.total_attempt_count;
            let progress = get::progress(&snapshot).unwrap_or_default();
            format!("{state}, attempt {attempt}  {progress}")
        }
        // The wait itself says what is wrong.
        _ => String::new(),
    }
}

/// How an execution ended, if it has.
pub(crate) enum Outcome {
    Completed(Vec<u8>),
    /// Without a result: in which state, and why.
    Ended(&'static str, String, String),
    NotEnded,
}

impl Outcome {
    /// Waits for an end.
    pub(crate) async fn await_end(
        client: &Client,
        name: ExecutionRef,
        limit: Duration,
    ) -> Result<Self, Failure> {
        match client.await_result_raw(name, limit).await {
            Ok(bytes) => Ok(Self::Completed(bytes)),
            Err(AwaitError::TimedOut) => Ok(Self::NotEnded),
            Err(AwaitError::NotFound) => Err(get::missing(name)),
            Err(AwaitError::Failed(failure)) => {
                Ok(Self::Ended("failed", failure.reason, failure.category))
            }
            Err(AwaitError::Cancelled(cancel)) => {
                Ok(Self::Ended("cancelled", cancel.reason, String::new()))
            }
            Err(error @ AwaitError::Expired) => {
                Ok(Self::Ended("expired", error.to_string(), String::new()))
            }
            Err(error @ AwaitError::Skipped) => {
                Ok(Self::Ended("skipped", error.to_string(), String::new()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The outcome as JSON: a result as text if it is text, and in base64 otherwise.
    pub(crate) fn json(&self, id: ExecutionId) -> serde_json::Result<Value> {
        let mut object = json!({ "execution_id": id });
        match self {
            Self::Completed(bytes) => {
                object["public_state"] = json!("completed");
                match std::str::from_utf8(bytes) {
                    Ok(text) => object["result_text"] = json!(text),
                    Err(_) => {
                        object["result_base64"] = serde_json::to_value(Base64(bytes.clone()))?;
                    }
                }
            }
            Self::Ended(state, reason, category) => {
                object["public_state"] = json!(state);
                object["reason"] = json!(reason);
                object["category"] = json!(category);
            }
            Self::NotEnded => object["ended"] = json!(false),
        }
        Ok(object)
    }

    /// What to say if there is no result.
    pub(crate) fn failure(&self, name: ExecutionRef) -> Option<Failure> {
        match self {
            Self::Completed(_) => None,
            Self::NotEnded => {
                let hint = format!("see `flowfabric get {name}`, or wait for it with --wait");
                Some(Failure::not_yet(format!("{name} has not ended; {hint}")))
            }
            Self::Ended(state, reason, category) => {
                let category =
                    if category.is_empty() { String::new() } else { format!(" ({category})") };
                let colon = if reason.is_empty() { "" } else { ": " };
                Some(Failure::not_completed(format!("{name} {state}{category}{colon}{reason}")))
            }
        }
    }
}
