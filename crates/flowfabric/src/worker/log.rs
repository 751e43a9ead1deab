//! What a worker says about its work: a line for each run, on standard error for people, as JSON
//! on standard output for programs.

use std::io::IsTerminal;
use std::time::Duration;

use ff_sdk::{Context, TaskError};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use super::Job;
use crate::{output, time};

/// What the worker itself has to say: that the server is away, that a lease was lost.
pub(super) fn warnings_to_stderr() {
    let logs = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN);
    let logs = logs.with_writer(std::io::stderr);
    // Somebody else logs already: nothing to do.
    let _ = logs.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init();
}

/// Where the lines go.
#[derive(Clone, Copy)]
pub(super) struct Log {
    json: bool,
}

impl Log {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    fn say(self, event: &serde_json::Value, text: &str) {
        if self.json {
            say!("{event}");
        } else {
            eprintln!("{}  {text}", time::time_of_day(time::now()));
        }
    }

    pub(super) fn begin(self, kinds: &[String], command: &[String]) {
        let event = json!({ "event": "working", "kinds": kinds, "command": command });
        let (kinds, command) = (kinds.join(", "), command.join(" "));
        self.say(&event, &format!("working on {kinds} with `{command}`; stop with Ctrl-C"));
    }

    /// The program ended; the engine is told next.
    pub(super) fn ran(self, context: &Context<Job>, took: Duration, error: Option<&TaskError>) {
        if output::is_quiet() {
            return;
        }
        let (name, attempt) = (Job::name(context), context.attempt());
        let (kind, took_ms) = (context.kind(), took.as_millis());
        let suspended = error.is_some_and(|error| error.suspension().is_some());
        let word = match error {
            None => "completed",
            Some(_) if suspended => "suspended",
            Some(_) => "failed",
        };
        let mut event = json!({
            "event": word,
            "execution_id": context.execution_id(),
            "kind": kind,
            "attempt": attempt,
            "took_ms": u64::try_from(took_ms).unwrap_or(u64::MAX),
        });
        let outcome = match error {
            Some(error) if !suspended => {
                event["reason"] = json!(error.message());
                format!("failed: {}", error.message().lines().last().unwrap_or_default())
            }
            _ => word.to_owned(),
        };
        self.say(&event, &format!("{name}  {kind}  attempt {attempt}  {took_ms} ms  {outcome}"));
    }

    pub(super) fn draining(self) {
        self.say(&json!({ "event": "draining" }), "stopping when the running programs have ended");
    }

    pub(super) fn end(self, handed_back: usize) {
        let event = json!({ "event": "stopped", "handed_back": handed_back });
        let text = match handed_back {
            0 => "stopped; nothing was left undone".to_owned(),
            1 => "stopped; 1 unfinished execution was handed back".to_owned(),
            count => format!("stopped; {count} unfinished executions were handed back"),
        };
        self.say(&event, &text);
    }
}
