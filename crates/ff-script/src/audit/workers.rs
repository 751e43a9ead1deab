//! I9: the registry of workers. Whether each entry is dropped in time is part of the comparison of
//! indexes: see [`due`].

use super::contents::Contents;
use super::keys::{Place, is_uuid};
use super::record::number;
use super::{Findings, shown};

/// What tells a worker from an execution in the index of times.
pub(super) const DUE_PREFIX: &[u8] = b"w:";

/// When a registration ends: `session:worker:registered_at:expires_at:capabilities`, then lanes,
/// and behind an empty line what it says of its load.
fn expires_at(value: &[u8]) -> Option<i64> {
    let parts: Vec<&[u8]> = value.splitn(5, |byte| *byte == b':').collect();
    let [session, worker, registered_at, expires_at, rest] = parts[..] else { return None };
    let whole = is_uuid(session) && !worker.is_empty() && rest.contains(&b'\n');
    number(registered_at)?;
    if whole { number(expires_at) } else { None }
}

pub(super) fn check(contents: &Contents<'_>, found: &mut Findings) {
    for (instance, value) in contents.hash(&Place::Workers).into_iter().flatten() {
        if expires_at(value).is_none() {
            let what = format!("{} is {:?}, which cannot be read", shown(instance), shown(value));
            found.add("I9", contents.key(&Place::Workers), what);
        }
    }
}

/// The entries that the index of times must have: each worker with the end of its registration.
pub(super) fn due(contents: &Contents<'_>) -> impl Iterator<Item = (Vec<u8>, i64)> {
    contents
        .hash(&Place::Workers)
        .into_iter()
        .flatten()
        .filter_map(|(instance, value)| Some(([DUE_PREFIX, instance].concat(), expires_at(value)?)))
}
