//! What the scheduler knows: the lanes that somebody asked for, as many as fit in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ff_core::limits;
use ff_core::need::Need;
use ff_core::types::LaneId;
use tokio::time::Instant;

use crate::grant::SchedulerConfig;
use crate::lane::{Knowledge, Lane, OVERTAKE_MS, Pick, Picks};
use crate::preference::Preference;
use crate::turns::{Turns, Weight};
use crate::worker::{Ability, Waiter};

/// Memory for what nobody uses at the moment, in queues of partitions: about 64 MiB. A lane that
/// was forgotten is looked through again when somebody asks for it.
const SIZE_MAX: usize = 256 * 1024;

/// Lanes that are known at a time, if nobody uses them.
const LANES_MAX: usize = 4096;

/// How long it counts that others look for work.
const OTHERS_KNOWN: Duration = Duration::from_secs(10);

pub(crate) struct Board {
    lanes: HashMap<LaneId, Lane>,
    /// Counts what was heard, so that an answer can be told from what happened since the question.
    heard: u64,
    uses: u64,
    waiters: u64,
    preference: Preference,
    turns: Turns,
    /// How many others look for work on the store, and when that was heard.
    others: Option<(u32, Instant)>,
    /// Partitions that one claim asks at the same time.
    asked_at_once_max: usize,
}

/// A queue of a partition that is asked, and for how many.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) lane: LaneId,
    pub(crate) need: Arc<Need>,
    pub(crate) partition: u16,
    /// Nothing with a greater score may be taken.
    pub(crate) score_max: Option<i64>,
    queue: Arc<str>,
    scores: Vec<i64>,
    heard: u64,
    /// Who asks, if somebody does who looks again for what it did not get.
    asker: Option<Arc<Waiter>>,
}

impl Ask {
    /// How many are asked for.
    pub(crate) fn count(&self) -> usize {
        self.scores.len()
    }

    /// Could the one with this score have been taken?
    pub(crate) fn reaches(&self, next_score: Option<i64>) -> bool {
        next_score.is_some_and(|next| self.score_max.is_none_or(|most| next <= most))
    }
}

/// What somebody who ends a task in a partition may take of it in the same call.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// The queue that has what comes next; none if that is elsewhere, or nothing is known of.
    pub(crate) ask: Option<Ask>,
    /// The lane whose turn it is, if something is known of in one.
    pub(crate) lane: Option<LaneId>,
    /// Nothing with a greater score is to be taken.
    pub(crate) score_max: Option<i64>,
}

/// A push about a queue.
pub(crate) struct News<'a> {
    lane: &'a str,
    queue: &'a str,
    what: Told,
}

/// What a push tells of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// So many joined it, none better than this score: `count:score:lane:need`.
    Joined { count: u32, score: i64 },
    /// Somebody took from it, and this is its best one now: `left:listeners:score:lane:need`.
    Left { listeners: u32, score: Option<i64> },
}

/// A queue of which somebody is told later.
pub(crate) struct Later {
    lane: LaneId,
    queue: String,
}

impl<'a> News<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        match text.strip_prefix("left:") {
            Some(text) => {
                let mut parts = text.splitn(4, ':');
                let listeners = parts.next()?.parse().ok()?;
                let score = match parts.next()? {
                    "" => None,
                    score => Some(score.parse().ok()?),
                };
                let (lane, queue) = (parts.next()?, parts.next()?);
                Some(Self { lane, queue, what: Told::Left { listeners, score } })
            }
            None => {
                let mut parts = text.splitn(4, ':');
                let (count, score) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let (lane, queue) = (parts.next()?, parts.next()?);
                Some(Self { lane, queue, what: Told::Joined { count, score } })
            }
        }
    }
}

impl Board {
    /// Knows nothing yet.
    pub(crate) fn new(preference: Preference, config: SchedulerConfig) -> Self {
        Self {
            lanes: HashMap::new(),
            heard: 0,
            uses: 0,
            waiters: 0,
            preference,
            turns: Turns::default(),
            others: None,
            asked_at_once_max: config.max_partitions_per_scan.into(),
        }
    }

