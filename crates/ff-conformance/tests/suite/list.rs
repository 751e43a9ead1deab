//! Listing executions.

use std::collections::BTreeSet;

use ff_conformance::{Deployment, LANE, LEASE_MS, conformance, lane};
use ff_core::contracts::ListFilter;
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, ExecutionKind, Namespace};
use ff_script::calls::create::CreateExecutions;
use ff_script::calls::kind_counts::{CountKinds, CountKindsReply};
use ff_script::calls::list::{CountExecutions, CountExecutionsReply};
use ff_script::value::Value;
use ff_script::wire::Rest;

use super::cancel::outside;

/// Every page of a listing, in order. An execution on two pages, or twice on one, is an error.
async fn list(d: &Deployment, filter: &ListFilter, limit: u32) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    let mut cursor = None;
    loop {
        let page = d.list_page(filter, cursor, limit).await;
        let page = page.expect("a cursor of this listing is accepted");
        assert!(page.items.len() <= limit as usize);
        ids.extend(page.items.iter().map(|item| item.execution_id));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let distinct: BTreeSet<&ExecutionId> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "every execution is listed once: {ids:?}");
    ids
}

/// The counts of kinds in words, and whether they are exact.
async fn counts(d: &Deployment, look_at: u32) -> (Vec<String>, bool) {
    let call = CountKinds { look_at, lanes: Rest(vec![lane(LANE)]) };
    let CountKindsReply::Counts { counts, exact } = d.call(call).await;
    let word = |value: &Value| match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let line = |row: &Value| match row {
        Value::Array(cells) => cells.iter().map(word).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    };
    (counts.0.iter().map(line).collect(), exact)
}

fn in_state(state: PublicState) -> ListFilter {
    ListFilter { state: Some(state), lane: Some(lane(LANE)), ..ListFilter::default() }
}

