//! What must hold after every call, judged by what the store held before and after it.

mod budget;
mod claim;
mod fair;
mod fence;
mod fire;
mod flows;
mod gates;
mod history;
mod idempotency;
mod permitted;
mod quota;
mod read;
mod repetition;
mod retry;
mod scope;
mod stored;
mod stream;
mod tick;
mod wait;
mod workers;

pub(super) use budget::promises;
pub(super) use gates::{Untouched, has_room};
pub(super) use repetition::check_repetition;

use ff_script::dump::{Dump, StreamEntry};

use super::graph::Graphs;
use super::sent::Sent;
use super::view::View;
use crate::answer::Answer;
use crate::dump;

/// One call with everything there is to know about it.
pub(super) struct Seen<'a> {
    pub(super) sent: &'a Sent,
    pub(super) answer: &'a Answer,
    pub(super) now: u64,
    pub(super) before: &'a Dump,
    pub(super) after: &'a Dump,
    /// The flows that were known before the call.
    pub(super) known: &'a Graphs,
    /// The same with what it added.
    pub(super) graphs: &'a Graphs,
    /// What executions with gates were before they were claimed.
    pub(super) untouched: &'a Untouched,
}

/// What is wrong, in words.
pub(super) type Checked = Result<(), String>;

impl<'a> Seen<'a> {
    /// The partition of the call, before it.
    fn before(&self) -> View<'a> {
        View::new(self.before, self.sent.partition)
    }

    /// The partition of the call, after it.
    fn after(&self) -> View<'a> {
        View::new(self.after, self.sent.partition)
    }

    /// The events that the call wrote.
    fn events(&self) -> &'a [StreamEntry] {
        let last = self.before().log().last().map(|entry| (entry.ms, entry.seq));
        let after = self.after().log();
        let old = after.iter().take_while(|entry| Some((entry.ms, entry.seq)) <= last).count();
        &after[old..]
    }

    /// True if the call did what it was asked to do, now.
    fn done(&self) -> bool {
        self.answer.done && self.answer.word == "OK"
    }
}

/// Checks every rule.
pub(super) fn check(seen: &Seen<'_>) -> Checked {
    only_done_calls_change_anything(seen)?;
    fence::check(seen)?;
    permitted::check(seen)?;
    claim::check(seen)?;
    fair::check(seen)?;
    idempotency::check(seen)?;
    scope::check(seen)?;
    history::check(seen)?;
    stored::check(seen)?;
    stream::check(seen)?;
    retry::check(seen)?;
    fire::check(seen)?;
    read::check(seen)?;
    workers::check(seen)?;
    wait::check(seen)?;
    flows::check(seen)?;
    gates::check(seen)?;
    quota::check(seen)?;
    budget::check(seen)?;
    tick::check(seen)
}

/// What gates answer when they note something.
const GATE_WORDS: [&str; 6] = [
    "ADMITTED",
    "RATE_EXCEEDED",
    "CONCURRENCY_EXCEEDED",
    "BUDGET_EXCEEDED",
    "SOFT_BREACH",
    "HARD_BREACH",
];

fn only_done_calls_change_anything(seen: &Seen<'_>) -> Checked {
    // A suspension that is not necessary closes its waitpoint.
    let satisfied = seen.sent.name() == "ff_suspend_execution" && seen.answer.done;
    // A worker that gets nothing may have come across what a flow does not let run.
    let ends = seen.sent.name() == "ff_grant_next" && seen.answer.word == "EMPTY";
    let done = seen.done() || GATE_WORDS.contains(&seen.answer.word.as_str());
    let may_write = done && !seen.sent.function.read_only || satisfied || ends;
    if may_write || seen.before == seen.after {
        return Ok(());
    }
    let word = &seen.answer.word;
    Err(format!("{word} changed something:\n{}", dump::difference(seen.before, seen.after)))
}

fn rule(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}
