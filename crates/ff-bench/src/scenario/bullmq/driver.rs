//! BullMQ, in a process of its own: fetched by npm into a directory that goes with the run.

use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Failure;
use crate::store;

/// What is compared with. The client is the one that BullMQ recommends.
const PACKAGES: [&str; 2] = ["bullmq@6.7", "ioredis@5"];
const SOURCE: &str = include_str!("driver.mjs");

/// BullMQ, ready for commands.
pub(super) struct Driver {
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _process: Child,
    _directory: TempDir,
}

impl Driver {
    /// Fetches and starts it, for the Valkey on this port.
    pub(super) async fn start(port: u16, workers: u32, bytes: u32) -> Result<Self, Failure> {
        let directory = store::directory()?;
        let mut install = Command::new("npm");
        install.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
        install.args(PACKAGES).current_dir(directory.path()).stdout(Stdio::null());
        let installed = install.status().await.map_err(missing)?;
        if !installed.success() {
            return Err(format!("npm could not fetch {}", PACKAGES.join(" and ")).into());
        }
        let file = directory.path().join("driver.mjs");
        std::fs::write(&file, SOURCE)?;
        let mut node = Command::new("node");
        node.arg(file).args([port.to_string(), workers.to_string(), bytes.to_string()]);
        node.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = node.spawn().map_err(missing)?;
        let orders = process.stdin.take().ok_or("node has no input")?;
        let output = process.stdout.take().ok_or("node has no output")?;
        let answers = BufReader::new(output).lines();
        let mut driver = Self { orders, answers, _process: process, _directory: directory };
        driver.answer().await?;
        Ok(driver)
    }

    /// Does something to so many jobs; answers how long BullMQ says it took.
    pub(super) async fn run(&mut self, what: &str, count: u64) -> Result<Duration, Failure> {
        self.orders.write_all(format!("{what} {count}\n").as_bytes()).await?;
        let ms: f64 = self.answer().await?.parse()?;
        Ok(Duration::from_secs_f64(ms / 1e3))
    }

    async fn answer(&mut self) -> Result<String, Failure> {
        let line = self.answers.next_line().await?;
        line.ok_or_else(|| "BullMQ ended; it says why above".into())
    }
}

fn missing(error: std::io::Error) -> Failure {
    format!("node and npm are needed to compare with BullMQ: {error}").into()
}
