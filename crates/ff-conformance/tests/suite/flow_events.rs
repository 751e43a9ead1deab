//! The events of one flow, and who is woken by them.

use std::time::Duration;

use ff_conformance::{Deployment, Flow, conformance};
use ff_core::error::Code;
use ff_script::calls::events::{ReadEvents, ReadEventsReply};
use ff_script::calls::flow::SealFlow;
use ff_script::calls::flow_events::{FlowEventRow, ReadFlowEvents, ReadFlowEventsReply};
use ff_script::host::{Host, Subject, Subscription, Wake};

use super::flow::nowhere;

/// Far longer than a wake-up takes: only a missing one waits this long.
const LIMIT: Duration = Duration::from_secs(60);

/// What a read answers.
struct Page {
    lines: Vec<String>,
    next: String,
    truncated: bool,
    more: bool,
    ended: bool,
    found: bool,
}

/// An event as `kind member attempt`.
fn line(row: &FlowEventRow) -> String {
    let member = row.member.as_deref().unwrap_or("-");
    let attempt = row.attempt_index.map_or("-".to_owned(), |index| index.to_string());
    format!("{} {member} {attempt}", row.name)
}

async fn page(d: &Deployment, flow: &Flow, cursor: &str, limit: u32, seek: bool) -> Page {
    let call = ReadFlowEvents { flow_id: flow.id, cursor: cursor.to_owned(), limit, seek };
    let ReadFlowEventsReply::Page { events, next_cursor, truncated, more, ended, found } =
        d.call(call).await;
    for row in &events.0 {
        assert_eq!(row.execution_id, row.member.as_deref().map(|name| flow.id(name)));
    }
    let lines = events.0.iter().map(line).collect();
    Page { lines, next: next_cursor.unwrap_or_default(), truncated, more, ended, found }
}

/// One who follows a flow.
struct Follower {
    subject: Subject,
    subscription: Subscription,
}

impl Follower {
    async fn of(d: &Deployment, flow: &Flow) -> Self {
        let subject = Subject::Flow(d.home(), flow.id);
        let subscription = d.host().follow(subject).await.expect("subjects can be followed");
        let mut follower = Self { subject, subscription };
        // What was published just before may be heard, too.
        follower.heard(d).await;
        follower
    }

    /// How many wake-ups came since the last time.
    async fn heard(&mut self, d: &Deployment) -> usize {
        let channel = self.subject.channel();
        let words: [&[u8]; 3] = [b"SPUBLISH", channel.as_bytes(), b"so far"];
        d.host().exec(d.home(), &words).await.expect("every store has the command");
        let mut count = 0;
        loop {
            let wake = tokio::time::timeout(LIMIT, self.subscription.next()).await;
            match wake.expect("a wake-up arrives in time").expect("the host is open") {
                Wake::Message { message, .. } if message == b"so far" => return count,
                _ => count += 1,
            }
        }
    }
}

conformance! {
    async fn the_events_of_a_flow_are_its_own_and_those_of_its_members(d: &Deployment) {
        d.create_one().await;
        let flow = d.flow("a -> b, a -f> c").await;
        let other = d.flow("x").await;
        d.complete(&flow, "a b").await;
        d.complete(&other, "x").await;
        let read = page(d, &flow, "", 100, false).await;
        assert_eq!(read.lines, ["flow_created - -", "created a -", "created b -", "created c -",
            "flow_sealed - -", "granted a -", "claimed a 0", "ended a 0", "freed b -", "ended c -",
            "granted b -", "claimed b 0", "ended b 0", "flow_ended - -"]);
        assert_eq!((read.truncated, read.more, read.ended, read.found), (false, false, true, true));
        let nothing = ReadFlowEvents { flow_id: nowhere(d).id, cursor: String::new(), limit: 1,
            seek: false };
        assert_eq!(d.refused(nothing).await, Code::FlowNotFound);
    }

    async fn a_read_looks_at_so_many_entries_and_the_next_one_goes_on(d: &Deployment) {
        for _ in 0..3 {
            d.create_one().await;
        }
        let flow = d.flow("a").await;
        let first = page(d, &flow, "", 2, false).await;
        assert!(first.lines.is_empty() && first.more && !first.ended);
        let second = page(d, &flow, &first.next, 2, false).await;
        assert_eq!(second.lines.len(), 1);
        let last = page(d, &flow, &second.next, 10, false).await;
        assert_eq!((last.lines.len(), last.more), (2, false));
        let none = page(d, &flow, &last.next, 10, false).await;
        assert!(none.lines.is_empty() && none.next == last.next && !none.truncated);
    }

    async fn who_seeks_passes_over_what_was_before_the_flow(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let all = page(d, &flow, "", 100, true).await;
        assert!(all.found && all.lines[0] == "flow_created - -", "{:?}", all.lines);
        assert!(all.lines.contains(&"joined a -".to_owned()), "{:?}", all.lines);
        d.call(SealFlow { flow_id: flow.id }).await;
        let later = page(d, &flow, &all.next, 100, true).await;
        assert!(!later.found && later.lines.is_empty(), "{:?}", later.lines);
        assert_eq!(page(d, &flow, &all.next, 100, false).await.lines, ["flow_sealed - -"]);
    }

    async fn a_position_that_is_gone_is_told_and_the_end_is_one(d: &Deployment) {
        let flow = d.flow("a").await;
        assert!(page(d, &flow, "1-1", 10, false).await.truncated);
        let end = page(d, &flow, "$", 10, false).await;
        assert!(end.lines.is_empty() && !end.truncated && end.found);
        d.complete(&flow, "a").await;
        let behind = page(d, &flow, &end.next, 10, false).await;
        assert_eq!(behind.lines,
            ["granted a -", "claimed a 0", "ended a 0", "flow_ended - -"]);
        let ReadEventsReply::Page { next_cursor, .. } =
            d.call(ReadEvents { cursor: "$".to_owned(), limit: 1 }).await;
        assert_eq!(next_cursor.as_deref(), Some(behind.next.as_str()));
    }

    async fn that_a_flow_ended_is_the_last_that_the_log_tells_of_it(d: &Deployment) {
        let flow = d.flow("a -> b -> c, a -> e").await;
        d.fail(&flow, "a").await;
        let read = page(d, &flow, "", 100, false).await;
        let end = &read.lines[read.lines.len() - 5..];
        assert_eq!(end, ["ended a 0", "ended b -", "ended e -", "ended c -", "flow_ended - -"]);
    }

    async fn who_follows_a_flow_hears_of_it_and_of_no_other(d: &Deployment) {
        let (flow, other) = (d.flow("a -> b").await, d.flow("x").await);
        let (mut ours, mut theirs) = (Follower::of(d, &flow).await, Follower::of(d, &other).await);
        let held = d.take(&flow, "a").await;
        assert_eq!(ours.heard(d).await, 2, "of the grant and of the claim");
        d.call(held.complete(b"")).await;
        assert_eq!(ours.heard(d).await, 1, "once, although two members changed");
        d.call(d.cancelling(&flow, "cancel_all")).await;
        assert_eq!(ours.heard(d).await, 1);
        d.create_one().await;
        assert_eq!((ours.heard(d).await, theirs.heard(d).await), (0, 0));
    }
}
