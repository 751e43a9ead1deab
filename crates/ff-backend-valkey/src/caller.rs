//! Sends commands where they belong, and again what certainly was not applied.

use std::sync::Arc;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::host::Function;
use ff_script::value::Value;
use redis::Cmd;
use tokio::sync::Notify;

use crate::connection::Connection;
use crate::errors::{Failure, Remedy};
use crate::node::Node;
use crate::replication::{self, Replication};
use crate::retry::Backoff;
use crate::topology::Topology;
use crate::verifier::Verifier;

/// What somebody loses if what a call did is gone after it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stake {
    /// Nothing: it is a read, or done again by itself.
    Nothing,
    /// The knowledge of what else was lost.
    Mark,
    /// Work.
    Work,
}

impl Stake {
    pub(crate) fn of(function: Function) -> Self {
        if function.read_only || function.is_upkeep() { Self::Nothing } else { Self::Work }
    }
}

/// The way to the servers.
pub(crate) struct Caller {
    pub(crate) topology: Arc<Topology>,
    pub(crate) verifier: Verifier,
    /// Told when a server has acknowledged something, or is new, and has no mark of that yet.
    pub(crate) unmarked: Notify,
}

impl Caller {
    /// Gets to know the servers and makes them ready, within the time a call would have.
    pub(crate) async fn prepare(&self) -> Result<(), BackendError> {
        let mut backoff = Backoff::within(self.topology.connector.config.retry_time);
        loop {
            let Err(failure) = self.prepare_once().await else { return Ok(()) };
            if !failure.may_retry_here() || !backoff.pause().await {
                return Err(failure.error);
            }
        }
    }

    async fn prepare_once(&self) -> Result<(), Failure> {
        self.topology.refresh().await?;
        // The first partition has the record of the deployment, which must fit before anything is
        // changed anywhere.
        let first = self.topology.master_of(Partition::flow(0))?;
        for master in [vec![first], self.topology.masters()].concat() {
            self.verified(&master).await?;
            if let Some(way) = &master.replication {
                self.replicating(&master, way).await?;
            }
        }
        Ok(())
    }

    /// One attempt, and more if it certainly was not applied and trying again may help.
    pub(crate) async fn run(
        self: &Arc<Self>,
        partition: Partition,
        command: &Cmd,
        stake: Stake,
    ) -> Result<Value, BackendError> {
        let mut failure = match self.attempt(partition, command, stake).await {
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
            match self.attempt(partition, command, stake).await {
                Ok(value) => return Ok(value),
                Err(next) => failure = next,
            }
        }
        if matches!(failure.remedy, Remedy::Refresh | Remedy::Reconnect) {
            self.topology.refresh_soon();
        }
        Err(failure.error)
    }

    /// One attempt.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        partition: Partition,
        command: &Cmd,
        stake: Stake,
    ) -> Result<Value, Failure> {
        let node = self.topology.master_of(partition)?;
        let answer = match &node.replication {
            Some(way) if stake != Stake::Nothing => {
                replication::run(self, &node, way, command).await?
            }
            _ => self.send(&node, command).await?,
        };
        if stake == Stake::Work {
            self.unmarked(&node);
        }
        Ok(answer)
    }

    async fn send(&self, node: &Node, command: &Cmd) -> Result<Value, Failure> {
        let connection = self.verified(node).await?;
        let answer = connection.run(command).await;
        answer.inspect_err(|failure| node.react(failure, &connection))
    }

    /// A connection to a server that can be trusted.
    async fn verified(&self, node: &Node) -> Result<Arc<Connection>, Failure> {
        let connection = node.connection().await?;
        if !connection.is_verified() {
            self.verify(node, &connection).await?;
        }
        Ok(connection)
    }

    /// A connection to a server that can be trusted and has a replica that keeps up.
    pub(crate) async fn replicating(
        &self,
        node: &Node,
        way: &Replication,
    ) -> Result<Arc<Connection>, Failure> {
        let connection = node.connection_of(&way.lane).await?;
        if !connection.is_verified() {
            self.verify(node, &connection).await?;
            let within = self.topology.connector.config.replica_timeout;
            let checked = replication::check(&connection, within).await;
            checked.map_err(not_sent).inspect_err(|failure| {
                connection.set_verified(false);
                node.react(failure, &connection);
            })?;
        }
        Ok(connection)
    }

    async fn verify(&self, node: &Node, connection: &Arc<Connection>) -> Result<(), Failure> {
        let verified = self.verifier.verify(connection).await;
        let new = verified.inspect_err(|failure| node.react(failure, connection));
        if new.map_err(not_sent)? {
            // Behind a new connection there may be another server, which lacks what was marked.
            self.unmarked(node);
        }
        Ok(())
    }

    fn unmarked(&self, node: &Node) {
        if node.note_unmarked() {
            self.unmarked.notify_one();
        }
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

/// A check that lost its reply says nothing about the call, which was never sent.
fn not_sent(mut failure: Failure) -> Failure {
    if failure.error.retry == Retry::IfReplaySafe {
        failure.error.retry = Retry::Safe;
    }
    failure
}

/// The library there is right by its version and still lacks the function.
fn lacking(failure: Failure) -> BackendError {
    let message = format!(
        "{}; the library there is not older than ours, so it is another: run the same version \
         everywhere",
        failure.error.message
    );
    BackendError::new(BackendErrorKind::ScriptNotLoaded, Retry::Never, message)
}

/// The command that runs a function.
pub(crate) fn call_command(function: Function, partition: Partition, args: &Args) -> Cmd {
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