    /// Somebody begins to look for work in these lanes.
    pub(crate) fn enter(&mut self, lanes: Arc<[LaneId]>, ability: Ability) -> Arc<Waiter> {
        self.waiters += 1;
        for name in lanes.iter() {
            self.uses += 1;
            if !self.lanes.contains_key(name) {
                self.make_room();
            }
            let lane = self.lanes.entry(name.clone()).or_default();
            lane.users += 1;
            lane.used = self.uses;
        }
        Arc::new(Waiter::new(self.waiters, lanes, ability))
    }

    /// It looks no longer. However it leaves, with work, with an error or in the middle, others are
    /// called for what it was called for and leaves behind: nobody else was. What nobody who waits
    /// may take costs nothing here, however much that is.
    pub(crate) fn exit(&mut self, waiter: &Waiter) {
        self.stop_waiting(waiter);
        for name in waiter.lanes.iter() {
            if let Some(lane) = self.lanes.get_mut(name) {
                lane.users -= 1;
            }
        }
        for (name, queue) in waiter.leave() {
            let left = self.lanes.get(&name).is_some_and(|lane| lane.has_any(&queue));
            if left {
                self.call(&name, &queue, 1);
            }
        }
    }

    /// Whom to ask next, all at once. If nothing is known of, it waits until it is called.
    pub(crate) fn choose_or_wait(
        &mut self,
        waiter: &Arc<Waiter>,
        most: usize,
        bytes: u64,
    ) -> Vec<Ask> {
        self.stop_waiting(waiter);
        let mut asks = self.choose(&waiter.lanes, &waiter.ability, most, bytes);
        asks.iter_mut().for_each(|ask| ask.asker = Some(Arc::clone(waiter)));
        if asks.is_empty() {
            for name in waiter.lanes.iter() {
                if let Some(lane) = self.lanes.get_mut(name) {
                    lane.wait(waiter);
                }
            }
        }
        asks
    }

    /// The lanes take turns, by weight, so that a busy one cannot starve the others. No more are
    /// asked for than together may bring what an answer can carry, as far as sizes are known.
    fn choose(
        &mut self,
        lanes: &Arc<[LaneId]>,
        ability: &Ability,
        most: usize,
        bytes: u64,
    ) -> Vec<Ask> {
        self.uses += 1;
        let preference = self.preference.of_claim(self.uses);
        let (mut asks, mut most, mut bytes) = (Vec::new(), most, bytes);
        for position in self.turns.order(lanes) {
            let name = &lanes[position];
            let Some(lane) = self.lanes.get_mut(name) else { continue };
            let fitting = bytes.div_ceil(lane.expected_bytes());
            let count = most.min(usize::try_from(fitting).unwrap_or(usize::MAX));
            if count == 0 || asks.len() >= self.asked_at_once_max {
                break;
            }
            let partitions = self.asked_at_once_max - asks.len();
            let picks = lane.pick(ability, count, partitions, preference);
            let (expected, weight) = (lane.expected_bytes(), lane.weight);
            let asked = self.asks(name, picks);
            let count = asked.iter().map(Ask::count).sum();
            self.turns.serve(lanes, position, count, weight);
            most -= count;
            bytes = bytes.saturating_sub(expected.saturating_mul(count as u64));
            asks.extend(asked);
        }
        asks
    }

    /// What to take of one partition, up to so many, by the same rules.
    pub(crate) fn choose_in(
        &mut self,
        partition: u16,
        lanes: &Arc<[LaneId]>,
        ability: &Ability,
        most: usize,
    ) -> Choice {
        for position in self.turns.order(lanes) {
            let name = &lanes[position];
            let Some(lane) = self.lanes.get_mut(name) else { continue };
            let (picks, weight) = (lane.pick_in(partition, ability, most), lane.weight);
            let score_max = score_max(&picks);
            let ask = self.asks(name, picks).pop();
            if let Some(ask) = &ask {
                self.turns.serve(lanes, position, ask.count(), weight);
            }
            if ask.is_some() || score_max.is_some() {
                return Choice { ask, lane: Some(name.clone()), score_max };
            }
        }
        Choice::default()
    }

