//! Which partitions have told nothing for so long that something may have been missed. Whoever
//! sweeps a partition has it tell all that waits there; one that is not heard of is looked through.

use std::time::Duration;

use ff_core::partition::Partition;
use tokio::time::Instant;

/// A partition is looked through when it has told nothing for this long. It is more than the time
/// between two sweeps and less than the minute that a lost push may cost.
const SILENCE: Duration = Duration::from_secs(58);

/// How soon a look is tried again that did not reach all partitions.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// When each partition last told all that it has.
pub(crate) struct Silence {
    partitions: Vec<(Partition, Instant)>,
    next: Instant,
}

impl Silence {
    pub(crate) fn new(partitions: impl Iterator<Item = Partition>, now: Instant) -> Self {
        let partitions = partitions.map(|partition| (partition, now)).collect();
        Self { partitions, next: now + SILENCE }
    }

    /// When to ask which are silent.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// A partition has told all that it has.
    pub(crate) fn heard_of(&mut self, partition: Partition, now: Instant) {
        if let Some((_, heard)) = self.partitions.get_mut(usize::from(partition.index)) {
            *heard = now;
        }
    }

    /// Those that have told nothing for long.
    pub(crate) fn silent(&self, now: Instant) -> Vec<Partition> {
        let silent = self.partitions.iter().filter(|(_, heard)| *heard + SILENCE <= now);
        silent.map(|(partition, _)| *partition).collect()
    }

    /// These were looked through, or could not be.
    pub(crate) fn looked(&mut self, partitions: &[Partition], everywhere: bool, now: Instant) {
        for partition in partitions {
            self.heard_of(*partition, now);
        }
        let oldest = self.partitions.iter().map(|(_, heard)| *heard).min().unwrap_or(now);
        self.next = oldest + SILENCE;
        if !everywhere {
            self.ask_again_soon(partitions, now);
        }
    }

    /// They are asked again soon.
    fn ask_again_soon(&mut self, partitions: &[Partition], now: Instant) {
        self.next = now + LOOK_AGAIN;
        for partition in partitions {
            if let Some(long_ago) = self.next.checked_sub(SILENCE) {
                self.heard_of(*partition, long_ago);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_partition_that_tells_nothing_is_looked_through() {
        let begun = Instant::now();
        let mut silence = Silence::new((0..3).map(Partition::flow), begun);
        silence.heard_of(Partition::flow(0), begun + SILENCE / 2);
        silence.heard_of(Partition::flow(2), begun + SILENCE / 2);
        assert_eq!(silence.next(), begun + SILENCE);
        assert_eq!(silence.silent(begun + SILENCE), [Partition::flow(1)]);
        silence.looked(&[Partition::flow(1)], true, begun + SILENCE);
        assert_eq!(silence.next(), begun + SILENCE / 2 + SILENCE);
        assert_eq!(silence.silent(begun + SILENCE), []);
    }

    #[test]
    fn what_could_not_be_looked_through_is_tried_again_soon() {
        let now = Instant::now() + SILENCE;
        let mut silence = Silence::new((0..3).map(Partition::flow), now);
        silence.looked(&[Partition::flow(1)], false, now);
        assert_eq!(silence.next(), now + LOOK_AGAIN);
        assert_eq!(silence.silent(now + LOOK_AGAIN), [Partition::flow(1)]);
    }
}
