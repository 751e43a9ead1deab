//! I10: a tick does everything that is due, and says when it is next needed.

use ff_core::limits;
use ff_core::partition::PartitionFamily;
use ff_script::dump::Stored;
use ff_script::value::Value;

use super::super::view::{LIVE, TIMED, View, field};
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if seen.sent.name() != "ff_tick" {
        return Ok(());
    }
    let numbers: Vec<Option<u64>> = seen.answer.values.iter().map(number).collect();
    let [_, next, late_ms, ref counts @ ..] = numbers[..] else {
        return Err(format!("a tick answered {:?}", seen.answer));
    };
    let [
        promoted,
        lapsed,
        timed_out,
        expired,
        ungranted,
        purged,
        forgotten,
        corrected,
        suspensions,
        waitpoints,
        flows,
        edges,
        owing,
        gates,
        // What is owed to others, which is checked where it is carried out.
        None,
    ] = counts[..]
    else {
        return Err(format!("a tick answered {:?}", seen.answer));
    };
    let owed = seen.after().ranked("owing").len() as u64;
    rule(owing == Some(owed), || format!("told {owing:?} flows that owe instead of {owed}"))?;
    let late = first(seen.before()).map_or(0, |at| seen.now.saturating_sub(at));
    rule(late_ms == Some(late), || format!("{late_ms:?} ms late instead of {late}"))?;
    let items_max = seen.sent.number("items_max") as usize;
    let due = overdue(seen.before(), LIVE.iter(), seen.now);
    let fired: Vec<&str> = due.iter().copied().take(items_max).collect();
    let others = |member: &&&str| member.starts_with("w:") || member.starts_with("s:");
    let others = fired.iter().filter(others).count() as u64;
    let told = [promoted, lapsed, timed_out, expired, ungranted, suspensions, waitpoints]
        .into_iter()
        .chain([flows, edges, gates]);
    // What others of its flow ended in this very call has no time any more.
    let (told, corrected): (u64, u64) = (told.flatten().sum(), corrected.unwrap_or(0));
    let told = told + corrected;
    let members = fired.iter().filter(|member| is_of_flow(seen.before(), member)).count() as u64;
    rule(corrected <= members, || format!("{corrected} wrong entries had to be corrected"))?;
    rule(told + others == fired.len() as u64, || format!("{told} fired, {} due", due.len()))?;
    let over = overdue(seen.before(), TIMED[LIVE.len()..].iter(), seen.now);
    let over = affordable(&over, seen.before(), items_max - fired.len());
    let whole = over.iter().filter(|uuid| seen.before().record(uuid).is_some()).count() as u64;
    rule(purged == Some(whole), || format!("{purged:?} purged, {whole} were over"))?;
    let rest = over.len() as u64 - whole + others;
    rule(forgotten == Some(rest), || format!("{forgotten:?} forgotten instead of {rest}"))?;
    // Output that is not kept at all after its attempt goes with the next tick, and what ends takes
    // its waitpoints along.
    let after = overdue(seen.after(), LIVE.iter(), seen.now);
    let shared = seen.sent.partition.family != PartitionFamily::Flow;
    let alone = |member: &&&str| !is_of_flow(seen.before(), member);
    let left = after.iter().filter(alone).filter(|member| due.contains(member)).count();
    let along = |member: &&&str| member.starts_with("p:") && !after.contains(member);
    let rest: Vec<&str> = due[fired.len()..].iter().filter(alone).copied().collect();
    let expected = rest.len() - rest.iter().filter(along).count();
    rule(shared || left == expected, || format!("{left} of {} are still due", due.len()))?;
    let owed = seen.after().ranked("outbox").first().map(|(_, at)| *at as u64);
    let first = first(seen.after()).into_iter().chain(owed).min();
    rule(next == first, || format!("next needed at {next:?}, said {first:?}"))
}

/// The first of what is over, as much as may be done: every stream and every waitpoint counts like
/// an execution.
fn affordable<'a>(over: &'a [&'a str], view: View<'_>, most: usize) -> &'a [&'a str] {
    let mut left = most as u64;
    let within = over.iter().take_while(|uuid| {
        let goes = left > 0;
        left = left.saturating_sub(1 + streams(view, uuid) + waitpoints(view, uuid));
        goes
    });
    &over[..within.count()]
}

/// How many waitpoints of an execution are kept.
fn waitpoints(view: View<'_>, uuid: &str) -> u64 {
    match view.stored(&format!("x:{uuid}:waitpoints")) {
        Some(Stored::Hash(listed)) => listed.len() as u64,
        _ => 0,
    }
}

/// How many attempts of an execution may have output.
fn streams(view: View<'_>, uuid: &str) -> u64 {
    let Some(record) = view.record(uuid) else { return 0 };
    let latest = record.count(field::ATTEMPT_COUNT).saturating_sub(1);
    match record.number(field::KEPT_FROM) {
        Some(from) => latest - from + 1,
        None => u64::from(record.bytes(field::FRAMES).is_some()),
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Bytes(bytes) => str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

/// The members of indexes whose time has come, index by index.
fn overdue<'a>(
    view: View<'a>,
    indexes: impl Iterator<Item = &'static &'static str>,
    now: u64,
) -> Vec<&'a str> {
    let members = indexes.flat_map(|index| view.ranked(index));
    members.filter(|(_, at)| *at <= now as f64).map(|(member, _)| member).collect()
}

fn first(view: View<'_>) -> Option<u64> {
    let heads = TIMED.iter().filter_map(|index| view.ranked(index).first().map(|(_, at)| *at));
    // Members of a flow go with it.
    heads.map(|at| at as u64).filter(|at| *at < limits::TIMESTAMP_MS_MAX).min()
}

/// Is this the time of a flow, of an end that its members are told, or of one of them?
fn is_of_flow(view: View<'_>, member: &str) -> bool {
    member.starts_with("f:")
        || member.starts_with("e:")
        || view.record(member).is_some_and(|record| !record.flow_id().is_empty())
}
