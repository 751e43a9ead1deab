//! Which partitions a scheduler prefers, where several look for work on one store: each has its own
//! order of them, so that they do not all ask for the same one at the same time.

use std::time::Duration;

/// How much later the last of several asks for what is new, for each of the others: about as long
/// as a claim takes and the push that tells of it.
const STAGGER: Duration = Duration::from_millis(2);

/// The longest that anybody waits.
const STAGGER_MAX: Duration = Duration::from_millis(50);

/// One scheduler's order of partitions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preference(u64);

impl Preference {
    /// The order of whoever has this number, which is its own.
    pub(crate) fn new(own: u64) -> Self {
        Self(own)
    }

    /// Another order for each claim: what all take from is best spread at random.
    pub(crate) fn of_claim(self, number: u64) -> Self {
        Self(self.0.wrapping_add(number.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// How much a partition is preferred.
    pub(crate) fn weight(self, partition: u16) -> u64 {
        let mixed = self.0 ^ u64::from(partition).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ (mixed >> 33)
    }

    /// How long to wait before asking for what is new in a partition, with so many others: whoever
    /// prefers it most comes first.
    pub(crate) fn delay(self, partition: u16, others: u32) -> Duration {
        let longest = (STAGGER * others).min(STAGGER_MAX);
        let place = (u64::MAX - self.weight(partition)) >> 32;
        longest.mul_f64(place as f64 / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_prefer_different_partitions_and_the_first_of_each_comes_soon() {
        let all: Vec<_> = (1..=10).map(Preference::new).collect();
        let mut first = [0; 10];
        for partition in 0..256 {
            let delays = all.iter().map(|one| one.delay(partition, 9));
            let (soonest, who) = delays.zip(0..).min().expect("ten");
            first[who] += 1;
            assert!(soonest < Duration::from_millis(15), "{soonest:?}");
        }
        assert!(first.iter().all(|count| (10..45).contains(count)), "{first:?}");
    }

    #[test]
    fn one_that_is_alone_does_not_wait() {
        assert_eq!(Preference::new(7).delay(3, 0), Duration::ZERO);
    }
}
