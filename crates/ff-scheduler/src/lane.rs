//! One lane: the partitions that may have work.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ff_core::partition::Partition;
use ff_core::types::LaneId;

pub(crate) struct Lane {
    name: LaneId,
    candidates: Mutex<Candidates>,
    turns: AtomicUsize,
}

struct Candidates {
    order: VecDeque<Partition>,
    known: HashSet<Partition>,
}

impl Lane {
    pub(crate) fn new(name: LaneId, partitions: Vec<Partition>) -> Self {
        let known = partitions.iter().copied().collect();
        let candidates = Mutex::new(Candidates { order: partitions.into(), known });
        Self { name, candidates, turns: AtomicUsize::new(0) }
    }

    pub(crate) fn name(&self) -> &LaneId {
        &self.name
    }

    /// Counts the claims that begin here.
    pub(crate) fn turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes the partition that waited longest.
    pub(crate) fn take(&self) -> Option<Partition> {
        let mut candidates = self.lock();
        let partition = candidates.order.pop_front()?;
        candidates.known.remove(&partition);
        Some(partition)
    }

    /// There may be work in this partition.
    pub(crate) fn add(&self, partition: Partition) {
        let mut candidates = self.lock();
        if candidates.known.insert(partition) {
            candidates.order.push_back(partition);
        }
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
        let name = LaneId::try_new("default").expect("valid");
        let lane = Lane::new(name, vec![Partition::flow(0), Partition::flow(1)]);
        lane.add(Partition::flow(1));
        assert_eq!(lane.take(), Some(Partition::flow(0)));
        lane.add(Partition::flow(0));
        assert_eq!(lane.take(), Some(Partition::flow(1)));
        assert_eq!(lane.take(), Some(Partition::flow(0)));
        assert_eq!(lane.take(), None);
    }
}
