//! I10: a tick does everything that is due, and says when it is next needed.

use ff_script::value::Value;

use super::super::view::{LIVE, TIMED, View};
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if seen.sent.name() != "ff_tick" {
        return Ok(());
    }
    let numbers: Vec<Option<u64>> = seen.answer.values.iter().map(number).collect();
    let [_, next, late_ms, ref counts @ ..] = numbers[..] else {
        return Err(format!("a tick answered {:?}", seen.answer));
    };
    let [promoted, lapsed, timed_out, expired, ungranted, purged, forgotten, corrected] =
        counts[..]
    else {
        return Err(format!("a tick answered {:?}", seen.answer));
    };
    let late = first(seen.before()).map_or(0, |at| seen.now.saturating_sub(at));
    rule(late_ms == Some(late), || format!("{late_ms:?} ms late instead of {late}"))?;
    rule(corrected == Some(0), || format!("{corrected:?} wrong entries had to be corrected"))?;
    let items_max = seen.sent.number("items_max") as usize;
    let due = overdue(seen.before(), LIVE.iter(), seen.now);
    let fired: Vec<&str> = due.iter().copied().take(items_max).collect();
    let workers = fired.iter().filter(|member| member.starts_with("w:")).count() as u64;
    let told: u64 = [promoted, lapsed, timed_out, expired, ungranted].into_iter().flatten().sum();
    rule(told + workers == fired.len() as u64, || format!("{told} fired, {} due", due.len()))?;
    let over = overdue(seen.before(), TIMED[LIVE.len()..].iter(), seen.now);
    let over = &over[..over.len().min(items_max - fired.len())];
    let whole = over.iter().filter(|uuid| seen.before().record(uuid).is_some()).count() as u64;
    rule(purged == Some(whole), || format!("{purged:?} purged, {whole} were over"))?;
    let rest = over.len() as u64 - whole + workers;
    rule(forgotten == Some(rest), || format!("{forgotten:?} forgotten instead of {rest}"))?;
    let left = overdue(seen.after(), LIVE.iter(), seen.now).len();
    rule(left == due.len() - fired.len(), || format!("{left} of {} are still due", due.len()))?;
    let first = first(seen.after());
    rule(next == first, || format!("next needed at {next:?}, said {first:?}"))
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
    heads.map(|at| at as u64).min()
}
