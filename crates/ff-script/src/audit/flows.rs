//! I6: flows. Every count is that of the members, every edge is listed at both ends, and whoever
//! waits does so for somebody who is not over, or who is about to tell.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::limits;
use ff_core::state::TerminalOutcome;

use super::children;
use super::contents::{Contents, Hash};
use super::keys::{Place, is_uuid};
use super::record::{Record, State, field, number};
use super::{Findings, shown};

/// What tells a flow from an execution in the index of times.
const DUE_PREFIX: &[u8] = b"f:";

/// What stands there for an execution whose end not all of its edges were told.
const EDGES_PREFIX: &[u8] = b"e:";

/// What stands there for a member whose other upstreams are still to be cancelled.
const REST_PREFIX: &[u8] = b"r:";

/// Is this an entry of the index of times that is about a flow?
pub(super) fn is_due(member: &[u8]) -> bool {
    [DUE_PREFIX, EDGES_PREFIX, REST_PREFIX].iter().any(|prefix| member.starts_with(prefix))
}

/// The fields of a flow whose values are numbers.
const NUMBERS: [&str; 16] = [
    "created_at",
    "changed_at",
    "revision",
    "nodes",
    "edges",
    "live",
    "bad",
    "cancelled_at",
    "started_at",
    "ended_at",
    "deadline_at",
    "retention_ms",
    "kept_until",
    "sealed",
    "expired",
    "stuck",
];

/// The fields of a flow that are texts.
const TEXTS: [&str; 9] = [
    "kind",
    "namespace",
    "graph",
    "on_failure",
    "failing",
    "state",
    "cancel_reason",
    "cancel_policy",
    "walk",
];

/// The states in which a member is not over.
const LIVE: [&str; 9] = [
    "held",
    "blocked",
    "waiting",
    "delayed",
    "parked",
    "running",
    "suspended",
    "lapsed",
    "revoked",
];
/// How a member ends.
const ENDS: [&str; 5] = ["success", "failed", "cancelled", "expired", "skipped"];
/// The ends that make a flow fail.
const BAD: [&str; 3] = ["failed", "cancelled", "expired"];

/// A flow as it is stored, with its members.
struct Flow<'a> {
    id: &'a str,
    fields: &'a Hash,
    members: Vec<&'a Record<'a>>,
}

impl<'a> Flow<'a> {
    fn text(&self, name: &str) -> &'a str {
        let bytes = self.fields.get(name.as_bytes());
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name.as_bytes())
    }

    fn number(&self, name: &str) -> Option<i64> {
        number(self.text(name).as_bytes())
    }

    fn count(&self, name: &str) -> i64 {
        self.number(name).unwrap_or(0)
    }

    /// Is it going away, member by member?
    fn is_removed(&self) -> bool {
        self.text("walk").starts_with("remove:")
    }

    /// Does the end of a member free nobody any more?
    fn frees_nobody(&self) -> bool {
        self.has("expired")
            || self.text("state") == "cancelled" && self.text("cancel_policy") != "flow_only"
    }

    fn count_of(&self, words: &[&str]) -> i64 {
        let is_one = |member: &&&Record<'_>| words.contains(&member.state_word());
        self.members.iter().filter(is_one).count() as i64
    }
}

/// How far the upstreams of a member are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dependencies {
    /// How many must be satisfied; none: all.
    needed: Option<i64>,
    edges: i64,
    satisfied: i64,
    impossible: i64,
}

impl Dependencies {
    /// `needed:edges:satisfied:impossible`.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let parts: Vec<&[u8]> = text.split(|byte| *byte == b':').collect();
        let [needed, edges, satisfied, impossible] = parts[..] else { return None };
        let needed = if needed.is_empty() { None } else { Some(number(needed)?) };
        Some(Self {
            needed,
            edges: number(edges)?,
            satisfied: number(satisfied)?,
            impossible: number(impossible)?,
        })
    }

    fn needed(self) -> i64 {
        self.needed.unwrap_or(self.edges)
    }

    fn is_free(self) -> bool {
        self.satisfied >= self.needed()
    }

    fn is_hopeless(self) -> bool {
        !self.is_free() && self.edges - self.impossible < self.needed()
    }
}

