//! One lane: the partitions that may have work, and how much of it was announced.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::LaneId;
use tokio::sync::Notify;

/// Nobody counted: there may be any number.
const UNCOUNTED: u32 = u32::MAX;

pub(crate) struct Lane {
    name: LaneId,
    partitions: Mutex<Partitions>,
    turns: AtomicUsize,
    /// How large its payloads are, as far as is known; as large as can be at first.
    payload_bytes: AtomicU64,
    /// Wakes one of those who wait for this lane; whoever leaves work behind wakes the next.
    pub(crate) news: Notify,
}

/// A partition to be asked, and how much was announced there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) partition: Partition,
    announced: u32,
}

impl Candidate {
    /// How many to ask it for: no more than were announced, and not all from one nobody counted, so
    /// that several can be asked at once.
    pub(crate) fn share(self, wanted: usize, parts: usize) -> usize {
        match self.announced {
            UNCOUNTED => wanted.div_ceil(parts.max(1)),
            announced => wanted.min(announced as usize),
        }
    }
}

/// Every partition is in at most one of the three queues.
struct Partitions {
    /// Those that work was announced in.
    announced: VecDeque<Partition>,
    /// Those that were not asked yet, or had all of what they were asked for and nobody counted.
    uncounted: VecDeque<Partition>,
    /// Those that had all that was announced: there may be more.
    unconfirmed: VecDeque<Partition>,
    states: Vec<State>,
    /// Whether the next one is to be taken from those that nobody counted. Taken in turns, neither
    /// does new work wait for a look at all partitions, nor old work for an end of the new.
    uncounted_next: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Unconfirmed,
    Uncounted,
    Announced { count: u32 },
}

impl Lane {
    /// A lane of which nothing is known: any partition may have work.
    pub(crate) fn new(name: LaneId, partitions: impl Iterator<Item = Partition>) -> Self {
        let uncounted: VecDeque<_> = partitions.collect();
        let partitions = Mutex::new(Partitions {
            announced: VecDeque::new(),
            states: vec![State::Uncounted; uncounted.len()],
            uncounted,
            unconfirmed: VecDeque::new(),
            uncounted_next: false,
        });
        let payload_bytes = AtomicU64::new(limits::PAYLOAD_BYTES_MAX);
        Self { name, partitions, turns: AtomicUsize::new(0), payload_bytes, news: Notify::new() }
    }

    pub(crate) fn name(&self) -> &LaneId {
        &self.name
    }

    /// How many partitions there are.
    pub(crate) fn partitions(&self) -> usize {
        self.lock().states.len()
    }

    /// Counts the claims that begin here.
    pub(crate) fn turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// How large a payload is to be expected: the largest of late.
    pub(crate) fn expected_bytes(&self) -> u64 {
        self.payload_bytes.load(Ordering::Relaxed)
    }

    /// A partition had payloads, the largest one with so many bytes. Larger ones of before are
    /// forgotten little by little.
    pub(crate) fn saw_payload(&self, bytes: u64) {
        let before = self.expected_bytes();
        let known = if before == limits::PAYLOAD_BYTES_MAX { 0 } else { before / 2 };
        self.payload_bytes.store(bytes.max(known).max(1), Ordering::Relaxed);
    }

    /// Takes a partition that waited longest. It is forgotten until somebody announces it again.
    pub(crate) fn take(&self) -> Option<Candidate> {
        let mut partitions = self.lock();
        let partition = partitions.next()?;
        let announced = match partitions.put(partition, State::Idle) {
            State::Announced { count } => count,
            _ => UNCOUNTED,
        };
        Some(Candidate { partition, announced })
    }

    /// True if there is a partition that should be asked.
    pub(crate) fn is_likely(&self) -> bool {
        let partitions = self.lock();
        !partitions.announced.is_empty() || !partitions.uncounted.is_empty()
    }

    /// True if there is a partition that may have more than was announced.
    pub(crate) fn has_unconfirmed(&self) -> bool {
        !self.lock().unconfirmed.is_empty()
    }

    /// One more execution waits in this partition.
    pub(crate) fn announce(&self, partition: Partition) {
        self.lock().announce(partition, 1);
        self.news.notify_one();
    }

