//! One lane: what is known of its queues in all partitions, and who waits for its work.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ff_core::limits;
use ff_core::need::Need;

use crate::heads::Heads;
use crate::preference::Preference;
use crate::turns::Weight;
use crate::worker::{Ability, Waiter};

/// What one may overtake another by. The function takes no notice of it where scores are ranks.
pub(crate) const OVERTAKE_MS: i64 = limits::OVERTAKE_MS as i64;

/// The widest window in which a partition is preferred, where several look for work: with what a
/// push takes, the second that one may overtake another by.
const WINDOW_SHARED_MS: i64 = 500;

/// The first window after somebody else was faster.
const WINDOW_MIN_MS: i64 = 16;

/// Partitions among which one is preferred.
const NEAR_MAX: usize = 256;

/// For how many claims a lane that gives its best alone is taken at its word.
const STRICT_CLAIMS: u32 = 1_000;

/// How much of a lane is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Nobody looked yet, or something may have been missed.
    #[default]
    Unknown,
    /// Somebody looks through all partitions.
    Looking,
    /// All of them were looked through, and pushes were heard since.
    Known,
}

#[derive(Default)]
pub(crate) struct Lane {
    /// By the text of their need.
    queues: HashMap<Arc<str>, Queue>,
    /// Those who wait, in the order in which they came.
    idle: BTreeMap<u64, Arc<Waiter>>,
    pub(crate) knowledge: Knowledge,
    /// Its share of the claims of those who take from others too.
    pub(crate) weight: Weight,
    /// How many claims are under way here.
    pub(crate) users: u32,
    /// When it was last used, by the count of uses.
    pub(crate) used: u64,
    /// Queues of partitions that are being asked, and by how many.
    asked: HashMap<(Arc<str>, u16), u32>,
    /// The largest payload of late.
    payload_bytes: Option<u64>,
    /// Others take from it as well.
    pub(crate) is_shared: bool,
    /// Within how many milliseconds of the best a partition is preferred. It grows when others were
    /// faster, and shrinks when they were not.
    window_ms: i64,
    /// Claims for which the best alone will do: the lane does not give anything else.
    strict: u32,
}

/// What is known of one need in all partitions.
struct Queue {
    need: Arc<Need>,
    heads: HashMap<u16, Heads>,
    /// The best of each partition.
    order: BTreeSet<(i64, u16)>,
}

/// Executions of one queue in one partition, to be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(crate) queue: Arc<str>,
    pub(crate) need: Arc<Need>,
    pub(crate) partition: u16,
    /// What was known of each of them.
    pub(crate) scores: Vec<i64>,
}

/// What to ask for, and the best score that is left for such a worker.
#[derive(Debug, Default)]
pub(crate) struct Picks {
    pub(crate) picks: Vec<Pick>,
    pub(crate) next: Option<i64>,
}

impl Lane {
    /// How many queues in how many partitions are known, for the bound on memory.
    pub(crate) fn size(&self) -> usize {
        self.queues.values().map(|queue| 1 + queue.heads.len()).sum()
    }

    /// Takes the best out that such a worker could take, up to so many from up to so many
    /// partitions: somebody asks for them.
    pub(crate) fn pick(
        &mut self,
        ability: &Ability,
        most: usize,
        partitions: usize,
        preference: Preference,
    ) -> Picks {
        self.strict = self.strict.saturating_sub(1);
        let window_ms = if self.strict > 0 { 0 } else { self.window_ms };
        let suitable = self.queues.iter_mut().filter(|(_, queue)| ability.can_take(&queue.need));
        let mut suitable: Vec<_> = suitable.collect();
        let mut found = Picks::default();
        for _ in 0..=most {
            let bests = suitable.iter_mut().filter_map(|one| Some((one.1.best()?, one)));
            let Some((best, (text, queue))) = bests.min_by_key(|(best, _)| *best) else { break };
            found.next = Some(best.0);
            let partition = queue.preferred(best, window_ms, preference);
            if !found.take(text, queue, partition, most, partitions) {
                break;
            }
        }
        self.note_asked(&found);
        found
    }

