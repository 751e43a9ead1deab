//! Whether the store still has what it acknowledged. A replica that takes over may lack the last
//! writes of its primary, and a server that starts again may have lost what was not yet on disk.
//!
//! After acknowledged work a growing number, the mark, is left in the shard that it went to, at
//! once and then at most every [`PACE`]. Replicas and files have writes in their order: a shard
//! that still has a mark has everything that was acknowledged before the mark was sent. One that
//! has a smaller mark than was acknowledged has lost what was written since.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::TimestampMs;
use ff_script::call::{Call, open_reply};
use ff_script::calls::mark::{MarkShard, MarkShardReply};
use ff_script::ids::{IdSource as _, SystemIds};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::caller::{Caller, Stake, call_command};
use crate::config::Address;
use crate::node::Node;

/// The shortest time between two marks of one shard: what was acknowledged within this time before
/// a failover can be lost unnoticed.
const PACE: Duration = Duration::from_millis(50);

/// How long a mark may take before the other shards are marked again without it.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Losses that are remembered in detail.
const LOSSES_MAX: usize = 100;

/// Work that a server had acknowledged and no longer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The server that was found to lack it.
    pub address: String,
    /// When that was noticed, by the store's clock.
    pub noticed_at: TimestampMs,
    /// The last time whose writes are certainly there; 0 if nothing of ours is.
    pub kept_until: TimestampMs,
    /// The last time at which a write is known to have been acknowledged.
    pub acknowledged_until: TimestampMs,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kept_until, acknowledged_until, .. } = self;
        if kept_until.get() == 0 {
            return write!(
                f,
                "nothing is left of what was acknowledged until {acknowledged_until}"
            );
        }
        let ms = acknowledged_until.get().saturating_sub(kept_until.get());
        write!(f, "writes were acknowledged until {acknowledged_until}; the last {ms} ms are lost")
    }
}

/// Leaves marks, and remembers which were acknowledged.
pub(crate) struct Marks {
    caller: Arc<Caller>,
    server: MarkShard,
    seen: Mutex<HashMap<Partition, Seen>>,
    losses: Mutex<VecDeque<Loss>>,
    count: AtomicU64,
}

/// What is known about the mark in one partition.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sent: u64,
    acknowledged: u64,
    at: TimestampMs,
}

impl Marks {
    pub(crate) fn new(caller: Arc<Caller>) -> Self {
        Self {
            caller,
            server: MarkShard { server: SystemIds.random(), mark: 0 },
            seen: Mutex::default(),
            losses: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }

    /// How many losses were noticed.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The latest losses.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Marks what has acknowledged something or was connected to anew, and everything now and then,
    /// for as long as the task lives.
    pub(crate) async fn run(self: Arc<Self>, every: Duration) {
        let mut changes = self.caller.topology.changes();
        let mut shards = self.shards();
        let mut next_round = Instant::now() + every;
        loop {
            let round = timeout_at(next_round, self.caller.unmarked.notified()).await.is_err();
            if round {
                next_round = Instant::now() + every;
            }
            if changes.has_changed().unwrap_or(false) {
                changes.mark_unchanged();
                shards = self.shards();
            }
            let mut marking = JoinSet::new();
            for (node, partition) in &shards {
                if node.take_unmarked() || round {
                    let (marks, node) = (Arc::clone(&self), Arc::clone(node));
                    let partition = *partition;
                    marking.spawn(async move { marks.mark(&node, partition).await });
                }
            }
            while marking.join_next().await.is_some() {}
            sleep(PACE).await;
        }
    }

    /// Every master with the partition of its marks.
    fn shards(&self) -> Vec<(Arc<Node>, Partition)> {
        let topology = &self.caller.topology;
        let marked = |node: Arc<Node>| {
            topology.last_partition_of(&node.address).ok().map(|partition| (node, partition))
        };
        topology.masters().into_iter().filter_map(marked).collect()
    }

    async fn mark(&self, node: &Node, partition: Partition) {
        let mark = self.next(partition);
        let call = MarkShard { mark, ..self.server.clone() };
        let command = call_command(MarkShard::FUNCTION, partition, &call.encode());
        let answer =
            timeout(TIME_LIMIT, self.caller.attempt(partition, &command, Stake::Mark)).await;
        let reply = answer.ok().and_then(Result::ok).map(|reply| {
            let (status, values) = open_reply(MarkShard::CONTRACT.name, reply)?;
            MarkShard::decode(&status, values)
        });
        match reply {
            Some(Ok(reply)) => self.note(partition, mark, &reply),
            Some(Err(error)) => warn_of(&node.address, &error),
            // It is down, or on its way to somebody else; calls say so in their own words.
            None => {
                if node.note_unmarked() {
                    self.caller.unmarked.notify_one();
                }
            }
        }
    }

    fn next(&self, partition: Partition) -> u64 {
        let mut seen = self.seen();
        let seen = seen.entry(partition).or_default();
        seen.sent += 1;
        seen.sent
    }

    fn note(&self, partition: Partition, mark: u64, reply: &MarkShardReply) {
        let MarkShardReply::Marked { found, found_at, now } = reply;
        let mut seen = self.seen();
        let seen = seen.entry(partition).or_default();
        // After so long without a mark of ours, it may have been forgotten and not lost.
        let comparable = now.get() < seen.at.get() + limits::MARK_KEPT_MS;
        if *found < seen.acknowledged && comparable {
            self.report(Loss {
                address: self.address_of(partition),
                noticed_at: *now,
                kept_until: *found_at,
                acknowledged_until: seen.at,
            });
        }
        (seen.acknowledged, seen.at) = (mark, *now);
    }

    fn address_of(&self, partition: Partition) -> String {
        let master = self.caller.topology.master_of(partition);
        master.map_or_else(|_| "unknown".to_owned(), |node| node.address.to_string())
    }

    fn report(&self, loss: Loss) {
        tracing::error!(address = %loss.address, "the store has lost acknowledged work: {loss}");
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        if losses.len() == LOSSES_MAX {
            losses.pop_front();
        }
        losses.push_back(loss);
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Partition, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warn_of(address: &Address, error: &EngineError) {
    tracing::warn!(%address, %error, "a mark was answered strangely: losses may go unnoticed");
}
