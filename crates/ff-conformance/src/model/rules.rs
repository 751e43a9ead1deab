//! What must hold after every call, judged by what the store held before and after it.

mod claim;
mod crew;
mod fence;
mod fire;
mod history;
mod idempotency;
mod may;
mod read;
mod repetition;
mod retry;
mod scope;
mod stored;
mod tick;

pub(super) use repetition::check_repetition;

use ff_script::dump::Dump;

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

    /// True if the call did what it was asked to do, now.
    fn done(&self) -> bool {
        self.answer.done && self.answer.word == "OK"
    }
}

/// Checks every rule.
pub(super) fn check(seen: &Seen<'_>) -> Checked {
    only_done_calls_change_anything(seen)?;
    fence::check(seen)?;
    may::check(seen)?;
    claim::check(seen)?;
    idempotency::check(seen)?;
    scope::check(seen)?;
    history::check(seen)?;
    stored::check(seen)?;
    retry::check(seen)?;
    fire::check(seen)?;
    read::check(seen)?;
    crew::check(seen)?;
    tick::check(seen)
}

fn only_done_calls_change_anything(seen: &Seen<'_>) -> Checked {
    let may_write = seen.done() && !seen.sent.function.read_only;
    if may_write || seen.before == seen.after {
        return Ok(());
    }
    let word = &seen.answer.word;
    Err(format!("{word} changed something:\n{}", dump::difference(seen.before, seen.after)))
}

fn rule(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}
