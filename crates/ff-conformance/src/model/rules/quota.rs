//! Quotas: a lease passes if, and only if, the limits of its policy allow that, by a second reading
//! of what is stored; a place goes back once, and no window forgets anybody before its time.

use ff_script::dump::Dump;

use super::super::view::{Fields, View};
use super::super::world::QUOTAS;
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if seen.sent.partition != QUOTAS {
        return Ok(());
    }
    match seen.sent.name() {
        "ff_check_admission_and_record" => {
            let (is, right) = (seen.answer.word.as_str(), answer(seen));
            rule(is == right, || format!("a gate answered {is} instead of {right}"))?;
        }
        "ff_describe_quota_policy" if seen.done() => described(seen)?,
        _ => {}
    }
    if seen.before == seen.after {
        return Ok(());
    }
    for gate in gates(seen) {
        places(seen, &gate)
            .and_then(|()| window(seen, &gate))
            .map_err(|it| format!("{gate}: {it}"))?;
    }
    Ok(())
}

/// The gates that anything is known of.
fn gates(seen: &Seen<'_>) -> Vec<String> {
    let known = |dump| super::gates::hashes(dump, QUOTAS, "admitted:");
    let mut gates: Vec<String> =
        known(seen.before).chain(known(seen.after)).map(|(gate, _)| gate.to_owned()).collect();
    gates.dedup();
    gates
}

fn gate_of(seen: &Seen<'_>) -> String {
    format!("q:{}:{}", seen.sent.text("quota_policy_id"), seen.sent.text("quota_key"))
}

fn policy<'a>(view: View<'a>, gate: &str) -> Option<Fields<'a>> {
    view.hash(&format!("policy:{}", &gate[2..38]))
}

