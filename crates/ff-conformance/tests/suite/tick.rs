//! What is due.

use ff_conformance::record::{events_of, hash, key_of, listed_in, member_score};
use ff_conformance::{Deployment, LANE, LEASE_MS, conformance};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::PublicState;
use ff_script::calls::complete::CompleteExecutionReply;
use ff_script::calls::lane::SetLane;
use ff_script::calls::tick::{Tick, TickReply};
use ff_script::calls::worker::RegisterWorker;
use ff_script::host::Topic;

use super::fact::unset;
use super::scenario::registration;

async fn next_due(d: &Deployment) -> Option<u64> {
    d.tick().await.next_due_at.map(|at| at.get())
}

/// How much a tick of a limited size does.
async fn tick_some(d: &Deployment, items_max: u32) -> u32 {
    let TickReply::Ticked { promoted, lapsed, expired, purged, forgotten, .. } =
        d.call(Tick::once(items_max)).await;
    promoted + lapsed + expired + purged + forgotten
}

conformance! {
    async fn an_idle_partition_needs_no_tick(d: &Deployment) {
        let report = d.tick().await;
        assert_eq!((report.total(), report.next_due_at, report.now), (0, None, d.now()));
        d.create_one().await;
        assert_eq!(next_due(d).await, None);
    }

    async fn a_tick_says_when_the_next_is_needed(d: &Deployment) {
        let now = d.now().get();
        d.create().delayed_by(5000).send().await;
        assert_eq!(next_due(d).await, Some(now + 5000));
        d.create().deadline_in(3000).send().await;
        assert_eq!(next_due(d).await, Some(now + 3000));
        d.create().policy(r#"{"retention_ms":2000}"#).priority(1).send().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        assert_eq!(next_due(d).await, Some(now + 2000));
        d.create().idempotency("k", "x").dedup_ms(1000).send().await;
        assert_eq!(next_due(d).await, Some(now + 2000), "a key needs no timer of its own");
    }

    async fn everything_that_is_due_is_done_in_one_tick(d: &Deployment) {
        let promoted = d.create().delayed_by(10).send().await;
        let timed_out = d.create().policy(r#"{"timeout_policy":{"attempt_timeout_ms":10}}"#)
            .send().await;
        d.claim(LANE).await;
        let mut call = d.claim_call(LANE, 1);
        call.lease_ttl_ms = 10;
        let lapsed = d.create_one().await;
        d.claimed(call).await;
        let expired = d.create().deadline_in(10).lane("e").send().await;
        let granted = d.create().lane("g").send().await;
        let mut grant = d.claim_grant_call(granted);
        grant.grant_ttl_ms = 10;
        d.call(grant).await;
        let purged = d.create().policy(r#"{"retention_ms":10}"#).send().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        let worker = registration(d);
        d.call(RegisterWorker { ttl_ms: 10, ..worker }).await;
        d.advance(9).await;
        assert_eq!(d.tick().await.total(), 0);
        d.advance(1).await;
        let report = d.tick().await;
        assert_eq!((report.promoted, report.lapsed, report.timed_out), (1, 1, 1));
        assert_eq!((report.expired, report.purged, report.granted_back), (1, 1, 1));
        assert_eq!((report.forgotten, report.corrected), (1, 0));
        assert!(!report.more);
        for (id, state) in [
            (promoted, PublicState::Waiting),
            (timed_out, PublicState::Expired),
            (lapsed, PublicState::Active),
            (expired, PublicState::Expired),
            (granted, PublicState::Waiting),
        ] {
            assert_eq!(d.describe(id).await.public_state(), state);
        }
        assert_eq!(d.try_describe(purged).await, None);
        assert_eq!(d.tick().await.total(), 0, "nothing fires twice");
    }

    async fn a_tick_does_no_more_than_it_was_told(d: &Deployment) {
        for _ in 0..5 {
            d.create().delayed_by(10).send().await;
        }
        d.advance(10).await;
        for (most, done) in [(2, 2), (2, 2), (2, 1), (2, 0)] {
            assert_eq!(tick_some(d, most).await, done);
        }
        let held = d.claimed(d.claim_call(LANE, 5)).await;
        assert_eq!(held.len(), 5);
        for held in held {
            d.call(held.complete(b"")).await;
        }
        d.advance(100_000_000).await;
        for (most, done) in [(3, 3), (3, 2), (3, 0)] {
            assert_eq!(tick_some(d, most).await, done);
        }
    }

    async fn a_tick_tells_how_late_it_is(d: &Deployment) {
        let late = async || {
            let tick = Tick::once(1);
            let TickReply::Ticked { late_ms, .. } = d.call(tick).await;
            late_ms
        };
        d.create().delayed_by(10).send().await;
        d.create().delayed_by(15).send().await;
        assert_eq!(late().await, 0);
        d.advance(17).await;
        assert_eq!(late().await, 7);
        assert_eq!(late().await, 2);
        assert_eq!(late().await, 0);
    }

    async fn what_was_due_first_is_done_first(d: &Deployment) {
        let late = d.create().delayed_by(20).send().await;
        let early = d.create().delayed_by(10).send().await;
        d.advance(20).await;
        assert_eq!(tick_some(d, 1).await, 1);
        assert_eq!(d.describe(early).await.public_state(), PublicState::Waiting);
        assert_eq!(d.describe(late).await.public_state(), PublicState::Delayed);
    }

    async fn a_purged_execution_leaves_nothing_but_its_story(d: &Deployment) {
        let policy = format!(r#"{{"retention_ms":10{},"retry_policy":{{"backoff":
            {{"type":"fixed","delay_ms":0}}}}}}"#, " ".repeat(300));
        let id = d.create().policy(&policy).payload(&[1; 1000]).tags(r#"{"a.b":"c"}"#).send().await;
        d.call(d.claim(LANE).await.fail("no", "x")).await;
        d.call(d.claim(LANE).await.complete(&[2; 1000])).await;
        let suffixes = ["", ":payload", ":result", ":policy", ":tags", ":attempts"];
        let dump = d.dump().await;
        assert!(suffixes.iter().all(|suffix| dump.contains_key(&key_of(id, suffix))));
        d.advance(limits::PURGED_REMEMBERED_MS).await;
        assert_eq!(d.tick().await.purged, 1);
        let dump = d.dump().await;
        assert_eq!(dump.len(), 1, "only the log is left: {:?}", dump.keys());
        assert!(listed_in(&dump, id).is_empty());
        assert_eq!(events_of(&dump, id).len(), 5);
    }

    async fn a_key_goes_with_its_execution(d: &Deployment) {
        let new = || d.create().idempotency("k", "x").dedup_ms(10).policy(r#"{"retention_ms":0}"#);
        let first = new().send().await;
        d.advance(10).await;
        let second = new().send().await;
        assert_ne!(first, second, "the window is over");
        let remembered = async || {
            let idem = format!("{}:idem", d.home().key());
            hash(&d.dump().await, idem.as_bytes()).into_values().next()
        };
        for held in d.claimed(d.claim_call(LANE, 2)).await {
            d.call(held.complete(b"")).await;
        }
        assert_eq!(d.tick().await.purged, 1, "the first");
        let kept = remembered().await.expect("it stands for the second now");
        assert!(kept.contains(&second.uuid().to_string()), "{kept}");
        d.advance(10).await;
        assert_eq!(d.tick().await.purged, 1);
        assert_eq!(remembered().await, None);
    }

    async fn what_is_purged_early_leaves_its_outcome_for_a_minute(d: &Deployment) {
        let id = d.create().policy(r#"{"retention_ms":0}"#).payload(&[1; 1000]).send().await;
        let held = d.claim(LANE).await;
        d.call(held.complete(&[2; 1000])).await;
        assert_eq!(d.tick().await.purged, 1);
        assert_eq!(d.try_describe(id).await, None);
        let left = hash(&d.dump().await, &key_of(id, ""));
        assert_eq!(left.into_iter().collect::<Vec<_>>(),
            [("ep".to_owned(), "1".to_owned()), ("go".to_owned(), "success:".to_owned())]);
        let reply = d.call(held.complete(&[2; 1000])).await;
        assert!(matches!(reply, CompleteExecutionReply::CompletedBefore { .. }), "{reply:?}");
        d.advance(limits::PURGED_REMEMBERED_MS).await;
        let report = d.tick().await;
        assert_eq!((report.purged, report.forgotten, report.next_due_at), (0, 1, None));
        assert_eq!(d.dump().await.len(), 1, "only the log is left");
        assert_eq!(d.refused(held.complete(b"")).await, Code::ExecutionNotFound);
    }

    async fn the_deadline_comes_before_the_lease_and_the_timeout(d: &Deployment) {
        let policy = format!(
            r#"{{"retry_policy":{{}},"timeout_policy":
                {{"attempt_timeout_ms":{LEASE_MS},"execution_deadline_ms":{LEASE_MS}}}}}"#
        );
        let id = d.create().policy(&policy).send().await;
        d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        let report = d.tick().await;
        assert_eq!((report.expired, report.timed_out, report.lapsed), (1, 0, 0));
        let last = events_of(&d.dump().await, id).pop();
        assert_eq!(last.as_deref(), Some("ended 0 expired:execution_deadline:tests"));
    }

    async fn the_timeout_comes_before_the_lease(d: &Deployment) {
        let policy = format!(r#"{{"timeout_policy":{{"attempt_timeout_ms":{LEASE_MS}}}}}"#);
        d.create().policy(&policy).send().await;
        d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        let report = d.tick().await;
        assert_eq!((report.timed_out, report.lapsed), (1, 0));
    }

    async fn each_partition_is_ticked_on_its_own(d: &Deployment) {
        let elsewhere = d.create().on(d.partitions[1]).delayed_by(10).send().await;
        d.advance(10).await;
        assert_eq!(d.tick().await.total(), 0);
        assert_eq!(d.describe(elsewhere).await.public_state(), PublicState::Delayed);
    }

    async fn the_engine_is_told_of_what_comes_before_its_next_look_only(d: &Deployment) {
        let mut due = d.listen(Topic::Due).await;
        d.call(Tick { next_look_ms: Some(40_000), ..Tick::once(1) }).await;
        let now = d.now();
        d.create().delayed_by(40_000).send().await;
        d.create().delayed_by(30_000).send().await;
        d.create().delayed_by(35_000).send().await;
        d.create().delayed_by(20_000).send().await;
        assert_eq!(due.next().await, now.plus_millis(30_000).to_string());
        assert_eq!(due.next().await, now.plus_millis(20_000).to_string());
        d.advance(20_000).await;
        d.call(Tick { next_look_ms: Some(40_000), ..Tick::once(1) }).await;
        d.create().delayed_by(15_000).send().await;
        d.create().delayed_by(5_000).send().await;
        assert_eq!(due.next().await, d.now().plus_millis(5_000).to_string());
    }

    async fn an_engine_that_is_overdue_is_told_again(d: &Deployment) {
        let mut due = d.listen(Topic::Due).await;
        d.call(Tick { next_look_ms: Some(5_000), ..Tick::once(1) }).await;
        d.advance(5_000).await;
        d.create().delayed_by(limits::TICK_SWEEP_MS).send().await;
        d.create().delayed_by(limits::TICK_SWEEP_MS - 1).send().await;
        let told = d.now().plus_millis(limits::TICK_SWEEP_MS - 1);
        assert_eq!(due.next().await, told.to_string());
    }

    async fn a_purge_that_comes_soon_is_told_of(d: &Deployment) {
        let mut due = d.listen(Topic::Due).await;
        d.call(Tick { next_look_ms: Some(LEASE_MS), ..Tick::once(1) }).await;
        d.create().policy(r#"{"retention_ms":2000}"#).send().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        due.hears(&d.now().plus_millis(2000).to_string()).await;
        assert_eq!(next_due(d).await, Some(d.now().get() + 2000));
    }

    async fn a_sweep_tells_again_what_lies_in_the_queues_and_that_this_was_all(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        d.create().priority(3).send().await;
        d.create().lane("other").send().await;
        let (first, other) = (ready.next().await, ready.next().await);
        d.call(Tick { announce: true, ..Tick::once(1) }).await;
        let again = |told: &str| format!("0{}", told.strip_prefix('1').expect("one joined"));
        let mut told = [ready.next().await, ready.next().await];
        let mut expected = [again(&first), again(&other)];
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected);
        assert_eq!(ready.next().await, "told");
    }

    async fn a_sweep_tells_nothing_of_paused_lanes_and_forgets_empty_ones(d: &Deployment) {
        d.create_one().await;
        d.create().lane("paused").send().await;
        d.call(SetLane { paused: Some(true), ..unset("paused") }).await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        let has = async |lane| {
            member_score(&d.dump().await, d.home(), "queued", lane).is_some()
        };
        assert!(has(LANE).await && has("paused").await);
        let mut ready = d.listen(Topic::Ready).await;
        d.call(Tick { announce: true, ..Tick::once(1) }).await;
        assert_eq!(ready.next().await, "told");
        assert!(!has(LANE).await && has("paused").await);
    }

    async fn too_many_queues_are_not_told_of(d: &Deployment) {
        for number in 0..=limits::ANNOUNCED_MAX {
            d.create().kind(&format!("kind-{number}")).send().await;
        }
        let mut ready = d.listen(Topic::Ready).await;
        d.call(Tick { announce: true, ..Tick::once(1) }).await;
        d.create().lane("last").send().await;
        assert_eq!(ready.lane().await, "last");
    }
}
