//! When a call about one execution must be done, and when it must not: a second reading of the
//! rules, from what the record said before.

use ff_core::limits;
use ff_core::partition::PartitionFamily;

use super::super::sent::Sent;
use super::super::view::{Fields, field};
use super::claim::fits;
use super::fence::is_repeated_request;
use super::flows::{self, is_stopped};
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let Some(uuid) = seen.sent.execution() else { return Ok(()) };
    // Gates know executions that live elsewhere.
    if seen.sent.partition.family != PartitionFamily::Flow {
        return Ok(());
    }
    let record = seen.before().record(uuid);
    let may = match record {
        Some(record) => may(seen, uuid, record),
        None if needs_nobody(seen.sent.name()) => None,
        None => Some(false),
    };
    let word = &seen.answer.word;
    rule(may.is_none_or(|may| may == seen.done()), || match may {
        Some(true) => format!("must be done, and was answered by {word}"),
        _ => "must not be done".to_owned(),
    })
}

/// May the execution that it names be missing?
fn needs_nobody(name: &str) -> bool {
    name.starts_with("ff_create_")
        || matches!(name, "ff_ack_cancel_member" | "ff_evaluate_flow_eligibility")
}

/// Nothing if the rules are elsewhere: fenced calls, creations and reads.
fn may(seen: &Seen<'_>, uuid: &str, record: Fields<'_>) -> Option<bool> {
    let (sent, now, state) = (seen.sent, seen.now, record.state());
    let passed = |name: &str| record.number(name).is_some_and(|at| at <= now);
    if is_repeated_request(sent, record) {
        return Some(false);
    }
    let stopped = is_stopped(seen.before(), record);
    Some(match sent.name() {
        "ff_expire_execution" => match sent.text("expire_reason") {
            "attempt_timeout" => state == "running" && passed(field::TIMEOUT_AT),
            _ => !record.is_ended() && passed(field::DEADLINE_AT),
        },
        "ff_promote_delayed" => state == "delayed" && passed(field::DELAY_UNTIL),
        "ff_mark_lease_expired_if_due" => state == "running" && passed(field::LEASE_EXPIRES_AT),
        "ff_revoke_lease" => {
            let expected = sent.text("expected_lease_id");
            state == "running" && (expected.is_empty() || expected == record.text(field::LEASE_ID))
        }
        "ff_resume_execution" => {
            state == "suspended"
                && record.in_time(now)
                && !stopped
                && !is_ended_by_time(seen, record)
        }
        "ff_expire_suspension" => state == "suspended" && passed(field::SUSPEND_UNTIL),
        "ff_change_priority" => !record.is_ended(),
        "ff_hold_execution" => !record.is_ended() && !record.is_held(),
        "ff_release_execution" => record.is_held() && !stopped,
        "ff_replay_execution" => {
            record.is_ended() && may_replay(sent, record) && flows::may_replay(seen, uuid, record)?
        }
        "ff_issue_claim_grant" => state == "waiting" && !stopped && may_reserve(sent, record, now),
        "ff_issue_reclaim_grant" => record.is_lost() && !stopped && may_reserve(sent, record, now),
        "ff_claim_execution" => {
            state == "waiting"
                && !stopped
                && !is_paused(record)
                && may_use(sent, record, "claim", now)
        }
        "ff_claim_resumed_execution" => {
            state == "waiting"
                && !stopped
                && is_paused(record)
                && may_use(sent, record, "claim", now)
        }
        "ff_reclaim_execution" => {
            record.is_lost() && !stopped && may_use(sent, record, "reclaim", now)
        }
        _ => return None,
    })
}

/// Has the time come at which the wait ends, although nobody has done it yet? What escalates waits
/// on.
fn is_ended_by_time(seen: &Seen<'_>, record: Fields<'_>) -> bool {
    let one = seen.before().waitpoint(record.text(field::WAITPOINT_ID));
    record.number(field::SUSPEND_UNTIL).is_some_and(|at| at <= seen.now)
        && one.is_none_or(|one| one.text("behavior") != "escalate")
}

fn is_paused(record: Fields<'_>) -> bool {
    record.text(field::NEXT_ATTEMPT) == "resume"
}

/// Up to the policy's maximum, and not by a call that saw an earlier count.
fn may_replay(sent: &Sent, record: Fields<'_>) -> bool {
    let count = record.count(field::REPLAY_COUNT);
    let most = record.number(field::REPLAYS_MAX).unwrap_or(limits::REPLAYS_DEFAULT);
    let expected = sent.text("expected_replay_count").parse().unwrap_or(u64::MAX);
    count < most && count <= expected
}

/// Nobody else holds a live reservation, there is time left, and the worker can do it.
fn may_reserve(sent: &Sent, record: Fields<'_>, now: u64) -> bool {
    let able: Vec<&str> = sent.text("capabilities").split(',').collect();
    let free = record.number(field::GRANT_EXPIRES_AT).is_none_or(|at| at <= now);
    free && record.in_time(now) && fits(record, &able)
}

/// Only the worker it is reserved for takes it, in time and in the right way.
fn may_use(sent: &Sent, record: Fields<'_>, kind: &str, now: u64) -> bool {
    let lane = sent.text("lane");
    record.text(field::GRANT_ID) == sent.text("grant_id")
        && record.text(field::GRANT_KIND) == kind
        && record.text(field::GRANT_WORKER_ID) == sent.text("worker_id")
        && record.text(field::GRANT_INSTANCE_ID) == sent.text("worker_instance_id")
        && record.number(field::GRANT_EXPIRES_AT).is_some_and(|at| at > now)
        && (lane.is_empty() || lane == record.text(field::LANE))
        && record.in_time(now)
}
