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

/// Looks at a call before anything is done about it.
const LOOKS_MIN: u32 = 10;
/// Whatever the configuration says, looking costs nothing that could be felt.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

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
        let WatchdogConfig { report_after, end_after } = self.config;
        let interval = (report_after.min(end_after) / LOOKS_MIN).max(INTERVAL_MIN);
        while closed.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            for watched in &mut self.watched {
                let Some((function, partition)) = watched.look() else { continue };
                match action(self.config, interval, watched.looks) {
                    Action::Fine => {}
                    Action::Report => {
                        let time = report_after;
                        tracing::error!("{function} has run on {partition} for {time:?}");
                    }
                    Action::End => end(function, partition, end_after),
                }
            }
        }
    }
}

/// What is to be done about a function that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Fine,
    Report,
    End,
}

fn action(config: WatchdogConfig, interval: Duration, looks: u32) -> Action {
    let time = interval.saturating_mul(looks);
    let is_first = time.saturating_sub(interval) < config.report_after;
    if time >= config.end_after {
        Action::End
    } else if time >= config.report_after && is_first {
        Action::Report
    } else {
        Action::Fine
    }
}

/// Ends the process: there is no way to stop a thread.
fn end(function: &str, partition: Partition, after: Duration) -> ! {
    let what = format!("{function} has run on {partition} for {after:?} and cannot be stopped");
    tracing::error!("{what}: the process is aborted");
    // Said here, too: the log may be nowhere, and nothing else will tell.
    eprintln!("{what}: the process is aborted");
    std::process::abort();
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Partition = Partition::flow(7);

    #[test]
    fn only_a_call_that_was_there_at_the_last_look_goes_on() {
        let post = Arc::new(Post::default());
        let mut watched = Watched { post: Arc::clone(&post), number: 0, looks: 0 };
        assert_eq!(watched.look(), None);
        post.begin("f", HOME);
        assert_eq!(watched.look(), None, "it has just begun");
        assert_eq!((watched.look(), watched.look()), (Some(("f", HOME)), Some(("f", HOME))));
        assert_eq!(watched.looks, 2);
        post.rest();
        assert_eq!(watched.look(), None);
        post.begin("f", HOME);
        assert_eq!(watched.look(), None, "it is another call");
        post.begin("f", HOME);
        assert_eq!((watched.look(), watched.looks), (None, 0));
    }

    #[test]
    fn a_call_is_reported_once_and_then_ends_the_process() {
        let (report_after, end_after) = (Duration::from_secs(10), Duration::from_secs(60));
        let config = WatchdogConfig { report_after, end_after };
        let at = |looks| action(config, Duration::from_secs(1), looks);
        assert_eq!(
            [at(1), at(9), at(10), at(11)],
            [Action::Fine, Action::Fine, Action::Report, Action::Fine]
        );
        assert_eq!([at(59), at(60), at(61)], [Action::Fine, Action::End, Action::End]);
        let never = WatchdogConfig { end_after: Duration::MAX, ..config };
        assert_eq!(action(never, Duration::from_secs(1), u32::MAX), Action::Fine);
    }
}
