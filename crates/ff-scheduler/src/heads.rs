//! What is known of one queue in one partition: the best scores that were heard of, and how many
//! there are with each or behind it.

/// Scores that are kept apart; the others are counted with the last of them.
const ENTRIES_MAX: usize = 8;

/// Executions of one queue, lowest score first. It is what was heard, not what is there: others
/// take from the queue as well, and the next answer puts it right.
#[derive(Debug, Default)]
pub(crate) struct Heads(Vec<Entry>);

/// So many executions with this score or a greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) score: i64,
    pub(crate) count: u32,
    /// When that was heard, by the scheduler's own count.
    heard: u64,
}

impl Heads {
    /// The score of the best one.
    pub(crate) fn best(&self) -> Option<i64> {
        self.0.first().map(|entry| entry.score)
    }

    /// So many joined the queue, none better than this score.
    pub(crate) fn add(&mut self, score: i64, count: u32, heard: u64) {
        let at = self.0.partition_point(|entry| entry.score < score);
        match self.0.get_mut(at).filter(|entry| entry.score == score) {
            Some(entry) => *entry = entry.with(count, heard),
            None => self.0.insert(at, Entry { score, count, heard }),
        }
        if self.0.len() > ENTRIES_MAX {
            self.merge_last();
        }
    }

    fn merge_last(&mut self) {
        let last = self.0.pop();
        if let (Some(last), Some(before)) = (last, self.0.last_mut()) {
            *before = before.with(last.count, last.heard);
        }
    }

    /// Takes the best one out: somebody asks for it. Answers its score.
    pub(crate) fn take(&mut self) -> Option<i64> {
        let entry = self.0.first_mut()?;
        let score = entry.score;
        entry.count = entry.count.saturating_sub(1);
        if entry.count == 0 {
            self.0.remove(0);
        }
        Some(score)
    }

    /// The queue told what its best one is, when so much had been heard. What was heard later may
    /// have joined since, and stays.
    pub(crate) fn correct(&mut self, next_score: Option<i64>, asked_at: u64) {
        let Some(next) = next_score else {
            self.0.retain(|entry| entry.heard > asked_at);
            return;
        };
        let (old, new): (Vec<Entry>, Vec<Entry>) =
            self.0.drain(..).partition(|entry| entry.heard <= asked_at);
        for entry in new {
            self.add(entry.score, entry.count, entry.heard);
        }
        for entry in &old {
            self.add(entry.score.max(next), entry.count, entry.heard);
        }
        if self.best().is_none_or(|best| best > next) {
            self.add(next, 1, asked_at);
        }
    }

    /// The queue told how many it has, and its best one.
    pub(crate) fn replace(&mut self, score: i64, count: u32, asked_at: u64) {
        self.0.retain(|entry| entry.heard > asked_at);
        self.add(score, count, asked_at);
    }
}

impl Entry {
    fn with(self, count: u32, heard: u64) -> Self {
        let count = self.count.saturating_add(count);
        Self { count, heard: self.heard.max(heard), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(entries: &[(i64, u32)]) -> Heads {
        let mut heads = Heads::default();
        entries.iter().for_each(|(score, count)| heads.add(*score, *count, 1));
        heads
    }

    fn told(heads: &Heads) -> Vec<(i64, u32)> {
        heads.0.iter().map(|entry| (entry.score, entry.count)).collect()
    }

    #[test]
    fn the_best_is_taken_first_and_each_once() {
        let mut heads = heads(&[(30, 1), (10, 2), (20, 1)]);
        let taken: Vec<_> = std::iter::from_fn(|| heads.take()).collect();
        assert_eq!(taken, [10, 10, 20, 30]);
        assert_eq!(heads.best(), None);
    }

    #[test]
    fn any_number_takes_bounded_memory_and_is_counted() {
        let mut heads = Heads::default();
        (0..1000).for_each(|score| heads.add(score, 1, 1));
        assert_eq!(heads.0.len(), ENTRIES_MAX);
        assert_eq!(std::iter::from_fn(|| heads.take()).count(), 1000);
    }

    #[test]
    fn an_answer_moves_what_was_known_behind_the_head_that_it_tells() {
        let mut heads = heads(&[(10, 40)]);
        heads.take();
        heads.correct(Some(15), 1);
        assert_eq!(told(&heads), [(15, 39)]);
        heads.correct(Some(12), 1);
        assert_eq!(told(&heads), [(12, 1), (15, 39)], "a better one that was not heard of");
        heads.correct(None, 1);
        assert_eq!(told(&heads), []);
    }

    #[test]
    fn what_is_heard_while_a_queue_is_asked_outlives_its_answer() {
        let mut heads = heads(&[(10, 1)]);
        heads.add(5, 1, 2);
        heads.correct(Some(20), 1);
        assert_eq!(told(&heads), [(5, 1), (20, 1)]);
        heads.correct(None, 1);
        assert_eq!(told(&heads), [(5, 1)]);
    }

    #[test]
    fn a_listing_replaces_what_was_known_before_it() {
        let mut heads = heads(&[(10, 7), (90, 1)]);
        heads.add(11, 1, 3);
        heads.replace(12, 2, 2);
        assert_eq!(told(&heads), [(11, 1), (12, 2)]);
    }
}