    fn note_asked(&mut self, found: &Picks) {
        for pick in &found.picks {
            *self.asked.entry((Arc::clone(&pick.queue), pick.partition)).or_default() += 1;
        }
    }

    /// Takes the best of one queue of a partition out, up to so many, unless one elsewhere comes
    /// before them.
    pub(crate) fn pick_in(&mut self, partition: u16, ability: &Ability, most: usize) -> Picks {
        let window_ms = if self.strict > 0 { OVERTAKE_MS } else { self.window_ms.max(OVERTAKE_MS) };
        let suitable = self.queues.iter_mut().filter(|(_, queue)| ability.can_take(&queue.need));
        let mut suitable: Vec<_> = suitable.collect();
        let elsewhere =
            suitable.iter().filter_map(|(_, queue)| queue.best_outside(partition)).min();
        let in_time =
            |score: i64| elsewhere.is_none_or(|other| score <= other.saturating_add(window_ms));
        let mut found = Picks::default();
        for _ in 0..most {
            let heads =
                suitable.iter_mut().filter_map(|one| Some((one.1.best_in(partition)?, one)));
            let best = heads.min_by_key(|(score, _)| *score).filter(|(score, _)| in_time(*score));
            let Some((_, (text, queue))) = best else { break };
            if !found.take(text, queue, partition, most, 1) {
                break;
            }
        }
        found.next = suitable.iter().filter_map(|(_, queue)| Some(queue.best()?.0)).min();
        self.note_asked(&found);
        found
    }

    /// A queue that was asked has answered, or never will.
    pub(crate) fn asked(&mut self, queue: &Arc<str>, partition: u16) {
        let key = (Arc::clone(queue), partition);
        if let Some(count) = self.asked.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.asked.remove(&key);
            }
        }
    }

    /// Somebody took from a queue, whose best one is this now. Who asks it at the moment is told
    /// more by its answer.
    pub(crate) fn left(&mut self, queue: &str, partition: u16, next: Option<i64>, at: u64) {
        let asked = self.asked.keys().any(|(name, of)| *of == partition && **name == *queue);
        if !asked {
            self.correct(queue, partition, next, at);
        }
    }

    /// So many joined a queue, none better than this score. False if the text is no need.
    pub(crate) fn add(
        &mut self,
        queue: &str,
        partition: u16,
        score: i64,
        count: u32,
        at: u64,
    ) -> bool {
        if !self.queues.contains_key(queue) {
            let Ok(need) = queue.parse() else { return false };
            self.queues.insert(queue.into(), Queue::new(need));
        }
        self.change(queue, partition, |heads| heads.add(score, count.max(1), at));
        true
    }

    /// A queue told what its best one is, when so much had been heard.
    pub(crate) fn correct(&mut self, queue: &str, partition: u16, next: Option<i64>, at: u64) {
        self.change(queue, partition, |heads| heads.correct(next, at));
    }

    /// Is anything of a queue known to be in a partition?
    pub(crate) fn has(&self, queue: &str, partition: u16) -> bool {
        self.queues.get(queue).is_some_and(|queue| queue.heads.contains_key(&partition))
    }

    /// A queue was asked for what has this score at most, and gave something or nothing.
    pub(crate) fn learn(&mut self, asked: Option<i64>, gave: bool, next: Option<i64>) {
        let most = if self.is_shared { WINDOW_SHARED_MS } else { OVERTAKE_MS };
        let is_there = next.is_some_and(|next| asked.is_some_and(|asked| next <= asked));
        if gave {
            self.window_ms -= (self.window_ms + 31) / 32;
        } else if is_there {
            // It has what was asked for, and gives something better first.
            self.strict = STRICT_CLAIMS;
        } else {
            self.window_ms = (2 * self.window_ms).max(WINDOW_MIN_MS);
        }
        self.window_ms = self.window_ms.min(most);
    }

    /// A partition told all its queues of the lane, when so much had been heard.
    pub(crate) fn listed(&mut self, partition: u16, queues: &[(String, i64, u32)], at: u64) {
        let told: HashMap<&str, (i64, u32)> =
            queues.iter().map(|(text, score, count)| (text.as_str(), (*score, *count))).collect();
        for (text, queue) in &mut self.queues {
            queue.change(partition, |heads| match told.get(&**text) {
                Some((score, count)) => heads.replace(*score, *count, at),
                None => heads.correct(None, at),
            });
        }
        for (text, score, count) in queues {
            if !self.queues.contains_key(text.as_str()) {
                self.add(text, partition, *score, *count, at);
            }
        }
        self.queues.retain(|_, queue| !queue.heads.is_empty());
    }

    fn change(&mut self, queue: &str, partition: u16, how: impl FnOnce(&mut Heads)) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.change(partition, how);
        }
    }

    /// It waits until it is called.
    pub(crate) fn wait(&mut self, waiter: &Arc<Waiter>) {
        self.idle.insert(waiter.id, Arc::clone(waiter));
    }

    /// It waits no longer.
    pub(crate) fn leave(&mut self, waiter: &Waiter) {
        self.idle.remove(&waiter.id);
    }

    /// Whom to call because something is in a queue: those who came first.
    pub(crate) fn waiting_for(&self, queue: &str, most: u32) -> Vec<Arc<Waiter>> {
        let Some(queue) = self.queues.get(queue) else { return Vec::new() };
        let suitable = self.idle.values().filter(|waiter| waiter.ability.can_take(&queue.need));
        suitable.take(most as usize).cloned().collect()
    }

    #[cfg(test)]
    pub(crate) fn waits(&self, waiter: &Waiter) -> bool {
        self.idle.contains_key(&waiter.id)
    }

    /// Is something known to be in a queue, in whatever partition?
    pub(crate) fn has_any(&self, queue: &str) -> bool {
        self.queues.get(queue).is_some_and(|queue| !queue.order.is_empty())
    }

    /// How large a payload is to be expected: as large as can be while nothing is known.
    pub(crate) fn expected_bytes(&self) -> u64 {
        self.payload_bytes.unwrap_or(limits::PAYLOAD_BYTES_MAX)
    }

    /// The largest payload of an answer. Larger ones of before are forgotten little by little.
    pub(crate) fn saw_payload(&mut self, bytes: u64) {
        self.payload_bytes = Some(bytes.max(self.payload_bytes.unwrap_or(0) / 2).max(1));
    }
}