    /// A candidate had as many as it was asked for. What else was announced is still there; if that
    /// is nothing, there may be more all the same.
    pub(crate) fn had_all(&self, candidate: Candidate, found: usize) {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        match candidate.announced {
            UNCOUNTED => {
                self.lock().mark_uncounted(candidate.partition);
                self.news.notify_one();
            }
            announced if announced > found => {
                self.lock().announce(candidate.partition, announced - found)
            }
            // Somebody must look there when all is silent.
            _ => {
                self.lock().mark_unconfirmed(candidate.partition);
                self.news.notify_one();
            }
        }
    }

    /// A candidate could not be asked: whoever waits must be told in place of the one who failed.
    pub(crate) fn keep(&self, candidate: Candidate) {
        match candidate.announced {
            UNCOUNTED => self.lock().mark_uncounted(candidate.partition),
            announced => self.lock().announce(candidate.partition, announced),
        }
        self.news.notify_one();
    }

    /// There may be work in the unconfirmed partitions; answers whether there are any.
    pub(crate) fn recheck(&self) -> bool {
        let mut partitions = self.lock();
        let unconfirmed = std::mem::take(&mut partitions.unconfirmed);
        let any = !unconfirmed.is_empty();
        for partition in unconfirmed {
            partitions.put(partition, State::Idle);
            partitions.mark_uncounted(partition);
        }
        any
    }