/// One edge, as its upstream lists it.
struct Outgoing<'a> {
    down: &'a str,
    kind: &'a str,
    pass: &'a str,
    applied: bool,
    id: &'a str,
    name: &'a str,
}

impl<'a> Outgoing<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let parts: Vec<&str> = std::str::from_utf8(line).ok()?.splitn(6, ':').collect();
        let [down, kind, pass, applied, id, name] = parts[..] else { return None };
        let known = matches!(kind, "s" | "f" | "a")
            && matches!(pass, "0" | "1")
            && matches!(applied, "0" | "1");
        known.then_some(Self { down, kind, pass, applied: applied == "1", id, name })
    }

    /// The line that its downstream must have.
    fn other_end(&self, up: &str, place: usize) -> String {
        format!("{up}:{place}:{}:{}:{}", self.kind, self.pass, self.name)
    }

    fn is_satisfied_by(&self, outcome: TerminalOutcome) -> bool {
        use TerminalOutcome::{Cancelled, Expired, Failed, Success};
        match self.kind {
            "s" => outcome == Success,
            "f" => matches!(outcome, Failed | Expired | Cancelled),
            _ => true,
        }
    }
}

fn flows<'a>(contents: &'a Contents<'a>) -> BTreeMap<&'a str, Flow<'a>> {
    let mut flows = BTreeMap::new();
    for place in contents.places.keys() {
        if let (Place::Flow(id), Some(fields)) = (place, contents.hash(place)) {
            flows.insert(*id, Flow { id, fields, members: Vec::new() });
        }
    }
    for record in contents.records.values() {
        if let Some(flow) = flows.get_mut(record.text(field::FLOW_ID)) {
            flow.members.push(record);
        }
    }
    flows
}

pub(super) fn check(contents: &Contents<'_>, found: &mut Findings) {
    let flows = flows(contents);
    for flow in flows.values() {
        let key = contents.key(&Place::Flow(flow.id));
        let mut wrong = |what: String| found.add("I6", &key, what);
        check_fields(flow, &mut wrong);
        if !flow.is_removed() {
            check_counts(flow, &mut wrong);
            check_end(flow, &mut wrong);
            check_names(contents, flow, &mut wrong);
            check_edges(contents, flow, found);
            children::check(contents, &flow.members, found);
        }
    }
    for record in contents.records.values() {
        if let Some(what) = stray(record, &flows) {
            found.add("I6", record.name(), what);
        }
    }
    for place in contents.places.keys() {
        if let Place::Members(id) | Place::EdgeIds(id) | Place::Stuck(id) | Place::FlowTags(id) =
            place
            && !flows.contains_key(id)
        {
            found.add("I9", contents.key(place), "belongs to no flow");
        }
    }
}

/// What only a member of a flow may have.
const OWN: [super::record::Field; 8] = [
    field::ORDINAL,
    field::DEPENDENCIES,
    field::EDGES_OUT,
    field::HELD,
    field::INPUTS,
    field::PARENT,
    field::CHILDREN,
    field::OPEN_CHILDREN,
];

fn stray(record: &Record<'_>, flows: &BTreeMap<&str, Flow<'_>>) -> Option<&'static str> {
    if record.has(field::FLOW_ID) {
        return (!flows.contains_key(record.text(field::FLOW_ID)))
            .then_some("is a member of a flow that is not there");
    }
    OWN.iter().any(|name| record.has(name)).then_some("is in no flow and has what members have")
}

fn check_fields(flow: &Flow<'_>, wrong: &mut impl FnMut(String)) {
    for (name, value) in flow.fields {
        let text = std::str::from_utf8(name).unwrap_or_default();
        let state = text.strip_prefix("n:");
        let is_count = state.is_some_and(|state| LIVE.contains(&state) || ENDS.contains(&state));
        if is_count || NUMBERS.contains(&text) {
            if number(value).is_none_or(|count| count < 0) {
                wrong(format!("{text} is {:?}", shown(value)));
            }
        } else if !TEXTS.contains(&text) {
            wrong(format!("unknown field {}", shown(name)));
        }
    }
    if !["kind", "namespace", "created_at", "changed_at"].iter().all(|name| flow.has(name)) {
        wrong("lacks what every flow has".to_owned());
    }
}

