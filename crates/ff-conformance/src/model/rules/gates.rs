//! Gates, as seen from executions: a claim that a gate refused leaves no trace, who waits at a
//! closed gate is let pass by nobody but an opening, and what a gate gave a lease is always known
//! to come back.

use std::collections::BTreeMap;

use ff_core::partition::{Partition, PartitionFamily};
use ff_script::dump::{Dump, Stored};
use ff_script::value::Value;

use super::super::sent::{Sent, uuid_of};
use super::super::view::{Fields, View, field};
use super::super::world::{QUOTAS, claim_rows};
use super::{Checked, Seen, rule};
use crate::answer::Answer;

/// What a claim begins, or takes over from the attempt before.
const OF_ATTEMPTS: [&str; 6] = [
    field::ATTEMPT_COUNT,
    field::RECLAIM_COUNT,
    field::RETRY_COUNT,
    field::NEXT_ATTEMPT,
    field::FRAMES,
    field::KEPT_FROM,
];

/// What attempts of an execution looked like, and how many are past.
type Attempts = (Vec<Option<Vec<u8>>>, usize);

/// What executions with gates looked like before each of their claims, by uuid and epoch.
#[derive(Default)]
pub(in super::super) struct Untouched(BTreeMap<(String, u64), Attempts>);

impl Untouched {
    /// Notes what a call claims.
    pub(in super::super) fn note(&mut self, sent: &Sent, answer: &Answer, before: &Dump) {
        let view = View::new(before, sent.partition);
        let rows = claim_rows(sent, answer).into_iter().filter(|row| !row.gates.0.is_empty());
        for row in rows.filter(|_| answer.word == "OK" && !sent.function.read_only) {
            let uuid = row.execution_id.uuid().to_string();
            if let Some(before) = view.record(&uuid) {
                let attempts = attempts(view, &uuid, before);
                self.0.insert((uuid, row.lease_epoch.get()), attempts);
            }
        }
    }
}

fn attempts(view: View<'_>, uuid: &str, record: Fields<'_>) -> Attempts {
    let values = OF_ATTEMPTS.iter().map(|name| record.bytes(name).map(<[u8]>::to_vec));
    (values.collect(), view.past_attempts(uuid).len())
}

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    match seen.sent.name() {
        "ff_block_execution_for_admission" => blocked(seen)?,
        "ff_unblock_execution" => unblocked(seen)?,
        "ff_open_gate" => opened(seen)?,
        _ => {}
    }
    if seen.before == seen.after {
        return Ok(());
    }
    nobody_waits_at_an_open_gate(seen)?;
    every_place_comes_back(seen.after)?;
    super::budget::every_promise_comes_back(seen.after)
}

/// Would a gate let somebody pass who waits there, if nobody else has been promised that?
pub(in super::super) fn has_room(dump: &Dump, gate: &str, now: u64) -> bool {
    match gate.starts_with('q') {
        true => super::quota::has_room(dump, gate, now),
        false => super::budget::has_room(dump, gate, now),
    }
}

/// The holder of the live lease undoes its claim, and what is left is what was there before.
fn blocked(seen: &Seen<'_>) -> Checked {
    let uuid = seen.sent.execution().unwrap_or("");
    let before = seen.before().record(uuid);
    let may = before.is_some_and(|it| super::fence::may_write(seen.sent, it, seen.now));
    rule(seen.done() == may, || format!("a claim was undone: {}", seen.answer.word))?;
    let Some(after) = seen.after().record(uuid).filter(|_| seen.done()) else { return Ok(()) };
    let waits = after.gate().is_some() || after.is_held();
    rule(waits, || "an undone claim waits at no gate, and nobody holds it".to_owned())?;
    let epoch = after.count(field::LEASE_EPOCH);
    let Some(right) = seen.untouched.0.get(&(uuid.to_owned(), epoch)) else { return Ok(()) };
    let is = attempts(seen.after(), uuid, after);
    rule(*right == is, || format!("an undone claim left {is:?} of what was {right:?}"))
}

/// Whoever waits at a gate may be let pass by its name.
fn unblocked(seen: &Seen<'_>) -> Checked {
    let record = seen.sent.execution().and_then(|uuid| seen.before().record(uuid));
    let may = record.is_some_and(|record| {
        let (reason, expected) = (record.text(field::PARK_REASON), "expected_reason");
        record.state() == "parked" && ["", reason].contains(&seen.sent.text(expected))
    });
    rule(seen.done() == may, || format!("unblocked: {}", seen.answer.word))
}