impl Picks {
    /// Takes the best one of a queue in a partition. False if enough are taken.
    fn take(
        &mut self,
        text: &Arc<str>,
        queue: &mut Queue,
        partition: u16,
        most: usize,
        partitions: usize,
    ) -> bool {
        let taken: usize = self.picks.iter().map(|pick| pick.scores.len()).sum();
        let is_full = self.picks.len() >= partitions;
        let known = |pick: &&mut Pick| pick.partition == partition && pick.queue == *text;
        let pick = self.picks.iter_mut().find(known);
        if taken >= most || (pick.is_none() && is_full) {
            return false;
        }
        let mut score = None;
        queue.change(partition, |heads| score = heads.take());
        match pick {
            Some(pick) => pick.scores.extend(score),
            None => self.picks.push(Pick {
                queue: Arc::clone(text),
                need: Arc::clone(&queue.need),
                partition,
                scores: score.into_iter().collect(),
            }),
        }
        self.next = None;
        true
    }
}

impl Queue {
    fn new(need: Need) -> Self {
        Self { need: Arc::new(need), heads: HashMap::new(), order: BTreeSet::new() }
    }

    fn best(&self) -> Option<(i64, u16)> {
        self.order.first().copied()
    }

    fn best_in(&self, partition: u16) -> Option<i64> {
        self.heads.get(&partition)?.best()
    }

    fn best_outside(&self, partition: u16) -> Option<i64> {
        self.order.iter().find(|(_, other)| *other != partition).map(|(score, _)| *score)
    }

