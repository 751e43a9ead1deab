//! I8: what is remembered under idempotency keys. A key goes when its execution does.

use super::contents::Contents;
use super::keys::{Place, is_uuid};
use super::record::{field, number};
use super::{Findings, shown};

/// `until:uuid:digest`, under `namespace:key`.
struct Remembered<'a> {
    until: i64,
    uuid: &'a [u8],
    namespace: &'a [u8],
    key: &'a [u8],
}

fn parse<'a>(name: &'a [u8], value: &'a [u8]) -> Option<Remembered<'a>> {
    let mut parts = value.splitn(3, |byte| *byte == b':');
    let (until, uuid, _digest) = (number(parts.next()?)?, parts.next()?, parts.next()?);
    let mut names = name.splitn(2, |byte| *byte == b':');
    let (namespace, key) = (names.next()?, names.next()?);
    let whole = is_uuid(uuid) && !namespace.is_empty() && !key.is_empty();
    whole.then_some(Remembered { until, uuid, namespace, key })
}

pub(super) fn check(contents: &Contents<'_>, found: &mut Findings) {
    for (name, value) in contents.hash(&Place::Idempotency).into_iter().flatten() {
        let wrong = match parse(name, value) {
            None => Some(format!("is {:?}, which cannot be read", shown(value))),
            Some(entry) => wrong_execution(contents, &entry).map(str::to_owned),
        };
        if let Some(what) = wrong {
            found.add("I8", contents.key(&Place::Idempotency), format!("{} {what}", shown(name)));
        }
    }
}

/// An execution is kept at least as long as its key is remembered.
fn wrong_execution(contents: &Contents<'_>, entry: &Remembered<'_>) -> Option<&'static str> {
    let record = std::str::from_utf8(entry.uuid).ok().and_then(|uuid| contents.records.get(uuid));
    let Some(record) = record else { return Some("stands for an execution that is not there") };
    if record.bytes(field::NAMESPACE) != Some(entry.namespace) {
        Some("stands for an execution of another namespace")
    } else if record.idempotency_key() != entry.key {
        Some("stands for an execution that was created under another key")
    } else if record.number(field::REMEMBERED_UNTIL) != Some(entry.until) {
        Some("stands for an execution that is remembered for another time")
    } else {
        None
    }
}
