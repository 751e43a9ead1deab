//! Who follows what in this process: one feed per subject, shared by all who follow it, and one
//! listener per master, shared by all subjects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ff_core::backend_error::{BackendError, Retry};
use ff_core::partition::Partition;
use ff_script::host::{Subject, Subscription, Wake};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use crate::config::Address;
use crate::errors::Failure;
use crate::subject_listener::{Notes, SubjectListener};
use crate::subscriptions::{not_confirmed, repeatable};
use crate::topology::Topology;

/// Wake-ups a follower may be behind before it is told that it missed some. Few: each is a reason
/// to read, and so is having missed some, but thousands of subjects may be followed.
const BACKLOG_MAX: usize = 16;

/// A channel's name.
pub(crate) type ChannelName = Vec<u8>;

/// Everything that is followed through one host.
pub(crate) struct Followers {
    feeds: Arc<Feeds>,
    supervisor: JoinHandle<()>,
}

impl Followers {
    /// To be called on the runtime that the host's connections live on.
    pub(crate) fn new(topology: Arc<Topology>) -> Self {
        let feeds = Arc::new(Feeds {
            topology,
            runtime: Handle::current(),
            by_channel: Mutex::default(),
            listeners: Mutex::default(),
        });
        let supervisor = tokio::spawn(supervise(Arc::clone(&feeds)));
        Self { feeds, supervisor }
    }

    /// Joins the feed of a subject. Returns once the server has confirmed it, so that nothing
    /// published afterwards is missed.
    pub(crate) async fn follow(&self, subject: Subject) -> Result<Subscription, BackendError> {
        let channel = subject.channel().into_bytes();
        let (subscription, mut progress) = self.feeds.join(channel.clone(), subject.partition());
        self.feeds.note_joined(channel, subject.partition());
        let limit = self.feeds.topology.connector.config.retry_time;
        // Settled or not, what counts is how far it got.
        let _ = timeout(limit, progress.wait_for(Progress::is_settled)).await;
        match &*progress.borrow() {
            Progress::Established => Ok(subscription),
            Progress::Waiting(failure) => Err(failure.clone().unwrap_or_else(not_confirmed)),
        }
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        self.supervisor.abort();
        lock(&self.feeds.listeners).clear();
    }
}

/// Lets every listener look again at what is its own when the slots were given to others.
async fn supervise(feeds: Arc<Feeds>) {
    let mut changes = feeds.topology.changes();
    while changes.changed().await.is_ok() {
        feeds.reassign();
    }
}

/// The feeds by their channels, and those who keep them supplied. No two locks are held at a time.
pub(crate) struct Feeds {
    pub(crate) topology: Arc<Topology>,
    /// Not that of whoever follows, which may end earlier.
    runtime: Handle,
    by_channel: Mutex<HashMap<ChannelName, Feed>>,
    listeners: Mutex<HashMap<Address, Listening>>,
}

/// The wake-ups of one subject.
struct Feed {
    partition: Partition,
    wakes: broadcast::Sender<Wake>,
    progress: watch::Sender<Progress>,
}

/// How far the first subscription to a subject is.
#[derive(Clone, Debug)]
enum Progress {
    /// Not confirmed, and why the last try failed.
    Waiting(Option<BackendError>),
    /// Confirmed once. When it is taken up again, followers are told that they missed something.
    Established,
}

impl Progress {
    fn is_settled(&self) -> bool {
        match self {
            Self::Established => true,
            Self::Waiting(failure) => failure.as_ref().is_some_and(|it| it.retry == Retry::Never),
        }
    }
}

impl Feed {
    fn new(partition: Partition) -> Self {
        let progress = watch::Sender::new(Progress::Waiting(None));
        Self { partition, wakes: broadcast::Sender::new(BACKLOG_MAX), progress }
    }

    fn is_established(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Established)
    }
}

impl Feeds {
    fn join(
        self: &Arc<Self>,
        channel: ChannelName,
        partition: Partition,
    ) -> (Subscription, watch::Receiver<Progress>) {
        let mut feeds = lock(&self.by_channel);
        let feed = feeds.entry(channel.clone()).or_insert_with(|| Feed::new(partition));
        let followed = Followed { channel, feeds: Arc::downgrade(self) };
        let subscription = Subscription::holding(feed.wakes.subscribe(), followed);
        (subscription, feed.progress.subscribe())
    }

