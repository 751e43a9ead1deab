//! The tests. Files that test one function have the name of its file in `lua/verb/`.

mod create;

use ff_conformance::Case;

/// Every test.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    [create::CASES].into_iter().flatten().copied()
}
