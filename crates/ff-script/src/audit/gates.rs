//! I5, I9: gates are closed where somebody waits at them, what is owed can be read, and every place
//! that is held under a quota is known to its policy.

use ff_core::partition::PartitionFamily;

use super::Findings;
use super::contents::{Contents, Hash, Scores};
use super::keys::{Place, is_gate};
use super::record::{Record, State, field, number};
use crate::dump::Stored;
use crate::gate::Debt;

/// The gate that a record says its execution waits at.
pub(super) fn waits_at(record: &Record<'_>) -> Option<String> {
    match record.text(field::PARK_REASON) {
        "waiting_for_quota" if record.has(field::QUOTA_ID) => {
            Some(format!("q:{}:{}", record.text(field::QUOTA_ID), record.text(field::QUOTA_KEY)))
        }
        "waiting_for_budget" if record.has(field::BUDGET_AWAITED) => {
            Some(format!("b:{}", record.text(field::BUDGET_AWAITED)))
        }
        _ => None,
    }
}

pub(super) fn check<'a>(contents: &Contents<'a>, found: &mut Findings) {
    for (place, stored) in &contents.places {
        let stored: &'a Stored = stored;
        let wrong = match (place, stored) {
            (Place::Due, Stored::SortedSet(members)) if !is_flow(contents) => wrong_due(members),
            (Place::Outbox, Stored::SortedSet(entries)) => wrong_outbox(contents, entries),
            (Place::Closed, Stored::Hash(gates)) => wrong_closed(gates),
            (Place::Gate(gate), _) => wrong_gate(contents, gate),
            (Place::Undo(uuid), _) => wrong_undo(contents, uuid),
            (Place::Policy(_), Stored::Hash(policy)) => wrong_policy(policy),
            (Place::Admitted(id), Stored::Hash(admitted)) => wrong_admitted(contents, id, admitted),
            (Place::Holders(gate), Stored::SortedSet(holders)) => {
                wrong_holders(contents, gate, holders)
            }
            (Place::Waiting(gate), _) => wrong_waiting(contents, gate),
            (Place::Awaited(_), Stored::SortedSet(gates)) => wrong_awaited(contents, gates),
            _ => None,
        };
        if let Some(what) = wrong {
            found.add(if is_count(place) { "I5" } else { "I9" }, contents.key(place), what);
        }
    }
    missing_undo(contents, found);
}

fn is_flow(contents: &Contents<'_>) -> bool {
    contents.partition.family == PartitionFamily::Flow
}

/// What has times where no executions are says what it is by a letter.
fn wrong_due(members: &Scores) -> Option<&'static str> {
    let known = |member: &Vec<u8>| matches!(member.as_slice(), [b'a'..=b'z', b':', _, ..]);
    (!members.keys().all(known)).then_some("lists something that does not belong there")
}

fn is_count(place: &Place<'_>) -> bool {
    matches!(place, Place::Admitted(_) | Place::Holders(_))
}

fn wrong_outbox(contents: &Contents<'_>, entries: &Scores) -> Option<&'static str> {
    let readable = |entry: &Vec<u8>| Debt::parse(entry, contents.partition).is_some();
    (!entries.keys().all(readable)).then_some("owes something that cannot be read")
}

fn wrong_closed(gates: &Hash) -> Option<&'static str> {
    let known = |(gate, opens_at): (&Vec<u8>, &Vec<u8>)| {
        std::str::from_utf8(gate).is_ok_and(is_gate)
            && (opens_at.is_empty() || number(opens_at).is_some())
    };
    (!gates.iter().all(known)).then_some("a gate that cannot be read")
}

