//! A call changes what it is about, and nothing else.

use std::collections::BTreeSet;

use ff_core::partition::PartitionFamily;
use ff_script::call::Call;
use ff_script::calls::create::CreateExecution;
use ff_script::dump::{Dump, Stored};
use ff_script::value::Value;

use super::super::sent::uuid_of;
use super::super::view::TIMED;
use super::super::world::claim_rows;
use super::flows::{families, is_stopped};
use super::gates::is_closed;
use super::workers::held;
use super::{Checked, Seen, rule};
use crate::record::log_entry;

/// The arguments of one execution of a batch.
const ITEM: usize = CreateExecution::CONTRACT.args.len();

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if seen.before == seen.after {
        return Ok(());
    }
    let named = families(seen, &named(seen));
    let prefix = format!("{}:", seen.sent.partition.key());
    for key in changed(seen.before, seen.after) {
        let rest = key.strip_prefix(prefix.as_bytes()).and_then(|rest| str::from_utf8(rest).ok());
        let Some(rest) = rest else {
            return Err(format!("{} of another partition changed", key.escape_ascii()));
        };
        // What is shared by all executions has rules of its own.
        if seen.sent.partition.family != PartitionFamily::Flow {
            continue;
        }
        inside(seen, rest, seen.before.get(key), seen.after.get(key), &named)?;
    }
    Ok(())
}

fn changed<'a>(before: &'a Dump, after: &'a Dump) -> impl Iterator<Item = &'a Vec<u8>> {
    let old = before.iter().filter(|(key, stored)| after.get(*key) != Some(stored));
    let new = after.iter().filter(|(key, _)| !before.contains_key(*key));
    old.chain(new).map(|(key, _)| key)
}

/// The executions that the call may touch.
fn named(seen: &Seen<'_>) -> BTreeSet<String> {
    match seen.sent.name() {
        "ff_create_executions" => {
            let ids =
                seen.sent.rest().chunks(ITEM).filter_map(|item| str::from_utf8(&item[0]).ok());
            ids.filter_map(uuid_of).map(str::to_owned).collect()
        }
        "ff_claim_next" => {
            let rows = claim_rows(seen.sent, seen.answer).into_iter();
            rows.map(|row| row.execution_id.uuid().to_string()).chain(stopped(seen)).collect()
        }
        "ff_grant_next" => match seen.answer.values.first() {
            Some(Value::Bytes(id)) => {
                let id = str::from_utf8(id).ok().and_then(uuid_of).map(str::to_owned);
                id.into_iter().chain(stopped(seen)).collect()
            }
            _ => stopped(seen).collect(),
        },
        "ff_release_worker_leases" | "ff_hand_back_leases" => {
            let instance = seen.sent.text("worker_instance_id");
            held(seen.before(), instance, seen.now).into_iter().map(str::to_owned).collect()
        }
        "ff_tick" => due(seen),
        "ff_note_budgets_reached" => {
            let ids = seen.sent.rest().chunks(5).filter_map(|item| str::from_utf8(&item[0]).ok());
            ids.filter_map(uuid_of).map(str::to_owned).collect()
        }
        "ff_open_gate" => {
            let waited = seen.before().ranked(&format!("gate:{}", seen.sent.text("gate")));
            waited.into_iter().map(|(uuid, _)| uuid.to_owned()).collect()
        }
        _ => {
            let flow = Some(seen.sent.text("flow_id")).filter(|id| !id.is_empty());
            seen.sent.execution().into_iter().chain(flow).map(str::to_owned).collect()
        }
    }
}

/// What a worker comes across that its flow does not let run, which is ended, or that waits at a
/// gate that was closed meanwhile.
fn stopped<'a>(seen: &Seen<'a>) -> impl Iterator<Item = String> + use<'a> {
    let view = seen.before();
    let queue = view.queued(seen.sent.text("lane")).into_iter();
    let stopped = move |uuid: &&str| {
        view.record(uuid).is_some_and(|it| is_stopped(view, it) || is_closed(view, uuid, it))
    };
    queue.map(|(uuid, _)| uuid).filter(stopped).map(str::to_owned)
}

