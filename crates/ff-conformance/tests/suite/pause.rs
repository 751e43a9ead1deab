//! Giving a lease back while the attempt goes on later.

use ff_conformance::record::{events_of, listed_in, record, score};
use ff_conformance::{LANE, LEASE_MS, conformance};
use ff_core::state::{AttemptLifecycle, AttemptState, PublicState};
use ff_script::calls::claim::AttemptKind;
use ff_script::calls::pause::{DelayExecutionReply, MoveToWaitingChildrenReply};
use ff_script::host::Topic;

conformance! {
    async fn a_delayed_attempt_goes_on_at_its_time(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let held = d.create_and_claim().await;
        assert_eq!(ready.lane().await, LANE);
        let mut due = d.listen(Topic::Due).await;
        d.advance(10).await;
        let at = d.now().plus_millis(2000);
        let reply = d.call(held.delay(at)).await;
        assert_eq!(reply, DelayExecutionReply::Delayed { delay_until: at });
        due.hears(&at.to_string()).await;
        let described = d.describe(held.id).await;
        assert_eq!(described.public_state(), PublicState::Delayed);
        assert_eq!(described.state.attempt_state, AttemptState::AttemptInterrupted);
        assert_eq!((described.delay_until, described.current_lease), (Some(at), None));
        assert_eq!(described.last_transition_at, d.now());
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["due"]);
        assert_eq!(score(&dump, "due", held.id), Some(at.get()));
        assert_eq!(events_of(&dump, held.id).last().map(String::as_str), Some("delayed 0 paused"));
        assert_eq!(d.attempts(held.id).await[0].state, AttemptLifecycle::Suspended);
        d.set_time(at.get()).await;
        assert_eq!(d.tick().await.promoted, 1);
        assert_eq!(ready.lane().await, LANE);
        let resumed = d.claim(LANE).await;
        assert_eq!(resumed.row.attempt_kind, AttemptKind::Resumed);
        assert_eq!(resumed.attempt_id, held.attempt_id);
        assert_eq!(d.describe(held.id).await.last_transition_at, d.now(), "going on is one");
    }

    async fn a_delay_into_the_past_is_over_at_once(d: &Deployment) {
        let held = d.create_and_claim().await;
        let reply = d.call(held.delay(d.now())).await;
        assert_eq!(reply, DelayExecutionReply::Delayed { delay_until: d.now() });
        assert_eq!(listed_in(&d.dump().await, held.id), ["q:default:tests:work"]);
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Waiting);
        assert_eq!(d.claim(LANE).await.attempt_id, held.attempt_id);
    }

    async fn a_lost_reply_to_delay_is_answered_again(d: &Deployment) {
        let held = d.create_and_claim().await;
        let at = d.now().plus_millis(500);
        d.call(held.delay(at)).await;
        d.advance(100).await;
        let before = DelayExecutionReply::DelayedBefore { delay_until: at };
        assert_eq!(d.call(held.delay(at.plus_millis(7))).await, before);
        d.set_time(at.get()).await;
        d.tick().await;
        assert_eq!(d.call(held.delay(at)).await, before);
    }

    async fn an_attempt_without_open_children_is_claimable_at_once(d: &Deployment) {
        let held = d.create_and_claim().await;
        let reply = d.call(held.wait_for_children()).await;
        let public_state = PublicState::Waiting;
        assert_eq!(reply, MoveToWaitingChildrenReply::Moved { public_state });
        let again = d.call(held.wait_for_children()).await;
        assert_eq!(again, MoveToWaitingChildrenReply::MovedBefore { public_state });
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["q:default:tests:work"]);
        assert_eq!(events_of(&dump, held.id).last().map(String::as_str),
            Some("waiting_children 0 paused"));
        assert_eq!(d.claim(LANE).await.attempt_id, held.attempt_id);
    }

    async fn a_paused_attempt_keeps_the_time_it_has_left(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":1000}}"#;
        let id = d.create().policy(policy).send().await;
        let held = d.claim(LANE).await;
        d.advance(300).await;
        d.call(held.delay(d.now().plus_millis(LEASE_MS))).await;
        let stored = record(&d.dump().await, id);
        assert_eq!(stored["tl"], "700");
        assert!(!stored.contains_key("ta") && !stored.contains_key("le"), "{stored:?}");
        d.advance(LEASE_MS).await;
        d.tick().await;
        let resumed = d.claim(LANE).await;
        assert_eq!(resumed.row.attempt_timeout_at, Some(d.now().plus_millis(700)));
        d.advance(200).await;
        d.call(resumed.wait_for_children()).await;
        let resumed = d.claim(LANE).await;
        assert_eq!(resumed.row.attempt_timeout_at, Some(d.now().plus_millis(500)));
    }

    async fn a_paused_attempt_can_be_paused_completed_and_failed_again(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.delay(d.now())).await;
        let held = d.claim(LANE).await;
        d.call(held.delay(d.now())).await;
        let held = d.claim(LANE).await;
        assert_eq!((held.lease_epoch.get(), held.row.attempt_index.get()), (3, 0));
        d.call(held.complete(b"")).await;
        let attempts = d.attempts(held.id).await;
        assert_eq!((attempts.len(), attempts[0].state), (1, AttemptLifecycle::EndedSuccess));
        assert_eq!(attempts[0].lease_epoch.get(), 3);
    }
}
