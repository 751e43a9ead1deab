//! What a call brings is what the store keeps, byte by byte, and a policy means what it says.

use ff_core::policy::ExecutionPolicy;

use super::super::view::{Fields, field};
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let Some(uuid) = seen.sent.execution().filter(|_| seen.done()) else { return Ok(()) };
    let Some(after) = seen.after().record(uuid) else { return Ok(()) };
    match seen.sent.name() {
        "ff_create_execution" => {
            same_bytes(seen, uuid, "payload", "payload")?;
            same_bytes(seen, uuid, "policy", "policy_json")?;
            policy(after, seen)
        }
        "ff_complete_execution" => same_bytes(seen, uuid, "result", "result"),
        "ff_fail_execution" => {
            let same = after.text(field::FAILURE_REASON) == seen.sent.text("failure_reason")
                && after.text(field::FAILURE_CATEGORY) == seen.sent.text("failure_category");
            rule(same, || "another failure is kept than was reported".to_owned())?;
            same_bytes(seen, uuid, "detail", "failure_detail")
        }
        "ff_renew_lease" => {
            let before =
                seen.before().record(uuid).map_or(0, |it| it.count(field::LEASE_EXPIRES_AT));
            let right = before.max(seen.now + seen.sent.number("lease_ttl_ms"));
            let is = after.count(field::LEASE_EXPIRES_AT);
            rule(is == right, || format!("renewed until {is} instead of {right}"))
        }
        _ => Ok(()),
    }
}

fn same_bytes(seen: &Seen<'_>, uuid: &str, name: &str, arg: &str) -> Checked {
    let kept = seen.after().blob(uuid, name);
    rule(kept == seen.sent.arg(arg), || format!("another {name} is kept than was given"))
}

/// The compiled policy says the same as the policy.
fn policy(record: Fields<'_>, seen: &Seen<'_>) -> Checked {
    let json = match seen.sent.arg("policy_json") {
        b"" => b"{}",
        json => json,
    };
    let policy = ExecutionPolicy::from_json(json).map_err(|error| format!("accepted: {error}"))?;
    let times = policy.timeout_policy.clone().unwrap_or_default();
    let retries = policy.retry_policy.as_ref().map(|retries| retries.max_retries);
    let stated_reclaims = policy.max_reclaim_count.or(times.max_reclaim_count);
    let kept_retries =
        record.text(field::RETRY_RULE).split(':').next().and_then(|it| it.parse().ok());
    for (name, right, is) in [
        ("retention", policy.retention_ms, record.number(field::RETENTION_MS)),
        ("ageing", policy.ageing_ms, record.number(field::AGEING_MS)),
        ("replays", policy.max_replay_count, record.number(field::REPLAYS_MAX)),
        (
            "reclaims",
            stated_reclaims.map(|_| policy.reclaim_limit()),
            record.number(field::RECLAIMS_MAX),
        ),
        ("timeout", times.attempt_timeout_ms, record.number(field::ATTEMPT_TIMEOUT_MS)),
        ("deadline", times.execution_deadline_ms, record.number(field::DEADLINE_MS)),
        ("retries", retries, kept_retries),
    ] {
        rule(is == right, || format!("{name} is {is:?} instead of {right:?}"))?;
    }
    let required = policy.required_capabilities().csv();
    rule(record.text(field::CAPABILITIES) == required, || format!("requires not {required}"))
}
