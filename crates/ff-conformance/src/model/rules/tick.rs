//! I10: a tick does everything that is due, and says when it is next needed.

use ff_script::value::Value;

use super::super::view::{TIMED, View};
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
    let fired = [promoted, lapsed, timed_out, expired, ungranted, forgotten];
    let fired: u64 = fired.into_iter().flatten().sum();
    let items_max = seen.sent.number("items_max");
    let overdue = overdue(seen.before(), "due", seen.now);
    rule(fired == overdue.min(items_max), || format!("{fired} fired, {overdue} were due"))?;
    let over: u64 =
        TIMED[1..].iter().map(|index| self::overdue(seen.before(), index, seen.now)).sum();
    let room = items_max - fired;
    rule(purged == Some(over.min(room)), || format!("{purged:?} purged, {over} were over"))?;
    let left = self::overdue(seen.after(), "due", seen.now);
    rule(left == overdue - fired, || format!("{left} of {overdue} are still due"))?;
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

fn overdue(view: View<'_>, index: &str, now: u64) -> u64 {
    view.ranked(index).into_iter().filter(|(_, at)| *at <= now as f64).count() as u64
}

fn first(view: View<'_>) -> Option<u64> {
    let heads = TIMED.iter().filter_map(|index| view.ranked(index).first().map(|(_, at)| *at));
    heads.map(|at| at as u64).min()
}