/// The epoch that was released last, and the one that holds a place; 0 if none.
fn epochs(view: View<'_>, gate: &str, id: &str) -> (u64, u64) {
    let known = view.hash(&format!("admitted:{gate}"));
    let text = known.map_or("", |known| known.text(id));
    let mut numbers = text.split(':').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn within(view: View<'_>, gate: &str, limits: Fields<'_>, now: u64) -> u64 {
    let from = now as f64 - (limits.count("window_seconds") * 1000) as f64;
    let entries = view.ranked(&format!("window:{gate}"));
    entries.iter().filter(|(_, at)| *at > from).count() as u64
}

/// Would a gate let somebody pass, if nobody else has been promised that?
pub(super) fn has_room(dump: &Dump, gate: &str, now: u64) -> bool {
    let view = View::new(dump, QUOTAS);
    let promised = view.hash(&format!("openings:{gate}"));
    if promised.is_some_and(|it| it.count("promised") > 0 && it.count("until") > now) {
        return false;
    }
    let Some(limits) = policy(view, gate) else { return true };
    let full = |name: &str, count: u64| limits.number(name).is_some_and(|most| count >= most);
    let running = view.ranked(&format!("holders:{gate}")).len() as u64;
    // The window opens a moment later than it must, so that not all keys do so together.
    let late = limits.count("jitter_ms");
    !full("max_concurrent", running)
        && !full("max_requests_per_window", within(view, gate, limits, now.saturating_sub(late)))
}

/// What a gate must answer.
fn answer(seen: &Seen<'_>) -> &'static str {
    let (view, gate) = (seen.before(), gate_of(seen));
    let Some(limits) = policy(view, &gate) else { return "quota_policy_not_found" };
    let (released, held) = epochs(view, &gate, seen.sent.text("execution_id"));
    let epoch = seen.sent.number("lease_epoch");
    let full = |name: &str, count: u64| limits.number(name).is_some_and(|most| count >= most);
    let running = view.ranked(&format!("holders:{gate}")).len() as u64;
    match () {
        () if epoch == held => "ALREADY_ADMITTED",
        () if epoch <= released.max(held) => "stale_lease",
        () if seen.sent.number("lease_expires_at") <= seen.now => "lease_expired",
        () if full("max_requests_per_window", within(view, &gate, limits, seen.now)) => {
            "RATE_EXCEEDED"
        }
        () if held == 0 && full("max_concurrent", running) => "CONCURRENCY_EXCEEDED",
        () => "ADMITTED",
    }
}

/// Whoever held a place still does, unless the call gave it back; nobody new has one but the one
/// who was let pass.
fn places(seen: &Seen<'_>, gate: &str) -> Checked {
    let holders = format!("holders:{gate}");
    let ids = |view: View<'_>| -> Vec<String> {
        view.ranked(&holders).into_iter().map(|(id, _)| id.to_owned()).collect()
    };
    let (before, after) = (ids(seen.before()), ids(seen.after()));
    let came: Vec<&String> = after.iter().filter(|id| !before.contains(id)).collect();
    let passed = seen.answer.word == "ADMITTED" && gate == gate_of(seen);
    let own = |id: &&String| passed && **id == seen.sent.text("execution_id");
    rule(came.iter().all(own), || format!("{came:?} hold places, and did not ask"))?;
    let limits = policy(seen.after(), gate);
    let most = limits.and_then(|limits| limits.number("max_concurrent")).unwrap_or(u64::MAX);
    rule(came.is_empty() || after.len() as u64 <= most, || {
        format!("{} run, and no more than {most} may", after.len())
    })?;
    let mut gone = before.iter().filter(|id| !after.contains(id));
    let lost = gone.find(|id| !gives_back(seen, id, epochs(seen.before(), gate, id).1));
    rule(lost.is_none(), || format!("the place of {lost:?} was taken away"))
}

/// Does the call give back the place that an execution holds under this epoch?
fn gives_back(seen: &Seen<'_>, id: &str, held: u64) -> bool {
    let text = |item: &Vec<u8>| String::from_utf8_lossy(item).into_owned();
    let items: Vec<String> = seen.sent.rest().iter().map(text).collect();
    match seen.sent.name() {
        "ff_release_admission" => items
            .chunks(5)
            .any(|item| item[2] == id && item[3].parse().is_ok_and(|epoch: u64| epoch >= held)),
        "ff_forget_admission" => items.chunks(3).any(|item| item[2] == id),
        _ => false,
    }
}

/// What is within the window stays there, unless it is known that it never ran.
fn window(seen: &Seen<'_>, gate: &str) -> Checked {
    let name = format!("window:{gate}");
    let rated = |limits: &Fields<'_>| limits.number("max_requests_per_window").is_some();
    let Some(limits) = policy(seen.after(), gate).filter(rated) else { return Ok(()) };
    let after = seen.after().ranked(&name);
    let from = seen.now as f64 - (limits.count("window_seconds") * 1000) as f64;
    let released = seen.sent.name() == "ff_release_admission";
    let lost = seen.before().ranked(&name).into_iter().find(|entry| {
        entry.1 > from && !after.contains(entry) && !(released && is_unused(seen, entry.0))
    });
    rule(lost.is_none(), || format!("{lost:?} left the window"))?;
    let burnt = after.iter().find(|entry| released && is_unused(seen, entry.0));
    rule(burnt.is_none(), || format!("{burnt:?} never ran, and is within the window"))?;
    let passed = seen.answer.word == "ADMITTED" && gate == gate_of(seen);
    let entry = format!("{}:{}", seen.sent.text("execution_id"), seen.sent.text("lease_epoch"));
    let counts = after.iter().any(|(other, _)| *other == entry);
    rule(!passed || counts, || "somebody passed, and is not within the window".to_owned())
}

/// Is this the lease of an item that says that it never ran?
fn is_unused(seen: &Seen<'_>, entry: &str) -> bool {
    seen.sent.rest().chunks(5).any(|item| {
        let text = |place: usize| item.get(place).map_or("", |it| str::from_utf8(it).unwrap_or(""));
        format!("{}:{}", text(2), text(3)) == entry && text(4) == "0"
    })
}

/// A read tells how many run and how many are within the window.
fn described(seen: &Seen<'_>) -> Checked {
    let (view, gate) = (seen.after(), gate_of(seen));
    let Some(limits) = policy(view, &gate) else { return Err("no policy".to_owned()) };
    let running = view.ranked(&format!("holders:{gate}")).len() as u64;
    let in_window = limits
        .number("max_requests_per_window")
        .map_or(0, |_| within(view, &gate, limits, seen.now));
    let told =
        [2, 3].map(|place| seen.answer.values.get(place).and_then(super::super::quotas::number));
    rule(told == [Some(running), Some(in_window)], || {
        format!("told {told:?} instead of {running} and {in_window}")
    })
}
