//! The worker processes of the demo.

use std::collections::BTreeMap;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc;

use super::worker::Report;
use crate::failure::Failure;

const NAMES: [&str; 3] = ["ada", "grace", "linus"];

/// The processes, and what they tell. Whoever is left is killed when it is dropped.
pub(super) struct WorkerProcesses {
    workers: BTreeMap<&'static str, Child>,
    reports: mpsc::UnboundedReceiver<Report>,
    /// Kept, so that waiting for reports never ends.
    _sender: mpsc::UnboundedSender<Report>,
}

impl WorkerProcesses {
    pub(super) fn start(url: &str) -> Result<Self, Failure> {
        let (sender, reports) = mpsc::unbounded_channel();
        let mut workers = BTreeMap::new();
        for name in NAMES {
            let mut worker = start(name, url)?;
            let stdout = worker.stdout.take().ok_or("a worker has no output")?;
            tokio::spawn(listen(stdout, sender.clone()));
            workers.insert(name, worker);
        }
        Ok(Self { workers, reports, _sender: sender })
    }

    /// Names and process numbers.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.workers.iter().filter_map(|(name, worker)| Some((*name, worker.id()?)))
    }

    /// The next thing that somebody did.
    pub(super) async fn next(&mut self) -> Report {
        match self.reports.recv().await {
            Some(report) => report,
            None => std::future::pending().await,
        }
    }

    /// What was told and not yet asked for.
    pub(super) fn already_told(&mut self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    /// Kills a worker with SIGKILL: no goodbye, no clean-up.
    pub(super) async fn kill(&mut self, name: &str) -> Result<u32, Failure> {
        let worker = self.workers.get_mut(name).ok_or("there is no such worker")?;
        let pid = worker.id().ok_or("the worker has ended by itself")?;
        worker.kill().await?;
        Ok(pid)
    }

    /// Ends and reaps everybody.
    pub(super) async fn stop(&mut self) {
        for worker in self.workers.values_mut() {
            // One that was killed before is gone already.
            let _ = worker.kill().await;
        }
    }
}

fn start(name: &str, url: &str) -> Result<Child, Failure> {
    let started = Command::new(std::env::current_exe()?)
        .args(["demo-worker", name, "--url", url])
        .env_remove("FLOWFABRIC_TOKEN")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    started.map_err(|error| format!("the worker {name} could not be started: {error}").into())
}

async fn listen(stdout: ChildStdout, sender: mpsc::UnboundedSender<Report>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(report) = serde_json::from_str(&line) else { continue };
        if sender.send(report).is_err() {
            return;
        }
    }
}