    /// Tells the listener of the partition's master about a subject; starts it if there is none.
    fn note_joined(self: &Arc<Self>, channel: ChannelName, partition: Partition) {
        let mut listeners = lock(&self.listeners);
        match self.topology.master_of(partition) {
            Ok(master) => {
                let start = || Listening::start(self, master.address.clone());
                let listening = listeners.entry(master.address.clone()).or_insert_with(start);
                listening.notes.note(channel);
            }
            // When somebody serves it, the listeners are told.
            Err(_) => self.topology.refresh_soon(),
        }
    }

    /// Forgets a subject that nobody follows any more, and gives it up. Those who come, come under
    /// the same lock: to a feed that stays, or to a new one after this one is gone.
    fn leave(&self, channel: &ChannelName) {
        let mut feeds = lock(&self.by_channel);
        let Some(feed) = feeds.get(channel).filter(|feed| feed.wakes.receiver_count() == 0) else {
            return;
        };
        let partition = feed.partition;
        feeds.remove(channel);
        drop(feeds);
        if let Ok(master) = self.topology.master_of(partition)
            && let Some(listening) = lock(&self.listeners).get(&master.address)
        {
            listening.notes.note(channel.clone());
        }
    }

    fn reassign(self: &Arc<Self>) {
        let partitions: Vec<Partition> =
            lock(&self.by_channel).values().map(|feed| feed.partition).collect();
        let mut listeners = lock(&self.listeners);
        let masters = self.topology.masters();
        listeners.retain(|address, _| masters.iter().any(|master| master.address == *address));
        for partition in partitions {
            if let Ok(master) = self.topology.master_of(partition) {
                let start = || Listening::start(self, master.address.clone());
                listeners.entry(master.address.clone()).or_insert_with(start);
            }
        }
        listeners.values().for_each(|listening| listening.notes.note_everything());
    }

    /// Every channel that is followed.
    pub(crate) fn channels(&self) -> Vec<ChannelName> {
        lock(&self.by_channel).keys().cloned().collect()
    }

    /// True if somebody follows it, and this master serves it.
    pub(crate) fn is_wanted_at(&self, channel: &ChannelName, address: &Address) -> bool {
        lock(&self.by_channel).get(channel).is_some_and(|feed| self.is_at(feed, address))
    }

    fn is_at(&self, feed: &Feed, address: &Address) -> bool {
        self.topology.master_of(feed.partition).is_ok_and(|master| master.address == *address)
    }

    /// The server listens for us, as it did before, or from now on: then something may have been
    /// missed by those who followed already.
    pub(crate) fn confirm(&self, channel: &ChannelName, from_now_on: bool) {
        if let Some(feed) = lock(&self.by_channel).get(channel) {
            if !feed.is_established() {
                feed.progress.send_replace(Progress::Established);
            } else if from_now_on {
                let _ = feed.wakes.send(Wake::Missed);
            }
        }
    }

    /// Tells those who still wait for this master's first confirmation why it does not come.
    pub(crate) fn note_failure(&self, address: &Address, failure: &Failure) {
        for feed in lock(&self.by_channel).values() {
            if !feed.is_established() && self.is_at(feed, address) {
                let why = repeatable(failure.error.clone());
                feed.progress.send_replace(Progress::Waiting(Some(why)));
            }
        }
    }

    /// Passes a message on to its followers.
    pub(crate) fn deliver(&self, channel: &ChannelName, message: Vec<u8>) {
        if let Some(feed) = lock(&self.by_channel).get(channel) {
            // The last follower may be leaving.
            let _ = feed.wakes.send(Wake::Message { partition: feed.partition, message });
        }
    }
}

/// The listener of one master, which ends with this.
struct Listening {
    notes: Arc<Notes>,
    task: AbortHandle,
}

impl Listening {
    fn start(feeds: &Arc<Feeds>, address: Address) -> Self {
        let notes = Arc::new(Notes::default());
        let listener =
            SubjectListener { feeds: Arc::clone(feeds), address, notes: Arc::clone(&notes) };
        Self { notes, task: feeds.runtime.spawn(listener.run()).abort_handle() }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Held by everyone who follows a subject. Does not keep the host's subscriptions from ending.
struct Followed {
    channel: ChannelName,
    feeds: Weak<Feeds>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(feeds) = self.feeds.upgrade() {
            feeds.leave(&self.channel);
        }
    }
}

/// Locks a mutex whose content is never left half-changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
