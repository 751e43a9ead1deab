//! I7: what waits goes on when, and only when, what it waits for is there. That a token opens only
//! its own waitpoint is checked where the tokens are known.

use super::super::view::{Fields, field};
use super::super::wait::is_satisfied;
use super::fence::may_write;
use super::{Checked, Seen, rule};

/// What only the holder of the live lease may do; others may be told that it was done.
const FENCED: [&str; 3] =
    ["ff_suspend_execution", "ff_create_pending_waitpoint", "ff_close_waitpoint"];

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if FENCED.contains(&seen.sent.name()) && seen.done() {
        let record = seen.sent.execution().and_then(|uuid| seen.before().record(uuid));
        let may = record.is_some_and(|record| may_write(seen.sent, record, seen.now));
        rule(may, || "a call without the live lease was accepted".to_owned())?;
    }
    what_goes_on_takes_signals(seen)?;
    if seen.before == seen.after {
        return Ok(());
    }
    nothing_waits_for_what_is_there(seen)?;
    match seen.sent.execution().zip(is_signal(seen).then_some(())) {
        Some((uuid, ())) => signalled(seen, uuid),
        None => Ok(()),
    }
}

const SIGNALS: [&str; 2] = ["ff_deliver_signal", "ff_buffer_signal_for_pending_waitpoint"];

fn is_signal(seen: &Seen<'_>) -> bool {
    seen.done() && SIGNALS.contains(&seen.sent.name())
}

/// Nobody is sent away from an open waitpoint whose attempt runs, or was put aside and will go on.
fn what_goes_on_takes_signals(seen: &Seen<'_>) -> Checked {
    if !SIGNALS.contains(&seen.sent.name()) || seen.answer.word != "target_not_signalable" {
        return Ok(());
    }
    let record = seen.sent.execution().and_then(|uuid| seen.before().record(uuid));
    let one = seen.before().waitpoint(seen.sent.text("waitpoint_id"));
    let Some((record, one)) = record.zip(one) else { return Ok(()) };
    let goes_on = match record.state() {
        "running" => record.count(field::LEASE_EXPIRES_AT) > seen.now,
        "suspended" | "delayed" | "waiting" | "parked" => {
            record.text(field::NEXT_ATTEMPT) == "resume"
        }
        _ => false,
    };
    let same =
        record.count(field::ATTEMPT_COUNT).saturating_sub(1).to_string() == one.text("attempt");
    rule(!(goes_on && same && record.in_time(seen.now)), || {
        format!("a signal was refused although its attempt goes on, {}", record.state())
    })
}

/// No wake-up is lost.
fn nothing_waits_for_what_is_there(seen: &Seen<'_>) -> Checked {
    for (uuid, _) in seen.after().ranked("suspended") {
        let record = seen.after().record(uuid);
        let one = record.and_then(|record| seen.after().waitpoint(waitpoint_of(record)));
        let missed = one.is_some_and(|one| is_satisfied(&one));
        rule(!missed, || format!("{uuid} is suspended although its condition is satisfied"))?;
    }
    Ok(())
}

fn waitpoint_of(record: Fields<'_>) -> &str {
    record.text(field::WAITPOINT_ID)
}

/// A signal ends the wait on its own waitpoint alone, and only if that has all it waits for.
fn signalled(seen: &Seen<'_>, uuid: &str) -> Checked {
    let (Some(before), Some(after)) = (seen.before().record(uuid), seen.after().record(uuid))
    else {
        return Err("a signal was taken for nobody".to_owned());
    };
    if before.state() != "suspended" || after.state() == "suspended" {
        return rule(before.state() == after.state(), || "a signal moved what runs".to_owned());
    }
    let waited_on = waitpoint_of(before);
    let id = seen.sent.text("waitpoint_id");
    rule(id.is_empty() || id == waited_on, || format!("{id} ended the wait on {waited_on}"))?;
    let was = seen.before().waitpoint(waited_on).map_or("", |one| one.text("state"));
    rule(was == "active", || format!("a waitpoint that was {was} ended a wait"))?;
    let satisfied = seen.after().waitpoint(waited_on).is_some_and(|one| is_satisfied(&one));
    rule(satisfied, || "a wait ended before its condition was satisfied".to_owned())
}
