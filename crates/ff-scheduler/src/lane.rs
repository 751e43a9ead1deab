//! One lane: the partitions that may have work, and the workers that wait for some.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use ff_core::partition::Partition;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub(crate) struct Lane {
    candidates: Mutex<Candidates>,
    notify: Notify,
}

#[derive(Default)]
struct Candidates {
    order: VecDeque<Partition>,
    known: HashSet<Partition>,
}

impl Candidates {
    fn add(&mut self, partition: Partition) {
        if self.known.insert(partition) {
            self.order.push_back(partition);
        }
    }
}

impl Lane {
    pub(crate) fn new(partitions: Vec<Partition>) -> Self {
        let known = partitions.iter().copied().collect();
        let candidates = Candidates { order: partitions.into(), known };
        Self { candidates: Mutex::new(candidates), notify: Notify::new() }
    }

    /// Completes when work is heard of after this call.
    pub(crate) fn ready(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Takes the partition that waited longest.
    pub(crate) fn take(&self) -> Option<Partition> {
        let mut candidates = self.lock();
        let partition = candidates.order.pop_front()?;
        candidates.known.remove(&partition);
        Some(partition)
    }

    /// There may be more where this came from: somebody else may look.
    pub(crate) fn put_back(&self, partition: Partition) {
        self.lock().add(partition);
        self.notify.notify_one();
    }

    /// A push told of work in this partition.
    pub(crate) fn add(&self, partition: Partition) {
        self.put_back(partition);
    }

    /// Any partition may have work.
    pub(crate) fn add_all(&self, partitions: &[Partition]) {
        let mut candidates = self.lock();
        partitions.iter().for_each(|partition| candidates.add(*partition));
        drop(candidates);
        self.notify.notify_waiters();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Candidates> {
        self.candidates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_asked_in_turn_and_each_once() {
        let lane = Lane::new(vec![Partition::flow(0), Partition::flow(1)]);
        lane.add(Partition::flow(1));
        assert_eq!(lane.take(), Some(Partition::flow(0)));
        lane.put_back(Partition::flow(0));
        assert_eq!(lane.take(), Some(Partition::flow(1)));
        assert_eq!(lane.take(), Some(Partition::flow(0)));
        assert_eq!(lane.take(), None);
    }
}
