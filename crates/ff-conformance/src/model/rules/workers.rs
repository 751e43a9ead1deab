//! Workers: a process has one session at a time, and what it hands back goes on with others.

use ff_core::limits;
use ff_script::dump::Stored;
use ff_script::value::Value;

use super::super::sent::uuid_of;
use super::super::view::{View, field};
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let session = seen.sent.text("session");
    let live = live_session(seen);
    match seen.sent.name() {
        "ff_register_worker" => {
            let replaces = seen.sent.text("replaces");
            let seen_to_go = !replaces.is_empty() && live_process(seen) == Some(replaces);
            expect(seen, seen_to_go || live.is_none_or(|live| live == session))
        }
        "ff_heartbeat_worker" | "ff_unregister_worker" => expect(seen, live == Some(session)),
        "ff_release_worker_leases" => released(seen),
        "ff_hand_back_leases" => handed_back(seen),
        "ff_lane_depths" => depths(seen),
        "ff_list_needs" => needs(seen),
        _ => Ok(()),
    }
}

fn expect(seen: &Seen<'_>, done: bool) -> Checked {
    rule(seen.done() == done, || format!("{}, but the session says {done}", seen.answer.word))
}

/// What is known of a worker process.
fn entry<'a>(seen: &Seen<'a>) -> Option<&'a str> {
    let Some(Stored::Hash(workers)) = seen.before().stored("workers") else { return None };
    str::from_utf8(workers.get(seen.sent.arg("worker_instance_id"))?).ok()
}

/// The session of a worker process while its registration lasts.
fn live_session<'a>(seen: &Seen<'a>) -> Option<&'a str> {
    let parts: Vec<&str> = entry(seen)?.splitn(5, ':').collect();
    let expires_at: u64 = parts.get(3)?.parse().ok()?;
    (expires_at > seen.now).then_some(parts[0])
}

/// What the worker said tells its process from others.
fn live_process<'a>(seen: &Seen<'a>) -> Option<&'a str> {
    let (_, load) = entry(seen)?.split_once("\n\n")?;
    load.lines().next()?.splitn(4, ':').nth(3)
}

/// What a worker process holds under live leases.
pub(super) fn held<'a>(view: View<'a>, instance: &str, now: u64) -> Vec<&'a str> {
    let held = view.ranked("leases").into_iter().filter(|(uuid, _)| {
        view.record(uuid).is_some_and(|record| {
            record.state() == "running"
                && record.text(field::WORKER_INSTANCE_ID) == instance
                && record.count(field::LEASE_EXPIRES_AT) > now
        })
    });
    held.map(|(uuid, _)| uuid).collect()
}

/// Does a call hand leases back that their holder did not end?
pub(super) fn hands_back(name: &str) -> bool {
    matches!(name, "ff_release_worker_leases" | "ff_hand_back_leases")
}

/// What is named and held waits to go on, and all else is as it was.
fn handed_back(seen: &Seen<'_>) -> Checked {
    let named = |uuid: &&str| {
        let ids = seen.sent.rest().iter().filter_map(|id| str::from_utf8(id).ok());
        ids.filter_map(uuid_of).any(|id| id == *uuid)
    };
    let held = held(seen.before(), seen.sent.text("worker_instance_id"), seen.now);
    let held: Vec<&str> = held.into_iter().filter(named).collect();
    let told = [Value::Int(held.len() as i64)];
    rule(seen.answer.values == told, || format!("{:?}, of {held:?}", seen.answer.values))?;
    wait_to_go_on(seen, &held)
}

/// All of it waits to go on.
fn released(seen: &Seen<'_>) -> Checked {
    let held = held(seen.before(), seen.sent.text("worker_instance_id"), seen.now);
    let told = [Value::Int(held.len() as i64), Value::Bytes(Vec::new())];
    rule(seen.answer.values == told, || format!("{:?}, of {held:?}", seen.answer.values))?;
    wait_to_go_on(seen, &held)
}

fn wait_to_go_on(seen: &Seen<'_>, held: &[&str]) -> Checked {
    let waits = |uuid: &&str| {
        seen.after().record(uuid).is_some_and(|record| {
            let parked = record.is_held() || record.gate().is_some();
            let word = if parked { "parked" } else { "waiting" };
            record.state() == word && record.text(field::NEXT_ATTEMPT) == "resume"
        })
    };
    rule(held.iter().all(waits), || format!("not all of {held:?} wait to go on"))
}

/// Every queue that is not empty is told, with its head and its length.
fn needs(seen: &Seen<'_>) -> Checked {
    let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
    let mut right = Vec::new();
    for lane in seen.sent.rest().iter().filter_map(|lane| str::from_utf8(lane).ok()) {
        for need in seen.before().needs(lane) {
            let queue = seen.before().ranked(&format!("q:{lane}:{need}"));
            let Some((_, score)) = queue.first() else { continue };
            let length = Value::Int(queue.len() as i64);
            right.push(Value::Array(vec![
                text(lane),
                text(need),
                text(&format!("{score:.0}")),
                length,
            ]));
        }
    }
    let told = seen.answer.values.first();
    rule(told == Some(&Value::Array(right.clone())), || format!("{told:?} instead of {right:?}"))
}

fn depths(seen: &Seen<'_>) -> Checked {
    let [Value::Array(rows), Value::Array(queues)] = seen.answer.values.as_slice() else {
        return Err("no list".to_owned());
    };
    let mut waiting = 0;
    for (lane, row) in seen.sent.rest().iter().zip(rows) {
        let queue = String::from_utf8_lossy(lane);
        let depth = Value::Int(seen.after().queued(&queue).len() as i64);
        let told = matches!(row, Value::Array(parts) if parts.get(1) == Some(&depth));
        rule(told, || format!("{queue} has {depth:?}, and {row:?} was told"))?;
        waiting += seen.after().needs(&queue).len();
    }
    let told = waiting.min(limits::NEEDS_TOLD_MAX as usize);
    rule(queues.len() == told, || format!("{told} queues, and {queues:?} were told"))
}
