//! Looks now and then whether a function goes on for too long, which nothing but the end of the
//! process can stop.
//!
//! A shard writes down what it runs; the watchdog's thread compares what it finds with what it
//! found the last time. It counts its looks and asks no clock, so that a process which was halted
//! for an hour is not mistaken for one whose function ran that long.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::partition::Partition;

use crate::config::WatchdogConfig;

/// Looks in the time after which a function is reported.
const LOOKS_PER_REPORT: u32 = 10;

/// What a shard runs now.
#[derive(Debug, Default)]
pub(crate) struct Post(Mutex<Entry>);

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Number of the call that was begun last.
    number: u64,
    call: Option<(&'static str, Partition)>,
}

impl Post {
    /// A call begins.
    pub(crate) fn begin(&self, function: &'static str, partition: Partition) {
        let mut entry = self.lock();
        entry.number += 1;
        entry.call = Some((function, partition));
    }

    /// The last call that was begun has ended.
    pub(crate) fn rest(&self) {
        self.lock().call = None;
    }

    fn lock(&self) -> MutexGuard<'_, Entry> {
        // An entry is never left half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watchdog's thread.
pub(crate) struct Watchdog {
    config: WatchdogConfig,
    watched: Vec<Watched>,
}

struct Watched {
    post: Arc<Post>,
    /// The call that was found last, and in how many looks.
    number: u64,
    looks: u32,
}

impl Watchdog {
    pub(crate) fn new(config: WatchdogConfig, posts: &[Arc<Post>]) -> Self {
        let watched = |post: &Arc<Post>| Watched { post: Arc::clone(post), number: 0, looks: 0 };
        Self { config, watched: posts.iter().map(watched).collect() }
    }

    /// Looks until the other end of the channel is dropped.
    pub(crate) fn run(mut self, closed: &mpsc::Receiver<()>) {
        let interval = self.config.report_after / LOOKS_PER_REPORT;
        while closed.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            for watched in &mut self.watched {
                if let Some((function, partition)) = watched.look() {
                    judge(&self.config, interval, watched.looks, function, partition);
                }
            }
        }
    }
}

impl Watched {
    /// What runs now, if it ran at the last look already.
    fn look(&mut self) -> Option<(&'static str, Partition)> {
        let Entry { number, call } = *self.post.lock();
        let same = call.is_some() && number == self.number;
        self.looks = if same { self.looks.saturating_add(1) } else { 0 };
        self.number = number;
        call.filter(|_| same)
    }
}

fn judge(
    config: &WatchdogConfig,
    interval: Duration,
    looks: u32,
    function: &str,
    partition: Partition,
) {
    if interval.saturating_mul(looks) >= config.end_after {
        // Said here, too: the log may be nowhere, and there is no other way to tell.
        let limit = config.end_after;
        eprintln!(
            "{function} has run on {partition} for {limit:?} and cannot be stopped: aborting"
        );
        tracing::error!("{function} has run on {partition} for {limit:?}: the process is aborted");
        std::process::abort();
    }
    if looks == LOOKS_PER_REPORT {
        let after = config.report_after;
        tracing::error!("{function} has run on {partition} for {after:?} and goes on");
    }
}