    fn asks(&self, lane: &LaneId, picks: Picks) -> Vec<Ask> {
        let score_max = score_max(&picks);
        let ask = |Pick { queue, need, partition, scores }| Ask {
            lane: lane.clone(),
            need,
            partition,
            score_max,
            queue,
            scores,
            heard: self.heard,
            asker: None,
        };
        picks.picks.into_iter().map(ask).collect()
    }

    fn stop_waiting(&mut self, waiter: &Waiter) {
        for name in waiter.lanes.iter() {
            if let Some(lane) = self.lanes.get_mut(name) {
                lane.leave(waiter);
            }
        }
    }

    /// Calls up to so many of those who wait for what is in a queue. Until they wait again, others
    /// are called.
    fn call(&mut self, name: &LaneId, queue: &str, most: u32) {
        let Some(lane) = self.lanes.get(name) else { return };
        for waiter in lane.waiting_for(queue, most) {
            self.stop_waiting(&waiter);
            // Whoever waits has not left.
            waiter.note(name, queue);
            waiter.call.notify_one();
        }
    }

    /// Something happened to a queue of a partition. Where others hear of it too, those who wait
    /// are to be called later: answers when, and for what.
    pub(crate) fn hear(
        &mut self,
        partition: u16,
        news: &News<'_>,
        now: Instant,
    ) -> Option<(Duration, Later)> {
        self.heard += 1;
        let heard = self.heard;
        if let Told::Left { listeners, .. } = news.what {
            self.others = Some((listeners.saturating_sub(1), now));
        }
        let others = self.others(now);
        let name = LaneId::try_new(news.lane).ok()?;
        let lane = self.lanes.get_mut(&name)?;
        lane.is_shared = others > 0;
        let count = match news.what {
            Told::Joined { count, score } => {
                let known = lane.add(news.queue, partition, score, count, heard);
                if known { count.max(1) } else { 0 }
            }
            Told::Left { score, .. } => {
                lane.left(news.queue, partition, score, heard);
                u32::from(score.is_some())
            }
        };
        if others == 0 {
            self.call(&name, news.queue, count);
            return None;
        }
        let is_waited_for = !lane.waiting_for(news.queue, count.min(1)).is_empty();
        let delay = self.preference.delay(partition, others);
        let later = Later { lane: name, queue: news.queue.to_owned() };
        is_waited_for.then_some((delay, later))
    }

