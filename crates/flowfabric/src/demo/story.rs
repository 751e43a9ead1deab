//! What the audience sees: lines with the time since the beginning, or the same as JSON.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::actor::{Act, Deed};
use super::cast::{self, Role};
use super::troupe::Troupe;
use super::verdict::Verdict;
use crate::table::Table;

/// The first greetings are told; then everybody knows how it goes.
const GREETINGS_TOLD: u32 = 3;

/// Tells what happens.
pub(super) struct Story {
    begun: Instant,
    json: bool,
    greetings: Cell<u32>,
}

impl Story {
    pub(super) fn begin(json: bool) -> Self {
        Self { begun: Instant::now(), json, greetings: Cell::new(0) }
    }

    /// The story goes on although nobody listens: its processes and its data are cleared away at
    /// the end.
    fn put(&self, line: &str) {
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    fn tell(&self, mut event: Value, line: &str) {
        let elapsed = self.begun.elapsed();
        if self.json {
            event["at_ms"] = json!(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
            self.put(&event.to_string());
        } else if !line.is_empty() {
            self.put(&format!("{:>7.3} s  {line}", elapsed.as_secs_f64()));
        }
    }

    pub(super) fn server_started(&self, url: &str, dir: &Path) {
        let event = json!({ "event": "server_started", "url": url, "directory": dir });
        self.tell(event, &format!("a server listens at {url}; its data is in {}", dir.display()));
    }

    pub(super) fn workers_started(&self, troupe: &Troupe) {
        let workers: Vec<_> = troupe.members().collect();
        let named = workers.iter().map(|(name, pid)| format!("{name} (process {pid})"));
        let named = named.collect::<Vec<_>>().join(", ");
        let workers: serde_json::Map<String, Value> =
            workers.iter().map(|(name, pid)| ((*name).to_owned(), json!(pid))).collect();
        let event = json!({ "event": "workers_started", "workers": workers });
        self.tell(event, &format!("workers start: {named}"));
    }

    pub(super) fn submitted(&self) {
        let count: u32 = cast::ROLES.iter().map(|role| role.count).sum();
        let event = json!({ "event": "submitted", "count": count });
        self.tell(event, &format!("{count} executions are submitted:"));
        if !self.json {
            for role in cast::ROLES {
                let Role { count, kind, fate, .. } = role;
                self.put(&format!("{count:>14} {kind:<9} {fate}"));
            }
        }
    }

    pub(super) fn killed(&self, worker: &str, pid: u32) {
        let event = json!({ "event": "killed", "worker": worker, "pid": pid });
        self.tell(event, &format!("*** kill -9 {pid}: {worker} is gone, with its work half done"));
    }

    /// Somebody did something.
    pub(super) fn acted(&self, act: &Act, killed: Option<&str>) {
        let line = self.line(act, killed);
        let mut event = serde_json::to_value(act).unwrap_or_default();
        event["event"] = event["deed"].take();
        if let Some(event) = event.as_object_mut() {
            event.remove("deed");
        }
        self.tell(event, &line.unwrap_or_default());
    }

    /// A line, if this is worth one.
    fn line(&self, act: &Act, killed: Option<&str>) -> Option<String> {
        let Act { worker, title, attempt, .. } = act;
        match act.deed {
            Deed::Took if act.taken_over => {
                let lost = killed.unwrap_or("its worker");
                Some(format!("{worker} takes over \"{title}\": the lease of {lost} has lapsed"))
            }
            Deed::Took if act.kind == cast::ORPHAN => Some(format!("{worker} takes \"{title}\"")),
            Deed::Took => None,
            Deed::Finished if act.kind == "greet" => self.greeting(act),
            Deed::Finished => Some(format!("{worker} finishes \"{title}\"{}", nth(*attempt))),
            Deed::Failed => {
                let last = cast::role_of(&act.kind).is_some_and(|role| *attempt >= role.attempts);
                let next = if last { "it has no retries left" } else { "it will be tried again" };
                Some(format!("{worker} fails \"{title}\"{}; {next}", nth(*attempt)))
            }
            Deed::RanOutOfTime => {
                let limit = cast::SLOW_MS;
                Some(format!("\"{title}\" ran out of its {limit} ms; it will be tried again"))
            }
        }
    }

    fn greeting(&self, act: &Act) -> Option<String> {
        let told = self.greetings.get() + 1;
        self.greetings.set(told);
        let all = cast::role_of("greet").map_or(0, |role| role.count);
        match told {
            told if told <= GREETINGS_TOLD => {
                Some(format!("{} finishes \"{}\"", act.worker, act.title))
            }
            told if told == all => Some(format!("… and all {all} greetings are done")),
            _ => None,
        }
    }

    /// The end: how each kind of execution fared.
    pub(super) fn conclude(&self, verdict: &Verdict) {
        let mut summary = serde_json::to_value(verdict).unwrap_or_default();
        summary["event"] = json!("summary");
        self.tell(summary, "everything has ended; this is what the engine says:\n");
        if self.json {
            return;
        }
        let head = ["kind", "submitted", "completed", "failed", "attempts", "as promised"];
        let mut table = Table::new(&head);
        for fared in &verdict.kinds {
            table.row([
                fared.kind.to_owned(),
                fared.submitted.to_string(),
                fared.completed.to_string(),
                fared.failed.to_string(),
                fared.attempts.to_string(),
                if fared.as_promised { "yes" } else { "NO" }.to_owned(),
            ]);
        }
        self.put(&format!("{table}\n"));
        if let Some(worker) = &verdict.taken_over_by {
            let killed = &verdict.killed;
            self.put(&format!(
                "{killed} was killed; {worker} finished its work. Nobody intervened."
            ));
        }
        if verdict.came_true {
            self.put("Your turn: flowfabric serve, flowfabric worker run, flowfabric submit.");
        }
    }
}

fn nth(attempt: u32) -> String {
    if attempt == 1 { String::new() } else { format!(", attempt {attempt}") }
}