fn check_counts(flow: &Flow<'_>, wrong: &mut impl FnMut(String)) {
    let mut compare = |name: &str, right: i64| {
        if flow.count(name) != right {
            wrong(format!("{name} is {} and should be {right}", flow.count(name)));
        }
    };
    for state in LIVE.iter().chain(&ENDS) {
        compare(&format!("n:{state}"), flow.count_of(&[state]));
    }
    compare("live", flow.count_of(&LIVE));
    let is_bad =
        |member: &&&Record<'_>| BAD.contains(&member.state_word()) && !member.has(field::OPTIONAL);
    compare("bad", flow.members.iter().filter(is_bad).count() as i64);
    compare("nodes", flow.members.len() as i64);
    compare("edges", flow.members.iter().map(|member| member.count(field::EDGES_OUT)).sum());
    let ordinals: BTreeSet<i64> =
        flow.members.iter().map(|member| member.count(field::ORDINAL)).collect();
    if !ordinals.into_iter().eq(1..=flow.members.len() as i64) {
        wrong("its members are not numbered from 1 on".to_owned());
    }
}

/// A flow that nobody can join is over with its last member, and not before.
fn check_end(flow: &Flow<'_>, wrong: &mut impl FnMut(String)) {
    let (live, ended) = (flow.count_of(&LIVE), flow.has("ended_at"));
    let closed = flow.has("sealed") || flow.has("expired") || flow.text("state") == "cancelled";
    if closed && live == 0 && !flow.has("walk") && !ended {
        wrong("is not over although all of its members are".to_owned());
    }
    if ended && live > 0 {
        wrong("is over although some of its members are not".to_owned());
    }
    let bad = flow.count("bad") > 0;
    let right = match flow.text("state") {
        "" => !ended,
        "cancelled" => flow.has("cancelled_at") && flow.has("cancel_policy"),
        "failed" => ended && bad,
        "completed" => ended && !bad,
        _ => false,
    };
    if !right {
        wrong(format!("is {:?} although it is not", flow.text("state")));
    }
}

/// An edge that a caller named is found by its id, and by its ends.
fn check_names(contents: &Contents<'_>, flow: &Flow<'_>, wrong: &mut impl FnMut(String)) {
    let none = Hash::new();
    let names = contents.hash(&Place::EdgeIds(flow.id)).unwrap_or(&none);
    let mut named = 0;
    for member in &flow.members {
        for (place, line) in lines(contents, Place::Outgoing(member.uuid)).iter().enumerate() {
            let Some(edge) = Outgoing::parse(line).filter(|edge| !edge.id.is_empty()) else {
                continue;
            };
            named += 2;
            let at = format!("{}:{place}", member.uuid);
            let ends = format!("{}:{}", member.uuid, edge.down);
            for name in [edge.id, ends.as_str()] {
                if names.get(name.as_bytes()).map(Vec::as_slice) != Some(at.as_bytes()) {
                    wrong(format!("does not know where the edge {name} is"));
                }
            }
        }
    }
    if names.len() != named {
        wrong("knows an edge that is not there".to_owned());
    }
    let stuck = contents.scores(&Place::Stuck(flow.id));
    if !stuck.is_none_or(|stuck| stuck.keys().all(|uuid| is_uuid(uuid))) {
        wrong("has a stuck member that is no execution".to_owned());
    }
    if stuck.map_or(0, |stuck| stuck.len() as i64) != flow.count("stuck") {
        wrong("counts other stuck members than it lists".to_owned());
    }
}

pub(super) fn lines<'a>(contents: &Contents<'a>, place: Place<'a>) -> &'a [Vec<u8>] {
    contents.list(&place).unwrap_or_default()
}

