//! One connection that receives the wake-ups of all followed subjects that one master serves.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};

use ff_core::backend_error::{BackendErrorKind, Retry};
use redis::aio::{AsyncPushSender, SendError};
use redis::{PushInfo, PushKind, Value as Reply};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::config::Address;
use crate::connection::Connection;
use crate::errors::{Failure, Remedy};
use crate::followers::{ChannelName, Feeds, lock};
use crate::listener::{PING_INTERVAL, into_bytes};
use crate::retry::Backoff;

/// Commands that are sent before their answers are waited for.
const BATCH_MAX: usize = 256;

/// Keeps what the server listens to for us equal to what is followed.
pub(crate) struct SubjectListener {
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) address: Address,
    pub(crate) notes: Arc<Notes>,
}

impl SubjectListener {
    /// Listens until the task is aborted.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::endless();
        loop {
            let failure = match self.open().await {
                Ok(mut session) => {
                    backoff = Backoff::endless();
                    session.keep_up().await
                }
                Err(failure) => Some(failure),
            };
            self.notes.note_everything();
            match failure {
                Some(failure) => self.learn(&failure).await,
                // A channel may have been taken away because its slot moved.
                None => drop(self.feeds.topology.refresh().await),
            }
            backoff.pause().await;
        }
    }

    /// Connects, and subscribes to all that is followed here.
    async fn open(&self) -> Result<Session<'_>, Failure> {
        let (broken, lost) = watch::channel(false);
        let leaving = Arc::<Mutex<HashSet<ChannelName>>>::default();
        let delivery = Delivery {
            feeds: Arc::downgrade(&self.feeds),
            leaving: Arc::clone(&leaving),
            lost: broken,
        };
        let connector = &self.feeds.topology.connector;
        let connection = connector.open_listening(&self.address, delivery).await?;
        let mut session =
            Session { listener: self, connection, lost, leaving, subscribed: HashSet::new() };
        session.reconcile().await?;
        Ok(session)
    }

    async fn learn(&self, failure: &Failure) {
        tracing::debug!(address = %self.address, error = %failure.error, "cannot follow yet");
        self.feeds.note_failure(&self.address, failure);
        if matches!(failure.remedy, Remedy::Refresh | Remedy::Reconnect) {
            let _ = self.feeds.topology.refresh().await;
        }
    }
}

/// What a connection has subscribed to. Only one task changes that, one batch after the other, so
/// it is always known.
struct Session<'a> {
    listener: &'a SubjectListener,
    connection: Connection,
    /// True once the server has taken a channel away.
    lost: watch::Receiver<bool>,
    /// What we are about to give up.
    leaving: Arc<Mutex<HashSet<ChannelName>>>,
    subscribed: HashSet<ChannelName>,
}

