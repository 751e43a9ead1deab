//! I2, I3, I4 over time: epochs only grow, an outcome stays, attempts are added one by one, and
//! nothing is forgotten before its time.

use std::collections::BTreeSet;

use ff_core::limits;
use ff_script::dump::{Dump, Stored};

use super::super::view::{Fields, field};
use super::flows::{direct, may_go};
use super::workers::hands_back;
use super::{Checked, Seen, rule};
use crate::record::log_entry;

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if seen.before == seen.after {
        return Ok(());
    }
    let prefix = format!("{}:x:", seen.sent.partition.key());
    let told = told_of(seen);
    for uuid in uuids(seen.before, &prefix).union(&uuids(seen.after, &prefix)) {
        let (before, after) = (seen.before().record(uuid), seen.after().record(uuid));
        let checked = match (before, after) {
            (Some(before), Some(after)) => changed(seen, uuid, before, after, &told),
            (None, Some(_)) => appeared(seen, uuid, &told),
            (Some(before), None) => vanished(seen, before),
            (None, None) => Ok(()),
        };
        checked.map_err(|what| format!("{uuid}: {what}"))?;
    }
    Ok(())
}

fn uuids<'a>(dump: &'a Dump, prefix: &str) -> BTreeSet<&'a str> {
    let text = |key: &'a Vec<u8>| str::from_utf8(key).ok()?.strip_prefix(prefix);
    dump.keys().filter_map(text).filter(|rest| !rest.contains(':')).collect()
}

/// The executions that the call wrote events about.
fn told_of(seen: &Seen<'_>) -> BTreeSet<String> {
    seen.events().iter().map(|entry| log_entry(entry).uuid).collect()
}

fn appeared(seen: &Seen<'_>, uuid: &str, told: &BTreeSet<String>) -> Checked {
    let name = seen.sent.name();
    let creates = name.starts_with("ff_create_execution") || name == "ff_submit_graph";
    rule(creates, || "appeared out of nothing".to_owned())?;
    rule(told.contains(uuid), || "was created without an event".to_owned())
}

fn vanished(seen: &Seen<'_>, before: Fields<'_>) -> Checked {
    if let Some(flow) = seen.before().flow_of(before) {
        let may = seen.sent.name() == "ff_tick" && may_go(flow, seen.now);
        return rule(may, || "vanished before its flow".to_owned());
    }
    let unsaid_ms = match before.state() {
        "failed" | "expired" => limits::FAILED_RETENTION_MS_DEFAULT,
        _ => limits::RETENTION_MS_DEFAULT,
    };
    let kept_ms = before.number(field::RETENTION_MS).unwrap_or(unsaid_ms);
    let kept_until =
        (before.count(field::ENDED_AT) + kept_ms).max(before.count(field::REMEMBERED_UNTIL));
    let over = before.is_ended() && kept_until <= seen.now;
    rule(over && seen.sent.name() == "ff_tick", || "vanished before its time".to_owned())
}

fn changed(
    seen: &Seen<'_>,
    uuid: &str,
    before: Fields<'_>,
    after: Fields<'_>,
    told: &BTreeSet<String>,
) -> Checked {
    if before.0 == after.0 {
        return Ok(());
    }
    let fixed = field::FIXED.iter().find(|name| before.bytes(name) != after.bytes(name));
    rule(fixed.is_none(), || format!("{fixed:?} is decided at creation, and changed"))?;
    // What is released only waits for others than before.
    let released = (before.state(), after.state()) == ("held", "blocked");
    let moved = before.state() != after.state() && !released;
    rule(!moved || told.contains(uuid), || "changed its state without an event".to_owned())?;
    let direct = direct(seen, uuid);
    if seen.sent.name() == "ff_block_execution_for_admission" {
        // What an undone claim leaves is checked with the gates.
        return outcome(seen, before, after, direct);
    }
    counters(seen, before, after, direct)?;
    outcome(seen, before, after, direct)?;
    attempts(seen, uuid)
}

/// How much a counter grew; nothing if it shrank.
fn grown(before: Fields<'_>, after: Fields<'_>, name: &str) -> Option<u64> {
    after.count(name).checked_sub(before.count(name))
}

