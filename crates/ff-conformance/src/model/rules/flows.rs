//! I6: flows. Whatever the order of what happens, a member is freed, skipped or waits as a plain
//! evaluation of the graph says that the test submitted; a flow is over when that says so; and
//! nothing moves a member without a reason.

use std::collections::BTreeSet;

use super::super::graph::{Edge, Graph, Verdict};
use super::super::sent::uuid_of;
use super::super::view::{Fields, View, field};
use super::super::world::claim_rows;
use super::{Checked, Seen, rule};

mod moved;
mod told;

pub(super) use moved::direct;

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    told::check(seen)?;
    if seen.before == seen.after {
        return Ok(());
    }
    gone(seen)?;
    for (id, graph) in &seen.graphs.0 {
        if graph.partition == seen.sent.partition {
            let standing = Standing::of(seen.after(), id, graph)?;
            standing.check().map_err(|what| format!("flow {id}: {what}"))?;
            moved::check(seen, &standing).map_err(|what| format!("flow {id}: {what}"))?;
        }
    }
    Ok(())
}

/// The executions and flows that a call about these may touch: all of a flow belong together.
pub(super) fn families(seen: &Seen<'_>, named: &BTreeSet<String>) -> BTreeSet<String> {
    let views = [seen.before(), seen.after()];
    let flow_of = |name: &String| {
        let of = |view: View<'_>| view.record(name).map(|record| record.flow_id().to_owned());
        views.into_iter().find_map(of).filter(|id| !id.is_empty()).unwrap_or_else(|| name.clone())
    };
    let mut all = named.clone();
    for id in named.iter().map(flow_of).collect::<BTreeSet<String>>() {
        for view in views {
            all.extend(view.members(&id).map(str::to_owned));
        }
        all.insert(id);
    }
    all
}

/// Does its flow not let an execution run any more?
pub(super) fn is_stopped(view: View<'_>, record: Fields<'_>) -> bool {
    let Some(flow) = view.flow_of(record) else { return false };
    match flow.text("cancel_policy") {
        _ if flow.bytes("expired").is_some() => true,
        "cancel_all" => true,
        "cancel_pending" => !record.has_begun(),
        _ => flow.bytes("failing").is_some() && record.bytes(field::KEPT).is_none(),
    }
}

/// Does the end of a member free nobody any more?
fn frees_nobody(flow: Fields<'_>) -> bool {
    let policy = flow.text("cancel_policy");
    flow.bytes("expired").is_some() || !policy.is_empty() && policy != "flow_only"
}

/// Is what is asked for in its flow's way? Nothing if only a count that is not looked at here says.
pub(super) fn may_replay(seen: &Seen<'_>, uuid: &str, record: Fields<'_>) -> Option<bool> {
    if seen.answer.word == "graph_too_large" {
        return None;
    }
    let Some(flow) = seen.before().flow_of(record) else { return Some(true) };
    let over = flow.bytes("expired").is_some() || flow.text("walk").starts_with("remove");
    let stopped = match flow.text("cancel_policy") {
        "cancel_all" => true,
        "cancel_pending" => !record.has_begun(),
        _ => false,
    };
    let graph = seen.known.0.get(record.flow_id())?;
    // The next tick tells it what keeps it from running.
    let untold = |edge: &Edge| is_owed(seen.before(), &edge.up);
    if graph.before(uuid).any(untold) {
        return None;
    }
    let hopeless = graph.verdict(uuid, |up| end_of(seen.before(), up)) == Verdict::Hopeless;
    Some(!over && !stopped && !hopeless)
}

/// How an execution ended; nothing if it is not over.
fn end_of<'a>(view: View<'a>, uuid: &str) -> Option<&'a str> {
    view.record(uuid).filter(|record| record.is_ended()).map(|record| record.state())
}

/// A flow goes away when its retention is over, or when nobody finished it in time.
fn gone(seen: &Seen<'_>) -> Checked {
    for (id, graph) in &seen.known.0 {
        let here = graph.partition == seen.sent.partition;
        if let Some(flow) = seen.before().flow(id).filter(|_| here)
            && seen.after().flow(id).is_none()
        {
            let may = seen.sent.name() == "ff_tick" && may_go(flow, seen.now);
            rule(may, || format!("flow {id} vanished before its time"))?;
        }
    }
    Ok(())
}

/// May a flow be removed, or is it being removed?
pub(super) fn may_go(flow: Fields<'_>, now: u64) -> bool {
    use ff_core::limits::{FAILED_RETENTION_MS_DEFAULT, GRAPH_ABANDONED_MS, RETENTION_MS_DEFAULT};
    let is_failed = flow.text("state") == "failed";
    let unsaid_ms = if is_failed { FAILED_RETENTION_MS_DEFAULT } else { RETENTION_MS_DEFAULT };
    let kept_ms = flow.number("retention_ms").unwrap_or(unsaid_ms);
    let over = flow.number("ended_at").is_some_and(|at| at + kept_ms <= now);
    let unsealed = flow.bytes("graph").is_some() && flow.bytes("sealed").is_none();
    let abandoned = unsealed && flow.count("changed_at") + GRAPH_ABANDONED_MS <= now;
    over || abandoned || flow.text("walk").starts_with("remove")
}

/// A flow after a call, beside what the test knows of it.
pub(super) struct Standing<'a> {
    pub(super) graph: &'a Graph,
    pub(super) flow: Fields<'a>,
    pub(super) view: View<'a>,
    /// The uuid and the record of each member.
    pub(super) members: Vec<(&'a str, Fields<'a>)>,
}

