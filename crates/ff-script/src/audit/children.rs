//! I6: children. A parent lists all of its children, counts those that are not over, and stands
//! behind each of them in the order of its flow.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::contents::Contents;
use super::flows::lines;
use super::keys::Place;
use super::record::{Record, State, field};

/// Is an attempt paused until children are over that are not?
pub(super) fn are_awaited(record: &Record<'_>) -> bool {
    record.text(field::NEXT_ATTEMPT) == "resume"
        && record.text(field::PAUSE_KIND) == "children"
        && record.count(field::OPEN_CHILDREN) > 0
}

/// Checks the members of one flow.
pub(super) fn check(contents: &Contents<'_>, members: &[&Record<'_>], found: &mut Findings) {
    let by_uuid: BTreeMap<&str, &Record<'_>> =
        members.iter().map(|member| (member.uuid, *member)).collect();
    let mut children: BTreeMap<&str, Vec<&Record<'_>>> = BTreeMap::new();
    for child in members.iter().filter(|member| member.has(field::PARENT)) {
        match by_uuid.get(child.text(field::PARENT)) {
            None => found.add("I6", child.name(), "is the child of nobody of its flow"),
            Some(parent) => {
                children.entry(parent.uuid).or_default().push(child);
                if child.count(field::RANK) >= parent.count(field::RANK) {
                    found.add("I6", child.name(), "does not stand before its parent");
                }
            }
        }
    }
    for member in members {
        let own = children.remove(member.uuid).unwrap_or_default();
        for what in wrong_counts(contents, member, &own) {
            found.add("I6", member.name(), what);
        }
    }
}

fn wrong_counts(
    contents: &Contents<'_>,
    parent: &Record<'_>,
    children: &[&Record<'_>],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let listed = lines(contents, Place::Children(parent.uuid));
    let distinct: BTreeSet<&[u8]> = listed.iter().map(Vec::as_slice).collect();
    let right: BTreeSet<&[u8]> = children.iter().map(|child| child.uuid.as_bytes()).collect();
    if distinct != right || listed.len() != children.len() {
        wrong.push("lists other children than it has".to_owned());
    }
    let is_open = |child: &&&Record<'_>| !child.state().is_some_and(State::is_ended);
    let open = children.iter().filter(is_open).count() as i64;
    for (field, right) in [(field::CHILDREN, children.len() as i64), (field::OPEN_CHILDREN, open)] {
        let told = parent.count(field);
        if told != right {
            let name = if field == field::CHILDREN { "children" } else { "open children" };
            wrong.push(format!("counts {told} {name} and has {right}"));
        }
    }
    wrong
}
