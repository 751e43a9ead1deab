//! Whose turn it is among the lanes that a worker takes from: lanes share the claims of those who
//! take from the same ones by weight.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use ff_core::limits;
use ff_core::types::LaneId;

/// How far a claim moves a lane of weight 1: a multiple of many weights, and not rounded to nothing
/// by any.
const STEP: u64 = 1_000 * limits::LANE_WEIGHT_MAX;

/// Lanes in all sets of lanes that are told apart: a few MiB. When there are more, all sets begin
/// anew, which costs a set no more than one round of turns.
const SIZE_MAX: usize = 16 * 1024;

/// How many claims a lane gets, for each one of a lane that nobody has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight(NonZeroU32);

impl Weight {
    /// None if it is not within the limits.
    pub(crate) fn new(weight: u32) -> Option<Self> {
        let weight = NonZeroU32::new(weight)?;
        (u64::from(weight.get()) <= limits::LANE_WEIGHT_MAX).then_some(Self(weight))
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

/// For each set of lanes that somebody takes from, whose turn it is.
#[derive(Default)]
pub(crate) struct Turns {
    sets: HashMap<Arc<[LaneId]>, Set>,
    /// How many lanes they have.
    size: usize,
}

struct Set {
    /// Where the turn of the lane was that was served last.
    served: u64,
    /// Where the next turn of each lane is.
    next: Vec<u64>,
}

impl Turns {
    /// The positions of the lanes, those whose turn comes first before the others.
    pub(crate) fn order(&mut self, lanes: &Arc<[LaneId]>) -> Vec<usize> {
        let mut order: Vec<usize> = (0..lanes.len()).collect();
        if order.len() > 1 {
            let set = self.set(lanes);
            order.sort_by_key(|position| set.turn(*position));
        }
        order
    }

    /// A lane was asked for so many, in one claim.
    pub(crate) fn serve(
        &mut self,
        lanes: &Arc<[LaneId]>,
        position: usize,
        count: usize,
        weight: Weight,
    ) {
        if lanes.len() > 1 && count > 0 {
            let set = self.set(lanes);
            let turn = set.turn(position);
            set.served = turn;
            set.next[position] = turn + count as u64 * (STEP / u64::from(weight.0.get()));
        }
    }

    fn set(&mut self, lanes: &Arc<[LaneId]>) -> &mut Set {
        if !self.sets.contains_key(lanes) {
            if self.size + lanes.len() > SIZE_MAX {
                (self.sets, self.size) = (HashMap::new(), 0);
            }
            self.size += lanes.len();
        }
        let new = || Set { served: 0, next: vec![0; lanes.len()] };
        self.sets.entry(Arc::clone(lanes)).or_insert_with(new)
    }
}

impl Set {
    /// A lane that had nothing for a while is next, and has saved nothing up.
    fn turn(&self, position: usize) -> u64 {
        self.next[position].max(self.served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(names: &[&str]) -> Arc<[LaneId]> {
        names.iter().map(|name| name.parse().expect("valid")).collect()
    }

    fn weight(weight: u32) -> Weight {
        Weight::new(weight).expect("within the limits")
    }

    /// How often each lane is served in so many claims, where only some have work.
    fn served(
        turns: &mut Turns,
        lanes: &Arc<[LaneId]>,
        weights: &[u32],
        work: &[bool],
        claims: usize,
    ) -> Vec<usize> {
        let mut served = vec![0; lanes.len()];
        for _ in 0..claims {
            let order = turns.order(lanes);
            let first = order.into_iter().find(|position| work[*position]).expect("some work");
            turns.serve(lanes, first, 1, weight(weights[first]));
            served[first] += 1;
        }
        served
    }

    #[test]
    fn lanes_share_claims_by_weight() {
        let (mut turns, lanes) = (Turns::default(), lanes(&["a", "b", "c"]));
        assert_eq!(served(&mut turns, &lanes, &[1, 1, 1], &[true; 3], 30), [10, 10, 10]);
        let shares = served(&mut turns, &lanes, &[3, 1, 1000], &[true; 3], 10_040);
        for (share, weight) in shares.iter().zip([3, 1, 1000]) {
            assert!(share.abs_diff(10 * weight) <= weight, "{shares:?}");
        }
    }

    #[test]
    fn a_lane_without_work_costs_nothing_and_saves_nothing_up() {
        let (mut turns, lanes) = (Turns::default(), lanes(&["a", "b"]));
        assert_eq!(served(&mut turns, &lanes, &[3, 1], &[false, true], 1_000), [0, 1_000]);
        let shares = served(&mut turns, &lanes, &[3, 1], &[true, true], 40);
        assert!((29..=31).contains(&shares[0]), "{shares:?}");
    }

    #[test]
    fn workers_that_take_from_other_lanes_do_not_count() {
        let (mut turns, both) = (Turns::default(), lanes(&["a", "b"]));
        let (alone, other) = (lanes(&["a"]), lanes(&["a", "c"]));
        served(&mut turns, &alone, &[1], &[true], 100);
        served(&mut turns, &other, &[1, 1], &[true, true], 100);
        assert_eq!(served(&mut turns, &both, &[1, 1], &[true, true], 20), [10, 10]);
    }

    #[test]
    fn any_number_of_sets_takes_bounded_memory() {
        let mut turns = Turns::default();
        for number in 0..SIZE_MAX {
            let lanes = lanes(&["a", &format!("l{number}")]);
            served(&mut turns, &lanes, &[1, 1], &[true, true], 2);
            assert!(turns.size <= SIZE_MAX);
        }
        assert_eq!(turns.sets.keys().map(|lanes| lanes.len()).sum::<usize>(), turns.size);
    }

    #[test]
    fn a_weight_beyond_the_limits_is_none() {
        assert_eq!((Weight::new(0), Weight::new(1001)), (None, None));
        assert_eq!(Weight::new(1), Some(Weight::default()));
    }
}
