//! What became of tasks, by lane.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ff_core::limits;
use ff_core::types::LaneId;

use super::text::Text;

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A worker took it.
    Claimed,
    /// Its worker completed it.
    Completed,
    /// It failed and has ended.
    Failed,
    /// It failed and will be tried again.
    Retried,
    /// Its worker cancelled it.
    Cancelled,
    /// Its worker gave it back.
    Delayed,
}

/// The outcomes of attempts and their words; claims are counted on their own.
pub(super) const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Completed, "completed"),
    (Outcome::Failed, "failed"),
    (Outcome::Retried, "retry"),
    (Outcome::Cancelled, "cancelled"),
    (Outcome::Delayed, "delayed"),
];

type Counters = [AtomicU64; OUTCOMES.len() + 1];

/// Counters for every lane. No more lanes than a deployment can have are told apart.
#[derive(Default)]
pub(super) struct Lanes(RwLock<HashMap<LaneId, Arc<Counters>>>);

impl Lanes {
    pub(super) fn count(&self, lane: &LaneId, outcome: Outcome) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(lane).cloned();
        let Some(counters) = known.or_else(|| self.add(lane)) else { return };
        counters[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, lane: &LaneId) -> Option<Arc<Counters>> {
        let mut lanes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let full = lanes.len() as u64 >= limits::LANES_MAX && !lanes.contains_key(lane);
        (!full).then(|| Arc::clone(lanes.entry(lane.clone()).or_default()))
    }

    pub(super) fn render(&self, text: &mut Text) {
        let lanes = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut lanes: Vec<_> = lanes.into_iter().collect();
        lanes.sort_by(|one, other| one.0.cmp(&other.0));
        let read = |counters: &Counters, outcome: Outcome| {
            counters[outcome as usize].load(Ordering::Relaxed)
        };
        text.family("ff_claimed_total", "counter", "Tasks handed out, by lane.");
        for (lane, counters) in &lanes {
            let claimed = read(counters, Outcome::Claimed);
            text.sample("ff_claimed_total", &[("lane", lane.as_str())], claimed);
        }
        let about = "What workers made of their tasks, by lane and outcome.";
        text.family("ff_attempt_outcome_total", "counter", about);
        for (lane, counters) in &lanes {
            for (outcome, word) in OUTCOMES {
                let labels = [("lane", lane.as_str()), ("outcome", word)];
                text.sample("ff_attempt_outcome_total", &labels, read(counters, outcome));
            }
        }
    }
}
