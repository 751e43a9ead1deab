//! A sorted set: a map from member to score, and the members in order in a list of short sorted
//! runs. Runs are scanned faster than a tree is walked, and counting skips them whole.

use std::cmp::Ordering;
use std::sync::Arc;

use super::map::Map;

/// A run is split when it grows beyond this.
const RUN_MAX: usize = 128;
/// A run that shrinks below this is joined with the next one, if both fit well.
const RUN_MIN: usize = 24;

/// Members with their scores, ordered by score and then by bytes.
#[derive(Debug, Default)]
pub(crate) struct SortedSet {
    scores: Map<Arc<[u8]>, f64>,
    runs: Vec<Vec<Ranked>>,
}

#[derive(Clone, Debug)]
struct Ranked {
    score: f64,
    member: Arc<[u8]>,
}

/// One end of a score range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) score: f64,
    pub(crate) exclusive: bool,
}

impl Bound {
    /// True if a range that starts here contains the score.
    fn admits_above(self, score: f64) -> bool {
        if self.exclusive { score > self.score } else { score >= self.score }
    }

    /// True if a range that ends here contains the score.
    fn admits_below(self, score: f64) -> bool {
        if self.exclusive { score < self.score } else { score <= self.score }
    }
}

/// A place between two members: a run and a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    run: usize,
    at: usize,
}

impl Ranked {
    fn order(&self, score: f64, member: &[u8]) -> Ordering {
        self.score.total_cmp(&score).then_with(|| self.member.as_ref().cmp(member))
    }
}

impl SortedSet {
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Adds a member that is not there yet.
    pub(crate) fn add(&mut self, member: &[u8], score: f64) {
        let member: Arc<[u8]> = member.into();
        self.place(Ranked { score, member: Arc::clone(&member) });
        self.scores.insert(member, score);
    }

    /// Gives a member that is there another score.
    pub(crate) fn rescore(&mut self, member: &[u8], score: f64) {
        let known = self.scores.get_mut(member).expect("only a present member is rescored");
        let old = std::mem::replace(known, score);
        let mut ranked = self.displace(old, member);
        ranked.score = score;
        self.place(ranked);
    }

    /// True if the member was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else { return false };
        self.displace(score, member);
        true
    }

    fn place(&mut self, ranked: Ranked) {
        let run = self.run_for(ranked.score, &ranked.member);
        if run == self.runs.len() {
            return self.append(ranked);
        }
        let members = &mut self.runs[run];
        let at = members
            .partition_point(|other| other.order(ranked.score, &ranked.member) == Ordering::Less);
        members.insert(at, ranked);
        if members.len() > RUN_MAX {
            let upper = members.split_off(RUN_MAX / 2);
            self.runs.insert(run + 1, upper);
        }
    }

    /// After everything else: scores are mostly times, so this is the common case and leaves full
    /// runs behind.
    fn append(&mut self, ranked: Ranked) {
        match self.runs.last_mut() {
            Some(last) if last.len() < RUN_MAX => last.push(ranked),
            _ => self.runs.push(vec![ranked]),
        }
    }

    fn displace(&mut self, score: f64, member: &[u8]) -> Ranked {
        let run = self.run_for(score, member);
        let at = self.runs[run]
            .binary_search_by(|other| other.order(score, member))
            .expect("map and order hold the same members");
        let ranked = self.runs[run].remove(at);
        self.join(run);
        ranked
    }

    fn join(&mut self, run: usize) {
        let left = self.runs[run].len();
        if left == 0 {
            self.runs.remove(run);
        } else if left < RUN_MIN
            && self.runs.get(run + 1).is_some_and(|next| next.len() + left <= RUN_MAX / 2)
        {
            let mut next = self.runs.remove(run + 1);
            self.runs[run].append(&mut next);
        }
    }

    /// The first run whose last member is not before this one.
    fn run_for(&self, score: f64, member: &[u8]) -> usize {
        self.runs.partition_point(|run| last(run).order(score, member) == Ordering::Less)
    }

    /// The first place whose member does not satisfy `before`, which holds for a prefix.
    fn first_not(&self, before: impl Fn(f64) -> bool) -> Place {
        let run = self.runs.partition_point(|run| before(last(run).score));
        let at = self
            .runs
            .get(run)
            .map_or(0, |members| members.partition_point(|ranked| before(ranked.score)));
        Place { run, at }
    }

    fn range(&self, min: Bound, max: Bound) -> (Place, Place) {
        let from = self.first_not(|score| !min.admits_above(score));
        let until = self.first_not(|score| max.admits_below(score));
        (from, until.max(from))
    }

    /// The members with a score in the range, in ascending order from either end.
    pub(crate) fn by_score(
        &self,
        min: Bound,
        max: Bound,
    ) -> impl DoubleEndedIterator<Item = (f64, &[u8])> {
        let (from, until) = self.range(min, max);
        self.between(from, until)
    }

    /// How many members have a score in the range.
    pub(crate) fn count(&self, min: Bound, max: Bound) -> usize {
        let (from, until) = self.range(min, max);
        let before_until: usize = self.runs[from.run..until.run].iter().map(Vec::len).sum();
        before_until + until.at - from.at
    }

    /// The members from one rank to another, both included.
    pub(crate) fn by_rank(
        &self,
        first: usize,
        last: usize,
    ) -> impl DoubleEndedIterator<Item = (f64, &[u8])> {
        self.between(self.rank(first), self.rank(last + 1))
    }

    /// How many members come before this one, if it is there.
    pub(crate) fn rank_of(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        let run = self.run_for(score, member);
        let at = self.runs[run].partition_point(|other| other.order(score, member).is_lt());
        Some(self.runs[..run].iter().map(Vec::len).sum::<usize>() + at)
    }

    /// Everything in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (f64, &[u8])> {
        self.between(Place { run: 0, at: 0 }, Place { run: self.runs.len(), at: 0 })
    }

    fn rank(&self, rank: usize) -> Place {
        if rank > self.len() / 2 {
            return self.rank_from_end(self.len().saturating_sub(rank));
        }
        let mut at = rank;
        for (run, members) in self.runs.iter().enumerate() {
            if at < members.len() {
                return Place { run, at };
            }
            at -= members.len();
        }
        Place { run: self.runs.len(), at: 0 }
    }

    fn rank_from_end(&self, mut back: usize) -> Place {
        for (run, members) in self.runs.iter().enumerate().rev() {
            if back <= members.len() {
                return Place { run, at: members.len() - back };
            }
            back -= members.len();
        }
        Place { run: 0, at: 0 }
    }

    fn between(&self, from: Place, until: Place) -> impl DoubleEndedIterator<Item = (f64, &[u8])> {
        let last = if until.at == 0 { until.run } else { until.run + 1 };
        let runs = self.runs.get(from.run..last).unwrap_or_default();
        let whole = runs.len();
        runs.iter().enumerate().flat_map(move |(index, run)| {
            let start = if index == 0 { from.at } else { 0 };
            let partial = index + 1 == whole && until.at > 0;
            let end = if partial { until.at } else { run.len() };
            run[start.min(end)..end].iter().map(|ranked| (ranked.score, ranked.member.as_ref()))
        })
    }
}

