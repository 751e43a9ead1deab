//! What is printed: lines with the time since the beginning, or the same as JSON.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use ff_sdk::FlowSnapshot;
use serde_json::{Value, json};

use super::approval;
use super::flow;
use super::processes::WorkerProcesses;
use super::scenarios::{self, Scenario};
use super::summary::Summary;
use super::worker::{Action, Report};
use crate::table::Table;

/// The first greetings are told; then everybody knows how it goes.
const GREETINGS_TOLD: u32 = 3;

/// Tells what happens.
pub(super) struct Output {
    begun: Instant,
    json: bool,
    /// Whether the reader can be asked.
    pub(super) asks: bool,
    greetings: Cell<u32>,
}

impl Output {
    pub(super) fn begin(json: bool) -> Self {
        let asks = approval::somebody_watches(json);
        Self { begun: Instant::now(), json, asks, greetings: Cell::new(0) }
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

    pub(super) fn workers_started(&self, processes: &WorkerProcesses) {
        let workers: Vec<_> = processes.members().collect();
        let named = workers.iter().map(|(name, pid)| format!("{name} (process {pid})"));
        let named = named.collect::<Vec<_>>().join(", ");
        let workers: serde_json::Map<String, Value> =
            workers.iter().map(|(name, pid)| ((*name).to_owned(), json!(pid))).collect();
        let event = json!({ "event": "workers_started", "workers": workers });
        self.tell(event, &format!("workers start: {named}"));
    }

    pub(super) fn submitted(&self) {
        let count: u32 = scenarios::SCENARIOS.iter().map(|scenario| scenario.count).sum();
        let count = count + flow::COUNT;
        let event = json!({ "event": "submitted", "count": count });
        self.tell(event, &format!("{count} executions are submitted:"));
        if !self.json {
            for scenario in scenarios::SCENARIOS {
                let Scenario { count, kind, about, .. } = scenario;
                self.put(&format!("{count:>14} {kind:<9} {about}"));
            }
            self.put(&format!("{:>14} {:<9} {}", flow::COUNT, flow::FLOW, flow::ABOUT));
        }
    }

    /// Somebody gave the word that the gate waits for.
    pub(super) fn approved(&self, by: &str) {
        self.tell(json!({ "event": "approved", "by": by }), &format!("it is approved by {by}"));
    }

    /// The last task of the flow is over.
    pub(super) fn flow_ended(&self, flow: &FlowSnapshot) {
        let event = json!({ "event": "flow_ended", "flow": flow });
        let (state, tasks) = (flow.public_flow_state, flow.node_count);
        self.tell(
            event,
            &format!("the flow \"{}\" is {state}: its {tasks} tasks are over", flow.flow_kind),
        );
    }

    pub(super) fn killed(&self, worker: &str, pid: u32) {
        let event = json!({ "event": "killed", "worker": worker, "pid": pid });
        self.tell(event, &format!("*** kill -9 {pid}: {worker} is gone, with its work half done"));
    }

    /// Somebody did something.
    pub(super) fn reported(&self, report: &Report, killed: Option<&str>) {
        let line = self.line(report, killed);
        let mut event = serde_json::to_value(report).unwrap_or_default();
        event["event"] = event["action"].take();
        if let Some(event) = event.as_object_mut() {
            event.remove("action");
        }
        self.tell(event, &line.unwrap_or_default());
    }

    /// A line, if this is worth one.
    fn line(&self, report: &Report, killed: Option<&str>) -> Option<String> {
        let Report { worker, title, attempt, .. } = report;
        match report.action {
            Action::Took if report.taken_over => {
                let lost = killed.unwrap_or("its worker");
                Some(format!("{worker} takes over \"{title}\": the lease of {lost} has lapsed"))
            }
            Action::Waits => {
                let how = if self.asks { ": press Enter" } else { "" };
                Some(format!("\"{title}\" waits for an approval{how}; no worker is held"))
            }
            Action::Took if report.kind == scenarios::ORPHAN => {
                Some(format!("{worker} takes \"{title}\""))
            }
            Action::Took => None,
            Action::Finished if report.kind == "greet" => self.greeting(report),
            Action::Finished => Some(format!("{worker} finishes \"{title}\"{}", nth(*attempt))),
            Action::Failed => {
                let scenario = scenarios::scenario_of(&report.kind);
                let next = match scenario {
                    None => "the flow goes on with what follows a failure",
                    Some(scenario) if *attempt >= scenario.attempts => "it has no retries left",
                    Some(_) => "it will be tried again",
                };
                Some(format!("{worker} fails \"{title}\"{}; {next}", nth(*attempt)))
            }
            Action::RanOutOfTime => {
                let limit = scenarios::SLOW_MS;
                Some(format!("\"{title}\" ran out of its {limit} ms; it will be tried again"))
            }
        }
    }

    fn greeting(&self, report: &Report) -> Option<String> {
        let told = self.greetings.get() + 1;
        self.greetings.set(told);
        let all = scenarios::scenario_of("greet").map_or(0, |scenario| scenario.count);
        match told {
            told if told <= GREETINGS_TOLD => {
                Some(format!("{} finishes \"{}\"", report.worker, report.title))
            }
            told if told == all => Some(format!("… and all {all} greetings are done")),
            _ => None,
        }
    }

    /// The end: what became of each kind of execution.
    pub(super) fn conclude(&self, summary: &Summary) {
        let mut event = serde_json::to_value(summary).unwrap_or_default();
        event["event"] = json!("summary");
        self.tell(event, "everything has ended; this is what the engine says:\n");
        if self.json {
            return;
        }
        let head = ["kind", "submitted", "completed", "failed", "attempts", "as promised"];
        let mut table = Table::new(&head);
        for kind_summary in &summary.kinds {
            table.row([
                kind_summary.kind.to_owned(),
                kind_summary.submitted.to_string(),
                kind_summary.completed.to_string(),
                kind_summary.failed.to_string(),
                kind_summary.attempts.to_string(),
                if kind_summary.as_promised { "yes" } else { "NO" }.to_owned(),
            ]);
        }
        self.put(&format!("{table}\n"));
        if let Some(worker) = &summary.taken_over_by {
            let killed = &summary.killed;
            self.put(&format!(
                "{killed} was killed; {worker} finished its work. Nobody intervened."
            ));
        }
        if summary.came_true {
            self.put("Your turn: flowfabric serve, flowfabric worker run, flowfabric submit.");
        }
    }
}

fn nth(attempt: u32) -> String {
    if attempt == 1 { String::new() } else { format!(", attempt {attempt}") }
}
