//! What moves a member that a call is not about.

use super::super::super::graph::Verdict;
use super::super::super::view::{Fields, field};
use super::super::workers::hands_back;
use super::super::{Checked, Seen, rule};
use super::{Standing, claimed, frees_nobody, is_stopped, named};

/// Is the call about this very execution?
pub(in super::super) fn direct(seen: &Seen<'_>, uuid: &str) -> bool {
    seen.sent.execution() == Some(uuid) || claimed(seen).contains(uuid)
}

pub(super) fn check(seen: &Seen<'_>, standing: &Standing<'_>) -> Checked {
    for (uuid, after) in &standing.members {
        let Some(before) = seen.before().record(uuid) else { continue };
        if before.state() == after.state() {
            continue;
        }
        let (was, is) = (before.state(), after.state());
        if was == "running" && hands_back(seen.sent.name()) {
            continue;
        }
        let reason = !frees_unduly(seen, standing, uuid, before, *after)
            && (direct(seen, uuid)
                || is_timed(seen, uuid)
                || may(seen, standing, uuid, before, is));
        rule(reason, || format!("{uuid} went from {was} to {is} without a reason"))?;
        fails_fast(standing, uuid, before, is)?;
        if matches!(was, "blocked" | "held") && matches!(is, "waiting" | "delayed" | "parked") {
            in_time(seen, standing, uuid, *after).map_err(|what| format!("{uuid}: {what}"))?;
        }
    }
    Ok(())
}

/// A failure that counts ends the others, if the flow says so and is not being ended already.
fn fails_fast(standing: &Standing<'_>, uuid: &str, before: Fields<'_>, is: &str) -> Checked {
    let (graph, flow) = (standing.graph, standing.flow);
    let counts = graph.fails_fast
        && graph.members.get(uuid).is_some_and(|member| !member.optional)
        && !before.is_ended()
        && matches!(is, "failed" | "expired" | "cancelled");
    let ends = flow.bytes("failing").is_some()
        || flow.bytes("expired").is_some()
        || graph.cancelled.is_some();
    rule(!counts || ends, || format!("{uuid} is {is}, and that ends nobody"))
}

/// Nothing frees a member of a flow whose cancel or deadline frees nobody.
fn frees_unduly(
    seen: &Seen<'_>,
    standing: &Standing<'_>,
    uuid: &str,
    before: Fields<'_>,
    after: Fields<'_>,
) -> bool {
    let freed = matches!(before.state(), "blocked" | "held")
        && matches!(after.state(), "waiting" | "delayed" | "parked" | "skipped");
    let cancelled = seen.before().flow_of(before).is_some_and(frees_nobody);
    freed && (cancelled || standing.verdict(uuid) == Verdict::Waits)
}

/// Had it a time of its own that has come?
fn is_timed(seen: &Seen<'_>, uuid: &str) -> bool {
    let due = |(member, at): (&str, f64)| member == uuid && at <= seen.now as f64;
    seen.sent.name() == "ff_tick" && seen.before().timed().any(due)
}

/// May somebody else's move have moved it?
fn may(seen: &Seen<'_>, standing: &Standing<'_>, uuid: &str, before: Fields<'_>, is: &str) -> bool {
    let verdict = standing.verdict(uuid);
    let replayed = seen.sent.name() == "ff_replay_execution"
        && seen.sent.execution().is_some_and(|up| standing.graph.behind(up).contains(uuid));
    let sealed = standing.graph.sealed;
    match (before.state(), is) {
        ("held", "blocked") => sealed,
        ("held" | "blocked", "waiting" | "delayed" | "parked") => {
            verdict == Verdict::Free && (before.state() == "blocked" || sealed)
        }
        ("held" | "blocked", "skipped") => verdict == Verdict::Hopeless,
        ("waiting" | "delayed" | "parked", "skipped" | "blocked") if is_bound(seen, uuid) => true,
        (_, "cancelled" | "expired") => {
            !before.is_ended() && (is_stopped(standing.view, before) || is_given_up(standing))
        }
        // Whoever it is bound to is over already, as its own time is.
        ("delayed", "waiting" | "parked") if is_bound(seen, uuid) => {
            before.number(field::DELAY_UNTIL).is_some_and(|at| at <= seen.now)
        }
        ("waiting" | "delayed" | "parked", "blocked") => replayed && !before.has_begun(),
        ("skipped", "blocked" | "waiting" | "delayed" | "held") => replayed,
        (_, "blocked" | "waiting" | "delayed" | "held") if before.is_ended() => {
            let ran = before.has_begun();
            replayed && if ran { asks_for_downstream(seen) } else { before.state() == "cancelled" }
        }
        _ => false,
    }
}

/// Shall all that ran behind a member run again, too?
fn asks_for_downstream(seen: &Seen<'_>) -> bool {
    seen.sent.text("downstream") == "1"
}

/// Does the call let it wait for somebody?
fn is_bound(seen: &Seen<'_>, uuid: &str) -> bool {
    named(seen, "downstream_execution_id").as_deref() == Some(uuid)
}

/// What is held would be held for ever in a flow that was cancelled before it was whole.
fn is_given_up(standing: &Standing<'_>) -> bool {
    standing.graph.whole && !standing.graph.sealed && standing.graph.cancelled.is_some()
}

/// The time of a member counts from when it is freed, up to what its submission gave it.
fn in_time(seen: &Seen<'_>, standing: &Standing<'_>, uuid: &str, record: Fields<'_>) -> Checked {
    let given = standing.graph.members.get(uuid).and_then(|member| member.deadline_at);
    let Some(given) = given.filter(|_| record.count(field::REPLAY_COUNT) == 0) else {
        return Ok(());
    };
    let own = record.number(field::DEADLINE_MS).map(|ms| seen.now + ms);
    let right = [given, own].into_iter().flatten().min();
    let is = record.number(field::DEADLINE_AT);
    rule(is == right, || format!("has time until {is:?} instead of {right:?}"))
}
