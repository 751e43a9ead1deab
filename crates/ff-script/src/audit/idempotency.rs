//! I8: what is remembered under idempotency keys. Whether each entry is forgotten in time is part
//! of the comparison of indexes: see [`due`].

use super::contents::Contents;
use super::keys::{Place, is_uuid};
use super::record::{field, number};
use super::{Findings, shown};

/// What tells a remembered key from an execution in the index of times.
pub(super) const DUE_PREFIX: &[u8] = b"i:";

/// `until:uuid:digest`, under `namespace:key`.
struct Remembered<'a> {
    until: i64,
    uuid: &'a [u8],
    namespace: &'a [u8],
}

fn parse<'a>(name: &'a [u8], value: &'a [u8]) -> Option<Remembered<'a>> {
    let mut parts = value.splitn(3, |byte| *byte == b':');
    let (until, uuid, _digest) = (number(parts.next()?)?, parts.next()?, parts.next()?);
    let mut names = name.splitn(2, |byte| *byte == b':');
    let (namespace, key) = (names.next()?, names.next()?);
    let whole = is_uuid(uuid) && !namespace.is_empty() && !key.is_empty();
    whole.then_some(Remembered { until, uuid, namespace })
}

pub(super) fn check(contents: &Contents<'_>, found: &mut Findings) {
    for (name, value) in contents.hash(&Place::Idempotency).into_iter().flatten() {
        let what = match parse(name, value) {
            None => format!("{} is {:?}, which cannot be read", shown(name), shown(value)),
            Some(entry) if !same_namespace(contents, &entry) => {
                format!("{} stands for an execution of another namespace", shown(name))
            }
            Some(_) => continue,
        };
        found.add("I8", contents.key(&Place::Idempotency), what);
    }
}

/// A key may be remembered longer than its execution is kept.
fn same_namespace(contents: &Contents<'_>, entry: &Remembered<'_>) -> bool {
    let record = std::str::from_utf8(entry.uuid).ok().and_then(|uuid| contents.records.get(uuid));
    record.is_none_or(|record| record.bytes(field::NAMESPACE) == Some(entry.namespace))
}

/// The entries that the index of times must have: each remembered key with its end.
pub(super) fn due(contents: &Contents<'_>) -> impl Iterator<Item = (Vec<u8>, i64)> {
    contents
        .hash(&Place::Idempotency)
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some(([DUE_PREFIX, name].concat(), parse(name, value)?.until)))
}
