//! A sorted set: the members in order in a list of short sorted runs, and the scores by the hashes
//! of their members, which are found in the runs by them. Runs are scanned faster than a tree is
//! walked, and counting skips them whole.

use std::cmp::Ordering;

use super::footprint::allocated;
use super::map::{Hashed, Map};
use super::text::{self, Expanded, Text};

/// A run is split when it grows beyond this.
const RUN_MAX: usize = 128;
/// A run that shrinks below this is joined with the next one, if both fit well.
const RUN_MIN: usize = 24;

/// Members with their scores, ordered by score and then by bytes.
#[derive(Debug, Default)]
pub(crate) struct SortedSet {
    scores: Map<Scored>,
    runs: Vec<Vec<Ranked>>,
    /// What the runs take, with members that do not fit into their places.
    run_bytes: usize,
}

/// The score of a member, which is one of those with this hash.
#[derive(Debug)]
struct Scored {
    hash: u64,
    score: f64,
}

impl Hashed for Scored {
    fn hash(&self) -> u64 {
        self.hash
    }
}

#[derive(Debug)]
struct Ranked {
    score: f64,
    member: Text<MEMBER_BYTES>,
}

/// A member that is looked for.
type Sought<'a> = text::Sought<'a, MEMBER_BYTES>;
const MEMBER_BYTES: usize = 22;

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
    fn order(&self, score: f64, member: &Sought<'_>) -> Ordering {
        self.score.total_cmp(&score).then_with(|| self.member.order(member))
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
        self.scored(&Sought::new(member))
    }

    fn scored(&self, member: &Sought<'_>) -> Option<f64> {
        let hash = member.hash();
        let is = |it: &Scored| it.hash == hash && place_in(&self.runs, it.score, member).is_some();
        self.scores.find(hash, is).map(|found| found.score)
    }

    /// Adds a member, unless it is there: then its score is answered, and stays.
    pub(crate) fn add(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let (member, runs) = (&Sought::new(member), &self.runs);
        let hash = member.hash();
        let is = |it: &Scored| it.hash == hash && place_in(runs, it.score, member).is_some();
        let mut is_new = false;
        let make = || {
            is_new = true;
            Scored { hash, score }
        };
        let known = self.scores.find_or_insert(hash, is, make).score;
        if !is_new {
            return Some(known);
        }
        self.place(member, Ranked { score, member: Text::new(member) });
        None
    }

    /// Gives a member that is there another score.
    pub(crate) fn rescore(&mut self, member: &[u8], score: f64) {
        let member = &Sought::new(member);
        let mut ranked = self.take(member).expect("only a present member is rescored");
        ranked.score = score;
        self.place(member, ranked);
        self.scores.insert(Scored { hash: member.hash(), score });
    }

    /// True if the member was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        self.take(&Sought::new(member)).is_some()
    }

    fn take(&mut self, member: &Sought<'_>) -> Option<Ranked> {
        let (hash, runs) = (member.hash(), &self.runs);
        let mut place = None;
        self.scores.remove(hash, |it| {
            place = (it.hash == hash).then(|| place_in(runs, it.score, member)).flatten();
            place.is_some()
        })?;
        let Place { run, at } = place?;
        let ranked = self.runs[run].remove(at);
        self.run_bytes -= ranked.member.heap_bytes();
        self.join(run);
        Some(ranked)
    }

    fn place(&mut self, member: &Sought<'_>, ranked: Ranked) {
        self.run_bytes += ranked.member.heap_bytes();
        let run = run_for(&self.runs, ranked.score, member);
        let Some(members) = self.runs.get_mut(run) else { return self.append(ranked) };
        let at =
            members.partition_point(|other| other.order(ranked.score, member) == Ordering::Less);
        let before = run_bytes(members);
        if members.len() < RUN_MAX {
            members.insert(at, ranked);
            self.run_bytes = self.run_bytes + run_bytes(members) - before;
            return;
        }
        let mut upper = members.split_off(RUN_MAX / 2);
        match at.checked_sub(RUN_MAX / 2) {
            Some(at) => upper.insert(at, ranked),
            None => members.insert(at, ranked),
        }
        self.run_bytes = self.run_bytes + run_bytes(members) + run_bytes(&upper) - before;
        self.runs.insert(run + 1, upper);
    }

    /// After everything else: scores are mostly times, so this is the common case and leaves full
    /// runs behind.
    fn append(&mut self, ranked: Ranked) {
        match self.runs.last_mut() {
            Some(last) if last.len() < RUN_MAX => {
                self.run_bytes -= run_bytes(last);
                last.push(ranked);
                self.run_bytes += run_bytes(last);
            }
            _ => {
                let run = vec![ranked];
                self.run_bytes += run_bytes(&run);
                self.runs.push(run);
            }
        }
    }

    fn join(&mut self, run: usize) {
        let left = self.runs[run].len();
        if left == 0 {
            self.run_bytes -= run_bytes(&self.runs.remove(run));
        } else if left < RUN_MIN
            && self.runs.get(run + 1).is_some_and(|next| next.len() + left <= RUN_MAX / 2)
        {
            let mut next = self.runs.remove(run + 1);
            self.run_bytes -= run_bytes(&next) + run_bytes(&self.runs[run]);
            self.runs[run].append(&mut next);
            self.run_bytes += run_bytes(&self.runs[run]);
        }
    }

    /// What it takes beside itself.
    pub(super) fn content_bytes(&self) -> usize {
        let places = allocated(self.runs.capacity() * size_of::<Vec<Ranked>>());
        self.run_bytes + places + self.scores.table_bytes()
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
    ) -> impl DoubleEndedIterator<Item = (f64, Expanded<'_>)> {
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
    ) -> impl DoubleEndedIterator<Item = (f64, Expanded<'_>)> {
        self.between(self.rank(first), self.rank(last + 1))
    }

    /// How many members come before this one, if it is there.
    pub(crate) fn rank_of(&self, member: &[u8]) -> Option<usize> {
        let member = &Sought::new(member);
        let Place { run, at } = place_in(&self.runs, self.scored(member)?, member)?;
        Some(self.runs[..run].iter().map(Vec::len).sum::<usize>() + at)
    }

    /// Everything in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (f64, Expanded<'_>)> {
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

    fn between(
        &self,
        from: Place,
        until: Place,
    ) -> impl DoubleEndedIterator<Item = (f64, Expanded<'_>)> {
        let last = if until.at == 0 { until.run } else { until.run + 1 };
        let runs = self.runs.get(from.run..last).unwrap_or_default();
        let whole = runs.len();
        runs.iter().enumerate().flat_map(move |(index, run)| {
            let start = if index == 0 { from.at } else { 0 };
            let partial = index + 1 == whole && until.at > 0;
            let end = if partial { until.at } else { run.len() };
            run[start.min(end)..end].iter().map(|ranked| (ranked.score, ranked.member.expand()))
        })
    }
}

