//! I2: only the holder of the live lease may write, and the holder always may.

use super::super::sent::Sent;
use super::super::view::{Fields, field};
use super::{Checked, Seen, rule};
use crate::record::{LogEntry, log_entry};

const FENCED: [&str; 7] = [
    "ff_renew_lease",
    "ff_update_progress",
    "ff_complete_execution",
    "ff_fail_execution",
    "ff_cancel_execution",
    "ff_delay_execution",
    "ff_move_to_waiting_children",
];

/// Who may cancel without a lease.
const UNFENCED_SOURCES: [&str; 3] = ["operator_override", "flow_cascade", "system_timeout"];

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let name = seen.sent.name();
    if !FENCED.contains(&name) {
        return Ok(());
    }
    let record = seen.sent.execution().and_then(|uuid| seen.before().record(uuid));
    let may = record.is_some_and(|record| may_write(seen.sent, record, seen.now));
    let word = &seen.answer.word;
    rule(seen.done() == may, || match may {
        true => format!("the holder of the live lease was refused: {word}"),
        false => "a call without the live lease was accepted".to_owned(),
    })?;
    let latest = record.is_some_and(|record| is_latest(seen.sent, record));
    let repeated = seen.answer.done && !seen.done();
    let unfenced = UNFENCED_SOURCES.contains(&seen.sent.text("source"));
    let known = record.is_some_and(|record| is_repeated_request(seen.sent, record));
    rule(!repeated || latest || unfenced || known || did_it(seen), || {
        format!("a stale lease was told {word}")
    })
}

/// Does the log tell that this lease did this very thing before?
fn did_it(seen: &Seen<'_>) -> bool {
    let Some(uuid) = seen.sent.execution() else { return false };
    let told = |entry: &LogEntry| match seen.sent.name() {
        "ff_complete_execution" => entry.event == "ended" && entry.why.starts_with("success:"),
        "ff_fail_execution" => {
            entry.event == "retry_scheduled"
                || entry.event == "ended" && entry.why.starts_with("failed:failed")
        }
        "ff_cancel_execution" => entry.event == "ended" && entry.why.starts_with("cancelled:"),
        "ff_delay_execution" => entry.event == "delayed",
        _ => entry.event == "waiting_children",
    };
    seen.before().log().iter().map(log_entry).any(|entry| {
        entry.uuid == uuid && entry.epoch == seen.sent.text("lease_epoch") && told(&entry)
    })
}

/// Does the execution remember this very request? Enough of its id is kept to tell it.
pub(super) fn is_repeated_request(sent: &Sent, record: Fields<'_>) -> bool {
    let id = sent.text("request_id");
    let Some((head, tail)) = id.get(..8).zip(id.get(24..)) else { return false };
    record.text(field::REQUESTS).split(' ').any(|kept| kept == format!("{head}{tail}"))
}

pub(super) fn may_write(sent: &Sent, record: Fields<'_>, now: u64) -> bool {
    if is_repeated_request(sent, record) {
        return false;
    }
    if UNFENCED_SOURCES.contains(&sent.text("source")) {
        return !record.is_ended();
    }
    let live = record.number(field::LEASE_EXPIRES_AT).is_some_and(|at| at > now);
    record.state() == "running" && live && is_latest(sent, record)
}

/// Is this the fence of the latest lease, whatever became of it?
pub(super) fn is_latest(sent: &Sent, record: Fields<'_>) -> bool {
    sent.text("lease_id") == record.text(field::LEASE_ID)
        && sent.text("lease_epoch") == record.text(field::LEASE_EPOCH)
        && sent.text("attempt_id") == record.attempt_id()
}
