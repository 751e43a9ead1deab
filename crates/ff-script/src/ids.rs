//! Where new ids come from: the one place that makes them out of time and chance.

use std::sync::atomic::{AtomicU64, Ordering};

use ff_core::partition::{Partition, PartitionConfig};
use uuid::Uuid;

/// How many partitions take new executions side by side, so that several shards have work.
const PARTITIONS_AT_A_TIME: u64 = 4;

/// How many of the executions made one after the other share a partition: whoever ends one finds
/// the next in the same place.
const IN_A_ROW: u64 = 64;

/// How many of them come at once before it is another one's turn: those that are submitted at the
/// same moment share a call.
const AT_ONCE: u64 = 8;

/// A source of ids. Tests bring their own.
pub trait IdSource: Send + Sync + 'static {
    /// An id that sorts by creation time, for executions.
    fn ordered(&self) -> Uuid;

    /// An id that nobody can guess, for leases and grants.
    fn random(&self) -> Uuid;
}

/// Ids from the system's clock and random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

#[allow(clippy::disallowed_methods, reason = "this is the one place where ids are made")]
impl IdSource for SystemIds {
    fn ordered(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn random(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// Ids for executions that may lie anywhere: those made one after the other are neighbours.
#[derive(Debug)]
pub(crate) struct Neighbours {
    given: AtomicU64,
    /// Sets this process apart from others, that all would not fill the same partitions.
    salt: u64,
}

impl Default for Neighbours {
    fn default() -> Self {
        let (salt, _) = SystemIds.random().as_u64_pair();
        Self { given: AtomicU64::new(0), salt }
    }
}

impl Neighbours {
    /// A new id on the partition whose turn it is.
    pub(crate) fn next(&self, config: &PartitionConfig) -> Uuid {
        let given = self.given.fetch_add(1, Ordering::Relaxed);
        config.uuid_on(self.partition(given, config), SystemIds.ordered())
    }

    fn partition(&self, given: u64, config: &PartitionConfig) -> Partition {
        let count = u64::from(config.num_flow_partitions.max(1));
        let run = given / (PARTITIONS_AT_A_TIME * IN_A_ROW);
        let index =
            (mixed(self.salt ^ run) % count + given / AT_ONCE % PARTITIONS_AT_A_TIME) % count;
        Partition::flow(u16::try_from(index).expect("an index is less than their count"))
    }
}

/// The number with its bits spread (the end of splitmix64).
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn partitions(ids: u64, config: &PartitionConfig) -> HashMap<Partition, u64> {
        let neighbours = Neighbours::default();
        let mut counts = HashMap::new();
        for _ in 0..ids {
            let id = neighbours.next(config);
            *counts.entry(config.flow_partition_of(id.as_bytes())).or_default() += 1;
        }
        counts
    }

    #[test]
    fn a_run_of_ids_shares_four_partitions_evenly() {
        let counts = partitions(PARTITIONS_AT_A_TIME * IN_A_ROW, &PartitionConfig::default());
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [IN_A_ROW; 4]);
    }

    #[test]
    fn in_the_long_run_every_partition_has_its_share() {
        let (config, neighbours, share) = (PartitionConfig::default(), Neighbours::default(), 64);
        let mut begun = vec![0_u64; config.num_flow_partitions.into()];
        for run in 0..share * begun.len() as u64 {
            let partition = neighbours.partition(run * PARTITIONS_AT_A_TIME * IN_A_ROW, &config);
            begun[usize::from(partition.index)] += 1;
        }
        assert!(begun.iter().all(|count| count.abs_diff(share) < share), "{begun:?}");
    }

    #[test]
    fn one_partition_is_enough() {
        let config = PartitionConfig { num_flow_partitions: 1, ..PartitionConfig::default() };
        assert_eq!(partitions(300, &config).into_values().collect::<Vec<_>>(), [300]);
    }
}