fn check_edges(contents: &Contents<'_>, flow: &Flow<'_>, found: &mut Findings) {
    let mut incoming: BTreeMap<&str, Vec<(String, Standing)>> = BTreeMap::new();
    let by_uuid: BTreeMap<&str, &Record<'_>> =
        flow.members.iter().map(|member| (member.uuid, *member)).collect();
    for member in &flow.members {
        for what in check_outgoing(contents, member, &by_uuid, &mut incoming) {
            found.add("I6", member.name(), what);
        }
    }
    for member in &flow.members {
        let edges = incoming.remove(member.uuid).unwrap_or_default();
        let listed: BTreeSet<&[u8]> =
            lines(contents, Place::Incoming(member.uuid)).iter().map(Vec::as_slice).collect();
        let right: BTreeSet<&[u8]> = edges.iter().map(|(line, _)| line.as_bytes()).collect();
        if listed != right {
            found.add("I6", member.name(), "lists other edges than those that end at it");
        }
        if let Some(what) = wrong_counts(member, edges.iter().map(|(_, standing)| *standing)) {
            found.add("I6", member.name(), what);
        }
        if let Some(what) = wrong_wait(flow, member) {
            found.add("I6", member.name(), what);
        }
        let inputs = lines(contents, Place::Inputs(member.uuid)).len();
        if inputs as i64 != member.count(field::INPUTS) {
            found.add("I6", member.name(), "counts other inputs than it has");
        }
    }
}

/// Whether the downstream of an edge was told of its upstream's end, and what that means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Pending,
    Satisfied,
    Impossible,
}

fn standing(up: &Record<'_>, edge: &Outgoing<'_>, place: usize) -> Standing {
    match up.state() {
        Some(State::Ended(outcome)) if up.count(field::EDGES_RESOLVED) > place as i64 => {
            if edge.is_satisfied_by(outcome) { Standing::Satisfied } else { Standing::Impossible }
        }
        _ => Standing::Pending,
    }
}

fn check_outgoing<'a>(
    contents: &Contents<'a>,
    up: &Record<'a>,
    members: &BTreeMap<&str, &Record<'_>>,
    incoming: &mut BTreeMap<&'a str, Vec<(String, Standing)>>,
) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let lines = lines(contents, Place::Outgoing(up.uuid));
    if lines.len() as i64 != up.count(field::EDGES_OUT) {
        wrong.push("counts other edges than it lists");
    }
    if up.count(field::EDGES_RESOLVED) > up.count(field::EDGES_OUT) {
        wrong.push("told more edges than it has");
    }
    for (place, line) in lines.iter().enumerate() {
        let Some(edge) = Outgoing::parse(line) else {
            wrong.push("lists an edge that cannot be read");
            continue;
        };
        let Some(down) = members.get(edge.down) else {
            wrong.push("lists an edge to nobody of its flow");
            continue;
        };
        if down.count(field::RANK) <= up.count(field::RANK) {
            wrong.push("has an edge that goes against the order");
        }
        if edge.applied {
            let line = edge.other_end(up.uuid, place);
            incoming.entry(edge.down).or_default().push((line, standing(up, &edge, place)));
        }
    }
    wrong
}

fn wrong_counts(
    member: &Record<'_>,
    edges: impl Iterator<Item = Standing> + Clone,
) -> Option<String> {
    let of = |kind: Standing| edges.clone().filter(|standing| *standing == kind).count() as i64;
    let (satisfied, impossible) = (of(Standing::Satisfied), of(Standing::Impossible));
    let all = edges.clone().count() as i64;
    let Some(counts) = member.bytes(field::DEPENDENCIES).and_then(Dependencies::parse) else {
        return (all > 0).then(|| "has edges and does not count them".to_owned());
    };
    let right = Dependencies { needed: counts.needed, edges: all, satisfied, impossible };
    (counts != right)
        .then(|| format!("counts {:?} where {right:?} is right", member.text(field::DEPENDENCIES)))
}

/// Who waits for upstreams has reason to; who does not has none.
fn wrong_wait(flow: &Flow<'_>, member: &Record<'_>) -> Option<&'static str> {
    let counts = member.bytes(field::DEPENDENCIES).and_then(Dependencies::parse);
    let (free, hopeless) =
        (counts.is_none_or(Dependencies::is_free), counts.is_some_and(Dependencies::is_hopeless));
    let started = member.has(field::ATTEMPT_COUNT) && !member.has(field::WAITS_AGAIN);
    match member.state()? {
        State::Blocked if children::are_awaited(member) => None,
        State::Blocked if started => Some("waits although it has begun"),
        State::Blocked if free => Some("waits although its upstreams allow it to run"),
        State::Blocked if hopeless => Some("waits for what can never be"),
        State::Waiting | State::Delayed | State::Parked if children::are_awaited(member) => {
            Some("does not wait although some of its children are not over")
        }
        State::Waiting | State::Delayed | State::Parked if !started && !free => {
            Some("does not wait although its upstreams do not allow it to run")
        }
        State::Ended(TerminalOutcome::Skipped) if !hopeless && !flow.frees_nobody() => {
            Some("was skipped although it could have run")
        }
        _ => None,
    }
}

