//! What is known of lanes: one entry for each lane and kind of worker, as many as fit in memory.

use std::collections::HashMap;
use std::sync::Arc;

use ff_core::capability::CapabilitySet;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionKind, LaneId};

use crate::lane::Lane;

/// Which executions suit a worker: what is known of a lane depends on it, because a partition that
/// had nothing for one worker may have something for another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Eligibility {
    capabilities: CapabilitySet,
    kinds: Vec<ExecutionKind>,
}

impl Eligibility {
    /// Kinds in another order are the same kinds.
    pub(crate) fn new(capabilities: CapabilitySet, mut kinds: Vec<ExecutionKind>) -> Self {
        kinds.sort_unstable();
        Self { capabilities, kinds }
    }

    fn bytes(&self) -> usize {
        let kinds: usize = self.kinds.iter().map(|kind| ENTRY_BYTES + kind.as_str().len()).sum();
        let tokens: usize = self.capabilities.iter().map(|token| ENTRY_BYTES + token.len()).sum();
        kinds + tokens
    }
}

/// Memory for what nobody waits for at the moment; who needs something that was forgotten asks all
/// partitions again. About four thousand entries at 256 partitions.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// What an entry takes besides its texts and its partitions, and a text besides its letters.
const ENTRY_BYTES: usize = 64;
/// A partition's state, and its place in a queue that may have grown to twice its length.
const PARTITION_BYTES: usize = 24;

/// What is known, by lane and by kind of worker.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: HashMap<LaneId, HashMap<Eligibility, Entry>>,
    bytes: usize,
    /// Counts the uses, so that what was used last can be told from what was not.
    uses: u64,
}

struct Entry {
    lane: Arc<Lane>,
    bytes: usize,
    used: u64,
}

impl Entry {
    /// Nobody else has it: neither does a worker wait for its news, nor is a partition asked.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.lane) == 1
    }
}

impl Lanes {
    /// What is known of a lane for such workers. What is in use stays known, so that whoever waits
    /// hears of all news.
    pub(crate) fn lane(
        &mut self,
        name: &LaneId,
        eligibility: &Eligibility,
        partitions: impl Iterator<Item = Partition>,
    ) -> Arc<Lane> {
        self.uses += 1;
        if let Some(entry) = self.lanes.get_mut(name).and_then(|lane| lane.get_mut(eligibility)) {
            entry.used = self.uses;
            return Arc::clone(&entry.lane);
        }
        if self.bytes > BYTES_MAX {
            self.evict();
        }
        self.insert(name, eligibility, Arc::new(Lane::new(name.clone(), partitions)))
    }

    fn insert(&mut self, name: &LaneId, eligibility: &Eligibility, lane: Arc<Lane>) -> Arc<Lane> {
        let bytes = ENTRY_BYTES + eligibility.bytes() + lane.partitions() * PARTITION_BYTES;
        self.bytes += bytes;
        let entry = Entry { lane: Arc::clone(&lane), bytes, used: self.uses };
        self.lanes.entry(name.clone()).or_default().insert(eligibility.clone(), entry);
        lane
    }

    /// Evicts half of what is idle: what was not used for longest. Half, so that this is rare.
    fn evict(&mut self) {
        let idle = self.entries().filter(|entry| entry.is_idle());
        let mut uses: Vec<_> = idle.map(|entry| entry.used).collect();
        let half = uses.len() / 2;
        if uses.is_empty() {
            return;
        }
        let (_, &mut last, _) = uses.select_nth_unstable(half);
        for workers in self.lanes.values_mut() {
            workers.retain(|_, entry| entry.used > last || !entry.is_idle());
        }
        self.lanes.retain(|_, workers| !workers.is_empty());
        self.bytes = self.entries().map(|entry| entry.bytes).sum();
    }

    /// Every kind of worker that is known in a lane.
    pub(crate) fn of_lane(&self, name: &LaneId) -> impl Iterator<Item = &Lane> {
        self.lanes.get(name).into_iter().flat_map(HashMap::values).map(|entry| &*entry.lane)
    }

    /// Everything.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Lane> {
        self.entries().map(|entry| &*entry.lane)
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.lanes.values().flat_map(HashMap::values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: u16 = 256;

    fn name(number: usize) -> LaneId {
        LaneId::try_new(format!("lane-{number}")).expect("valid")
    }

    fn eligibility(number: usize) -> Eligibility {
        let token = format!("capability-{number}");
        Eligibility::new(CapabilitySet::try_new([token]).expect("valid"), Vec::new())
    }

    fn lane(lanes: &mut Lanes, name: &LaneId, eligibility: &Eligibility) -> Arc<Lane> {
        lanes.lane(name, eligibility, (0..PARTITIONS).map(Partition::flow))
    }

    fn is_known(lanes: &Lanes, lane: &Arc<Lane>) -> bool {
        lanes.all().any(|other| std::ptr::eq(other, &**lane))
    }

    #[test]
    fn the_order_of_kinds_makes_no_other_worker() {
        let kinds =
            |names: [&str; 2]| names.map(|name| ExecutionKind::try_new(name).expect("valid"));
        let one = Eligibility::new(Default::default(), kinds(["a", "b"]).to_vec());
        let other = Eligibility::new(Default::default(), kinds(["b", "a"]).to_vec());
        let mut lanes = Lanes::default();
        let (one, other) = (lane(&mut lanes, &name(1), &one), lane(&mut lanes, &name(1), &other));
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn any_number_of_workers_and_lanes_takes_bounded_memory() {
        let mut lanes = Lanes::default();
        for number in 0..20_000 {
            lane(&mut lanes, &name(number % 5_000), &eligibility(number));
            assert!(lanes.bytes <= BYTES_MAX + 100_000, "{} bytes", lanes.bytes);
        }
        let sum: usize = lanes.entries().map(|entry| entry.bytes).sum();
        assert_eq!(lanes.bytes, sum);
        assert!(lanes.lanes.values().all(|workers| !workers.is_empty()));
    }

    #[test]
    fn whoever_waits_is_not_forgotten_and_neither_is_what_was_used_last() {
        let mut lanes = Lanes::default();
        let waiting: Vec<_> =
            (0..300).map(|number| lane(&mut lanes, &name(0), &eligibility(number))).collect();
        for number in 1_000..20_000 {
            lane(&mut lanes, &name(1), &eligibility(7));
            lane(&mut lanes, &name(number), &eligibility(number));
        }
        assert!(waiting.iter().all(|lane| is_known(&lanes, lane)), "somebody turned deaf");
        assert_eq!(lanes.of_lane(&name(0)).count(), 300);
        let often = lane(&mut lanes, &name(1), &eligibility(7));
        assert!(is_known(&lanes, &often));
        assert!(lanes.uses > 0 && lanes.of_lane(&name(1_000)).next().is_none(), "forgotten");
    }
}