/// What starts an attempt or goes on with one.
const CLAIMS: [&str; 4] =
    ["ff_claim_next", "ff_claim_execution", "ff_claim_resumed_execution", "ff_reclaim_execution"];

/// Does the call replay it: by its name, or because it ran behind one that is replayed with all of
/// those?
fn is_replayed(seen: &Seen<'_>, before: Fields<'_>, after: Fields<'_>, direct: bool) -> bool {
    let behind = seen.sent.text("downstream") == "1"
        && before.count(field::ATTEMPT_COUNT) > 0
        && before.is_ended()
        && !after.is_ended();
    seen.sent.name() == "ff_replay_execution" && (direct || behind)
}

fn counters(seen: &Seen<'_>, before: Fields<'_>, after: Fields<'_>, direct: bool) -> Checked {
    let name = seen.sent.name();
    let claims = direct && CLAIMS.contains(&name);
    let replays = u64::from(is_replayed(seen, before, after, direct));
    let epochs = grown(before, after, field::LEASE_EPOCH);
    let new_epoch = claims || hands_back(name);
    rule(epochs == Some(u64::from(new_epoch)), || format!("the epoch grew by {epochs:?}"))?;
    let attempts = grown(before, after, field::ATTEMPT_COUNT);
    let most = u64::from(claims && before.text(field::NEXT_ATTEMPT) != "resume");
    rule(attempts == Some(most), || format!("the attempts grew by {attempts:?}"))?;
    let replayed = grown(before, after, field::REPLAY_COUNT);
    rule(replayed == Some(replays), || format!("the replays grew by {replayed:?}"))?;
    for counter in [field::RETRY_COUNT, field::RECLAIM_COUNT] {
        let by = grown(before, after, counter);
        let reset = replays == 1 && after.count(counter) == 0;
        rule(reset || by.is_some_and(|by| by <= 1), || format!("{counter} grew by {by:?}"))?;
    }
    Ok(())
}

/// What is over stays as it is, but for its tags and its output, unless it is replayed.
fn outcome(seen: &Seen<'_>, before: Fields<'_>, after: Fields<'_>, direct: bool) -> Checked {
    // Whom a replay reopens as well is checked with the flows.
    let reopened = !after.is_ended() && !direct;
    if !before.is_ended() || seen.sent.name() == "ff_replay_execution" && reopened {
        return Ok(());
    }
    if seen.sent.name() == "ff_replay_execution" && direct {
        let waits = after.state() == "waiting"
            || after.gate().is_some()
            || !after.flow_id().is_empty() && matches!(after.state(), "blocked" | "held");
        return rule(waits, || "was replayed and does not wait".to_owned());
    }
    let frozen = |fields: Fields<'_>| {
        let mut fields = fields.0.clone();
        fields.remove(field::TAGGED.as_bytes());
        fields.remove(field::MUTATION_AT.as_bytes());
        fields.remove(field::REQUESTS.as_bytes());
        for name in field::OF_OTHERS {
            fields.remove(name.as_bytes());
        }
        if seen.sent.name() == "ff_tick" {
            fields.remove(field::FRAMES.as_bytes());
            fields.remove(field::KEPT_FROM.as_bytes());
        }
        fields
    };
    rule(frozen(before) == frozen(after), || "was over, and changed".to_owned())
}

/// Past attempts stay as they are; a new one is added at the end.
fn attempts(seen: &Seen<'_>, uuid: &str) -> Checked {
    let (before, after) = (seen.before().past_attempts(uuid), seen.after().past_attempts(uuid));
    let added = after.strip_prefix(before);
    rule(added.is_some_and(|added| added.len() <= 1), || "past attempts changed".to_owned())?;
    let long = |name: &str| format!("x:{uuid}:{name}");
    let same =
        |name: &str| match (seen.before().stored(&long(name)), seen.after().stored(&long(name))) {
            (Some(Stored::String(before)), Some(Stored::String(after))) => before == after,
            (before, after) => before.is_none() == after.is_none(),
        };
    rule(same("payload") && same("policy"), || "its input or its policy changed".to_owned())
}
