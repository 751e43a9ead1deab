//! Wake-ups: one feed per topic, started by its first subscriber and shared by all of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::{Partition, PartitionConfig};
use ff_script::host::{Subscription, Topic, Wake};
use tokio::sync::{Mutex, broadcast, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::config::Address;
use crate::errors::Failure;
use crate::listener::Listener;
use crate::topology::Topology;

/// Wake-ups a slow subscriber may be behind before it is told that it missed some.
const CAPACITY: usize = 8192;

/// The feeds of all topics.
pub(crate) struct Subscriptions {
    topology: Arc<Topology>,
    feeds: Mutex<HashMap<Topic, Feed>>,
}

impl Subscriptions {
    pub(crate) fn new(topology: Arc<Topology>) -> Self {
        Self { topology, feeds: Mutex::default() }
    }

    /// Joins the feed of a topic, and starts it if need be. Returns once every partition has been
    /// subscribed to, so that nothing published afterwards is missed.
    pub(crate) async fn subscribe(&self, topic: Topic) -> Result<Subscription, BackendError> {
        let (receiver, mut progress) = {
            let mut feeds = self.feeds.lock().await;
            let start = || Feed::start(Arc::clone(&self.topology), topic);
            let feed = feeds.entry(topic).or_insert_with(start);
            (feed.wakes.subscribe(), feed.progress.clone())
        };
        let limit = self.topology.connector.config.retry_time;
        // Settled or not, what counts is how far it got.
        let _ = timeout(limit, progress.wait_for(Progress::is_settled)).await;
        let now = progress.borrow();
        if now.established { Ok(Subscription::new(receiver)) } else { Err(now.error()) }
    }
}

/// The wake-ups of one topic.
struct Feed {
    wakes: broadcast::Sender<Wake>,
    progress: watch::Receiver<Progress>,
    supervisor: JoinHandle<()>,
}

impl Feed {
    fn start(topology: Arc<Topology>, topic: Topic) -> Self {
        let (wakes, _) = broadcast::channel(CAPACITY);
        let (sender, progress) = watch::channel(Progress::default());
        let supervisor = Supervisor {
            topology,
            topic,
            wakes: wakes.clone(),
            progress: Arc::new(sender),
            tasks: JoinSet::new(),
            running: HashMap::new(),
        };
        Self { wakes, progress, supervisor: tokio::spawn(supervisor.run()) }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

/// How far a feed is with its first subscription.
#[derive(Clone, Debug, Default)]
struct Progress {
    waiting_for: HashSet<Address>,
    /// True once everything was subscribed to at the same time, and ever after.
    established: bool,
    failure: Option<BackendError>,
}

impl Progress {
    fn is_settled(&self) -> bool {
        let hopeless = |error: &BackendError| error.retry == Retry::Never;
        self.established || self.failure.as_ref().is_some_and(hopeless)
    }

    fn error(&self) -> BackendError {
        self.failure.clone().unwrap_or_else(not_confirmed)
    }

    fn note(&mut self, address: &Address, result: Result<(), Failure>) {
        match result {
            Ok(()) => {
                self.waiting_for.remove(address);
                self.established |= self.waiting_for.is_empty();
            }
            Err(failure) => self.failure = Some(repeatable(failure.error)),
        }
    }
}

/// The error of a subscription that the server neither refused nor confirmed.
pub(crate) fn not_confirmed() -> BackendError {
    let message = "the subscription was not confirmed in time";
    BackendError::new(BackendErrorKind::Timeout, Retry::Safe, message)
}

/// Nothing of a subscription outlives its failure, so it can always be repeated.
pub(crate) fn repeatable(error: BackendError) -> BackendError {
    let retry = match error.retry {
        Retry::Never => Retry::Never,
        Retry::Safe | Retry::IfReplaySafe => Retry::Safe,
    };
    BackendError { retry, ..error }
}

/// Keeps one listener per master, with the partitions that this master serves.
struct Supervisor {
    topology: Arc<Topology>,
    topic: Topic,
    wakes: broadcast::Sender<Wake>,
    progress: Arc<watch::Sender<Progress>>,
    tasks: JoinSet<()>,
    running: HashMap<Address, (Vec<Partition>, AbortHandle)>,
}

impl Supervisor {
    async fn run(mut self) {
        let mut changes = self.topology.changes();
        let mut first = true;
        loop {
            changes.mark_unchanged();
            self.reconcile(first);
            first = false;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Ends the listeners whose partitions are served elsewhere now, and starts those that lack.
    fn reconcile(&mut self, first: bool) {
        let wanted = self.partitions_by_master();
        self.running.retain(|address, (partitions, task)| {
            let stays = wanted.get(address) == Some(partitions);
            if !stays {
                task.abort();
            }
            stays
        });
        self.progress.send_modify(|progress| {
            progress.waiting_for.retain(|address| wanted.contains_key(address));
            let lacking = wanted.keys().filter(|address| !self.running.contains_key(*address));
            progress.waiting_for.extend(lacking.cloned());
            progress.established |= progress.waiting_for.is_empty();
        });
        for (address, partitions) in wanted {
            if !self.running.contains_key(&address) {
                self.start(address, partitions, first);
            }
        }
    }

    fn start(&mut self, address: Address, partitions: Vec<Partition>, first: bool) {
        let listener = Listener {
            topology: Arc::clone(&self.topology),
            address: address.clone(),
            topic: self.topic,
            partitions: partitions.clone(),
            wakes: self.wakes.clone(),
        };
        let report = self.reporter(address.clone(), first);
        let task = self.tasks.spawn(listener.run(report));
        self.running.insert(address, (partitions, task));
    }

    /// Passes on how a listener fares. What it takes up again, it may have missed something of.
    fn reporter(
        &self,
        address: Address,
        first: bool,
    ) -> impl Fn(Result<(), Failure>) + Send + use<> {
        let progress = Arc::clone(&self.progress);
        let wakes = self.wakes.clone();
        let seamless = std::cell::Cell::new(first);
        move |result| {
            if result.is_ok() && !seamless.replace(false) {
                let _ = wakes.send(Wake::Missed);
            }
            progress.send_modify(|progress| progress.note(&address, result));
        }
    }

    fn partitions_by_master(&self) -> BTreeMap<Address, Vec<Partition>> {
        let mut groups: BTreeMap<Address, Vec<Partition>> = BTreeMap::new();
        for partition in published_by(self.topic, &self.topology.connector.config.partitions) {
            if let Ok(master) = self.topology.master_of(partition) {
                groups.entry(master.address.clone()).or_default().push(partition);
            }
        }
        groups
    }
}

/// The partitions that publish a topic: all of them have times, but only executions are claimed and
/// end.
fn published_by(topic: Topic, counts: &PartitionConfig) -> Vec<Partition> {
    match topic {
        Topic::Due => counts.partitions().collect(),
        Topic::Ready | Topic::Ended => counts.flow_partitions().collect(),
    }
}
