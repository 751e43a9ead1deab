//! I7: what is waited on. A suspended execution waits on one active waitpoint, which is its own;
//! what is over waits on none; every signal is there once.

use std::collections::BTreeSet;

use ff_core::limits;

use super::contents::{Contents, Hash};
use super::keys::{Place, is_uuid};
use super::record::{Record, State, field, number};
use super::{Findings, shown};

/// What tells a pending waitpoint from an execution in the index of times.
pub(super) const DUE_PREFIX: &[u8] = b"p:";

/// Waitpoints that an execution can have: closed and open ones, the latest and the one it waits on.
const LISTED_MAX: u64 = limits::WAITPOINTS_KEPT + limits::PENDING_WAITPOINTS_MAX + 2;

/// A waitpoint as it is stored.
struct Waitpoint<'a> {
    id: &'a str,
    fields: &'a Hash,
}

impl<'a> Waitpoint<'a> {
    fn text(&self, name: &str) -> &'a str {
        let bytes = self.fields.get(name.as_bytes());
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    fn count(&self, name: &str) -> i64 {
        number(self.text(name).as_bytes()).unwrap_or(0)
    }

    fn is_open(&self) -> bool {
        matches!(self.text("state"), "pending" | "active")
    }
}

fn waitpoints<'a>(contents: &Contents<'a>) -> impl Iterator<Item = Waitpoint<'a>> {
    contents.places.keys().filter_map(|place| match place {
        Place::Waitpoint(id) => Some(Waitpoint { id, fields: contents.hash(place)? }),
        _ => None,
    })
}

pub(super) fn check(contents: &Contents<'_>, found: &mut Findings) {
    for one in waitpoints(contents) {
        let wrong = wrong_waitpoint(contents, &one).or_else(|| wrong_signals(contents, &one));
        if let Some(what) = wrong {
            found.add("I7", contents.key(&Place::Waitpoint(one.id)), what);
        }
    }
    for place in contents.places.keys() {
        if let Place::Signals(id) = place
            && !contents.places.contains_key(&Place::Waitpoint(id))
        {
            found.add("I9", contents.key(place), "belongs to no waitpoint");
        }
    }
    for record in contents.records.values() {
        if let Some(what) = wrong_lists(contents, record) {
            found.add("I7", record.name(), what);
        }
    }
}

fn wrong_waitpoint(contents: &Contents<'_>, one: &Waitpoint<'_>) -> Option<&'static str> {
    let Some(record) = contents.records.get(one.text("execution")) else {
        return Some("belongs to no execution");
    };
    let whole =
        ["attempt", "created_at"].iter().all(|name| number(one.text(name).as_bytes()).is_some())
            && !one.text("key").is_empty();
    if !whole {
        return Some("lacks what its token is made of");
    }
    let listed = contents.hash(&Place::Waitpoints(record.uuid));
    if !listed.is_some_and(|listed| listed.contains_key(one.id.as_bytes())) {
        return Some("is not listed by its execution");
    }
    let waits =
        record.state() == Some(State::Suspended) && record.text(field::WAITPOINT_ID) == one.id;
    match one.text("state") {
        "active" if !waits => Some("is active although its execution does not wait on it"),
        "active" | "pending" if !one.text("closed_at").is_empty() => Some("is open and closed"),
        "pending" if record.state().is_some_and(State::is_ended) => {
            Some("is open although its execution is over")
        }
        "closed" if number(one.text("closed_at").as_bytes()).is_none() => {
            Some("is closed without a time")
        }
        "active" | "pending" | "closed" => None,
        _ => Some("is in no known state"),
    }
}

/// Numbers from 1 on, each once; and what recognises a repetition names one of them.
fn wrong_signals(contents: &Contents<'_>, one: &Waitpoint<'_>) -> Option<&'static str> {
    let count = one.count("count");
    let none = Hash::new();
    let signals = contents.hash(&Place::Signals(one.id)).unwrap_or(&none);
    let is_known = |digits: &[u8]| number(digits).is_some_and(|it| (1..=count).contains(&it));
    let numbered = signals.keys().filter(|name| number(name).is_some()).count();
    if numbered as i64 != count
        || !signals.keys().filter(|name| number(name).is_some()).all(|name| is_known(name))
    {
        return Some("does not have as many signals as it says");
    }
    let marks = |name: &[u8]| [b"s:", b"i:", b"d:"].iter().any(|mark| name.starts_with(*mark));
    if !signals.iter().filter(|(name, _)| marks(name)).all(|(_, value)| is_known(value)) {
        return Some("recognises a signal that is not there");
    }
    if signals.keys().filter(|name| name.starts_with(b"s:")).count() as i64 != count {
        return Some("has a signal twice, or one without its id");
    }
    let satisfied = one.text("satisfied").split(',').filter(|digits| !digits.is_empty());
    if !satisfied.into_iter().all(|digits| is_known(digits.as_bytes())) {
        return Some("was satisfied by a signal that is not there");
    }
    let decided = one.text("decisions").split(',').filter(|digits| !digits.is_empty()).count();
    if signals.keys().filter(|name| name.starts_with(b"d:")).count() != decided {
        return Some("has an approver who decided twice, or whose decision is not there");
    }
    let most = limits::WAITPOINT_SIGNALS_MAX as i64 + 1;
    (count > most || one.count("matched") > count).then_some("has more signals than it takes")
}

/// The list of an execution's waitpoints, and what its record says about them.
fn wrong_lists(contents: &Contents<'_>, record: &Record<'_>) -> Option<String> {
    let none = Hash::new();
    let listed = contents.hash(&Place::Waitpoints(record.uuid)).unwrap_or(&none);
    if listed.len() as u64 > LISTED_MAX {
        return Some("has more waitpoints than are kept".to_owned());
    }
    let (mut pending, mut keys) = (0, BTreeSet::new());
    for (id, value) in listed {
        let text = std::str::from_utf8(id).unwrap_or_default();
        let fields = contents.hash(&Place::Waitpoint(text));
        let Some(fields) = fields.filter(|_| is_uuid(id)) else {
            return Some(format!("lists the waitpoint {}, which is not there", shown(id)));
        };
        let one = Waitpoint { id: text, fields };
        let key = value.splitn(3, |byte| *byte == b':').nth(2).unwrap_or_default();
        if one.text("key").as_bytes() != key {
            return Some(format!("lists the waitpoint {} under another key", shown(id)));
        }
        if one.is_open() && !keys.insert(key) {
            return Some(format!("has two open waitpoints of the key {}", shown(key)));
        }
        pending += i64::from(one.text("state") == "pending");
    }
    let active = listed.contains_key(record.text(field::WAITPOINT_ID).as_bytes());
    if record.has(field::WAITPOINT_ID) && !active {
        return Some("waits on a waitpoint that is not there".to_owned());
    }
    (record.count(field::PENDING_WAITPOINTS) != pending)
        .then(|| format!("has {pending} pending waitpoints and says otherwise"))
}

/// The entries that the index of times must have: each pending waitpoint with its end.
pub(super) fn due(contents: &Contents<'_>) -> impl Iterator<Item = (Vec<u8>, i64)> {
    waitpoints(contents)
        .filter(|one| one.text("state") == "pending")
        .map(|one| ([DUE_PREFIX, one.id.as_bytes()].concat(), one.count("expires_at")))
        .collect::<Vec<_>>()
        .into_iter()
}
