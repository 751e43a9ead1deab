//! Claims take the best that the worker may take, reservations hold, and what was claimed is new.

use ff_script::calls::claim::ClaimRow;
use ff_script::value::Value;

use super::super::sent::uuid_of;
use super::super::view::{Fields, field};
use super::super::world::claim_rows;
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let rows = claim_rows(seen.sent, seen.answer);
    for row in &rows {
        leased(seen, row)?;
    }
    match seen.sent.name() {
        "ff_claim_next" if seen.done() => best_first(seen, &rows),
        "ff_grant_next" => best_reserved(seen),
        "ff_claim_next" if seen.answer.done => own_leases(seen, &rows),
        "ff_claim_execution" => granted(seen, "claim"),
        "ff_claim_resumed_execution" => granted(seen, "claim"),
        "ff_reclaim_execution" => granted(seen, "reclaim"),
        _ => Ok(()),
    }
}

/// What a claim answers is what the store holds.
fn leased(seen: &Seen<'_>, row: &ClaimRow) -> Checked {
    let uuid = row.execution_id.uuid().to_string();
    let Some(record) = seen.after().record(&uuid) else {
        return Err(format!("{uuid} was claimed but does not exist"));
    };
    let same = record.state() == "running"
        && record.text(field::LEASE_ID) == row.lease_id.to_string()
        && record.count(field::LEASE_EPOCH) == row.lease_epoch.get()
        && record.count(field::LEASE_EXPIRES_AT) == row.lease_expires_at.get()
        && record.count(field::ATTEMPT_COUNT) == u64::from(row.attempt_index.get()) + 1
        && record.attempt_id() == row.attempt_id.to_string();
    rule(same, || format!("{uuid} is not held as the claim says"))?;
    let grown = seen.before().record(&uuid).map_or(0, |before| before.count(field::LEASE_EPOCH));
    let expected = row.lease_epoch.get() - u64::from(seen.done());
    rule(grown == expected, || format!("the epoch of {uuid} went from {grown} past one"))
}

/// A claim takes the best.
fn best_first(seen: &Seen<'_>, rows: &[ClaimRow]) -> Checked {
    let best = best(seen, seen.sent.rest().len());
    let claimed: Vec<String> = rows.iter().map(|row| row.execution_id.uuid().to_string()).collect();
    rule(claimed == best, || format!("claimed {claimed:?} instead of {best:?}"))
}

/// A reservation is of the best, and says how it is to be used.
fn best_reserved(seen: &Seen<'_>) -> Checked {
    let best = best(seen, 1);
    let reserved = match seen.answer.values.as_slice() {
        [Value::Bytes(id), _, _, Value::Bytes(kind)] => {
            str::from_utf8(id).ok().zip(str::from_utf8(kind).ok())
        }
        _ => None,
    };
    let uuid = reserved.and_then(|(id, _)| uuid_of(id));
    let same = uuid.into_iter().collect::<Vec<_>>() == best;
    rule(same, || format!("reserved {reserved:?} instead of {best:?}"))?;
    let Some(record) = uuid.and_then(|uuid| seen.before().record(uuid)) else { return Ok(()) };
    let right = match record.text(field::NEXT_ATTEMPT) {
        _ if record.is_lost() => "reclaim",
        "resume" => "resume",
        _ => "claim",
    };
    rule(reserved.is_some_and(|(_, kind)| kind == right), || format!("{reserved:?}, not {right}"))
}

/// The queue from its head, but for what the worker cannot do and what is too late.
fn best<'a>(seen: &Seen<'a>, count: usize) -> Vec<&'a str> {
    let able: Vec<&str> = seen.sent.text("capabilities").split(',').collect();
    let (view, queue) = (seen.before(), format!("q:{}", seen.sent.text("lane")));
    let mut best: Vec<&str> = view.ranked(&queue).into_iter().map(|(uuid, _)| uuid).collect();
    best.retain(|uuid| {
        view.record(uuid).is_some_and(|record| record.in_time(seen.now) && fits(record, &able))
    });
    best.truncate(count);
    best
}

fn fits(record: Fields<'_>, able: &[&str]) -> bool {
    let required = record.text(field::CAPABILITIES);
    required.split(',').all(|token| token.is_empty() || able.contains(&token))
}

/// A repeated claim is told of its own leases alone.
fn own_leases(seen: &Seen<'_>, rows: &[ClaimRow]) -> Checked {
    let own = |row: &ClaimRow| {
        let id = row.lease_id.to_string();
        seen.sent.rest().iter().any(|lease_id| lease_id.as_slice() == id.as_bytes())
    };
    rule(!rows.is_empty() && rows.iter().all(own), || "leases of somebody else".to_owned())
}

/// Nobody takes a reserved execution but the worker it is reserved for, in time and in its way.
fn granted(seen: &Seen<'_>, kind: &str) -> Checked {
    if !seen.done() {
        return Ok(());
    }
    let record = seen.sent.execution().and_then(|uuid| seen.before().record(uuid));
    let Some(record) = record else { return Err("claimed what does not exist".to_owned()) };
    let own = record.text(field::GRANT_ID) == seen.sent.text("grant_id")
        && record.text(field::GRANT_KIND) == kind
        && record.text(field::GRANT_WORKER_ID) == seen.sent.text("worker_id")
        && record.text(field::GRANT_INSTANCE_ID) == seen.sent.text("worker_instance_id")
        && record.number(field::GRANT_EXPIRES_AT).is_some_and(|at| at > seen.now);
    rule(own, || "claimed without a live grant".to_owned())?;
    let right_state = match kind {
        "reclaim" => record.is_lost(),
        _ => record.state() == "waiting",
    };
    rule(right_state && record.in_time(seen.now), || "claimed in the wrong state".to_owned())?;
    let resumed = seen.sent.name() == "ff_claim_resumed_execution";
    let paused = record.text(field::NEXT_ATTEMPT) == "resume";
    rule(resumed == paused, || "a paused attempt and a new one were confused".to_owned())
}
