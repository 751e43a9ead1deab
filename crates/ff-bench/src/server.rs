//! A server in a process of its own: this very program, started once more.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use ff_backend_embedded::SyncMode;
use ff_server::{Server, ServerConfig, StoreConfig};
use tempfile::TempDir;

use crate::Failure;
use crate::arguments::{HostKind, Journal, StoreOptions};
use crate::store::{self, Place};
use crate::threads::{self, ThreadTimes};

/// What the server's process is told.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The URL of a Valkey, or the directory of an embedded store.
    #[arg(long)]
    store: String,

    /// When a call counts as done.
    #[arg(long, value_enum)]
    journal: Journal,

    /// Number of flow partitions.
    #[arg(long)]
    partitions: u16,
}

/// How long requests under way have when the server is to end.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs a server until the standard input ends. First prints where it listens.
pub(crate) fn serve(options: &Options) -> Result<(), Failure> {
    // As the product runs it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = ServerConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            store: store_config(options)?,
            partitions: Some(options.partitions),
            ..ServerConfig::default()
        };
        let server = Server::start(config).await?;
        println!("{}", server.local_addr());
        std::io::stdout().flush()?;
        tokio::task::spawn_blocking(|| std::io::stdin().lines().for_each(drop)).await?;
        server.shutdown(DRAIN).await;
        Ok(())
    })
}

fn store_config(options: &Options) -> Result<StoreConfig, Failure> {
    if options.store.contains("://") {
        return Ok(StoreConfig::parse(&options.store)?);
    }
    let dir = PathBuf::from(&options.store);
    Ok(match options.journal {
        Journal::Always => StoreConfig::directory(dir, SyncMode::Always),
        Journal::Everysec => StoreConfig::directory(dir, SyncMode::EverySec),
        Journal::Off => StoreConfig::memory(),
    })
}

/// A store started for the run, for one or several servers.
pub(crate) struct ServedStore {
    options: StoreOptions,
    /// A URL or a directory.
    pub(crate) store: String,
    _place: Kept,
}

enum Kept {
    Valkey { _place: Place },
    Directory { _directory: TempDir },
}

impl ServedStore {
    /// Starts Valkey, or makes a directory.
    pub(crate) fn start(options: &StoreOptions) -> Result<Self, Failure> {
        let (store, place) = if options.host == HostKind::Embedded {
            let directory = store::directory()?;
            let path = directory.path().join("data").display().to_string();
            (path, Kept::Directory { _directory: directory })
        } else {
            let (url, place) = store::start(options)?;
            (url, Kept::Valkey { _place: place })
        };
        Ok(Self { options: options.clone(), store, _place: place })
    }

    /// Starts a server on it, and waits until it listens.
    pub(crate) fn serve(&self) -> Result<ServerProcess, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").args(["--store", &self.store]);
        command.args(["--journal", &self.options.journal.to_string()]);
        command.args(["--partitions", &self.options.partitions.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("the server has no output")?;
        let mut process = ServerProcess { child, address: String::new() };
        BufReader::new(output).read_line(&mut process.address)?;
        process.address.truncate(process.address.trim_end().len());
        if process.address.is_empty() {
            return Err("the server did not start; it says why above".into());
        }
        Ok(process)
    }
}

/// A server that runs until this is dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: String,
}

impl ServerProcess {
    /// Processor time that it used so far.
    pub(crate) fn times(&self) -> ThreadTimes {
        threads::times_of(self.child.id()).unwrap_or_default()
    }

    /// Memory that it occupies.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        threads::resident_bytes_of(self.child.id())
    }
}

impl Drop for ServerProcess {
    /// Its input ends, and then it does.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