impl Session<'_> {
    /// Follows what is noted until the connection is gone, has lost a channel, or does not answer;
    /// or until a command failed, which is answered.
    async fn keep_up(&mut self) -> Option<Failure> {
        loop {
            tokio::select! {
                () = self.connection.closed() => return None,
                () = taken(self.lost.clone()) => return None,
                () = self.listener.notes.noted() => {
                    if let Err(failure) = self.reconcile().await {
                        return Some(failure);
                    }
                }
                () = sleep(PING_INTERVAL) => {
                    if let Err(failure) = self.connection.run(&redis::cmd("PING")).await {
                        return Some(failure);
                    }
                }
            }
        }
    }

    /// Subscribes to what is followed and gives up what is not, as far as it was noted.
    async fn reconcile(&mut self) -> Result<(), Failure> {
        let candidates = match self.listener.notes.take() {
            Noted::These(channels) => channels,
            Noted::Everything => {
                let followed = self.listener.feeds.channels();
                followed.into_iter().chain(self.subscribed.iter().cloned()).collect()
            }
        };
        let (mut join, mut leave) = (Vec::new(), Vec::new());
        let (feeds, address) = (&self.listener.feeds, &self.listener.address);
        for channel in candidates {
            match (feeds.is_wanted_at(&channel, address), self.subscribed.contains(&channel)) {
                (true, true) => feeds.confirm(&channel, false),
                (true, false) => join.push(channel),
                (false, true) => leave.push(channel),
                (false, false) => {}
            }
        }
        for channels in leave.chunks(BATCH_MAX) {
            self.leave(channels).await?;
        }
        for channels in join.chunks(BATCH_MAX) {
            self.join(channels).await?;
        }
        Ok(())
    }

    async fn join(&mut self, channels: &[ChannelName]) -> Result<(), Failure> {
        self.send("SSUBSCRIBE", channels).await?;
        for channel in channels {
            self.subscribed.insert(channel.clone());
            self.listener.feeds.confirm(channel, true);
        }
        Ok(())
    }

    async fn leave(&mut self, channels: &[ChannelName]) -> Result<(), Failure> {
        lock(&self.leaving).extend(channels.iter().cloned());
        self.send("SUNSUBSCRIBE", channels).await?;
        for channel in channels {
            self.subscribed.remove(channel);
        }
        Ok(())
    }

    async fn send(&self, command: &str, channels: &[ChannelName]) -> Result<(), Failure> {
        let mut commands = redis::pipe();
        for channel in channels {
            // One channel each: channels of several slots cannot share a command.
            commands.cmd(command).arg(channel.as_slice());
        }
        self.connection.run_all(&commands).await?;
        // A channel that was taken away meanwhile was counted as an answer: none can be trusted.
        if *self.lost.borrow() { Err(taken_away(&self.connection.address)) } else { Ok(()) }
    }
}

/// Returns when the server has taken a channel away, or the connection is gone.
async fn taken(mut lost: watch::Receiver<bool>) {
    let _ = lost.wait_for(|lost| *lost).await;
}

fn taken_away(address: &Address) -> Failure {
    let message = format!("{address} no longer serves a channel");
    Failure::new(BackendErrorKind::Cluster, Retry::Safe, Remedy::Refresh, message)
}

/// What a listener is to look at, until it does.
#[derive(Default)]
pub(crate) struct Notes {
    noted: Mutex<Noted>,
    news: Notify,
}

/// Channels that were joined or left.
#[derive(Default)]
enum Noted {
    /// All of them: there is no connection, or the masters have changed.
    #[default]
    Everything,
    These(HashSet<ChannelName>),
}

impl Notes {
    pub(crate) fn note(&self, channel: ChannelName) {
        if let Noted::These(channels) = &mut *lock(&self.noted) {
            channels.insert(channel);
        }
        self.news.notify_one();
    }

    pub(crate) fn note_everything(&self) {
        *lock(&self.noted) = Noted::Everything;
        self.news.notify_one();
    }

    fn take(&self) -> Noted {
        std::mem::replace(&mut lock(&self.noted), Noted::These(HashSet::new()))
    }

    async fn noted(&self) {
        self.news.notified().await;
    }
}

/// Passes on what the server pushes, right where it is read.
struct Delivery {
    feeds: Weak<Feeds>,
    leaving: Arc<Mutex<HashSet<ChannelName>>>,
    lost: watch::Sender<bool>,
}

impl AsyncPushSender for Delivery {
    fn send(&self, push: PushInfo) -> Result<(), SendError> {
        match (push.kind, <[Reply; 2]>::try_from(push.data)) {
            (PushKind::SMessage, Ok([Reply::BulkString(channel), message])) => {
                if let Some(feeds) = self.feeds.upgrade() {
                    feeds.deliver(&channel, into_bytes(message));
                }
            }
            (PushKind::SUnsubscribe, Ok([Reply::BulkString(channel), _]))
                if lock(&self.leaving).remove(&channel) => {}
            (PushKind::SUnsubscribe, _) => {
                self.lost.send_replace(true);
            }
            _ => {}
        }
        Ok(())
    }
}
