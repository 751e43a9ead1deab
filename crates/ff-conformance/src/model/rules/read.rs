//! Reads tell what the store holds: every state is legal, lists are complete and name each once.

use std::collections::BTreeSet;

use ff_core::state::StateVector;
use ff_script::call::{Call, open_reply};
use ff_script::calls::describe::{DescribeExecution, DescribeExecutionReply};
use ff_script::value::Value;

use super::super::sent::uuid_of;
use super::super::view::{Fields, field};
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    match seen.sent.name() {
        "ff_describe_execution" if seen.answer.done => described(seen),
        "ff_list_executions" if seen.answer.done => listed(seen),
        "ff_read_payload" if seen.answer.done => same_bytes(seen, 0, "payload"),
        "ff_read_result" if seen.answer.done => same_bytes(seen, 1, "result"),
        _ => Ok(()),
    }
}

fn same_bytes(seen: &Seen<'_>, place: usize, name: &str) -> Checked {
    let uuid = seen.sent.execution().unwrap_or("");
    let told = seen.answer.values.get(place);
    let right = Value::Bytes(seen.after().blob(uuid, name));
    rule(told == Some(&right), || format!("another {name} was told than is kept"))
}

fn described(seen: &Seen<'_>) -> Checked {
    let (uuid, reply) = (seen.sent.execution().unwrap_or(""), typed(seen)?);
    let DescribeExecutionReply::Execution {
        lifecycle_phase,
        ownership_state,
        eligibility_state,
        blocking_reason,
        terminal_outcome,
        attempt_state,
        public_state,
        attempt_count,
        lease_epoch,
        ..
    } = reply;
    let state = StateVector {
        lifecycle_phase,
        ownership_state,
        eligibility_state,
        blocking_reason,
        terminal_outcome,
        attempt_state,
        public_state,
    };
    rule(state.is_legal(), || format!("no legal state: {state:?}"))?;
    let Some(record) = seen.after().record(uuid) else { return Err("not there".to_owned()) };
    let same = public_state.as_str() == public_of(record)
        && u64::from(attempt_count) == record.count(field::ATTEMPT_COUNT)
        && lease_epoch.get() == record.count(field::LEASE_EPOCH);
    rule(same, || format!("described as {state:?}"))
}

fn typed(seen: &Seen<'_>) -> Result<DescribeExecutionReply, String> {
    let head = [Value::Int(1), Value::Bytes(seen.answer.word.clone().into_bytes())];
    let reply = Value::Array(head.into_iter().chain(seen.answer.values.clone()).collect());
    open_reply(seen.sent.name(), reply)
        .and_then(|(status, values)| DescribeExecution::decode(&status, values))
        .map_err(|error| error.to_string())
}

/// The word shown to people for a stored state.
fn public_of(record: Fields<'_>) -> &str {
    match record.state() {
        "running" | "lapsed" | "revoked" => "active",
        "success" => "completed",
        "parked" if record.gate().is_some() => "rate_limited",
        "parked" => "waiting",
        "held" | "blocked" => "waiting_children",
        other => other,
    }
}

fn listed(seen: &Seen<'_>) -> Checked {
    let [Value::Array(rows), Value::Bytes(cursor)] = seen.answer.values.as_slice() else {
        return Err("no page".to_owned());
    };
    let ids: Vec<String> = rows.iter().filter_map(id_of).collect();
    let once: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    rule(once.len() == rows.len(), || format!("listed twice: {ids:?}"))?;
    let right = matching(seen);
    rule(once.is_subset(&right), || format!("listed {once:?}, of {right:?}"))?;
    let whole = cursor.is_empty();
    rule(!whole || once == right, || format!("listed {once:?} instead of {right:?}"))
}

fn id_of(row: &Value) -> Option<String> {
    let Value::Array(fields) = row else { return None };
    let Some(Value::Bytes(id)) = fields.first() else { return None };
    uuid_of(str::from_utf8(id).ok()?).map(str::to_owned)
}

fn matching<'a>(seen: &Seen<'a>) -> BTreeSet<&'a str> {
    let (view, sent) = (seen.after(), seen.sent);
    let fits = |uuid: &&str| {
        view.record(uuid).is_some_and(|record| {
            record.state() != "held"
                && (sent.arg("state").is_empty() || sent.text("state") == public_of(record))
                && (sent.arg("lane").is_empty() || sent.text("lane") == record.text(field::LANE))
                && record.count(field::CREATED_AT) >= sent.number("from_ms")
        })
    };
    view.ranked("all").into_iter().map(|(uuid, _)| uuid).filter(fits).collect()
}