fn last(run: &[Ranked]) -> &Ranked {
    run.last().expect("an empty run is removed at once")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inclusive(score: f64) -> Bound {
        Bound { score, exclusive: false }
    }

    fn exclusive(score: f64) -> Bound {
        Bound { score, exclusive: true }
    }

    /// A small generator.
    fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        }
    }

    #[test]
    fn it_agrees_with_a_sorted_list_under_random_changes() {
        let mut next = numbers(ff_test_seed::random_test!().seed());
        let mut set = SortedSet::default();
        let mut model: std::collections::BTreeMap<Vec<u8>, f64> = Default::default();
        for step in 0..20_000 {
            let member = format!("m{}", next(600)).into_bytes();
            let score = next(50) as f64;
            match (next(3), model.contains_key(&member)) {
                (0, known) => assert_eq!(set.remove(&member), known),
                (_, true) => set.rescore(&member, score),
                (_, false) => set.add(&member, score),
            }
            match set.score(&member) {
                Some(score) => model.insert(member, score),
                None => model.remove(&member),
            };
            if step % 97 == 0 {
                agree(&set, &model, next(50) as f64, next(50) as f64);
            }
        }
    }

    fn agree(
        set: &SortedSet,
        model: &std::collections::BTreeMap<Vec<u8>, f64>,
        low: f64,
        high: f64,
    ) {
        let mut sorted: Vec<(f64, &[u8])> = model.iter().map(|(m, s)| (*s, &m[..])).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
        assert_eq!(set.iter().collect::<Vec<_>>(), sorted);
        assert_eq!(set.len(), sorted.len());
        for (min, max) in [
            (inclusive(low), inclusive(high)),
            (exclusive(low), exclusive(high)),
            (inclusive(f64::NEG_INFINITY), exclusive(high)),
        ] {
            let within: Vec<_> = sorted
                .iter()
                .copied()
                .filter(|(score, _)| min.admits_above(*score) && max.admits_below(*score))
                .collect();
            assert_eq!(set.by_score(min, max).collect::<Vec<_>>(), within);
            let reversed: Vec<_> = within.into_iter().rev().collect();
            assert_eq!(set.by_score(min, max).rev().collect::<Vec<_>>(), reversed);
            assert_eq!(set.count(min, max), reversed.len());
        }
        ranks_agree(set, &sorted);
    }

    fn ranks_agree(set: &SortedSet, sorted: &[(f64, &[u8])]) {
        let count = sorted.len();
        for (rank, (_, member)) in sorted.iter().enumerate() {
            assert_eq!(set.rank_of(member), Some(rank));
        }
        assert_eq!(set.rank_of(b"nobody"), None);
        for first in [0, 1, count / 2, count.saturating_sub(1)] {
            for last in [first, first + 5, count.saturating_sub(1)] {
                if first <= last && last < count {
                    let expected = &sorted[first..=last];
                    assert_eq!(set.by_rank(first, last).collect::<Vec<_>>(), expected);
                }
            }
        }
    }
}
