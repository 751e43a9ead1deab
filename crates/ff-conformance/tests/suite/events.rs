//! The event log of a partition.

use ff_conformance::record::log;
use ff_conformance::{Deployment, HostKind, INSTANCE, LANE, conformance};
use ff_core::contracts::Event;
use ff_core::limits;
use ff_core::types::EventCursor;
use ff_script::calls::events::{ReadEvents, ReadEventsReply};
use ff_script::calls::tick::Tick;

async fn events(d: &Deployment, after: Option<EventCursor>) -> (Vec<Event>, Option<EventCursor>) {
    let page = d.read_events(after, 1000).await;
    assert!(!page.truncated);
    (page.events, page.next_cursor)
}

async fn raw(d: &Deployment, cursor: &str, limit: u32) -> (usize, Option<String>, bool) {
    let call = ReadEvents { cursor: cursor.to_owned(), limit };
    let ReadEventsReply::Page { events, next_cursor, truncated } = d.call(call).await;
    (events.0.len(), next_cursor, truncated)
}

conformance! {
    async fn an_event_names_a_flow_or_an_execution(d: &Deployment) {
        let flow = d.flow("a").await;
        d.complete(&flow, "a").await;
        let (events, _) = events(d, None).await;
        for event in &events {
            let (to_flow, to_member) = (Some(flow.id), Some(flow.id("a")));
            let right = if event.kind.starts_with("flow_") { (to_flow, None) }
                else { (None, to_member) };
            assert_eq!((event.flow_id, event.execution_id), right, "{event:?}");
        }
        let ended = events.iter().find(|event| event.kind == "ended").expect("it has ended");
        let reason = ended.reason.as_deref().expect("a reason");
        assert!(reason.ends_with(&format!(":{}", flow.id)), "{reason}");
        assert!(events.iter().any(|event| event.kind == "flow_ended"));
    }

    async fn an_event_says_what_happened_to_whom(d: &Deployment) {
        let id = d.create_one().await;
        let held = d.claim(LANE).await;
        d.call(held.complete(b"")).await;
        let (events, _) = events(d, None).await;
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["created", "claimed", "ended"]);
        assert!(events.iter().all(|event| event.execution_id == Some(id)));
        assert_eq!(events[0].attempt_index, None);
        assert_eq!((events[0].lease_epoch, events[0].worker_instance_id.as_ref()), (None, None));
        for event in &events[1..] {
            assert_eq!(event.lease_epoch, Some(held.lease_epoch));
            let process = event.worker_instance_id.as_ref();
            assert_eq!(process.map(|process| process.as_str()), Some(INSTANCE));
        }
        assert_eq!(events[1].attempt_index.map(|index| index.get()), Some(0));
        assert_eq!(events[2].reason.as_deref(), Some("completed:completed:tests"));
    }

    async fn reading_goes_on_where_it_stopped(d: &Deployment) {
        let (none, cursor) = events(d, None).await;
        assert!(none.is_empty());
        d.create_one().await;
        let (first, cursor) = events(d, cursor).await;
        assert_eq!(first.len(), 1);
        let (none, same) = events(d, cursor.clone()).await;
        assert!(none.is_empty());
        assert_eq!(same, cursor);
        d.create_one().await;
        let (second, _) = events(d, cursor).await;
        assert_eq!(second.len(), 1);
        assert_ne!(first[0].execution_id, second[0].execution_id);
    }

    async fn a_page_holds_at_most_what_was_asked_for(d: &Deployment) {
        for _ in 0..5 {
            d.create_one().await;
        }
        let (count, cursor, truncated) = raw(d, "", 3).await;
        assert_eq!((count, truncated), (3, false));
        assert_eq!(raw(d, &cursor.expect("a position"), 3).await.0, 2);
    }

    async fn the_end_of_the_log_is_a_position(d: &Deployment) {
        assert_eq!(raw(d, "$", 10).await, (0, Some("0-0".to_owned()), false));
        d.create_one().await;
        let (count, cursor, _) = raw(d, "$", 10).await;
        assert_eq!(count, 0);
        d.create_one().await;
        assert_eq!(raw(d, &cursor.expect("a position"), 10).await.0, 1);
        assert_eq!(raw(d, "0-0", 10).await.0, 2);
    }

    async fn a_position_that_was_trimmed_away_is_told(d: &Deployment) {
        d.create_one().await;
        assert!(raw(d, "1-1", 10).await.2, "no entry is there any more");
    }

    async fn the_log_is_bounded_and_a_slow_reader_is_told(d: &Deployment) {
        d.host().watch(false);
        d.create_one().await;
        let (_, first, _) = raw(d, "", 10).await;
        let first = first.expect("a position");
        let per_round = 200;
        for _ in 1..per_round {
            d.create_one().await;
        }
        for _ in 0..limits::EVENT_LOG_LENGTH / per_round {
            let held = d.claimed(d.claim_call(LANE, per_round as usize)).await;
            assert_eq!(held.len(), per_round as usize);
            d.raw("ff_release_worker_leases", &[INSTANCE.as_bytes()]).await;
        }
        let length = log(&d.dump().await, d.home()).len() as u64;
        let most = limits::EVENT_LOG_LENGTH;
        assert!((most..most + most / 5).contains(&length), "{length}");
        assert!(raw(d, &first, 1).await.2, "what it had not read is gone");
        assert!(raw(d, "0-0", 1).await.2, "nor is the beginning there any more");
        assert!(!raw(d, "", 1).await.2, "whoever wants what is left gets it");
    }

    async fn a_tick_keeps_the_log_within_its_share(d: &Deployment) {
        d.host().watch(false);
        d.create().delayed_by(1000).send().await;
        for _ in 0..600 {
            d.create_one().await;
        }
        assert_eq!(log(&d.dump().await, d.home()).len(), 601);
        d.call(Tick { log_length_max: Some(300), ..Tick::once(1) }).await;
        let length = log(&d.dump().await, d.home()).len();
        assert!((300..=400).contains(&length), "{length}");
        assert!(raw(d, "0-0", 1).await.2, "the beginning is not there any more");
        d.call(Tick { log_length_max: Some(1), ..Tick::once(1) }).await;
        assert_eq!(log(&d.dump().await, d.home()).len(), length, "nothing was appended since");
    }

    /// A server names entries by its own clock, which a test cannot set.
    async fn old_events_go_but_the_last_one_stays(d: &Deployment) {
        if d.kind() != HostKind::Embedded {
            return;
        }
        d.host().watch(false);
        for _ in 0..150 {
            d.create_one().await;
        }
        let (_, end, _) = raw(d, "$", 1).await;
        d.advance(limits::EVENT_LOG_AGE_MS_MAX + 1000).await;
        d.tick().await;
        let left = log(&d.dump().await, d.home()).len();
        assert!((1..=100).contains(&left), "{left}");
        let (count, again, truncated) = raw(d, &end.clone().expect("a position"), 10).await;
        assert_eq!((count, again, truncated), (0, end, false), "who has read all misses nothing");
    }

    async fn a_malformed_position_is_refused(d: &Deployment) {
        for text in ["-", "+", "0", "1-", "-1", "1-1-1", "(1-1", "1-1 ", "a-b", "01-1", "1-00", "0-0\n",
            "99999999999999999999-0", "0-99999999999999999999",
            "18446744073709551615-18446744073709551615"] {
            let answer = d.raw("ff_read_events", &[text.as_bytes(), b"10"]).await;
            let fine = !answer.done || text.starts_with("18446");
            assert!(fine, "{text} is no position: {answer:?}");
        }
    }
}