    /// A lane has another weight. One that nobody uses is looked up when somebody does.
    pub(crate) fn weigh(&mut self, name: &LaneId, weight: Weight) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.weight = weight;
        }
    }

    /// How many others look for work on this store, as far as it was heard lately.
    fn others(&self, now: Instant) -> u32 {
        let fresh = self.others.filter(|(_, heard_at)| now - *heard_at < OTHERS_KNOWN);
        fresh.map_or(0, |(others, _)| others)
    }

    /// Calls one who waits for what is in a queue, if it is still known to be there.
    pub(crate) fn call_for(&mut self, partition: u16, later: &Later) {
        let Some(lane) = self.lanes.get(&later.lane) else { return };
        if lane.has(&later.queue, partition) {
            self.call(&later.lane, &later.queue, 1);
        }
    }

    /// A queue that was asked gave something, with payloads up to so many bytes, or nothing; and
    /// told what its best one is now. What it did not give although it could stays with whoever
    /// asked, so that not all who wait ask for it in vain; if that one does not look again,
    /// somebody else is called.
    pub(crate) fn answered(&mut self, ask: &Ask, bytes: Option<u64>, next_score: Option<i64>) {
        let Some(lane) = self.lanes.get_mut(&ask.lane) else { return };
        lane.asked(&ask.queue, ask.partition);
        lane.correct(&ask.queue, ask.partition, next_score, ask.heard);
        lane.learn(ask.scores.iter().copied().max(), bytes.is_some(), next_score);
        if let Some(bytes) = bytes {
            lane.saw_payload(bytes);
        }
        if next_score.is_none() {
            return;
        }
        let asker = ask.asker.as_ref().filter(|_| bytes.is_none());
        if !asker.is_some_and(|asker| asker.note(&ask.lane, &ask.queue)) {
            self.call(&ask.lane, &ask.queue, 1);
        }
    }

    /// A queue could not be asked: what is known of it is as it was, and others may try.
    pub(crate) fn failed(&mut self, ask: &Ask) {
        let heard = self.heard;
        let Some(lane) = self.lanes.get_mut(&ask.lane) else { return };
        lane.asked(&ask.queue, ask.partition);
        for score in &ask.scores {
            lane.add(&ask.queue, ask.partition, *score, 1, heard);
        }
        self.call(&ask.lane, &ask.queue, ask.count() as u32);
    }

    /// How much was heard so far.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    /// A partition told all its queues of a lane, when so much had been heard.
    pub(crate) fn listed(
        &mut self,
        name: &LaneId,
        partition: u16,
        queues: &[(String, i64, u32)],
        at: u64,
    ) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        lane.listed(partition, queues, at);
        for (text, _, count) in queues {
            self.call(name, text, *count);
        }
    }

    /// Those of the lanes that somebody must look through. Whoever asks does so.
    pub(crate) fn begin_looking(&mut self, lanes: &[LaneId]) -> Vec<LaneId> {
        let mut unknown = Vec::new();
        for name in lanes {
            if let Some(lane) = self.lanes.get_mut(name)
                && lane.knowledge == Knowledge::Unknown
            {
                lane.knowledge = Knowledge::Looking;
                unknown.push(name.clone());
            }
        }
        unknown
    }

    /// All partitions of these lanes were looked through, or could not be.
    pub(crate) fn looked(&mut self, lanes: &[LaneId], everywhere: bool) {
        for name in lanes {
            if let Some(lane) = self.lanes.get_mut(name) {
                lane.knowledge = if everywhere { Knowledge::Known } else { Knowledge::Unknown };
            }
        }
    }

    /// Whether all of these lanes were looked through.
    pub(crate) fn are_known(&self, lanes: &[LaneId]) -> bool {
        let knows = |name| self.lanes.get(name).is_some_and(|it| it.knowledge == Knowledge::Known);
        lanes.iter().all(knows)
    }

    /// Something may have been missed. Answers the lanes that somebody uses.
    pub(crate) fn forget_all_heads(&mut self) -> Vec<LaneId> {
        for lane in self.lanes.values_mut() {
            lane.knowledge = Knowledge::Unknown;
        }
        let used = self.lanes.iter().filter(|(_, lane)| lane.users > 0);
        used.map(|(name, _)| name.clone()).collect()
    }

    /// Something may have been missed in some partitions: lanes that nobody uses are looked through
    /// when somebody does. Answers those that are in use.
    pub(crate) fn forget_unused_heads(&mut self) -> Vec<LaneId> {
        let unused = self.lanes.values_mut().filter(|lane| lane.users == 0);
        unused.for_each(|lane| lane.knowledge = Knowledge::Unknown);
        let used = self.lanes.iter().filter(|(_, lane)| lane.users > 0);
        used.map(|(name, _)| name.clone()).collect()
    }

    /// Forgets half of the lanes that nobody uses, if there are many: those that were not used for
    /// longest. Half, so that this is rare.
    fn make_room(&mut self) {
        let size: usize = self.lanes.values().map(Lane::size).sum();
        if self.lanes.len() < LANES_MAX && size < SIZE_MAX {
            return;
        }
        let idle = self.lanes.values().filter(|lane| lane.users == 0);
        let mut uses: Vec<_> = idle.map(|lane| lane.used).collect();
        if uses.is_empty() {
            return;
        }
        let half = uses.len() / 2;
        let (_, &mut last, _) = uses.select_nth_unstable(half);
        self.lanes.retain(|_, lane| lane.users > 0 || lane.used > last);
    }
}

/// The greatest score that may be taken, with what is left elsewhere.
fn score_max(picks: &Picks) -> Option<i64> {
    // What was preferred may be taken although something older is known.
    let picked = picks.picks.iter().flat_map(|pick| &pick.scores).copied().max();
    // If nothing is known elsewhere, there is no bound.
    let next = picks.next?;
    Some(next.saturating_add(OVERTAKE_MS)).max(picked)
}

