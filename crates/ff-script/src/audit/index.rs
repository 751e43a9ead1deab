//! I1, I5: where every execution must be listed and at which score, compared with where it is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ff_core::limits;
use ff_core::need::Need;

use super::contents::{Contents, Scores};
use super::keys::Place;
use super::record::{Record, State, field};
use super::{Findings, flows, gates, shown, streams, waitpoints, workers};

/// A step of priority outweighs any age unless the policy says how much age it is worth.
const STRICT_STEP: i64 = 1_000_000_000_000;

/// Members with their scores, as the records call for them: in the order of their bytes, once
/// they are put in order, as those that are there.
type Wanted<'a> = Vec<(Cow<'a, [u8]>, i64)>;

pub(super) fn check(contents: &Contents<'_>, found: &mut Findings) {
    let wanted = wanted(contents);
    let none = Wanted::new();
    // Who was served in a fair lane is no index of executions, nor are lanes, what is
    // owed to others, and budgets with their users. Who waits for a key is listed by since when,
    // which no record tells.
    let is_other = |place: &&Place<'_>| {
        matches!(
            place,
            Place::Shares(_)
                | Place::LaneUses
                | Place::Outbox
                | Place::Queued
                | Place::Turns(_)
                | Place::Budgets
                | Place::Users(_)
        )
    };
    let indexes = contents.places.keys().filter(|place| !is_other(place));
    for place in indexes {
        if let Some(scores) = contents.scores(place) {
            compare(contents, place, scores, wanted.get(place).unwrap_or(&none), found);
        }
    }
    let empty = Scores::new();
    for (place, wanted) in &wanted {
        if contents.scores(place).is_none() {
            compare(contents, place, &empty, wanted, found);
        }
    }
    lost_remnants(contents, found);
    check_needs(contents, found);
}

/// Every queue is among those that a look at its lane finds, and what is among them is a need. One
/// whose queue is empty may stay until somebody looks.
fn check_needs(contents: &Contents<'_>, found: &mut Findings) {
    for place in contents.places.keys() {
        if let Place::Queue(name) = place {
            let (lane, need) = name.split_once(':').unwrap_or_default();
            let needs = contents.set(&Place::Needs(lane));
            if needs.is_none_or(|needs| !needs.contains(need.as_bytes())) {
                found.add("I1", contents.key(place), "is not among the needs of its lane");
            }
        }
        if let Place::Needs(lane) = place {
            check_needs_of(contents, place, lane, found);
        }
    }
    let queued = contents.scores(&Place::Queued);
    for lane in queued.into_iter().flat_map(Scores::keys) {
        let name = std::str::from_utf8(lane).unwrap_or_default();
        if contents.set(&Place::Needs(name)).is_none() {
            let what = format!("has {}, a lane without needs", shown(lane));
            found.add("I1", contents.key(&Place::Queued), what);
        }
    }
}

fn check_needs_of(contents: &Contents<'_>, place: &Place<'_>, lane: &str, found: &mut Findings) {
    for need in contents.set(place).into_iter().flatten().filter(|need| !is_need(need)) {
        let what = format!("has {}, which is no need", shown(need));
        found.add("I9", contents.key(place), what);
    }
    let queued = contents.scores(&Place::Queued);
    if queued.is_none_or(|lanes| !lanes.contains_key(lane.as_bytes())) {
        found.add("I1", contents.key(place), "is of a lane that is not among those with needs");
    }
}

fn is_need(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Need>().is_ok())
}

/// Compares the members that are there with those that are wanted, both in order.
fn compare(
    contents: &Contents<'_>,
    place: &Place<'_>,
    scores: &Scores,
    wanted: &Wanted<'_>,
    found: &mut Findings,
) {
    let mut wrong = |member: &[u8], what: String| {
        found.add(invariant(place, member), contents.key(place), what);
    };
    let mut wanted = wanted.iter().peekable();
    for (member, score) in scores {
        let is_before = |(other, _): &&(Cow<'_, [u8]>, i64)| **other < **member;
        while let Some((missing, _)) = wanted.next_if(is_before) {
            wrong(missing, format!("does not list {}", shown(missing)));
        }
        let right = wanted.next_if(|(other, _)| **other == **member).map(|(_, score)| *score);
        if right.is_some_and(|it| it as f64 == *score) || is_left_over(contents, place, member) {
            continue;
        }
        wrong(
            member,
            match right {
                Some(right) => format!("lists {} at {score} instead of {right}", shown(member)),
                None => format!("lists {}, which does not belong there", shown(member)),
            },
        );
    }
    for (missing, _) in wanted {
        wrong(missing, format!("does not list {}", shown(missing)));
    }
}

/// What is left of a purged execution stays in two lists, until its time is over.
fn is_left_over(contents: &Contents<'_>, place: &Place<'_>, member: &[u8]) -> bool {
    let uuid = std::str::from_utf8(member).unwrap_or_default();
    let Some(remnant) = contents.remnants.get(uuid) else { return false };
    match place {
        Place::All => true,
        Place::Ended(outcome) => remnant.gone_as() == Some(*outcome),
        _ => false,
    }
}

/// A remnant that is not among the ended ones would stay for ever.
fn lost_remnants(contents: &Contents<'_>, found: &mut Findings) {
    for (uuid, remnant) in &contents.remnants {
        let listed = |place: &Place<'_>| {
            contents.scores(place).is_some_and(|scores| scores.contains_key(uuid.as_bytes()))
        };
        let outcome = remnant.gone_as();
        if !listed(&Place::All) || !outcome.is_some_and(|it| listed(&Place::Ended(it))) {
            found.add("I1", remnant.name(), "is left of a purge but not listed to go");
        }
    }
}