impl<'a> Standing<'a> {
    fn of(view: View<'a>, id: &str, graph: &'a Graph) -> Result<Self, String> {
        let flow = view.flow(id).ok_or_else(|| format!("flow {id} is not there"))?;
        let members = graph.members.keys();
        let members = members.filter_map(|uuid| Some((uuid.as_str(), view.record(uuid)?)));
        Ok(Self { graph, flow, view, members: members.collect() })
    }

    pub(super) fn verdict(&self, uuid: &str) -> Verdict {
        self.graph.verdict(uuid, |up| end_of(self.view, up))
    }

    fn is_removed(&self) -> bool {
        self.flow.text("walk").starts_with("remove")
    }

    /// Is something left that the next tick does?
    fn is_settled(&self) -> bool {
        let owed = |(uuid, _): &(&str, Fields<'_>)| is_owed(self.view, uuid);
        self.flow.bytes("walk").is_none() && !self.members.iter().any(owed)
    }

    fn check(&self) -> Checked {
        if self.is_removed() {
            return Ok(());
        }
        let (known, there) = (self.graph.members.len(), self.members.len());
        rule(known == there, || format!("{there} members instead of {known}"))?;
        let settled = self.is_settled();
        for (uuid, record) in &self.members {
            let checked = self.member(uuid, *record, settled);
            checked.map_err(|what| format!("{uuid} is {} and {what}", record.state()))?;
        }
        self.end()
    }

    /// Is a member where the evaluation says it must be?
    fn member(&self, uuid: &str, record: Fields<'_>, settled: bool) -> Checked {
        let (verdict, began) = (self.verdict(uuid), record.has_begun());
        let right = match record.state() {
            "held" => self.graph.whole && (!self.graph.sealed || !settled),
            "blocked" => !began && (!settled || verdict == Verdict::Waits),
            "waiting" | "delayed" | "parked" => began || verdict == Verdict::Free,
            "skipped" => verdict == Verdict::Hopeless || frees_nobody(self.flow),
            _ => true,
        };
        rule(right, || format!("its upstreams say {verdict:?}"))?;
        let lives = !record.is_ended() && record.state() != "held" && settled;
        rule(!(lives && is_stopped(self.view, record)), || "its flow ends it".to_owned())?;
        let cut_off = lives && record.state() == "blocked" && frees_nobody(self.flow);
        rule(!cut_off, || "nobody will ever free it".to_owned())?;
        let compensates =
            record.state() == "cancelled" && !began && self.was_freed_by_failure(uuid);
        let by_failure = record.text(field::CANCELLED_BY) == "flow_cascade"
            && record.text("cr") == "flow_failed";
        rule(!(compensates && by_failure), || "makes up for the failure".to_owned())
    }

    /// Did the failure that ends the others free it? It could not have run without.
    fn was_freed_by_failure(&self, uuid: &str) -> bool {
        let failing = self.flow.text("failing");
        let failed = |up: &str| end_of(self.view, up).filter(|_| up == failing);
        let by_it = self
            .graph
            .before(uuid)
            .any(|edge| edge.kind == "failure_only" && failed(&edge.up).is_some());
        let without =
            self.graph.verdict(uuid, |up| end_of(self.view, up).filter(|_| up != failing));
        by_it && without == Verdict::Waits && self.verdict(uuid) == Verdict::Free
    }

    /// The flow is over when nobody can join and all members are, and failed if that counts.
    fn end(&self) -> Checked {
        let all = self.members.iter().all(|(_, record)| record.is_ended());
        let closed = self.graph.sealed
            || self.graph.cancelled.is_some()
            || self.flow.bytes("expired").is_some();
        let over = closed && all && self.flow.bytes("walk").is_none();
        let ended = self.flow.bytes("ended_at").is_some();
        rule(over == ended, || format!("over: {ended} instead of {over}"))?;
        let right = self.state();
        let is = public_state(self.flow);
        rule(is == right, || format!("is {is} instead of {right}"))
    }

    /// The state that its members give it.
    pub(super) fn state(&self) -> &'static str {
        let is =
            |words: &[&str]| self.members.iter().any(|(_, record)| words.contains(&record.state()));
        let bad = self.members.iter().any(|(uuid, record)| {
            !self.graph.members[*uuid].optional
                && matches!(record.state(), "failed" | "expired" | "cancelled")
        });
        match () {
            () if self.graph.cancelled.is_some() => "cancelled",
            () if self.flow.bytes("ended_at").is_some() && bad => "failed",
            () if self.flow.bytes("ended_at").is_some() => "completed",
            () if is(&["running"]) => "running",
            () if is(&["waiting", "lapsed", "revoked"]) => "open",
            () if self.members.iter().any(|(_, record)| !record.is_ended()) => "blocked",
            () => "open",
        }
    }
}

/// The state that a flow's own record gives it, counts and all.
fn public_state(flow: Fields<'_>) -> &str {
    let count = |state: &str| flow.count(&format!("n:{state}"));
    match flow.text("state") {
        "" if count("running") > 0 => "running",
        "" if count("waiting") + count("lapsed") + count("revoked") > 0 => "open",
        "" if flow.count("live") > 0 => "blocked",
        "" => "open",
        state => state,
    }
}

/// Was the end of an execution not told to all who wait for it?
fn is_owed(view: View<'_>, uuid: &str) -> bool {
    view.ranked("due").iter().any(|(entry, _)| entry.strip_prefix("e:") == Some(uuid))
}

/// The executions that the call was about by itself.
fn claimed(seen: &Seen<'_>) -> BTreeSet<String> {
    let rows = claim_rows(seen.sent, seen.answer).into_iter();
    rows.map(|row| row.execution_id.uuid().to_string()).collect()
}

fn named(seen: &Seen<'_>, argument: &str) -> Option<String> {
    uuid_of(seen.sent.text(argument)).map(str::to_owned)
}
