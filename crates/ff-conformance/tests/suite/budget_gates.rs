//! Executions under budgets: claims pass them, and what is refused waits until there is room.

use ff_conformance::budgets::{User, words};
use ff_conformance::record::{events_of, listed_in};
use ff_conformance::{LEASE_MS, conformance};
use ff_core::contracts::Condition;
use ff_core::error::Code;
use ff_core::state::{BlockingReason, EligibilityState, PublicState};
use ff_script::calls::budget::DeleteBudget;
use ff_script::calls::usage::ReportUsageAndCheckReply as Told;

use super::budget::{reset, update};

conformance! {
    async fn a_claim_reserves_and_its_end_gives_the_rest_back(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.create_with(&[id], 40).send().await;
        let held = d.take_one().await.expect("there is room");
        assert_eq!(d.tokens(id).await, (0, 40));
        assert_eq!(d.report(&held, id, 25).await, Told::Within {});
        assert_eq!(d.tokens(id).await, (25, 15));
        d.call(held.complete(b"")).await;
        d.carry_out().await;
        assert_eq!(d.tokens(id).await, (25, 0));
    }

    async fn what_has_no_room_is_undone_and_waits_at_the_budget(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let first = d.create_with(&[id], 60).send().await;
        d.advance(1).await;
        let second = d.create_with(&[id], 60).send().await;
        let held = d.take_one().await.expect("there is room");
        assert_eq!(held.id, first);
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
        let waits = d.describe(second).await;
        assert_eq!(waits.state.blocking_reason, BlockingReason::WaitingForBudget);
        assert_eq!(waits.state.eligibility_state, EligibilityState::BlockedByBudget);
        assert_eq!(waits.public_state(), PublicState::RateLimited);
        assert!(d.attempts(second).await.is_empty(), "the attempt did not begin");
        assert_eq!(listed_in(&d.dump().await, second), [format!("gate:b:{id}")]);
        let told = ["created", "claimed 0 initial", "blocked waiting_for_budget"];
        assert_eq!(events_of(&d.dump().await, second), told);
        d.call(held.complete(b"")).await;
        d.carry_out().await;
        assert_eq!(d.take_one().await.expect("there is room again").id, second);
    }

    async fn every_end_of_a_lease_gives_the_reservation_back(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        for end in ["fail", "delay", "suspend", "lapse", "cancel"] {
            d.create_with(&[id], 40).send().await;
            let held = d.take_one().await.expect("there is room");
            assert_eq!(d.tokens(id).await.1, 40, "{end}");
            match end {
                "fail" => drop(d.call(held.fail("broken", "")).await),
                "delay" => {
                    d.call(held.delay(d.now().plus_millis(1_000_000))).await;
                }
                "suspend" => drop(d.suspend_held(&held, &Condition::any_signal()).await),
                "lapse" => d.advance(LEASE_MS + 1).await,
                _ => drop(d.call(held.cancel("enough")).await),
            }
            d.carry_out().await;
            assert_eq!(d.tokens(id).await.1, 0, "{end}");
            if end == "lapse" {
                let again = d.take_one().await.expect("it is taken over");
                assert_eq!(d.tokens(id).await.1, 40);
                d.call(again.complete(b"")).await;
                d.carry_out().await;
            }
        }
    }

    async fn at_a_hard_limit_admission_stops_and_a_raise_frees_what_is_blocked(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let first = d.create_with(&[id], 0).send().await;
        d.advance(1).await;
        let second = d.create_with(&[id], 0).send().await;
        let held = d.take_one().await.expect("there is room");
        assert_eq!(held.id, first);
        assert!(matches!(d.report(&held, id, 100).await, Told::HardBreach { .. }));
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
        d.call(update(id, words(["tokens", "200", ""]))).await;
        d.carry_out().await;
        assert_eq!(d.take_one().await.expect("the limit was raised").id, second);
    }

    async fn a_reset_frees_what_is_blocked(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let one = d.user_of(id).await;
        d.call(one.report(id, "", words(["tokens", "100"]))).await;
        let blocked = d.create_with(&[id], 10).send().await;
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
        let new = d.create_with(&[id], 10).send().await;
        assert_eq!(d.describe(new).await.public_state(), PublicState::RateLimited,
            "what comes meanwhile is not even tried");
        d.call(reset(id)).await;
        d.carry_out().await;
        let ids = [d.take_one().await, d.take_one().await].map(|it| it.expect("free").id);
        assert_eq!(ids, [blocked, new]);
    }

    async fn a_removed_budget_holds_nobody_back(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let one = d.user_of(id).await;
        d.call(one.report(id, "", words(["tokens", "100"]))).await;
        let blocked = d.create_with(&[id], 10).send().await;
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
        d.call(DeleteBudget { budget_id: id }).await;
        d.carry_out().await;
        let held = d.take_one().await.expect("nothing holds it");
        assert_eq!(held.id, blocked);
        d.call(held.complete(b"")).await;
        d.carry_out().await;
    }

    async fn all_budgets_must_have_room_and_what_one_gave_goes_back(d: &Deployment) {
        let wide = d.budget(["tokens", "1000", ""]).await;
        let narrow = d.budget(["tokens", "50", ""]).await;
        let id = d.create_with(&[wide, narrow], 60).send().await;
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
        assert_eq!((d.tokens(wide).await, d.tokens(narrow).await), ((0, 0), (0, 0)));
        d.call(update(narrow, words(["tokens", "100", ""]))).await;
        d.carry_out().await;
        assert_eq!(d.take_one().await.expect("there is room in both").id, id);
        assert_eq!((d.tokens(wide).await, d.tokens(narrow).await), ((0, 60), (0, 60)));
    }

    async fn usage_is_counted_over_all_that_a_budget_applies_to(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        for _ in 0..3 {
            d.create_with(&[id], 0).send().await;
        }
        let (one, two) = (d.take_one().await.expect("one"), d.take_one().await.expect("two"));
        assert_eq!(d.report(&one, id, 60).await, Told::Within {});
        assert!(matches!(d.report(&two, id, 60).await, Told::HardBreach { usage: 120, .. }));
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
    }

    async fn a_stale_worker_cannot_report(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.create_with(&[id], 0).send().await;
        let stale = d.take_one().await.expect("there is room");
        d.advance(LEASE_MS + 1).await;
        d.carry_out().await;
        let fresh = d.take_one().await.expect("it is taken over");
        let call = User::from(&stale).report(id, "", words(["tokens", "9"]));
        assert_eq!(d.refused(call).await, Code::StaleLease);
        assert_eq!(d.report(&fresh, id, 1).await, Told::Within {});
        assert_eq!(d.tokens(id).await.0, 1);
    }

    async fn what_an_execution_used_is_forgotten_with_it_and_stays_counted(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let policy = format!(r#"{{"budget_ids":["{id}"],"retention_ms":0}}"#);
        d.create().policy(&policy).send().await;
        let held = d.take_one().await.expect("there is room");
        d.report(&held, id, 7).await;
        d.call(held.complete(b"")).await;
        d.advance(120_000).await;
        d.carry_out().await;
        assert_eq!(d.budget_record(id).await.users, Some(0));
        assert_eq!(d.tokens(id).await, (7, 0));
    }

    async fn who_wants_less_passes_when_something_was_freed(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let holder = d.create_with(&[id], 90).send().await;
        let held = d.take_one().await.expect("there is room");
        assert_eq!(held.id, holder);
        d.advance(1).await;
        let small = d.create_with(&[id], 20).send().await;
        assert!(d.take_one().await.is_none());
        d.advance(1).await;
        let large = d.create_with(&[id], 100).send().await;
        d.carry_out().await;
        d.report(&held, id, 50).await;
        d.call(held.complete(b"")).await;
        d.carry_out().await;
        assert_eq!(d.take_one().await.expect("there is room for it").id, small);
        assert!(d.take_one().await.is_none(), "{large} does not fit");
        d.carry_out().await;
        assert_eq!(d.tokens(id).await, (50, 20));
    }
}