/// The best go, as many as may, and the answer says who is left.
fn opened(seen: &Seen<'_>) -> Checked {
    let gate = format!("gate:{}", seen.sent.text("gate"));
    let waited: Vec<&str> = seen.before().ranked(&gate).into_iter().map(|(uuid, _)| uuid).collect();
    let left = seen.after().ranked(&gate);
    let most = waited.len().min(seen.sent.number("count") as usize);
    let names: Vec<&str> = left.iter().map(|(uuid, _)| *uuid).collect();
    rule(names == waited[most..], || format!("{names:?} are left of {waited:?}"))?;
    let best = left.first().map(|(_, score)| format!("{score:.0}")).unwrap_or_default();
    let right = [Value::Int(most as i64), Value::Int(left.len() as i64)];
    let told = seen.answer.values.starts_with(&right)
        && seen.answer.values.get(2).map(super::super::quotas::shown) == Some(best);
    rule(told, || format!("told {:?} of {left:?}", seen.answer.values))
}

/// Who waits is listed at a gate that is closed.
fn nobody_waits_at_an_open_gate(seen: &Seen<'_>) -> Checked {
    if seen.sent.partition.family != PartitionFamily::Flow {
        return Ok(());
    }
    let view = seen.after();
    let waits = view
        .ranked("all")
        .into_iter()
        .filter_map(|(uuid, _)| view.record(uuid).and_then(Fields::gate).map(|gate| (uuid, gate)));
    for (uuid, gate) in waits {
        let closed = view.hash("closed").is_some_and(|it| it.bytes(&gate).is_some());
        rule(closed, || format!("{uuid} waits at {gate}, which is open"))?;
        let list = view.ranked(&format!("gate:{gate}"));
        let listed = list.iter().any(|(other, _)| *other == uuid);
        rule(listed, || format!("{uuid} waits at {gate}, where nobody finds it"))?;
    }
    Ok(())
}

/// Is one of the gates of an execution closed, so that it is parked where it would be claimable?
pub(super) fn is_closed(view: View<'_>, uuid: &str, record: Fields<'_>) -> bool {
    let Some(closed) = view.hash("closed") else { return false };
    let quota = record
        .bytes(field::QUOTA_ID)
        .map(|_| format!("q:{}:{}", record.text(field::QUOTA_ID), record.text(field::QUOTA_KEY)));
    let budgets = budgets(view, uuid).into_iter().map(|id| format!("b:{id}"));
    let mut gates = quota.into_iter().chain(budgets);
    record.bytes(field::PASSES).is_none() && gates.any(|gate| closed.bytes(&gate).is_some())
}

fn budgets<'a>(view: View<'a>, uuid: &str) -> Vec<&'a str> {
    let Some(Stored::String(text)) = view.stored(&format!("x:{uuid}:budgets")) else {
        return Vec::new();
    };
    let list = str::from_utf8(text).ok().and_then(|text| text.split(';').next());
    list.map_or_else(Vec::new, |list| list.split(',').collect())
}

/// No place is lost: whoever holds one runs under the lease that it was given to, or its release
/// is owed.
fn every_place_comes_back(dump: &Dump) -> Checked {
    for (gate, admitted) in hashes(dump, QUOTAS, "admitted:") {
        for (holder, epochs) in admitted.0 {
            let text = |bytes| str::from_utf8(bytes).unwrap_or("");
            let held = text(epochs).split(':').nth(1).and_then(|held| held.parse().ok());
            let Some(epoch) = held else { continue };
            let holder = text(holder);
            rule(is_owed(dump, holder, epoch), || {
                format!("{holder} holds a place at {gate} under {epoch} that nobody gives back")
            })?;
        }
    }
    Ok(())
}

/// Does a lease last, or is it owed what its end means to others?
pub(super) fn is_owed(dump: &Dump, id: &str, epoch: u64) -> bool {
    let (Some(uuid), Some(partition)) = (uuid_of(id), partition_of(id)) else { return false };
    let view = View::new(dump, partition);
    let runs = view.record(uuid).is_some_and(|record| {
        record.state() == "running" && record.count(field::LEASE_EPOCH) == epoch
    });
    runs || view.ranked("outbox").iter().any(|(entry, _)| {
        let mut parts = entry.splitn(4, ':');
        match (parts.next(), parts.next() == Some(uuid), parts.next()) {
            (Some("release"), true, Some(of)) => of.parse().is_ok_and(|of: u64| of >= epoch),
            (Some("forget"), true, _) => true,
            _ => false,
        }
    })
}

fn partition_of(id: &str) -> Option<Partition> {
    let index = id.strip_prefix("{fp:")?.split('}').next()?;
    index.parse().ok().map(Partition::flow)
}

/// The hashes of a partition whose names begin so, by the rest of their names.
pub(super) fn hashes<'a>(
    dump: &'a Dump,
    partition: Partition,
    begin: &str,
) -> impl Iterator<Item = (&'a str, Fields<'a>)> {
    let begin = format!("{}:{begin}", partition.key()).into_bytes();
    let from = dump.range(begin.clone()..);
    from.map_while(move |(key, stored)| {
        let rest = key.strip_prefix(begin.as_slice())?;
        Some((str::from_utf8(rest).ok()?, stored))
    })
    .filter_map(|(rest, stored)| match stored {
        Stored::Hash(fields) => Some((rest, Fields(fields))),
        _ => None,
    })
}
