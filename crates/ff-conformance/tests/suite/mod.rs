//! The tests. Files that test one function have the name of its file in `lua/verb/`.

pub(crate) mod library;

mod cancel;
mod change;
mod claim;
mod claim_next;
mod complete;
mod create;
mod deployment;
mod describe;
mod events;
mod expire;
mod fail;
mod fence;
mod grant;
mod lease;
mod list;
mod pause;
mod progress;
mod replay;
mod tick;
mod weakness_indexes;
mod weakness_lifecycle;
mod weakness_numbers;
mod weakness_replies;
mod weakness_validation;
mod worker;

use ff_conformance::Case;

/// Every test.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    [
        library::CASES,
        deployment::CASES,
        create::CASES,
        claim_next::CASES,
        grant::CASES,
        claim::CASES,
        fence::CASES,
        lease::CASES,
        progress::CASES,
        complete::CASES,
        fail::CASES,
        cancel::CASES,
        pause::CASES,
        expire::CASES,
        replay::CASES,
        change::CASES,
        describe::CASES,
        list::CASES,
        events::CASES,
        tick::CASES,
        worker::CASES,
        weakness_replies::CASES,
        weakness_numbers::CASES,
        weakness_lifecycle::CASES,
        weakness_indexes::CASES,
        weakness_validation::CASES,
    ]
    .into_iter()
    .flatten()
    .copied()
}
