//! Budgets: a lease passes if, and only if, the hard limits have room for what it reserves, by a
//! second reading of what is stored; nothing is promised beyond a hard limit, what was used counts,
//! and what was promised to a lease is known to come back.

use std::collections::BTreeMap;

use ff_script::dump::Dump;

use super::super::budgets;
use super::super::view::{Fields, View};
use super::super::world::{ALL, BUDGETS};
use super::gates::{hashes, is_owed};
use super::{Checked, Seen, rule};

type Amounts = BTreeMap<String, u64>;

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if seen.sent.partition != BUDGETS {
        return Ok(());
    }
    answered(seen)?;
    if seen.before == seen.after {
        return Ok(());
    }
    for (id, after) in budgets_of(seen.after) {
        if let Some(before) = budget(seen.before(), id) {
            promised(seen, before, after).map_err(|it| format!("{id}: {it}"))?;
        }
    }
    Ok(())
}

fn budget<'a>(view: View<'a>, id: &str) -> Option<Fields<'a>> {
    view.hash(&format!("budget:{id}")).filter(|budget| budget.bytes("created_at").is_some())
}

fn budgets_of(dump: &Dump) -> impl Iterator<Item = (&str, Fields<'_>)> {
    let all = hashes(dump, BUDGETS, "budget:");
    all.filter(|(id, budget)| !id.contains(':') && budget.bytes("created_at").is_some())
}

/// The numbers of a hash behind a prefix.
fn amounts(hash: Fields<'_>, prefix: &str) -> Amounts {
    let names = hash.0.keys().filter_map(|name| std::str::from_utf8(name).ok());
    let own = names.filter_map(|name| Some((name.strip_prefix(prefix)?, hash.number(name)?)));
    own.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// What the call names.
fn asked(seen: &Seen<'_>) -> Amounts {
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let pairs = seen.sent.rest().chunks(2);
    pairs.map(|pair| (text(&pair[0]), text(&pair[1]).parse().unwrap_or(0))).collect()
}

fn of(all: &Amounts, name: &str) -> u64 {
    all.get(name).copied().unwrap_or(0)
}

/// What an execution has of a budget.
struct User<'a> {
    known: Option<Fields<'a>>,
    reports: Option<Fields<'a>>,
}

impl<'a> User<'a> {
    fn of(seen: &Seen<'a>) -> Self {
        let (id, execution) = (seen.sent.text("budget_id"), seen.sent.text("execution_id"));
        let key = format!("budget:{id}:of:{execution}");
        let view = seen.before();
        Self { known: view.hash(&key), reports: view.hash(&format!("{key}:reports")) }
    }

    fn count(&self, name: &str) -> u64 {
        self.known.map_or(0, |known| known.count(name))
    }

    fn promised(&self) -> Amounts {
        self.known.map_or_else(Amounts::new, |known| amounts(known, "r:"))
    }

    /// Why it may not report; nothing if it may.
    fn refusal(&self, epoch: u64) -> Option<&'static str> {
        match (self.count("admitted"), self.count("released")) {
            (admitted, _) if admitted == epoch => None,
            (0, 0) => Some("no_active_lease"),
            _ => Some("stale_lease"),
        }
    }

    /// Has it reported under this key?
    fn knows(&self, key: &str) -> bool {
        !key.is_empty() && self.reports.is_some_and(|reports| reports.bytes(key).is_some())
    }
}

/// Is a hard limit in the way of so much more?
fn lacks(budget: Fields<'_>, wanted: &Amounts, given_back: &Amounts) -> bool {
    let (used, reserved) = (amounts(budget, "used:"), amounts(budget, "reserved:"));
    amounts(budget, "hard:").into_iter().any(|(name, hard)| {
        let taken = of(&used, &name) + of(&reserved, &name) - of(given_back, &name);
        taken >= hard || taken + of(wanted, &name) > hard
    })
}

fn reaches(budget: Fields<'_>, kind: &str) -> bool {
    let used = amounts(budget, "used:");
    amounts(budget, kind).into_iter().any(|(name, limit)| of(&used, &name) >= limit)
}

fn answered(seen: &Seen<'_>) -> Checked {
    let is = seen.answer.word.as_str();
    let right: &[&str] = match seen.sent.name() {
        "ff_check_budget_and_reserve" => &[passed(seen)],
        "ff_report_usage_and_check" => reported(seen)?,
        "ff_reserve_usage" => reserved(seen),
        _ => return Ok(()),
    };
    rule(right.contains(&is), || format!("a budget answered {is} instead of {right:?}"))
}

