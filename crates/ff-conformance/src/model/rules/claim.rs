//! Claims take the best that the worker may take, reservations hold, and what was claimed is new.

use ff_core::limits;
use ff_script::calls::claim::ClaimRow;
use ff_script::value::Value;

use super::super::sent::{Sent, uuid_of};
use super::super::view::{Fields, field};
use super::super::world::claim_rows;
use super::flows::is_stopped;
use super::gates::is_closed;
use super::{Checked, Seen, fair, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let rows = claim_rows(seen.sent, seen.answer);
    let takes = seen.sent.name() != "ff_recall_claims";
    for row in rows.iter().filter(|_| takes) {
        leased(seen, row)?;
    }
    match seen.sent.name() {
        "ff_claim_next" if seen.done() => recalled(seen).and_then(|()| best_first(seen, &rows)),
        "ff_claim_next" if seen.answer.done => {
            rule(!rows.is_empty(), || "nothing was told".to_owned())?;
            own_leases(seen, &rows)
        }
        "ff_recall_claims" => own_leases(seen, &rows),
        "ff_grant_next" if seen.answer.word == "DUPLICATE" => own_reservation(seen),
        "ff_grant_next" => recalled(seen).and_then(|()| best_reserved(seen)),
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
    let Some((id, kind)) = reserved(seen) else {
        return rule(best.is_empty(), || format!("nothing was reserved, not even {best:?}"));
    };
    rule(best == [id], || format!("reserved {id} instead of {best:?}"))?;
    let Some(record) = seen.before().record(id) else { return Err("not there".to_owned()) };
    let right = match record.text(field::NEXT_ATTEMPT) {
        _ if record.is_lost() => "reclaim",
        "resume" => "resume",
        _ => "claim",
    };
    rule(kind == right, || format!("{id} was reserved for {kind} instead of {right}"))
}

/// A repeated request is told of its own reservation.
fn own_reservation(seen: &Seen<'_>) -> Checked {
    let record = reserved(seen).and_then(|(id, _)| seen.after().record(id));
    let own = record.is_some_and(|it| it.text(field::GRANT_ID) == seen.sent.text("grant_id"));
    rule(own, || "a reservation of somebody else".to_owned())
}

/// The execution that was reserved, and for which kind of claim.
fn reserved<'a>(seen: &Seen<'a>) -> Option<(&'a str, &'a str)> {
    let [Value::Bytes(id), _, _, Value::Bytes(kind), _] = seen.answer.values.as_slice() else {
        return None;
    };
    Some((uuid_of(str::from_utf8(id).ok()?)?, str::from_utf8(kind).ok()?))
}

/// What an earlier send of this very call took and still holds must be told, not taken again.
fn recalled(seen: &Seen<'_>) -> Checked {
    if seen.sent.text("retry") != "1" || seen.answer.word == "DUPLICATE" {
        return Ok(());
    }
    let (view, sent) = (seen.before(), seen.sent);
    // What is overdue is the tick's.
    let mut due = view.timed().filter(|(_, at)| *at > seen.now as f64);
    let forgotten =
        due.find(|(uuid, _)| view.record(uuid).is_some_and(|it| took(sent, it, seen.now)));
    rule(forgotten.is_none(), || {
        format!("a repeated call took {forgotten:?} before, and forgot it")
    })
}

/// Did an earlier send of this very call take the execution, and does that still last?
fn took(sent: &Sent, record: Fields<'_>, now: u64) -> bool {
    if sent.name() == "ff_grant_next" {
        return record.text(field::GRANT_ID) == sent.text("grant_id")
            && record.count(field::GRANT_EXPIRES_AT) > now;
    }
    let lease_id = record.bytes(field::LEASE_ID);
    record.state() == "running"
        && record.text(field::WORKER_INSTANCE_ID) == sent.text("worker_instance_id")
        && record.count(field::LEASE_EXPIRES_AT) > now
        && sent.rest().iter().any(|id| Some(id.as_slice()) == lease_id)
}

/// The queue from its head, but for what the worker does not want or cannot do, and what is too
/// late.
fn best<'a>(seen: &Seen<'a>, count: usize) -> Vec<&'a str> {
    let able: Vec<&str> = seen.sent.text("capabilities").split(',').collect();
    let view = seen.before();
    let lane = seen.sent.text("lane");
    let mut most: f64 = seen.sent.text("score_max").parse().unwrap_or(f64::INFINITY);
    if fair::since(view, lane).is_some() {
        // Ranks are exact.
        most -= limits::OVERTAKE_MS as f64;
    }
    let queued = view.queued(lane).into_iter();
    let mut best: Vec<&str> =
        queued.filter(|(_, score)| *score <= most).map(|(uuid, _)| uuid).collect();
    best.retain(|uuid| {
        view.record(uuid).is_some_and(|record| {
            record.in_time(seen.now)
                && fits(record, &able)
                && wanted(seen.sent, record)
                && !is_stopped(view, record)
                && !is_closed(view, uuid, record)
        })
    });
    best.truncate(count);
    best
}

/// Has it the need, kind and namespace that the call names, if it names any?
fn wanted(sent: &Sent, record: Fields<'_>) -> bool {
    let names = |list: &str, name: &str| list.is_empty() || list.split(':').any(|it| it == name);
    let (namespace, kind) = (record.text(field::NAMESPACE), record.text(field::KIND));
    let need = format!("{namespace}:{kind}:{}", record.text(field::CAPABILITIES));
    let named = sent.text("need");
    (named.is_empty() || need.trim_end_matches(':') == named)
        && names(sent.text("kinds"), kind)
        && names(sent.text("namespaces"), namespace)
}

/// Has the worker what the execution requires?
pub(super) fn fits(record: Fields<'_>, able: &[&str]) -> bool {
    let required = record.text(field::CAPABILITIES);
    required.split(',').all(|token| token.is_empty() || able.contains(&token))
}

/// A repeated claim is told of its own leases alone.
fn own_leases(seen: &Seen<'_>, rows: &[ClaimRow]) -> Checked {
    let own = |row: &ClaimRow| {
        let id = row.lease_id.to_string();
        seen.sent.rest().iter().any(|lease_id| lease_id.as_slice() == id.as_bytes())
    };
    rule(rows.iter().all(own), || "leases of somebody else".to_owned())
}
