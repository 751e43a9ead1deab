//! `flowfabric tail`: what an execution puts out, as it comes, until it ends.

mod printable;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use ff_core::bytes::Base64;
use ff_sdk::{Client, Code, EngineError, ExecutionRef, Output, OutputCursor, StreamFrame};
use serde_json::{Value, json};

use crate::failure::{EXIT_CODES, Failure};
use crate::get;
use crate::output::Out;
use crate::remote::{Remote, block_on};
use crate::result::Outcome;
use crate::signals::Signals;
use crate::time;
use printable::Printable;

const AFTER_HELP: &str = "\
What comes is written as it is; to a terminal without its control characters, unless --raw says \
otherwise.
When another attempt begins, what came before is replaced: a line on standard error says so.";

/// Whose output, and how it is shown.
#[derive(clap::Args)]
#[command(after_help = format!("{AFTER_HELP}\n\n{EXIT_CODES}"))]
pub(crate) struct Options {
    /// The execution.
    id: ExecutionRef,
    /// Begin with what is there already; otherwise with what comes from now on.
    #[arg(long)]
    from_start: bool,
    /// A line for each frame: when, what, and its text.
    #[arg(long, conflicts_with = "raw")]
    lines: bool,
    /// Every byte as it is, also to a terminal.
    #[arg(long)]
    raw: bool,
}

pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        let mut signals = Signals::listen()?;
        tokio::select! {
            () = signals.next() => Err(Failure::interrupted()),
            tailed = tail(&client, json, options) => tailed,
        }
    })
}

async fn tail(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let from = if options.from_start { OutputCursor::Start } else { OutputCursor::End };
    let mut follow = match client.follow_from(options.id, from).await {
        Err(error) if error.engine().and_then(EngineError::code) == Some(NOT_FOUND) => {
            return Err(get::missing(options.id));
        }
        follow => follow?,
    };
    let mut view = View::new(json, options);
    while let Some(output) = follow.next().await {
        view.show(&output?)?;
    }
    let outcome = Outcome::await_end(client, options.id, Duration::ZERO).await?;
    let id = client.connection().resolve(options.id)?;
    if json {
        let mut end = outcome.json(id)?;
        end["event"] = json!("end");
        say!("{end}");
    }
    outcome.failure(client.connection().shortest(id)).map_or(Ok(()), Err)
}

const NOT_FOUND: Code = Code::ExecutionNotFound;

/// How output is shown.
enum View {
    Json,
    Lines,
    /// The bytes; without control characters if somebody looks at them.
    Bytes {
        printable: Option<Printable>,
        begun: bool,
    },
}

impl View {
    fn new(json: bool, options: &Options) -> Self {
        let seen = std::io::stdout().is_terminal() && !options.raw;
        match (json, options.lines) {
            (true, _) => Self::Json,
            (false, true) => Self::Lines,
            _ => Self::Bytes { printable: seen.then(Printable::default), begun: false },
        }
    }

    fn show(&mut self, output: &Output) -> Result<(), Failure> {
        let mut out = Out::new();
        match (self, output) {
            (Self::Json, output) => {
                if let Some(line) = as_json(output)? {
                    writeln!(out, "{line}")?;
                }
            }
            (Self::Lines, Output::Frame { frame, .. }) => writeln!(out, "{}", line(frame))?,
            (Self::Lines, Output::Summary { document, .. }) => {
                writeln!(out, "{}", on_one_line(document))?;
            }
            (Self::Bytes { printable, begun }, Output::Frame { frame, .. }) => {
                *begun = true;
                write(&mut out, printable, &frame.payload())?;
            }
            (Self::Bytes { printable, begun }, Output::Summary { document, .. }) => {
                *begun = true;
                write(&mut out, printable, format!("{document}\n").as_bytes())?;
            }
            (Self::Bytes { begun, .. }, Output::Attempt { attempt_index }) if *begun => {
                note!("\n-- attempt {}: it begins anew --", attempt_index.get() + 1);
            }
            (Self::Lines, Output::Attempt { attempt_index }) => {
                note!("-- attempt {} --", attempt_index.get() + 1);
            }
            _ => {}
        }
        Ok(out.flush()?)
    }
}

fn write(out: &mut Out, printable: &mut Option<Printable>, bytes: &[u8]) -> std::io::Result<()> {
    match printable {
        Some(printable) => out.write_all(printable.of(bytes).as_bytes()),
        None => out.write_all(bytes),
    }
}

fn on_one_line(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}

/// A frame as a line: nothing in it can look like another one.
fn line(frame: &StreamFrame) -> String {
    let text = on_one_line(String::from_utf8_lossy(&frame.payload()).trim_end());
    let at = frame.at().map_or_else(String::new, time::time_of_day);
    format!("{at}  {}  {text}", frame.frame_type())
}

/// A piece as an object; none for the end, of which more is known than this.
fn as_json(output: &Output) -> Result<Option<Value>, Failure> {
    let OutputCursor::Behind { attempt_index, sequence } = output.cursor() else {
        return Ok(None);
    };
    let mut object = json!({ "attempt_index": attempt_index, "sequence": sequence });
    let event = match output {
        Output::Attempt { .. } => "attempt",
        Output::Skipped { .. } => "skipped",
        Output::Summary { document, .. } => {
            object["document"] = serde_json::from_str(document)?;
            "summary"
        }
        Output::Frame { frame, .. } => {
            describe(&mut object, frame)?;
            "frame"
        }
        _ => return Ok(None),
    };
    object["event"] = json!(event);
    Ok(Some(object))
}

fn describe(object: &mut Value, frame: &StreamFrame) -> Result<(), Failure> {
    object["frame_type"] = json!(frame.frame_type());
    object["at"] = json!(frame.at());
    if let Some(correlation_id) = frame.correlation_id() {
        object["correlation_id"] = json!(correlation_id);
    }
    let payload = frame.payload();
    match std::str::from_utf8(&payload) {
        Ok(text) => object["text"] = json!(text),
        Err(_) => object["base64"] = serde_json::to_value(Base64(payload.into_owned()))?,
    }
    Ok(())
}
