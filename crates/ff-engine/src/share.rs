//! Which partitions an engine looks after, when several engines share them.
//!
//! Every engine computes the same answer from the same list of live engines: a partition belongs to
//! the one whose name and the partition's index hash highest. When one comes or goes, only its own
//! partitions move.

use ff_core::partition::Partition;

/// The partitions of one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Share {
    /// All of them: it is alone, or does not know who else is there.
    #[default]
    All,
    /// Its part among these others.
    Part { own: String, others: Vec<String> },
}

impl Share {
    /// The share of an engine among all that are alive, whether or not it is listed itself.
    pub(crate) fn among(own: &str, live: impl IntoIterator<Item = String>) -> Self {
        let mut others: Vec<String> = live.into_iter().filter(|name| name != own).collect();
        others.sort_unstable();
        if others.is_empty() {
            return Self::All;
        }
        Self::Part { own: own.to_owned(), others }
    }

    pub(crate) fn has(&self, partition: Partition) -> bool {
        let Self::Part { own, others } = self else { return true };
        let mine = weight(own, partition);
        // Equal weights are as good as impossible; both would look after it then.
        others.iter().all(|other| weight(other, partition) <= mine)
    }
}

/// Must never change: engines of different versions have to agree. FNV-1a, then a final mix, since
/// names that differ in their last letter only would otherwise hash alike in the high bits.
fn weight(name: &str, partition: Partition) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = name.bytes().chain(partition.index.to_le_bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["engine-1", "engine-2", "engine-3"];

    fn shares(names: &[&str]) -> Vec<Share> {
        let live = || names.iter().map(|name| (*name).to_owned());
        names.iter().map(|name| Share::among(name, live())).collect()
    }

    fn counts(names: &[&str]) -> Vec<usize> {
        let partitions = || (0..256).map(Partition::flow);
        let shares = shares(names);
        shares.iter().map(|share| partitions().filter(|it| share.has(*it)).count()).collect()
    }

    #[test]
    fn every_partition_belongs_to_exactly_one() {
        assert_eq!(counts(&NAMES[..1]), [256]);
        for names in [&NAMES[..2], &NAMES[..]] {
            let counts = counts(names);
            assert_eq!(counts.iter().sum::<usize>(), 256, "{counts:?}");
            let fair = 256 / names.len();
            assert!(counts.iter().all(|count| count.abs_diff(fair) < fair / 3), "{counts:?}");
        }
    }

    #[test]
    fn only_the_partitions_of_the_one_who_leaves_move() {
        let (three, two) = (shares(&NAMES), shares(&NAMES[..2]));
        for partition in (0..256).map(Partition::flow) {
            for (before, after) in three.iter().zip(&two) {
                assert!(!before.has(partition) || after.has(partition), "{partition}");
            }
        }
    }

    #[test]
    fn one_that_is_not_listed_counts_itself() {
        let share = Share::among("engine-1", ["engine-2".to_owned()]);
        assert_eq!(share, shares(&NAMES[..2])[0]);
        assert_eq!(Share::among("engine-1", []), Share::All);
    }

    #[test]
    fn engines_of_all_versions_agree() {
        assert_eq!(weight("engine-1", Partition::flow(0)), WEIGHT_OF_ENGINE_1_AND_0);
    }

    const WEIGHT_OF_ENGINE_1_AND_0: u64 = 0x0c31_a55d_ee72_9f58;
}