conformance! {
    async fn everything_is_listed_newest_first(d: &Deployment) {
        let mut ids = Vec::new();
        for round in 0..7 {
            d.advance(round % 2).await;
            ids.push(d.create_one().await);
        }
        ids.reverse();
        for limit in [1, 2, 3, 7, 1000] {
            assert_eq!(list(d, &ListFilter::default(), limit).await, ids, "{limit}");
        }
    }

    async fn what_is_in_each_state_is_counted(d: &Deployment) {
        let done = d.create_and_claim().await;
        d.call(done.complete(b"")).await;
        d.create_and_claim().await;
        d.create_one().await;
        d.create().delayed_by(1_000_000).send().await;
        let cancelled = d.create_one().await;
        d.call(outside(cancelled, "operator_override")).await;
        let (skipped, total, running) = (0, 5, 1);
        let (succeeded, failed, cancelled, expired) = (1, 0, 1, 0);
        let counts = CountExecutionsReply::Counts {
            total, running, succeeded, failed, cancelled, expired, skipped,
        };
        assert_eq!(d.call(CountExecutions {}).await, counts);
    }

    async fn each_state_lists_what_is_in_it(d: &Deployment) {
        let waiting = d.create_one().await;
        let granted = d.create_one().await;
        d.call(d.claim_grant_call(granted)).await;
        let delayed = d.create().delayed_by(1_000_000).send().await;
        let cancelled = d.create_one().await;
        d.call(outside(cancelled, "operator_override")).await;
        let urgent = || d.create().priority(1);
        let completed = urgent().send().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        let failed = urgent().send().await;
        d.call(d.claim(LANE).await.fail("no", "x")).await;
        let expired = urgent().deadline_in(1).send().await;
        d.advance(1).await;
        d.tick().await;
        let running = urgent().send().await;
        d.claim(LANE).await;
        let table = [
            (PublicState::Delayed, vec![delayed]),
            (PublicState::Active, vec![running]),
            (PublicState::Completed, vec![completed]),
            (PublicState::Failed, vec![failed]),
            (PublicState::Cancelled, vec![cancelled]),
            (PublicState::Expired, vec![expired]),
            (PublicState::Skipped, vec![]),
            (PublicState::Suspended, vec![]),
        ];
        for (state, expected) in table {
            assert_eq!(list(d, &in_state(state), 1).await, expected, "{state}");
        }
        let mut both = list(d, &in_state(PublicState::Waiting), 1).await;
        both.sort();
        assert_eq!(both, [waiting, granted]);
    }

    async fn what_has_a_deadline_is_listed_once(d: &Deployment) {
        let id = d.create().deadline_in(1_000_000).send().await;
        assert_eq!(list(d, &in_state(PublicState::Waiting), 10).await, [id]);
        assert_eq!(list(d, &in_state(PublicState::Waiting), 1).await, [id]);
        d.claim(LANE).await;
        assert_eq!(list(d, &in_state(PublicState::Active), 10).await, [id]);
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(list(d, &in_state(PublicState::Active), 10).await, [id]);
    }

    async fn what_lost_its_lease_is_still_active(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(list(d, &in_state(PublicState::Active), 10).await, [held.id]);
    }

    async fn filters_are_combined(d: &Deployment) {
        let shop = |kind: &str| d.create().namespace("shop").kind(kind);
        let old = shop("render").send().await;
        d.advance(100).await;
        let new = shop("render").send().await;
        let other_kind = shop("mail").send().await;
        let other_lane = shop("render").lane("gpu").send().await;
        let elsewhere = d.create().namespace("else").kind("render").send().await;
        let namespace = Some(Namespace::try_new("shop").expect("a valid name"));
        let kind = Some(ExecutionKind::try_new("render").expect("a valid name"));
        let filter = ListFilter { namespace, kind, ..ListFilter::default() };
        assert_eq!(list(d, &filter, 2).await, [other_lane, new, old]);
        let in_lane = ListFilter { lane: Some(lane(LANE)), ..filter.clone() };
        assert_eq!(list(d, &in_lane, 2).await, [new, old]);
        let recent = ListFilter { from: Some(d.now()), ..in_lane.clone() };
        assert_eq!(list(d, &recent, 2).await, [new]);
        let earlier = ListFilter { to: Some(d.now()), ..in_lane };
        assert_eq!(list(d, &earlier, 2).await, [old]);
        let all = list(d, &ListFilter::default(), 2).await;
        assert_eq!(all, [elsewhere, other_lane, other_kind, new, old]);
    }

    async fn what_has_a_tag_is_found_by_its_name_and_by_its_value(d: &Deployment) {
        let search = d.create().tags(r#"{"team.name":"search","a.b":""}"#).send().await;
        let ads = d.create().tags(r#"{"team.name":"ads"}"#).send().await;
        d.create_one().await;
        for (tag, expected) in [
            ("team.name", vec![ads, search]),
            ("team.name=search", vec![search]),
            ("team.name=sear", vec![]),
            ("a.b", vec![search]),
            ("x.y", vec![]),
        ] {
            let tag = Some(tag.parse().expect("a tag"));
            let filter = ListFilter { tag, ..ListFilter::default() };
            assert_eq!(list(d, &filter, 1).await, expected, "{filter:?}");
        }
    }

    async fn kinds_are_counted_by_state_exactly_while_there_are_few(d: &Deployment) {
        for _ in 0..3 {
            d.create().kind("mail").send().await;
        }
        d.call(d.claim(LANE).await.complete(b"")).await;
        d.claim(LANE).await;
        d.create().kind("mail").delayed_by(1_000_000).send().await;
        d.create().kind("film").deadline_in(1_000_000).send().await;
        let granted = d.create().kind("film").send().await;
        d.call(d.claim_grant_call(granted)).await;
        let counted = counts(d, 1000).await;
        let expected = [
            "film waiting 2", "mail active 1", "mail completed 1", "mail delayed 1",
            "mail waiting 1",
        ];
        assert_eq!(counted, (expected.map(str::to_owned).to_vec(), true));
    }

    /// Every second one is a film, and so is every second one of those that are looked at.
    async fn many_are_counted_by_looking_at_some(d: &Deployment) {
        d.host().watch(false);
        for number in 0..400 {
            d.advance(1).await;
            let kind = if number % 4 == 0 { "film" } else { "mail" };
            d.create().kind(kind).send().await;
        }
        let (counted, exact) = counts(d, 60).await;
        assert!(!exact);
        let number = |line: &String| {
            line.rsplit(' ').next().and_then(|last| last.parse::<i64>().ok()).expect("a number")
        };
        let (films, mails) = (number(&counted[0]), number(&counted[1]));
        assert!((films - 100).abs() <= 40 && (films + mails - 400).abs() <= 1, "{counted:?}");
    }

    async fn a_row_tells_the_main_things(d: &Deployment) {
        let id = d.create().namespace("shop").kind("render").priority(4).send().await;
        let held = d.claim(LANE).await;
        let created_at = d.now();
        d.advance(10).await;
        d.call(held.complete(b"")).await;
        let page = d.list_page(&ListFilter::default(), None, 10).await;
        let page = page.expect("a listing");
        let item = &page.items[0];
        assert_eq!((item.execution_id, item.public_state), (id, PublicState::Completed));
        assert_eq!((item.priority, item.total_attempt_count), (4, 1));
        assert_eq!((item.created_at, item.completed_at), (created_at, Some(d.now())));
        assert_eq!(item.worker_id.as_ref().map(|id| id.as_str()), Some("worker"));
        assert_eq!((item.namespace.as_str(), item.kind.as_str()), ("shop", "render"));
        assert_eq!((item.lane.as_str(), page.next_cursor), (LANE, None));
    }

    async fn a_listing_survives_what_changes_between_its_pages(d: &Deployment) {
        for _ in 0..6 {
            d.create_one().await;
        }
        let filter = ListFilter::default();
        let first = d.list_page(&filter, None, 2).await.expect("a page");
        d.create_one().await;
        let held = d.claim(LANE).await;
        d.call(held.complete(b"")).await;
        let mut seen: BTreeSet<ExecutionId> =
            first.items.iter().map(|item| item.execution_id).collect();
        let mut cursor = first.next_cursor;
        while cursor.is_some() {
            let page = d.list_page(&filter, cursor, 2).await;
            let page = page.expect("a page");
            assert!(page.items.iter().all(|item| seen.insert(item.execution_id)));
            cursor = page.next_cursor;
        }
        assert!(seen.len() >= 6, "what was there all the time is listed: {seen:?}");
    }

    async fn a_cursor_of_another_listing_is_refused(d: &Deployment) {
        for text in ["x", "all", "all|1", "due|1|x", "all||x", "all|1|", "|1|x", "all|1e5|x"] {
            let args: [&[u8]; 10] =
                [b"", b"", b"", b"", b"", b"", b"", b"", text.as_bytes(), b"10"];
            assert_eq!(d.raw("ff_list_executions", &args).await.code(), "invalid_input", "{text}");
        }
    }

    /// All were made in the same millisecond: a page costs as much at the end as at the beginning.
    async fn a_page_costs_the_same_however_many_share_one_time(d: &Deployment) {
        d.host().watch(false);
        for _ in 0..40 {
            let batch: Vec<_> = (0..250).map(|_| d.create().call()).collect();
            d.call(CreateExecutions::of(&batch)).await;
        }
        let (mut cursor, mut costs, mut seen) = (None, Vec::new(), BTreeSet::new());
        loop {
            let begin = std::time::Instant::now();
            let filter = ListFilter::default();
            let page = d.list_page(&filter, cursor, 200).await;
            costs.push(begin.elapsed());
            let page = page.expect("a page");
            seen.extend(page.items.iter().map(|item| item.execution_id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), 10_000);
        // What else the machine does only adds to a cost.
        let least = |costs: &[std::time::Duration]| costs.iter().min().copied().expect("some");
        let (first, last) = (least(&costs[..15]), least(&costs[costs.len() - 15..]));
        assert!(last < first * 3, "{last:?} at the end, {first:?} at the beginning");
    }

    async fn a_listing_goes_on_although_its_last_entry_is_gone(d: &Deployment) {
        let ids: BTreeSet<ExecutionId> = {
            let mut ids = BTreeSet::new();
            for _ in 0..9 {
                ids.insert(d.create().policy(r#"{"retention_ms":0}"#).send().await);
            }
            ids
        };
        let filter = ListFilter::default();
        let first = d.list_page(&filter, None, 4).await.expect("a page");
        for held in d.claimed(d.claim_call(LANE, 9)).await {
            if held.id == first.items[3].execution_id {
                d.call(held.complete(b"")).await;
            }
        }
        d.advance(limits::PURGED_REMEMBERED_MS).await;
        d.tick().await;
        let rest = d.list_page(&filter, first.next_cursor, 9).await;
        let listed = first.items.iter().chain(&rest.as_ref().expect("a page").items);
        let listed: Vec<ExecutionId> = listed.map(|item| item.execution_id).collect();
        assert_eq!(listed.len(), 9, "none twice");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), ids, "none left out");
    }
}