fn passed(seen: &Seen<'_>) -> &'static str {
    let Some(budget) = budget(seen.before(), seen.sent.text("budget_id")) else {
        return "budget_not_found";
    };
    let (user, epoch) = (User::of(seen), seen.sent.number("lease_epoch"));
    let (admitted, released) = (user.count("admitted"), user.count("released"));
    match () {
        () if epoch == admitted => "ALREADY_ADMITTED",
        () if epoch <= released.max(admitted) => "stale_lease",
        () if lacks(budget, &asked(seen), &user.promised()) => "BUDGET_EXCEEDED",
        () => "ADMITTED",
    }
}

/// What was said before under a key is told again, or was something else.
const TOLD_BEFORE: &[&str] = &["ALREADY_APPLIED", "idempotency_conflict"];

/// Why the call may not count: nobody may report, or has done so before.
fn refused(seen: &Seen<'_>) -> Option<&'static [&'static str]> {
    if budget(seen.before(), seen.sent.text("budget_id")).is_none() {
        return Some(&["budget_not_found"]);
    }
    let user = User::of(seen);
    match user.refusal(seen.sent.number("lease_epoch")) {
        Some("stale_lease") => Some(&["stale_lease"]),
        Some(_) => Some(&["no_active_lease"]),
        None => user.knows(seen.sent.text("dedup_key")).then_some(TOLD_BEFORE),
    }
}

/// What was used counts, whatever the limits say.
fn reported(seen: &Seen<'_>) -> Result<&'static [&'static str], String> {
    if let Some(refused) = refused(seen) {
        return Ok(refused);
    }
    let id = seen.sent.text("budget_id");
    let (before, after) = (budget(seen.before(), id), budget(seen.after(), id));
    let (Some(before), Some(after)) = (before, after) else { return Err("no budget".to_owned()) };
    let (was, is, promised) =
        (amounts(before, "used:"), amounts(after, "used:"), User::of(seen).promised());
    let (held, left) = (amounts(before, "reserved:"), amounts(after, "reserved:"));
    for (name, more) in asked(seen) {
        let right = of(&was, &name) + more;
        rule(of(&is, &name) == right, || format!("{name}: used {is:?} instead of {right}"))?;
        let right = of(&held, &name) - more.min(of(&promised, &name));
        rule(of(&left, &name) == right, || format!("{name}: promised {left:?}, not {right}"))?;
    }
    Ok(match () {
        () if reaches(after, "hard:") => &["HARD_BREACH"],
        () if reaches(after, "soft:") => &["SOFT_BREACH"],
        () => &["OK"],
    })
}

fn reserved(seen: &Seen<'_>) -> &'static [&'static str] {
    if let Some(refused) = refused(seen) {
        return refused;
    }
    let lacks = budget(seen.before(), seen.sent.text("budget_id"))
        .is_some_and(|budget| lacks(budget, &asked(seen), &Amounts::new()));
    if lacks { &["budget_exceeded"] } else { &["OK"] }
}

/// Who may take back what was promised.
const GIVES_BACK: [&str; 4] = [
    "ff_release_budget",
    "ff_forget_usage",
    "ff_report_usage_and_check",
    "ff_check_budget_and_reserve",
];

/// What is promised fits under the hard limits, and goes back when its lease is over.
fn promised(seen: &Seen<'_>, before: Fields<'_>, after: Fields<'_>) -> Checked {
    let (was, is) = (amounts(before, "reserved:"), amounts(after, "reserved:"));
    let (used, hard) = (amounts(after, "used:"), amounts(after, "hard:"));
    for (name, reserved) in &is {
        let taken = reserved + of(&used, name);
        let fits = hard.get(name).is_some_and(|hard| taken <= *hard);
        rule(fits || *reserved <= of(&was, name), || {
            format!("{taken} {name} are used and promised, of {hard:?}")
        })?;
    }
    let back = was.iter().any(|(name, reserved)| of(&is, name) < *reserved);
    rule(!back || GIVES_BACK.contains(&seen.sent.name()), || "a promise was broken".to_owned())
}

/// No reservation is lost: whoever passed a budget runs under the lease that passed, or its release
/// is owed.
pub(super) fn every_promise_comes_back(dump: &Dump) -> Checked {
    for (name, usage) in hashes(dump, BUDGETS, "budget:") {
        let Some((id, execution)) = name.split_once(":of:") else { continue };
        let Some(epoch) = usage.number("admitted") else { continue };
        if execution.ends_with(":reports") || budget(View::new(dump, BUDGETS), id).is_none() {
            continue;
        }
        rule(is_owed(dump, execution, epoch), || {
            format!("{execution} has of {id} under {epoch} what nobody gives back")
        })?;
    }
    Ok(())
}

/// Would a budget let everybody pass who waits for it, if nobody else has been promised that? What
/// the one who was refused last wants decides when the next ones are let try.
pub(super) fn has_room(dump: &Dump, gate: &str, now: u64) -> bool {
    let view = View::new(dump, BUDGETS);
    let promised = view.hash(&format!("openings:{gate}"));
    if promised.is_some_and(|it| it.count("promised") > 0 && it.count("until") > now) {
        return false;
    }
    let Some(budget) = budget(view, &gate[2..]) else { return true };
    let waiting = ALL.into_iter().flat_map(|partition| {
        let view = View::new(dump, partition);
        let waiting = view.ranked(&format!("gate:{gate}")).into_iter();
        waiting.filter_map(move |(uuid, _)| budgets::of(view, uuid))
    });
    let mut wanted = waiting.map(|(_, reserves)| {
        let words = budgets::words(&reserves).0;
        words.chunks(2).map(|it| (it[0].clone(), it[1].parse().unwrap_or(0))).collect::<Amounts>()
    });
    wanted.all(|wanted| !lacks(budget, &wanted, &Amounts::new()))
}

/// Is anything promised to anybody?
pub(in super::super) fn promises(dump: &Dump) -> bool {
    let reserved = |(_, budget): (&str, Fields<'_>)| amounts(budget, "reserved:");
    budgets_of(dump).flat_map(reserved).any(|(_, amount)| amount > 0)
}