/// When a flow needs attention by itself. A walk goes on at once, whatever its entry's time.
fn due_at(flow: &Flow<'_>, listed: Option<i64>) -> Option<i64> {
    if flow.has("walk") {
        return Some(listed.unwrap_or(0));
    }
    if let Some(ended_at) = flow.number("ended_at") {
        let unsaid_ms = match flow.text("state") {
            "failed" => limits::FAILED_RETENTION_MS_DEFAULT,
            _ => limits::RETENTION_MS_DEFAULT,
        };
        let kept_ms = flow.number("retention_ms").unwrap_or(unsaid_ms as i64);
        return Some((ended_at + kept_ms).max(flow.count("kept_until")));
    }
    if flow.has("graph") && !flow.has("sealed") {
        return Some(flow.count("changed_at") + limits::GRAPH_ABANDONED_MS as i64);
    }
    flow.number("deadline_at").filter(|_| !flow.has("expired"))
}

/// The entries that the index of times must have: each flow that has a time, and each end that was
/// not told to all. Where nobody is freed any more, an entry may wait for its removal.
pub(super) fn due(contents: &Contents<'_>) -> impl Iterator<Item = (Vec<u8>, i64)> {
    let scores = contents.scores(&Place::Due);
    let listed = |member: &[u8]| Some(*scores?.get(member)? as i64);
    let mut entries = Vec::new();
    for flow in flows(contents).values() {
        let member = [DUE_PREFIX, flow.id.as_bytes()].concat();
        if let Some(at) = due_at(flow, listed(&member)) {
            entries.push((member, at));
        }
        for record in flow.members.iter().filter(|record| is_untold(record)) {
            let member = [EDGES_PREFIX, record.uuid.as_bytes()].concat();
            let at = listed(&member);
            if at.is_some() || !flow.frees_nobody() && !flow.is_removed() {
                entries.push((member, at.unwrap_or(0)));
            }
        }
        for record in flow.members.iter().filter(|record| record.has(field::REST_FROM)) {
            let member = [REST_PREFIX, record.uuid.as_bytes()].concat();
            entries.push((member.clone(), listed(&member).unwrap_or(0)));
        }
    }
    entries.into_iter()
}

/// Does a flow owe an end to members: they are still to come, or could not be dealt with?
fn owes(fields: &Hash) -> bool {
    let walk = fields.get(&b"walk"[..]).map_or(&b""[..], Vec::as_slice);
    let ends: [&[u8]; 3] = [b"cancel:", b"fail:", b"expire:"];
    fields.contains_key(&b"stuck"[..]) || ends.iter().any(|what| walk.starts_with(what))
}

fn is_untold(record: &Record<'_>) -> bool {
    record.state().is_some_and(State::is_ended)
        && record.count(field::EDGES_RESOLVED) < record.count(field::EDGES_OUT)
}

/// The lists of flows and members, as the records call for them.
pub(super) fn listed<'a>(contents: &Contents<'a>) -> Vec<(Place<'a>, &'a [u8], i64)> {
    let mut entries = Vec::new();
    for place in contents.places.keys() {
        let Place::Flow(id) = place else { continue };
        entries.push((Place::Flows, id.as_bytes(), 0));
        if contents.hash(place).is_some_and(owes) {
            entries.push((Place::Owing, id.as_bytes(), 0));
        }
    }
    for record in contents.records.values().filter(|record| record.has(field::FLOW_ID)) {
        let place = Place::Members(record.text(field::FLOW_ID));
        entries.push((place, record.uuid.as_bytes(), record.count(field::ORDINAL)));
    }
    entries
}
