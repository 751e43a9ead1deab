//! What a timer, or somebody in its place, makes of an execution.

use ff_core::limits;

use super::super::view::{Fields, field};
use super::flows::{is_stopped, may_go};
use super::gates::is_closed;
use super::{Checked, Seen, retry, rule};

/// Why something happens to an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Deadline,
    Timeout,
    Lapse,
    Revoke,
    DelayOver,
    WaitOver,
    GrantOver,
}

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let Some(uuid) = seen.sent.execution() else { return ticked(seen) };
    let cause = match seen.sent.name() {
        _ if !seen.done() => return Ok(()),
        "ff_expire_execution" if seen.sent.text("expire_reason") == "attempt_timeout" => {
            Cause::Timeout
        }
        "ff_expire_execution" => Cause::Deadline,
        "ff_mark_lease_expired_if_due" => Cause::Lapse,
        "ff_revoke_lease" => Cause::Revoke,
        "ff_promote_delayed" => Cause::DelayOver,
        "ff_expire_suspension" => Cause::WaitOver,
        _ => return Ok(()),
    };
    became(seen, uuid, cause)
}

/// The first that are due, in the order of their times.
fn ticked(seen: &Seen<'_>) -> Checked {
    if seen.sent.name() != "ff_tick" {
        return Ok(());
    }
    let due = seen.before().timed().filter(|(_, at)| *at <= seen.now as f64);
    for (member, _) in due.take(seen.sent.number("items_max") as usize) {
        let record = seen.before().record(member);
        if let Some(cause) = record.and_then(|record| first_cause(record, seen.now)) {
            became(seen, member, cause)?;
        }
    }
    Ok(())
}

/// A deadline outweighs a timeout, and a timeout the end of the lease.
fn first_cause(record: Fields<'_>, now: u64) -> Option<Cause> {
    let passed = |name: &str| record.number(name).is_some_and(|at| at <= now);
    let running = record.state() == "running";
    match () {
        () if passed(field::DEADLINE_AT) => Some(Cause::Deadline),
        () if running && passed(field::TIMEOUT_AT) => Some(Cause::Timeout),
        () if running && passed(field::LEASE_EXPIRES_AT) => Some(Cause::Lapse),
        () if record.state() == "delayed" && passed(field::DELAY_UNTIL) => Some(Cause::DelayOver),
        () if record.state() == "suspended" && passed(field::SUSPEND_UNTIL) => {
            Some(Cause::WaitOver)
        }
        () if passed(field::GRANT_EXPIRES_AT) => Some(Cause::GrantOver),
        () => None,
    }
}

fn became(seen: &Seen<'_>, uuid: &str, cause: Cause) -> Checked {
    let Some(before) = seen.before().record(uuid) else { return Err(format!("no {uuid}")) };
    let flow = seen.before().flow_of(before);
    let Some(after) = seen.after().record(uuid) else {
        let goes = flow.is_some_and(|flow| may_go(flow, seen.now));
        return rule(goes, || format!("{uuid} is not there any more"));
    };
    let mut right = match cause {
        Cause::WaitOver => vec![after_wait(seen, before)],
        _ => expected(before, cause, seen.now),
    };
    if before.is_held() {
        right.iter_mut().filter(|word| is_free(word)).for_each(|word| *word = "parked");
    }
    // Who is in a queue already is held back by whoever comes across it.
    if cause != Cause::GrantOver && is_closed(seen.before(), uuid, before) {
        let claimable = |word: &&mut &str| is_free(word) && **word != "delayed";
        right.iter_mut().filter(claimable).for_each(|word| *word = "parked");
    }
    let is = after.state();
    // Others of its flow, or the flow itself, may have ended it first.
    let member = seen.sent.name() == "ff_tick" || is_stopped(seen.before(), before);
    if member && flow.is_some() && matches!(is, "skipped" | "cancelled" | "expired") {
        return Ok(());
    }
    rule(right.contains(&is), || format!("{uuid} became {is} instead of {right:?} by {cause:?}"))?;
    let free = after.bytes(field::GRANT_ID).is_none();
    rule(cause != Cause::GrantOver || free, || format!("{uuid} is still reserved"))
}

/// Would nothing but a claim be missing, or nothing but a time?
fn is_free(word: &str) -> bool {
    matches!(word, "waiting" | "delayed" | "lapsed" | "revoked")
}

/// The states that may follow.
fn expected<'a>(record: Fields<'a>, cause: Cause, now: u64) -> Vec<&'a str> {
    match cause {
        Cause::Deadline => vec!["expired"],
        Cause::Timeout => match retry::expected(record, "timeout", now) {
            (_, true) => vec!["delayed", "waiting"],
            (true, false) => vec!["delayed", "waiting", "expired"],
            (false, false) => vec!["expired"],
        },
        Cause::Lapse | Cause::Revoke if is_spent(record) => vec!["failed"],
        Cause::Lapse => vec!["lapsed"],
        Cause::Revoke => vec!["revoked"],
        Cause::DelayOver | Cause::WaitOver => vec!["waiting"],
        Cause::GrantOver => vec![record.state()],
    }
}

/// What becomes of an execution whose wait lasted too long: as its suspension says.
fn after_wait<'a>(seen: &Seen<'_>, record: Fields<'_>) -> &'a str {
    let one = seen.before().waitpoint(record.text(field::WAITPOINT_ID));
    match one.map_or("", |one| one.text("behavior")) {
        "cancel" => "cancelled",
        "expire" => "expired",
        "escalate" => "suspended",
        "auto_resume_with_timeout_signal" => "waiting",
        _ => "failed",
    }
}

/// Was it taken over as often as its policy allows?
fn is_spent(record: Fields<'_>) -> bool {
    let most = record.number(field::RECLAIMS_MAX).unwrap_or(limits::RECLAIMS_DEFAULT);
    record.count(field::RECLAIM_COUNT) >= most
}