fn invariant(place: &Place<'_>, member: &[u8]) -> &'static str {
    match place {
        Place::All => "I5",
        Place::Due if member.starts_with(workers::DUE_PREFIX) => "I9",
        Place::Due if member.starts_with(streams::DUE_PREFIX) => "I9",
        Place::Due if member.starts_with(waitpoints::DUE_PREFIX) => "I7",
        Place::Due if flows::is_due(member) => "I6",
        Place::Flows | Place::Owing | Place::Members(_) => "I6",
        _ => "I1",
    }
}

/// Every index as the records and the workers call for it.
fn wanted<'a>(contents: &Contents<'a>) -> BTreeMap<Place<'a>, Wanted<'a>> {
    let mut wanted: BTreeMap<Place<'a>, Wanted<'a>> = BTreeMap::new();
    for record in contents.records.values() {
        for (place, score) in places(record) {
            let member = Cow::Borrowed(record.uuid.as_bytes());
            wanted.entry(place).or_default().push((member, score));
        }
    }
    let others = workers::due(contents)
        .chain(streams::due(contents))
        .chain(waitpoints::due(contents))
        .chain(flows::due(contents));
    for (member, until) in others {
        wanted.entry(Place::Due).or_default().push((Cow::Owned(member), until));
    }
    for (place, member, score) in flows::listed(contents) {
        wanted.entry(place).or_default().push((Cow::Borrowed(member), score));
    }
    wanted.values_mut().for_each(put_in_order);
    wanted
}

/// Of those who are wanted twice, the last counts.
fn put_in_order(wanted: &mut Wanted<'_>) {
    wanted.sort_by(|(one, _), (other, _)| one.cmp(other));
    wanted.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 = later.1;
        }
        same
    });
}

fn places<'a>(record: &Record<'a>) -> impl Iterator<Item = (Place<'a>, i64)> {
    let all = (Place::All, record.count(field::CREATED_AT));
    let state = record.state();
    let live = state.filter(|state| !state.is_ended());
    let queue = live
        .filter(|state| state.is_claimable() && !record.has(field::GRANT_EXPIRES_AT))
        .map(|_| (Place::Queue(Cow::Owned(queue_name(record))), queue_score(record)));
    let times = if state == Some(State::Running) { Place::Leases } else { Place::Due };
    let due = live.and_then(|state| due_at(record, state)).map(|at| (times, at));
    let suspended = (state == Some(State::Suspended))
        .then(|| (Place::Suspended, record.count(field::TRANSITION_AT)));
    let parked = live.and(record.number(field::PARKED_AT)).map(|at| (Place::Parked, at));
    let ended = state.and_then(|state| match state {
        State::Ended(outcome) => Some((Place::Ended(outcome), purge_at(record))),
        _ => None,
    });
    let gate = gates::waits_at(record).filter(|_| state == Some(State::Parked));
    let gate = gate.map(|gate| (Place::Gate(Cow::Owned(gate)), queue_score(record)));
    [Some(all), queue, due, suspended, parked, ended, gate].into_iter().flatten()
}

/// The lane of an execution, and what it needs of a worker.
pub(super) fn queue_name(record: &Record<'_>) -> String {
    let text = |field| record.text(field);
    let (lane, need) = (text(field::LANE), need(record));
    format!("{lane}:{need}")
}

fn need(record: &Record<'_>) -> String {
    let (namespace, kind) = (record.text(field::NAMESPACE), record.text(field::KIND));
    match record.text(field::CAPABILITIES) {
        "" => format!("{namespace}:{kind}"),
        required => format!("{namespace}:{kind}:{required}"),
    }
}

/// Lowest first: by the rank in a fair lane; old before young, a high priority before a low one in
/// others.
fn queue_score(record: &Record<'_>) -> i64 {
    if let Some(rank) = record.number(field::FAIR_RANK) {
        return rank;
    }
    let step = record.number(field::AGEING_MS).unwrap_or(STRICT_STEP);
    record.count(field::CREATED_AT) - record.count(field::PRIORITY) * step
}

/// The first of the times that can come for an execution in this state.
fn due_at(record: &Record<'_>, state: State) -> Option<i64> {
    let by_state = match state {
        State::Running => {
            [record.number(field::LEASE_EXPIRES_AT), record.number(field::TIMEOUT_AT)]
        }
        State::Delayed => [record.number(field::DELAY_UNTIL), None],
        State::Suspended => [record.number(field::SUSPEND_UNTIL), None],
        _ => [None, None],
    };
    let always = [record.number(field::DEADLINE_AT), record.number(field::GRANT_EXPIRES_AT)];
    by_state.into_iter().chain(always).flatten().min()
}

/// A member of a flow goes with its flow.
fn purge_at(record: &Record<'_>) -> i64 {
    if record.has(field::FLOW_ID) {
        return limits::TIMESTAMP_MS_MAX as i64;
    }
    let unsaid_ms = match record.text(field::STATE) {
        "failed" | "expired" => limits::FAILED_RETENTION_MS_DEFAULT,
        _ => limits::RETENTION_MS_DEFAULT,
    };
    let kept_ms = record.number(field::RETENTION_MS).unwrap_or(unsaid_ms as i64);
    let kept_until = record.count(field::ENDED_AT) + kept_ms;
    kept_until.max(record.count(field::REMEMBERED_UNTIL))
}