    /// There may be work anywhere.
    pub(crate) fn recheck_all(&self, all: impl Iterator<Item = Partition>) {
        self.recheck();
        let mut partitions = self.lock();
        all.for_each(|partition| partitions.mark_uncounted(partition));
        drop(partitions);
        self.news.notify_waiters();
        self.news.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Partitions> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Partitions {
    /// Puts a partition somewhere else; answers where it was. One that the deployment does not have
    /// stays idle.
    fn put(&mut self, partition: Partition, now: State) -> State {
        match self.states.get_mut(usize::from(partition.index)) {
            Some(state) => std::mem::replace(state, now),
            None => State::Idle,
        }
    }

    fn state(&self, partition: Partition) -> Option<State> {
        self.states.get(usize::from(partition.index)).copied()
    }

    fn next(&mut self) -> Option<Partition> {
        if self.uncounted_next || self.announced.is_empty() {
            self.uncounted_next = false;
            return self.uncounted.pop_front().or_else(|| self.announced.pop_front());
        }
        self.uncounted_next = true;
        self.announced.pop_front()
    }

    /// So many more wait in this partition.
    fn announce(&mut self, partition: Partition, more: u32) {
        let Some(before) = self.state(partition) else { return };
        let count = match before {
            State::Announced { count } => count.saturating_add(more),
            State::Uncounted => UNCOUNTED,
            State::Unconfirmed | State::Idle => more,
        };
        match before {
            State::Uncounted => self.uncounted.retain(|other| *other != partition),
            State::Unconfirmed => self.unconfirmed.retain(|other| *other != partition),
            State::Announced { .. } | State::Idle => {}
        }
        if !matches!(before, State::Announced { .. }) {
            self.announced.push_back(partition);
        }
        self.put(partition, State::Announced { count });
    }

    /// Any number may wait in this partition.
    fn mark_uncounted(&mut self, partition: Partition) {
        match self.state(partition) {
            Some(State::Announced { .. }) => {
                self.put(partition, State::Announced { count: UNCOUNTED });
            }
            Some(State::Idle) => {
                self.uncounted.push_back(partition);
                self.put(partition, State::Uncounted);
            }
            Some(State::Unconfirmed) => {
                self.unconfirmed.retain(|other| *other != partition);
                self.uncounted.push_back(partition);
                self.put(partition, State::Uncounted);
            }
            Some(State::Uncounted) | None => {}
        }
    }

    fn mark_unconfirmed(&mut self, partition: Partition) {
        if self.state(partition) == Some(State::Idle) {
            self.unconfirmed.push_back(partition);
            self.put(partition, State::Unconfirmed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(partitions: u16) -> Lane {
        let name = LaneId::try_new("default").expect("valid");
        Lane::new(name, (0..partitions).map(Partition::flow))
    }

    fn taken(lane: &Lane) -> Option<(u16, u32)> {
        lane.take().map(|candidate| (candidate.partition.index, candidate.announced))
    }

    /// All partitions were asked and had nothing.
    fn quiet(partitions: u16) -> Lane {
        let lane = lane(partitions);
        while lane.take().is_some() {}
        lane
    }

    #[test]
    fn at_first_every_partition_may_have_work() {
        let lane = lane(2);
        assert_eq!(taken(&lane), Some((0, UNCOUNTED)));
        assert_eq!(taken(&lane), Some((1, UNCOUNTED)));
        assert_eq!(taken(&lane), None);
        assert!(!lane.recheck(), "those that had nothing are forgotten");
    }

    #[test]
    fn what_was_announced_is_counted_and_asked_in_turn() {
        let lane = quiet(4);
        [3, 1, 3, 9].into_iter().for_each(|index| lane.announce(Partition::flow(index)));
        assert_eq!(taken(&lane), Some((3, 2)));
        lane.announce(Partition::flow(3));
        assert_eq!(taken(&lane), Some((1, 1)));
        assert_eq!(taken(&lane), Some((3, 1)));
        assert_eq!(taken(&lane), None);
    }

    #[test]
    fn a_partition_is_asked_again_while_more_was_announced_than_found() {
        let lane = quiet(2);
        (0..3).for_each(|_| lane.announce(Partition::flow(0)));
        let candidate = lane.take().expect("announced");
        assert_eq!(candidate.share(8, 4), 3);
        lane.had_all(candidate, 2);
        let candidate = lane.take().expect("one is left");
        assert_eq!(candidate.share(8, 4), 1);
        lane.had_all(candidate, 1);
        assert!(!lane.is_likely(), "nothing more was announced");
        assert!(lane.recheck(), "but there may be more");
        let candidate = lane.take().expect("asked to make sure");
        assert_eq!(candidate.share(8, 4), 2, "uncounted");
    }

    #[test]
    fn a_unconfirmed_partition_that_is_announced_is_likely_and_only_that() {
        let lane = quiet(2);
        lane.announce(Partition::flow(1));
        let candidate = lane.take().expect("announced");
        lane.had_all(candidate, 1);
        lane.announce(Partition::flow(1));
        assert!(!lane.recheck());
        assert_eq!(taken(&lane), Some((1, 1)));
        assert_eq!(taken(&lane), None);
    }

    #[test]
    fn new_work_does_not_wait_for_a_look_at_all_partitions_nor_old_work_for_the_new() {
        let lane = lane(8);
        lane.announce(Partition::flow(6));
        assert_eq!(taken(&lane), Some((6, UNCOUNTED)), "announced first");
        assert_eq!(taken(&lane), Some((0, UNCOUNTED)));
        lane.announce(Partition::flow(6));
        lane.announce(Partition::flow(7));
        assert_eq!(taken(&lane), Some((6, 1)));
        assert_eq!(taken(&lane), Some((1, UNCOUNTED)), "in turns");
        assert_eq!(taken(&lane), Some((7, UNCOUNTED)));
        let candidate = lane.take().expect("the next one");
        lane.had_all(candidate, 1);
        let rest: Vec<_> = std::iter::from_fn(|| taken(&lane)).map(|(index, _)| index).collect();
        assert_eq!(rest, [3, 4, 5, 2], "whoever had enough waits for its next turn");
    }

    #[tokio::test]
    async fn a_partition_that_could_not_be_asked_is_news_for_the_next_who_waits() {
        let lane = quiet(2);
        lane.announce(Partition::flow(1));
        lane.news.notified().await;
        let candidate = lane.take().expect("announced");
        let waiting = lane.news.notified();
        lane.keep(candidate);
        let told = tokio::time::timeout(std::time::Duration::from_secs(5), waiting).await;
        assert!(told.is_ok(), "nobody is told");
        assert_eq!(taken(&lane), Some((1, 1)));
    }

    #[test]
    fn looking_everywhere_forgets_all_counts() {
        let lane = quiet(2);
        lane.announce(Partition::flow(1));
        lane.recheck_all((0..2).map(Partition::flow));
        assert_eq!(taken(&lane), Some((1, UNCOUNTED)));
        assert_eq!(taken(&lane), Some((0, UNCOUNTED)));
        assert_eq!(taken(&lane), None);
    }
}
