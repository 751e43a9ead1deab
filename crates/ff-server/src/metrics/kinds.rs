//! What became of tasks, by kind: how many, how long they waited, how long they ran.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ff_core::backend::{Handle, HandleKind};
use ff_core::contracts::Claimed;
use ff_core::types::{ExecutionKind, LeaseId};
use tokio::time::Instant;

use super::histogram::Histogram;
use super::lanes::{OUTCOMES, Outcome};
use super::text::Text;

/// So many kinds are told apart; the others are counted as one without a name.
pub(super) const KINDS_MAX: usize = 100;
/// So many tasks are remembered at least while they run.
const RUNNING_MAX: usize = 50_000;

/// Upper bounds in seconds: work is done in milliseconds, or in hours.
const BOUNDS: [f64; 12] =
    [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0];

struct OfKind {
    outcomes: [u64; OUTCOMES.len()],
    waited: Histogram,
    ran: Histogram,
}

impl Default for OfKind {
    fn default() -> Self {
        let (waited, ran) = (Histogram::new(&BOUNDS), Histogram::new(&BOUNDS));
        Self { outcomes: [0; OUTCOMES.len()], waited, ran }
    }
}

/// A task that this server handed out.
#[derive(Clone)]
struct Running {
    kind: ExecutionKind,
    since: Instant,
}

/// All kinds, and the tasks that run.
#[derive(Default)]
pub(super) struct Kinds(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    kinds: BTreeMap<String, OfKind>,
    /// Those of lost workers are never heard of again: when there are many, the older half goes.
    running: HashMap<LeaseId, Running>,
    older: HashMap<LeaseId, Running>,
}

impl Inner {
    fn of(&mut self, kind: &ExecutionKind) -> &mut OfKind {
        let room = self.kinds.len() < KINDS_MAX || self.kinds.contains_key(kind.as_str());
        let name = if room { kind.as_str() } else { "" };
        self.kinds.entry(name.to_owned()).or_default()
    }

    fn remember(&mut self, lease: LeaseId, running: Running) {
        if self.running.len() >= RUNNING_MAX {
            self.older = std::mem::take(&mut self.running);
        }
        self.running.insert(lease, running);
    }

    fn forget(&mut self, lease: LeaseId) -> Option<Running> {
        self.running.remove(&lease).or_else(|| self.older.remove(&lease))
    }
}

impl Kinds {
    /// A task was handed out. The first attempt tells how long the execution waited for it, by the
    /// store's clock; a delay that was asked for is part of it.
    pub(super) fn claimed(&self, claimed: &Claimed) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = &claimed.handle;
        if handle.attempt_index.get() == 0 && handle.kind == HandleKind::Fresh {
            let begun_ms = claimed.lease_expires_at.as_millis().saturating_sub(handle.lease_ttl_ms);
            let waited_ms = begun_ms.saturating_sub(claimed.created_at.as_millis());
            let waited = Duration::from_millis(waited_ms).as_secs_f64();
            inner.of(&claimed.kind).waited.observe(waited);
        }
        let running = Running { kind: claimed.kind.clone(), since: Instant::now() };
        inner.remember(handle.fence.lease_id, running);
    }

    /// A task ended or was given back, if this server handed it out.
    pub(super) fn ended(&self, handle: &Handle, outcome: Outcome) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = inner.forget(handle.fence.lease_id) else { return };
        let of_kind = inner.of(&running.kind);
        of_kind.ran.observe(running.since.elapsed().as_secs_f64());
        if let Some(place) = OUTCOMES.iter().position(|(known, _)| *known == outcome) {
            of_kind.outcomes[place] += 1;
        }
    }

    pub(super) fn render(&self, text: &mut Text) {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let about = "What workers made of their tasks, by kind and outcome.";
        text.family("ff_attempts_total", "counter", about);
        for (kind, of_kind) in &inner.kinds {
            for ((_, word), count) in OUTCOMES.iter().zip(of_kind.outcomes) {
                let labels = [("kind", kind.as_str()), ("outcome", word)];
                text.sample("ff_attempts_total", &labels, count);
            }
        }
        let about = "From submission to the first attempt, by kind; a delay that was asked for is \
            part of it.";
        text.family("ff_wait_seconds", "histogram", about);
        for (kind, of_kind) in &inner.kinds {
            of_kind.waited.render("ff_wait_seconds", &[("kind", kind)], text);
        }
        let about = "From a claim to what its worker made of it, by kind.";
        text.family("ff_run_seconds", "histogram", about);
        for (kind, of_kind) in &inner.kinds {
            of_kind.ran.render("ff_run_seconds", &[("kind", kind)], text);
        }
    }
}
