//! One connection that receives the wake-ups of some partitions from one server, for ever.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ff_core::partition::Partition;
use ff_script::host::{Topic, Wake};
use redis::aio::{AsyncPushSender, SendError};
use redis::{PushInfo, PushKind, Value as Reply};
use tokio::sync::{Notify, broadcast};
use tokio::time::sleep;

use crate::config::Address;
use crate::connection::Connection;
use crate::errors::{Failure, Remedy};
use crate::retry::Backoff;
use crate::topology::Topology;

/// How often a silent connection is asked whether it is still there.
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
            let (connection, lost) = loop {
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
            until_broken(&connection, &lost).await;
            tracing::warn!(address = %self.address, "lost a subscription, reconnects");
            // A channel may have been taken away because its slot moved.
            let _ = self.topology.refresh().await;
        }
    }

    async fn subscribe(&self) -> Result<(Connection, Arc<Notify>), Failure> {
        let lost = Arc::new(Notify::new());
        let delivery = Delivery {
            partitions: self.channels().collect(),
            wakes: self.wakes.clone(),
            lost: Arc::clone(&lost),
        };
        let connector = &self.topology.connector;
        let connection = connector.open_listening(&self.address, delivery).await?;
        let mut commands = redis::pipe();
        for (channel, _) in self.channels() {
            // One channel each: channels of several slots cannot share a command.
            commands.cmd("SSUBSCRIBE").arg(channel);
        }
        connection.run_all(&commands).await?;
        Ok((connection, lost))
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

/// Returns when the connection is gone, has lost a channel, or does not answer.
async fn until_broken(connection: &Connection, lost: &Notify) {
    loop {
        tokio::select! {
            () = connection.closed() => return,
            () = lost.notified() => return,
            () = sleep(PING_INTERVAL) => {
                if connection.run(&redis::cmd("PING")).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Turns what the server pushes into wake-ups, right where it is read.
struct Delivery {
    partitions: HashMap<Vec<u8>, Partition>,
    wakes: broadcast::Sender<Wake>,
    lost: Arc<Notify>,
}

impl AsyncPushSender for Delivery {
    fn send(&self, push: PushInfo) -> Result<(), SendError> {
        match (push.kind, <[Reply; 2]>::try_from(push.data)) {
            (PushKind::SMessage, Ok([Reply::BulkString(channel), message])) => {
                if let Some(partition) = self.partitions.get(&channel) {
                    let message = into_bytes(message);
                    // Nobody may be listening at the moment.
                    let _ = self.wakes.send(Wake::Message { partition: *partition, message });
                }
            }
            (PushKind::SUnsubscribe, _) => self.lost.notify_one(),
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
