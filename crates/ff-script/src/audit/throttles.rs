//! I8: who has the keys of throttles, and who waits for them.

use super::contents::Contents;
use super::keys::Place;
use super::record::{Record, field};
use super::{Findings, shown};

const SINGLETON: &[u8] = b"s:";

pub(super) fn check(contents: &Contents<'_>, found: &mut Findings) {
    for (name, uuid) in contents.hash(&Place::Throttles).into_iter().flatten() {
        let holder = std::str::from_utf8(uuid).ok().and_then(|uuid| contents.records.get(uuid));
        if let Some(what) = wrong_holder(name, holder) {
            let what = format!("{} {what}", shown(name));
            found.add("I8", contents.key(&Place::Throttles), what);
        }
    }
    for record in contents.records.values() {
        if let Some(what) = wrong_record(contents, record) {
            found.add("I8", record.name(), what);
        }
    }
    lost_waiters(contents, found);
}

/// The name under which the partition remembers who has the key of a record.
fn name(record: &Record<'_>) -> Option<Vec<u8>> {
    let throttle = record.throttle();
    let (letter, key) = throttle.split_at_checked(2)?;
    let [namespace, kind] = [field::NAMESPACE, field::KIND].map(|it| record.text(it).as_bytes());
    Some([letter, namespace, b":", kind, b":", key].concat())
}

fn is_live(record: &Record<'_>) -> bool {
    record.state().is_some_and(|state| !state.is_ended())
}

fn wrong_holder(of: &[u8], holder: Option<&Record<'_>>) -> Option<&'static str> {
    let Some(holder) = holder else { return Some("is had by an execution that is not there") };
    if name(holder).as_deref() != Some(of) {
        Some("is had by an execution that was created under another key")
    } else if !is_live(holder) {
        Some("is had by an execution that is over")
    } else if holder.has(field::AWAITS_TURN) {
        Some("is had by an execution that waits for its turn")
    } else {
        None
    }
}

/// A live singleton has its key, or waits for it.
fn wrong_record(contents: &Contents<'_>, record: &Record<'_>) -> Option<&'static str> {
    if !record.has(field::THROTTLE) || !is_live(record) {
        return record.has(field::AWAITS_TURN).then_some("waits for the turn of no key");
    }
    let name = name(record)?;
    if !name.starts_with(SINGLETON) {
        return None;
    }
    if !record.has(field::AWAITS_TURN) {
        let holder = contents.hash(&Place::Throttles).and_then(|holders| holders.get(&name));
        let has = holder.is_some_and(|uuid| uuid == record.uuid.as_bytes());
        return (!has).then_some("runs although another one has its singleton key");
    }
    let name = std::str::from_utf8(name.get(2..)?).ok()?;
    let waits = contents.places.keys().any(|place| match place {
        Place::Turns(turns) if *turns == name => {
            contents.scores(place).is_some_and(|scores| scores.contains_key(record.uuid.as_bytes()))
        }
        _ => false,
    });
    (!waits).then_some("is not listed among those who wait for its key")
}

/// Who waits for a key that nobody has would wait for ever.
fn lost_waiters(contents: &Contents<'_>, found: &mut Findings) {
    for place in contents.places.keys() {
        let Place::Turns(name) = place else { continue };
        let holders = contents.hash(&Place::Throttles);
        let held = [SINGLETON, name.as_bytes()].concat();
        if holders.is_none_or(|holders| !holders.contains_key(&held)) {
            found.add("I8", contents.key(place), "waits for a key that nobody has");
        }
        let strange = contents.scores(place).into_iter().flatten().find(|(member, _)| {
            let uuid = std::str::from_utf8(member).unwrap_or_default();
            contents.records.get(uuid).is_none_or(|record| !record.has(field::AWAITS_TURN))
        });
        if let Some((member, _)) = strange {
            let what = format!("lists {}, which does not wait", shown(member));
            found.add("I8", contents.key(place), what);
        }
    }
}
