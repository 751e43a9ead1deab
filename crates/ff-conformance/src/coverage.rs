//! Which outcomes of which functions a run has produced, per host.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use ff_script::call::Contract;
use ff_script::calls;

use crate::host::HostKind;

/// Host, function and status or code.
type Outcome = (HostKind, String, String);

static SEEN: Mutex<BTreeSet<Outcome>> = Mutex::new(BTreeSet::new());

/// Functions with an argument of bytes, which is refused by a code of its own when it is too large.
const TAKE_BYTES: [&str; 11] = [
    "ff_create_execution",
    "ff_create_executions",
    "ff_submit_graph",
    "ff_add_children",
    "ff_append_frame",
    "ff_complete_execution",
    "ff_complete_executions",
    "ff_complete_and_claim_next",
    "ff_complete_executions_and_claim_next",
    "ff_deliver_signal",
    "ff_buffer_signal_for_pending_waitpoint",
];

/// Notes an outcome.
pub(crate) fn record(kind: HostKind, function: &str, word: &str) {
    let outcome = (kind, function.to_owned(), word.to_owned());
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(outcome);
}

/// Every outcome that a function declares.
pub fn declared(contract: &Contract) -> BTreeSet<String> {
    let statuses = contract.statuses.iter().map(|(word, _)| (*word).to_owned());
    let codes = contract.refusals.iter().map(|code| code.as_str().to_owned());
    let mut words: BTreeSet<String> = statuses.chain(codes).collect();
    if !contract.args.is_empty() {
        words.insert("invalid_input".to_owned());
    }
    if TAKE_BYTES.contains(&contract.name) {
        words.insert("payload_too_large".to_owned());
    }
    words
}

/// What was declared and never produced on a host, as `function outcome`.
pub fn missing(kind: HostKind) -> Vec<String> {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let lacks = |name: &str, word: &String| !seen.contains(&(kind, name.to_owned(), word.clone()));
    calls::contracts()
        .flat_map(|contract| {
            let words = declared(&contract).into_iter();
            words.map(move |word| (contract.name, word))
        })
        .filter(|(name, word)| lacks(name, word))
        .map(|(name, word)| format!("{name} {word}"))
        .collect()
}

/// How many different outcomes were produced on a host.
pub fn produced(kind: HostKind) -> usize {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.iter().filter(|(host, _, _)| *host == kind).count()
}
