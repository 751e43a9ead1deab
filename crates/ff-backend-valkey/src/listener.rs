//! One connection that receives the wake-ups of some partitions from one server, for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ff_core::partition::Partition;
use ff_script::host::{Topic, Wake};
use redis::aio::{AsyncPushSender, SendError};
use redis::{PushInfo, PushKind, Value as Reply};
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, sleep_until};

use crate::config::Address;
use crate::connection::Connection;
use crate::errors::{Failure, Remedy};
use crate::retry::Backoff;
use crate::topology::Topology;

/// How long a connection may be silent until it is asked whether it is still there.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(40);

/// What a listener listens to.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) topology: Arc<Topology>,
    pub(crate) address: Address,
    pub(crate) topic: Topic,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) wakes: broadcast::Sender<Wake>,
}

impl Listener {
    /// Listens until the task is aborted. `report` hears of every success and failure to subscribe.
    pub(crate) async fn run(self, report: impl Fn(Result<(), Failure>)) {
        loop {
            let mut backoff = Backoff::endless();
            let (connection, life) = loop {
                match self.subscribe().await {
                    Ok(subscribed) => break subscribed,
                    Err(failure) => {
                        tracing::debug!(error = %failure.error, "cannot subscribe yet");
                        self.learn(&failure).await;
                        report(Err(failure));
                        backoff.pause().await;
                    }
                }
            };
            report(Ok(()));
            until_broken(&connection, &life).await;
            tracing::warn!(address = %self.address, "lost a subscription, reconnects");
            // A channel may have been taken away because its slot moved.
            let _ = self.topology.refresh().await;
        }
    }

    async fn subscribe(&self) -> Result<(Connection, Arc<Life>), Failure> {
        let life = Arc::new(Life::new());
        let delivery = Delivery {
            partitions: self.channels().collect(),
            wakes: self.wakes.clone(),
            life: Arc::clone(&life),
        };
        let connector = &self.topology.connector;
        let connection = connector.open_listening(&self.address, delivery).await?;
        let mut commands = redis::pipe();
        for (channel, _) in self.channels() {
            // One channel each: channels of several slots cannot share a command.
            commands.cmd("SSUBSCRIBE").arg(channel);
        }
        connection.run_all(&commands).await?;
        Ok((connection, life))
    }

    fn channels(&self) -> impl Iterator<Item = (Vec<u8>, Partition)> + '_ {
        let named = |partition: Partition| self.topic.channel(partition).into_bytes();
        self.partitions.iter().map(move |partition| (named(*partition), *partition))
    }

    async fn learn(&self, failure: &Failure) {
        if matches!(failure.remedy, Remedy::Refresh | Remedy::Reconnect) {
            let _ = self.topology.refresh().await;
        }
    }
}

/// What is known of a connection that listens.
struct Life {
    /// When something came over it.
    heard_at: Mutex<Instant>,
    /// A channel was taken away.
    lost: Notify,
}

impl Life {
    fn new() -> Self {
        Self { heard_at: Mutex::new(Instant::now()), lost: Notify::new() }
    }

    fn heard(&self) {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When it has been silent for too long, if nothing comes.
    fn silent_at(&self) -> Instant {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner) + PING_INTERVAL
    }
}

/// Returns when the connection is gone, has lost a channel, or does not answer. One that pushes
/// come over need not be asked.
async fn until_broken(connection: &Connection, life: &Life) {
    loop {
        let silent_at = life.silent_at();
        tokio::select! {
            () = connection.closed() => return,
            () = life.lost.notified() => return,
            () = sleep_until(silent_at) => {
                if life.silent_at() > silent_at {
                    continue;
                }
                if connection.run(&redis::cmd("PING")).await.is_err() {
                    return;
                }
                life.heard();
            }
        }
    }
}

/// Turns what the server pushes into wake-ups, right where it is read.
struct Delivery {
    partitions: HashMap<Vec<u8>, Partition>,
    wakes: broadcast::Sender<Wake>,
    life: Arc<Life>,
}

impl AsyncPushSender for Delivery {
    fn send(&self, push: PushInfo) -> Result<(), SendError> {
        match (push.kind, <[Reply; 2]>::try_from(push.data)) {
            (PushKind::SMessage, Ok([Reply::BulkString(channel), message])) => {
                self.life.heard();
                if let Some(partition) = self.partitions.get(&channel) {
                    let message = into_bytes(message);
                    // Nobody may be listening at the moment.
                    let _ = self.wakes.send(Wake::Message { partition: *partition, message });
                }
            }
            (PushKind::SUnsubscribe, _) => self.life.lost.notify_one(),
            _ => {}
        }
        Ok(())
    }
}

/// The bytes of a message.
pub(crate) fn into_bytes(message: Reply) -> Vec<u8> {
    match message {
        Reply::BulkString(bytes) => bytes,
        _ => Vec::new(),
    }
}
