//! The host: what the rest of the project sees of a server or cluster.

use std::sync::Arc;

use ff_core::backend_error::BackendError;
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::dump::Dump;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use redis::Cmd;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::caller::{Caller, Stake, call_command};
use crate::config::ValkeyConfig;
use crate::connection::Connector;
use crate::followers::Followers;
use crate::marks::{Loss, Marks};
use crate::persistence::Persistence;
use crate::subscriptions::Subscriptions;
use crate::topology::Topology;
use crate::verifier::Verifier;
use crate::{dump, health_check};

/// A Valkey server or cluster that runs the function library.
pub struct ValkeyHost {
    caller: Arc<Caller>,
    marks: Arc<Marks>,
    subscriptions: Subscriptions,
    followers: Followers,
    background: [JoinHandle<()>; 2],
}

impl ValkeyHost {
    /// Connects, refuses servers that cannot be trusted with state, and loads the library on every
    /// master that lacks it or runs an older one.
    pub async fn connect(config: ValkeyConfig, library: Library) -> Result<Self, BackendError> {
        let check_interval = config.check_interval;
        let connector = Arc::new(Connector::new(config.clone())?);
        let caller = Arc::new(Caller {
            topology: Arc::new(Topology::new(connector)),
            verifier: Verifier::new(config, library),
            unmarked: Notify::new(),
        });
        caller.prepare().await?;
        let marks = Arc::new(Marks::new(Arc::clone(&caller)));
        let guarding = health_check::run(Arc::clone(&caller), check_interval);
        let marking = Arc::clone(&marks).run(check_interval);
        Ok(Self {
            subscriptions: Subscriptions::new(Arc::clone(&caller.topology)),
            followers: Followers::new(Arc::clone(&caller.topology)),
            background: [tokio::spawn(guarding), tokio::spawn(marking)],
            caller,
            marks,
        })
    }

    /// What each master keeps on disk, as it was last seen.
    pub fn persistence(&self) -> Vec<(String, Persistence)> {
        let masters = self.caller.topology.masters().into_iter();
        let kept = masters.map(|node| (node, &self.caller.verifier)).filter_map(|(node, seen)| {
            Some((node.address.to_string(), seen.kept_by(&node.address)?))
        });
        kept.collect()
    }

    /// Why calls that a replica must confirm are not confirmed at present, if they are not.
    pub fn replication_trouble(&self) -> Option<BackendError> {
        let masters = self.caller.topology.masters().into_iter();
        { masters }.find_map(|node| node.replication.as_ref()?.trouble())
    }

    /// The latest losses of acknowledged work that were noticed, oldest first.
    pub fn noticed_losses(&self) -> Vec<Loss> {
        self.marks.losses()
    }

    /// Everything the store holds under our keys. For tests and audits: it reads it all.
    pub async fn dump(&self) -> Result<Dump, BackendError> {
        let mut dump = Dump::new();
        self.read_all(|mut some| {
            dump.append(&mut some);
            Ok(())
        })
        .await?;
        Ok(dump)
    }

    /// Hands over everything the store holds under our keys, some at a time; a key may come twice.
    /// It is of one moment if nobody writes meanwhile.
    pub async fn read_all(
        &self,
        mut take: impl FnMut(Dump) -> Result<(), BackendError> + Send,
    ) -> Result<(), BackendError> {
        for master in self.caller.topology.masters() {
            let connection = master.connection().await.map_err(|failure| failure.error)?;
            dump::read_all(&connection, &mut take).await?;
        }
        Ok(())
    }

    /// Runs a raw command on the server of a partition. For tests and measurements.
    pub async fn exec(&self, partition: Partition, words: &[&[u8]]) -> Result<Value, BackendError> {
        self.caller.run(partition, &raw_command(words), Stake::Nothing).await
    }

    /// Runs a raw command on every master, and says what each answered. For tests and measurements.
    pub async fn raw_on_all_masters(
        &self,
        words: &[&[u8]],
    ) -> Result<Vec<(String, Value)>, BackendError> {
        let command = raw_command(words);
        let mut answers = Vec::new();
        for master in self.caller.topology.masters() {
            let connection = master.connection().await.map_err(|failure| failure.error)?;
            let answer = connection.run(&command).await.map_err(|failure| failure.error)?;
            answers.push((master.address.to_string(), answer));
        }
        Ok(answers)
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
        let stake = Stake::of(function);
        Box::pin(async move { self.caller.run(partition, &command, stake).await })
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        Box::pin(self.subscriptions.subscribe(topic))
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        Box::pin(self.followers.follow(subject))
    }

    fn losses(&self) -> u64 {
        self.marks.count()
    }

    fn name(&self) -> &'static str {
        if self.caller.topology.connector.config.cluster { "valkey-cluster" } else { "valkey" }
    }
}

impl Drop for ValkeyHost {
    fn drop(&mut self) {
        self.background.iter().for_each(JoinHandle::abort);
    }
}

fn raw_command(words: &[&[u8]]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}