/// How many bytes an answer may still carry.
pub(crate) const fn bytes_left(claimed: u64) -> u64 {
    limits::CLAIM_BYTES_MAX.saturating_sub(claimed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> LaneId {
        LaneId::default()
    }

    fn board() -> Board {
        Board::new(Preference::new(1), SchedulerConfig::default())
    }

    /// Somebody who looked, found nothing, and waits.
    fn waiting(board: &mut Board) -> Arc<Waiter> {
        let waiter = board.enter(vec![lane()].into(), Ability::default());
        assert!(board.choose_or_wait(&waiter, 1, u64::MAX).is_empty());
        waiter
    }

    fn hear(board: &mut Board, message: &str) {
        let news = News::parse(message.as_bytes()).expect("a push");
        assert!(board.hear(3, &news, Instant::now()).is_none());
    }

    fn is_called(board: &Board, waiter: &Waiter) -> bool {
        !board.lanes[&lane()].waits(waiter)
    }

    #[test]
    fn who_was_called_and_leaves_without_looking_has_another_called() {
        let mut board = board();
        let (first, second) = (waiting(&mut board), waiting(&mut board));
        hear(&mut board, "1:10:default:a:mail");
        assert!(is_called(&board, &first) && !is_called(&board, &second));
        board.exit(&first);
        assert!(is_called(&board, &second));
    }

    #[test]
    fn who_was_called_for_one_and_takes_another_has_another_called_for_the_first() {
        let mut board = board();
        let (first, second) = (waiting(&mut board), waiting(&mut board));
        hear(&mut board, "1:10:default:a:mail");
        // A better one of another queue, which comes before it looks.
        board.lanes.get_mut(&lane()).expect("used").add("a:print", 4, 5, 1, 1);
        let ask = board.choose_or_wait(&first, 1, u64::MAX).pop().expect("one");
        assert_eq!(ask.partition, 4);
        board.answered(&ask, Some(1), None);
        assert!(!is_called(&board, &second));
        board.exit(&first);
        assert!(is_called(&board, &second));
    }

    #[test]
    fn what_a_queue_did_not_give_is_left_to_another_when_the_asker_leaves() {
        let mut board = board();
        let first = board.enter(vec![lane()].into(), Ability::default());
        hear(&mut board, "1:10:default:a:mail");
        let ask = board.choose_or_wait(&first, 1, u64::MAX).pop().expect("one");
        let second = waiting(&mut board);
        board.answered(&ask, None, Some(10));
        assert!(!is_called(&board, &second), "it asks again");
        board.exit(&first);
        assert!(is_called(&board, &second));
    }

    #[test]
    fn what_a_queue_did_not_give_to_who_has_left_is_left_to_another() {
        let mut board = board();
        let first = board.enter(vec![lane()].into(), Ability::default());
        hear(&mut board, "1:10:default:a:mail");
        let ask = board.choose_or_wait(&first, 1, u64::MAX).pop().expect("one");
        let second = waiting(&mut board);
        board.exit(&first);
        board.answered(&ask, None, Some(10));
        assert!(is_called(&board, &second));
    }

    #[test]
    fn what_the_end_of_a_task_did_not_bring_is_left_to_who_waits() {
        let mut board = board();
        let waiter = waiting(&mut board);
        let lanes: Arc<[LaneId]> = vec![lane()].into();
        board.lanes.get_mut(&lane()).expect("used").add("a:mail", 3, 10, 1, 1);
        let ask = board.choose_in(3, &lanes, &Ability::default(), 1).ask.expect("one");
        board.answered(&ask, None, Some(10));
        assert!(is_called(&board, &waiter));
    }

    #[test]
    fn who_leaves_has_nobody_called_for_what_it_was_not_called_for() {
        let mut board = board();
        let waiter = waiting(&mut board);
        let other = board.enter(vec![lane()].into(), Ability::default());
        board.lanes.get_mut(&lane()).expect("used").add("a:mail", 3, 10, 1, 1);
        board.exit(&other);
        assert!(!is_called(&board, &waiter), "whoever told of it has called somebody");
    }
}