/// Nothing happens before its time.
fn due(seen: &Seen<'_>) -> BTreeSet<String> {
    let view = seen.before();
    let ranked = TIMED.iter().flat_map(|index| view.ranked(index));
    ranked
        .filter(|(_, at)| *at <= seen.now as f64)
        .map(|(member, _)| subject(seen, member))
        .collect()
}

/// The execution that an entry is about: the timer of a stream names it, a waitpoint knows it.
fn subject(seen: &Seen<'_>, member: &str) -> String {
    if let Some(id) = member.strip_prefix("p:") {
        return owner(seen, id);
    }
    if let Some(own) = member.strip_prefix("f:").or_else(|| member.strip_prefix("e:")) {
        return own.to_owned();
    }
    let stream = member.strip_prefix("s:").and_then(|rest| rest.split(':').next());
    stream.unwrap_or(member).to_owned()
}

/// The execution that a waitpoint belongs to, or did.
fn owner(seen: &Seen<'_>, id: &str) -> String {
    let one = seen.before().waitpoint(id).or_else(|| seen.after().waitpoint(id));
    one.map_or("", |one| one.text("execution")).to_owned()
}

fn inside(
    seen: &Seen<'_>,
    rest: &str,
    before: Option<&Stored>,
    after: Option<&Stored>,
    named: &BTreeSet<String>,
) -> Checked {
    let may = |uuid: &str| rule(named.contains(uuid), || format!("{rest}: {uuid} was touched"));
    if let Some(own) = rest.strip_prefix("x:") {
        return may(own.split(':').next().unwrap_or(own));
    }
    if let Some(own) = rest.strip_prefix("f:") {
        return may(own.split(':').next().unwrap_or(own));
    }
    if let Some(own) = rest.strip_prefix("wp:") {
        return may(&owner(seen, own.split(':').next().unwrap_or(own)));
    }
    match rest {
        "log" => appended(seen, named),
        "idem" => {
            let name = seen.sent.name();
            let remembers = name.starts_with("ff_create_") || name == "ff_tick";
            rule(remembers, || "an idempotency key was touched".to_owned())
        }
        "deployment" => rule(seen.sent.name() == "ff_open_deployment", || rest.to_owned()),
        "secrets" => rule(seen.sent.name().starts_with("ff_rotate_"), || rest.to_owned()),
        "facts" => {
            let name = seen.sent.name();
            rule(name == "ff_set_lane" || name.starts_with("ff_note_"), || rest.to_owned())
        }
        // What is owed is told by ticks, and gates are checked with those who wait there.
        "outbox" | "closed" => Ok(()),
        // Which lanes have something, and who was served: not about single executions.
        "queued" => Ok(()),
        _ if rest.starts_with("shares:") => Ok(()),
        "lanes" | "lane-uses" => rule(seen.sent.name() == "ff_register_lane", || rest.to_owned()),
        "workers" => {
            let name = seen.sent.name();
            rule(name.ends_with("_worker") || name == "ff_tick", || rest.to_owned())
        }
        _ => moved_members(before, after)
            .into_iter()
            .filter(|member| !member.starts_with("i:") && !member.starts_with("w:"))
            .try_for_each(|member| may(&subject(seen, &member))),
    }
}

/// Members of an index that came, went or moved.
fn moved_members(before: Option<&Stored>, after: Option<&Stored>) -> BTreeSet<String> {
    let members = |stored: Option<&Stored>| match stored {
        Some(Stored::SortedSet(members)) => {
            members.iter().map(|(member, score)| (member.clone(), score.to_bits())).collect()
        }
        _ => BTreeSet::new(),
    };
    let (before, after) = (members(before), members(after));
    let moved = before.symmetric_difference(&after);
    moved.map(|(member, _)| String::from_utf8_lossy(member).into_owned()).collect()
}

/// The log only grows, and speaks of what the call is about.
fn appended(seen: &Seen<'_>, named: &BTreeSet<String>) -> Checked {
    let (before, after, new) = (seen.before().log(), seen.after().log(), seen.events());
    let kept = &after[..after.len() - new.len()];
    // Old events go, by a tick.
    let trims = seen.sent.name() == "ff_tick" && before.ends_with(kept);
    rule(kept == before || trims, || "the log was rewritten".to_owned())?;
    for entry in new {
        let uuid = log_entry(entry).uuid;
        rule(named.contains(&uuid), || format!("an event about {uuid}"))?;
    }
    Ok(())
}
