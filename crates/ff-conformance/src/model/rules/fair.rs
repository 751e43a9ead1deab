//! Fair lanes: whoever has nothing waiting is next, and whoever has much is in its own way alone.

use std::collections::BTreeMap;

use ff_script::dump::Stored;

use super::super::view::{View, field};
use super::super::world::FAIR;
use super::{Checked, Seen, rule};

/// How far one turn is from the next, where there are no weights.
const SHARE: f64 = 2.0;

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let Some(since) = since(seen.before(), FAIR) else { return Ok(()) };
    let (before, after) = (waiting(seen.before()), waiting(seen.after()));
    for (tenant, ranks) in &after {
        let apart = ranks.windows(2).all(|pair| pair[1].1 - pair[0].1 >= SHARE);
        rule(apart, || format!("{tenant} has several in one turn: {ranks:?}"))?;
        let was_there = |uuid: &str| {
            before.get(tenant).is_some_and(|known| known.iter().any(|(other, _)| *other == uuid))
        };
        let mut new = ranks.iter().filter(|(uuid, _)| !was_there(uuid));
        if let (None, Some((uuid, rank)), None) = (before.get(tenant), new.next(), new.next()) {
            let turn = turn(seen.before(), tenant).max(since);
            rule(*rank <= turn, || {
                format!("{uuid} of {tenant}, which has nothing else, is at {rank} behind {turn}")
            })?;
        }
    }
    Ok(())
}

/// Since when a lane is fair in a partition, if it is.
pub(super) fn since(view: View<'_>, lane: &str) -> Option<f64> {
    let Some(Stored::Hash(facts)) = view.stored("facts") else { return None };
    let settings = facts.get(format!("lane:{lane}").as_bytes())?;
    let settings: serde_json::Value = serde_json::from_slice(settings).ok()?;
    settings.get("fair_since")?.as_f64()
}

/// What waits in the fair lane, by namespace, each with its rank.
fn waiting(view: View<'_>) -> BTreeMap<&str, Vec<(&str, f64)>> {
    let mut by_tenant: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for (uuid, rank) in view.queued(FAIR) {
        let tenant = view.record(uuid).map_or("", |record| record.text(field::NAMESPACE));
        by_tenant.entry(tenant).or_default().push((uuid, rank));
    }
    by_tenant
}

/// The turn of somebody who has nothing waiting: the current one, or behind what it had last.
fn turn(view: View<'_>, tenant: &str) -> f64 {
    let shares = view.ranked(&format!("shares:{FAIR}"));
    let rank = |name: &str| shares.iter().find(|(member, _)| *member == name).map(|(_, at)| *at);
    let own = rank(&format!("key:{tenant}")).map_or(0.0, |latest| latest + SHARE);
    rank("served").unwrap_or(0.0).max(own)
}