/// Who waits at an open gate would wait for ever.
fn wrong_gate(contents: &Contents<'_>, gate: &str) -> Option<&'static str> {
    let closed = contents.hash(&Place::Closed).is_some_and(|it| it.contains_key(gate.as_bytes()));
    (!closed).then_some("has somebody waiting although it is open")
}

fn wrong_undo(contents: &Contents<'_>, uuid: &str) -> Option<&'static str> {
    let held = contents.records.get(uuid).is_some_and(needs_undo);
    (!held).then_some("belongs to no running execution with gates")
}

fn needs_undo(record: &Record<'_>) -> bool {
    let is_gated = record.has(field::QUOTA_ID) || record.has(field::BUDGETS);
    record.state() == Some(State::Running) && is_gated
}

fn missing_undo(contents: &Contents<'_>, found: &mut Findings) {
    for (uuid, record) in &contents.records {
        if needs_undo(record) && contents.string(&Place::Undo(uuid)).is_none() {
            found.add("I9", record.name(), "has gates, and its claim cannot be undone");
        }
    }
}

fn wrong_policy(policy: &Hash) -> Option<&'static str> {
    const FIELDS: [&[u8]; 6] = [
        b"window_seconds",
        b"max_requests_per_window",
        b"max_concurrent",
        b"jitter_ms",
        b"created_at",
        b"changed_at",
    ];
    let known = |(name, value): (&Vec<u8>, &Vec<u8>)| {
        FIELDS.contains(&name.as_slice()) && number(value).is_some()
    };
    let limited = |name: &[u8]| policy.contains_key(name);
    let has_limit = limited(b"max_requests_per_window") || limited(b"max_concurrent");
    let whole = has_limit && limited(b"created_at") && policy.iter().all(known);
    (!whole).then_some("is no policy")
}

/// The latest epoch that was released, and the one that holds a place.
fn epochs(value: &[u8]) -> Option<(i64, Option<i64>)> {
    let colon = value.iter().position(|byte| *byte == b':')?;
    let (released, held) = (number(&value[..colon])?, &value[colon + 1..]);
    Some((released, if held.is_empty() { None } else { Some(number(held)?) }))
}

fn wrong_admitted<'a>(
    contents: &Contents<'a>,
    gate: &'a str,
    admitted: &Hash,
) -> Option<&'static str> {
    let holders = contents.scores(&Place::Holders(gate));
    for (execution, value) in admitted {
        let Some((released, held)) = epochs(value) else { return Some("an epoch is unreadable") };
        if held.is_some_and(|held| held <= released) {
            return Some("a lease that is over holds a place");
        }
        let holds = holders.is_some_and(|holders| holders.contains_key(execution));
        if holds != held.is_some() {
            return Some("somebody is said to hold a place and does not, or the other way round");
        }
    }
    None
}

fn wrong_holders<'a>(
    contents: &Contents<'a>,
    gate: &'a str,
    holders: &Scores,
) -> Option<&'static str> {
    let admitted = contents.hash(&Place::Admitted(gate));
    let known = |holder: &Vec<u8>| admitted.is_some_and(|admitted| admitted.contains_key(holder));
    (!holders.keys().all(known)).then_some("somebody holds a place without having been admitted")
}

/// A change of a policy must find the gates that somebody waits for.
fn wrong_waiting<'a>(contents: &Contents<'a>, gate: &'a str) -> Option<&'static str> {
    let id = gate.strip_prefix("q:").and_then(|rest| rest.get(..36))?;
    let awaited = contents.scores(&Place::Awaited(id));
    let listed = awaited.is_some_and(|gates| gates.contains_key(gate.as_bytes()));
    (!listed).then_some("is not among the gates of its policy that somebody waits for")
}

fn wrong_awaited<'a>(contents: &Contents<'a>, gates: &'a Scores) -> Option<&'static str> {
    let known = |gate: &'a Vec<u8>| {
        let gate = std::str::from_utf8(gate).ok();
        gate.is_some_and(|gate| contents.scores(&Place::Waiting(gate)).is_some())
    };
    (!gates.keys().all(known)).then_some("has a gate that nobody waits for")
}