fn run_bytes(run: &Vec<Ranked>) -> usize {
    allocated(run.capacity() * size_of::<Ranked>())
}

/// The first run whose last member is not before this one.
fn run_for(runs: &[Vec<Ranked>], score: f64, member: &Sought<'_>) -> usize {
    runs.partition_point(|run| last(run).order(score, member) == Ordering::Less)
}

/// Where a member with this score is, if there is one.
fn place_in(runs: &[Vec<Ranked>], score: f64, member: &Sought<'_>) -> Option<Place> {
    let run = run_for(runs, score, member);
    let at = runs.get(run)?.binary_search_by(|other| other.order(score, member)).ok()?;
    Some(Place { run, at })
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
                (1, _) => assert_eq!(set.add(&member, score), model.get(&member).copied()),
                (_, true) => set.rescore(&member, score),
                (_, false) => assert_eq!(set.add(&member, score), None),
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
        assert!(same(set.iter(), &sorted));
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
            assert!(same(set.by_score(min, max), &within));
            let reversed: Vec<_> = within.into_iter().rev().collect();
            assert!(same(set.by_score(min, max).rev(), &reversed));
            assert_eq!(set.count(min, max), reversed.len());
        }
        ranks_agree(set, &sorted);
    }

    fn same<'a>(
        members: impl Iterator<Item = (f64, Expanded<'a>)>,
        expected: &[(f64, &[u8])],
    ) -> bool {
        let members: Vec<_> = members.map(|(score, member)| (score, member.to_vec())).collect();
        members.iter().map(|(score, member)| (*score, &**member)).eq(expected.iter().copied())
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
                    assert!(same(set.by_rank(first, last), expected));
                }
            }
        }
    }
}
