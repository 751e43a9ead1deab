//! The tests. Files that test one function have the name of its file in `lua/verb/`.

mod create;
mod fence;
pub(crate) mod library;

use ff_conformance::Case;

/// Every test.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    [create::CASES, fence::CASES, library::CASES].into_iter().flatten().copied()
}
