//! I5, I9: what is used and promised of a budget is what its executions used and were promised.

use std::collections::BTreeMap;

use super::contents::{Contents, Hash};
use super::keys::{Place, is_uuid};
use super::record::{field, number};
use super::{Findings, shown};
use crate::dump::Stored;

pub(super) fn check<'a>(contents: &Contents<'a>, found: &mut Findings) {
    for (place, stored) in &contents.places {
        let stored: &'a Stored = stored;
        let wrong = match (place, stored) {
            (Place::Budget(id), Stored::Hash(budget)) => wrong_budget(contents, id, budget),
            (Place::Budgets, Stored::SortedSet(ids)) => {
                let there = |id: &'a Vec<u8>| {
                    let id = std::str::from_utf8(id).ok();
                    id.is_some_and(|id| contents.hash(&Place::Budget(id)).is_some())
                };
                (!ids.keys().all(there)).then(|| "lists a budget that is not there".to_owned())
            }
            (Place::Usage(id, execution), Stored::Hash(usage)) => {
                wrong_user(contents, id, execution, usage)
            }
            (Place::Reports(id, execution), _) => {
                let there = contents.hash(&Place::Usage(id, execution)).is_some();
                (!there).then(|| "belongs to nobody who used the budget".to_owned())
            }
            (Place::BudgetList(uuid), Stored::String(text)) => wrong_list(contents, uuid, text),
            (Place::Attached, Stored::Hash(attached)) => wrong_attached(attached),
            _ => None,
        };
        if let Some(what) = wrong {
            let invariant = if matches!(place, Place::Budget(_)) { "I5" } else { "I9" };
            found.add(invariant, contents.key(place), what);
        }
    }
}

/// What is known of a removed budget goes bit by bit, as its users are listed. Of one that never
/// passed only its release is known.
fn wrong_user<'a>(
    contents: &Contents<'a>,
    id: &'a str,
    execution: &str,
    usage: &Hash,
) -> Option<String> {
    let users = contents.scores(&Place::Users(id));
    let listed = users.is_some_and(|users| users.contains_key(execution.as_bytes()));
    (!listed && usage.contains_key(&b"admitted"[..]))
        .then(|| "is not listed among those who used the budget".to_owned())
}

/// What each execution has of a budget.
fn usages<'a>(contents: &Contents<'a>, id: &'a str) -> impl Iterator<Item = &'a Hash> {
    let own = contents.places.range(Place::Usage(id, "")..);
    own.map_while(move |(place, stored)| match (place, *stored) {
        (Place::Usage(of, _), Stored::Hash(usage)) if *of == id => Some(usage),
        _ => None,
    })
}

/// The amounts behind a prefix, by dimension.
fn amounts(hash: &Hash, prefix: &str) -> BTreeMap<Vec<u8>, i64> {
    let behind = |(name, value): (&Vec<u8>, &Vec<u8>)| {
        let dimension = name.strip_prefix(prefix.as_bytes())?.to_vec();
        Some((dimension, number(value)?))
    };
    hash.iter().filter_map(behind).filter(|(_, amount)| *amount != 0).collect()
}

fn add(all: &mut BTreeMap<Vec<u8>, i64>, more: BTreeMap<Vec<u8>, i64>) {
    for (name, amount) in more {
        *all.entry(name).or_insert(0) += amount;
    }
}

fn wrong_budget<'a>(contents: &Contents<'a>, id: &'a str, budget: &Hash) -> Option<String> {
    if !budget.contains_key(&b"created_at"[..]) {
        return Some("is no budget".to_owned());
    }
    let (mut used, mut reserved) = (amounts(budget, "other:"), BTreeMap::new());
    for usage in usages(contents, id) {
        if usage.get(&b"period"[..]) == budget.get(&b"period"[..]) {
            add(&mut used, amounts(usage, "u:"));
        }
        add(&mut reserved, amounts(usage, "r:"));
    }
    if used != amounts(budget, "used:") {
        return Some("counts something else than its executions used".to_owned());
    }
    if reserved != amounts(budget, "reserved:") {
        return Some("has promised something else than its executions were".to_owned());
    }
    None
}

/// Ids joined by commas, a semicolon, and what is reserved.
fn wrong_list(contents: &Contents<'_>, uuid: &str, text: &[u8]) -> Option<String> {
    let Some(record) = contents.records.get(uuid) else {
        return Some("belongs to no execution".to_owned());
    };
    let ids = text.split(|byte| *byte == b';').next().unwrap_or_default();
    let ids: Vec<&[u8]> = ids.split(|byte| *byte == b',').collect();
    let whole = ids.iter().all(|id| is_uuid(id));
    let counted = record.number(field::BUDGETS) == i64::try_from(ids.len()).ok();
    (!whole || !counted).then(|| "is no list of its budgets".to_owned())
}

fn wrong_attached(attached: &Hash) -> Option<String> {
    let wrong = attached.iter().find(|(scope, ids)| {
        let uuid = scope.strip_prefix(b"flow:").or_else(|| scope.strip_prefix(b"execution:"));
        !uuid.is_some_and(is_uuid) || !ids.split(|byte| *byte == b',').all(is_uuid)
    });
    wrong.map(|(scope, _)| format!("{} cannot be read", shown(scope)))
}