    /// The partition that is preferred among those with something about as good as the best.
    fn preferred(&self, best: (i64, u16), window_ms: i64, preference: Preference) -> u16 {
        if window_ms == 0 {
            return best.1;
        }
        let worst = best.0.saturating_add(window_ms);
        let near = self.order.iter().take(NEAR_MAX).take_while(|(score, _)| *score <= worst);
        let partitions = near.map(|(_, partition)| *partition);
        partitions.max_by_key(|partition| preference.weight(*partition)).unwrap_or(best.1)
    }

    fn change(&mut self, partition: u16, how: impl FnOnce(&mut Heads)) {
        let heads = self.heads.entry(partition).or_default();
        let before = heads.best();
        how(heads);
        let after = heads.best();
        if before != after {
            before.map(|score| self.order.remove(&(score, partition)));
            after.map(|score| self.order.insert((score, partition)));
        }
        if after.is_none() {
            self.heads.remove(&partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any() -> Ability {
        Ability::default()
    }

    fn picked(lane: &mut Lane, most: usize) -> Vec<(u16, Vec<i64>)> {
        let picks = lane.pick(&any(), most, 16, Preference::default()).picks;
        picks.into_iter().map(|pick| (pick.partition, pick.scores)).collect()
    }

    fn best(lane: &mut Lane) -> Option<(i64, u16)> {
        let picks = picked(lane, 1);
        let (partition, scores) = picks.first()?;
        Some((scores[0], *partition))
    }

    #[test]
    fn the_best_of_all_queues_and_partitions_come_first() {
        let mut lane = Lane::default();
        lane.add("a:mail", 3, 20, 1, 1);
        lane.add("a:render", 7, 10, 2, 1);
        lane.add("a:mail", 5, 15, 1, 1);
        assert_eq!(picked(&mut lane, 3), [(7, vec![10, 10]), (5, vec![15])]);
        assert_eq!(picked(&mut lane, 3), [(3, vec![20])]);
        assert_eq!(picked(&mut lane, 3), []);
    }

    #[test]
    fn the_best_of_a_partition_is_taken_unless_one_elsewhere_comes_before_it() {
        let mut lane = Lane::default();
        lane.add("a:mail", 3, 120, 2, 1);
        lane.add("a:render", 7, 100, 1, 1);
        let picks = lane.pick_in(3, &any(), 1);
        assert_eq!(picks.picks.first().map(|pick| pick.scores.clone()), Some(vec![120]));
        assert_eq!(picks.next, Some(100));
        lane.add("a:render", 8, 69, 1, 1);
        let picks = lane.pick_in(3, &any(), 1);
        assert_eq!((picks.picks.len(), picks.next), (0, Some(69)), "51 ms before it");
        let picks = lane.pick_in(9, &any(), 1);
        assert_eq!((picks.picks.len(), picks.next), (0, Some(69)), "nothing is known there");
    }

    #[test]
    fn a_pick_tells_the_best_that_is_left() {
        let mut lane = Lane::default();
        (0..20).for_each(|partition| assert!(lane.add("a:mail", partition, 100, 1, 1)));
        let picks = lane.pick(&any(), 18, 16, Preference::default());
        assert_eq!((picks.picks.len(), picks.next), (16, Some(100)));
        let picks = lane.pick(&any(), 18, 16, Preference::default());
        assert_eq!((picks.picks.len(), picks.next), (4, None));
    }

    #[test]
    fn a_worker_is_not_told_of_what_it_cannot_take() {
        let mut lane = Lane::default();
        lane.add("a:render:gpu", 1, 10, 1, 1);
        assert_eq!(best(&mut lane), None);
        assert!(!lane.add("nonsense", 1, 10, 1, 1));
    }

    #[test]
    fn a_listing_forgets_queues_that_are_gone() {
        let mut lane = Lane::default();
        lane.add("a:mail", 1, 10, 1, 1);
        lane.add("a:mail", 2, 11, 1, 1);
        lane.listed(1, &[("a:render".to_owned(), 30, 4)], 1);
        assert_eq!(lane.size(), 4);
        lane.listed(2, &[], 1);
        assert_eq!(lane.size(), 2);
        assert_eq!(best(&mut lane), Some((30, 1)));
    }
}
