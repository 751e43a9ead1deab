//! The host: sends calls where they belong, tries again what certainly was not applied.

use std::sync::Arc;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::dump::Dump;
use ff_script::host::{Function, Host, Subscription, Topic};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use redis::Cmd;
use tokio::task::JoinHandle;

use crate::config::ValkeyConfig;
use crate::connection::Connector;
use crate::errors::{Failure, Remedy};
use crate::loader::Loader;
use crate::retry::Backoff;
use crate::subscriptions::Subscriptions;
use crate::topology::Topology;
use crate::{dump, guardian, preflight};

/// A Valkey server or cluster that runs the function library.
pub struct ValkeyHost {
    topology: Arc<Topology>,
    loader: Arc<Loader>,
    subscriptions: Subscriptions,
    guardian: JoinHandle<()>,
}

impl ValkeyHost {
    /// Connects, refuses servers that cannot be trusted with state, and loads the library on every
    /// master that lacks it or runs an older one.
    pub async fn connect(config: ValkeyConfig, library: Library) -> Result<Self, BackendError> {
        let check_interval = config.check_interval;
        let topology = Arc::new(Topology::new(Arc::new(Connector::new(config)?)));
        let loader = Arc::new(Loader::new(library));
        prepare(&topology, &loader).await?;
        let watching = guardian::watch(Arc::clone(&topology), Arc::clone(&loader), check_interval);
        Ok(Self {
            subscriptions: Subscriptions::new(Arc::clone(&topology)),
            guardian: tokio::spawn(watching),
            topology,
            loader,
        })
    }

    /// Everything the store holds under our keys. For tests and audits: it reads it all.
    pub async fn dump(&self) -> Result<Dump, BackendError> {
        let mut dump = Dump::new();
        for master in self.topology.masters() {
            let connection = master.connection().await.map_err(|failure| failure.error)?;
            dump::read_all(&connection, &mut dump).await.map_err(|failure| failure.error)?;
        }
        Ok(dump)
    }

    /// Runs a raw command on the server of a partition. For tests and measurements.
    pub async fn exec(&self, partition: Partition, words: &[&[u8]]) -> Result<Value, BackendError> {
        self.run(partition, &raw_command(words)).await
    }

    /// Runs a raw command on every master, and says what each answered. For tests and measurements.
    pub async fn raw_on_all_masters(
        &self,
        words: &[&[u8]],
    ) -> Result<Vec<(String, Value)>, BackendError> {
        let command = raw_command(words);
        let mut answers = Vec::new();
        for master in self.topology.masters() {
            let connection = master.connection().await.map_err(|failure| failure.error)?;
            let answer = connection.run(&command).await.map_err(|failure| failure.error)?;
            answers.push((master.address.to_string(), answer));
        }
        Ok(answers)
    }

    /// One attempt, and more if it certainly was not applied and trying again may help.
    async fn run(&self, partition: Partition, command: &Cmd) -> Result<Value, BackendError> {
        let mut failure = match self.attempt(partition, command).await {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        let mut backoff = Backoff::within(self.topology.connector.config.retry_time);
        let mut reloads = 0;
        while failure.may_retry_here() && backoff.pause().await {
            reloads += usize::from(failure.remedy == Remedy::LoadLibrary);
            if reloads > 2 {
                return Err(lacking(failure));
            }
            self.amend(partition, &failure).await;
            match self.attempt(partition, command).await {
                Ok(value) => return Ok(value),
                Err(next) => failure = next,
            }
        }
        if matches!(failure.remedy, Remedy::Refresh | Remedy::Reconnect) {
            self.topology.refresh_soon();
        }
        Err(failure.error)
    }

    async fn attempt(&self, partition: Partition, command: &Cmd) -> Result<Value, Failure> {
        let node = self.topology.master_of(partition)?;
        let connection = node.connection().await?;
        if !connection.is_verified() {
            let verified = self.loader.verify(&connection).await;
            verified.inspect_err(|failure| node.react(failure, &connection)).map_err(not_sent)?;
        }
        let answer = connection.run(command).await;
        answer.inspect_err(|failure| node.react(failure, &connection))
    }

    /// Learns what the failure taught about the cluster, before the next attempt.
    async fn amend(&self, partition: Partition, failure: &Failure) {
        if let Some(address) = &failure.moved_to {
            self.topology.note_move(partition, address);
            self.topology.refresh_soon();
        } else if matches!(failure.remedy, Remedy::Refresh | Remedy::Reconnect) {
            // If nobody answers, the next attempt says so in its own words.
            let _ = self.topology.refresh().await;
        }
    }
}

impl Host for ValkeyHost {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        let command = call_command(function, partition, &args);
        Box::pin(async move { self.run(partition, &command).await })
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        Box::pin(self.subscriptions.subscribe(topic))
    }

    fn name(&self) -> &'static str {
        if self.topology.connector.config.cluster { "valkey-cluster" } else { "valkey" }
    }
}

impl Drop for ValkeyHost {
    fn drop(&mut self) {
        self.guardian.abort();
    }
}

/// Gets to know the servers and makes them ready, within the time a call would have.
async fn prepare(topology: &Topology, loader: &Loader) -> Result<(), BackendError> {
    let mut backoff = Backoff::within(topology.connector.config.retry_time);
    loop {
        let Err(failure) = prepare_once(topology, loader).await else { return Ok(()) };
        if !failure.may_retry_here() || !backoff.pause().await {
            return Err(failure.error);
        }
    }
}

async fn prepare_once(topology: &Topology, loader: &Loader) -> Result<(), Failure> {
    topology.refresh().await?;
    for master in topology.masters() {
        let connection = master.connection().await?;
        let ready = async {
            preflight::inspect(&connection, topology.connector.config.cluster).await?;
            loader.verify(&connection).await
        };
        ready.await.inspect_err(|failure| master.react(failure, &connection)).map_err(not_sent)?;
    }
    Ok(())
}

/// A check that lost its reply says nothing about the call, which was never sent.
fn not_sent(mut failure: Failure) -> Failure {
    if failure.error.retry == Retry::IfReplaySafe {
        failure.error.retry = Retry::Safe;
    }
    failure
}

/// The library there is right by its version and still lacks the function.
fn lacking(failure: Failure) -> BackendError {
    let message = format!("{}; the library there is not older than ours", failure.error.message);
    BackendError::new(BackendErrorKind::ScriptNotLoaded, Retry::Never, message)
}

fn call_command(function: Function, partition: Partition, args: &Args) -> Cmd {
    const FIXED_BYTES: usize = 64;
    let size = args.iter().map(<[u8]>::len).sum::<usize>();
    let mut command = Cmd::with_capacity(4 + args.len(), FIXED_BYTES + size);
    command.arg(if function.read_only { "FCALL_RO" } else { "FCALL" });
    command.arg(function.wire_name).arg("1").arg(partition.key());
    for argument in args.iter() {
        command.arg(argument);
    }
    command
}

fn raw_command(words: &[&[u8]]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}
