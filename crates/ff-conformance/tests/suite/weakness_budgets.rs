//! Known weaknesses of budgets and of blocking for admission, each as the test that it is gone.

use ff_conformance::budgets::{User, budget, words};
use ff_conformance::{LANE, conformance};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::{BlockingReason, PublicState};
use ff_script::calls::budget::{CreateBudget, DeleteBudget};
use ff_script::calls::gate::{BlockExecutionForAdmission, UnblockExecution};
use ff_script::calls::usage::ReportUsageAndCheckReply as Told;

use super::budget::{reset, update};

fn block(id: ff_core::types::ExecutionId, reason: &str) -> BlockExecutionForAdmission {
    BlockExecutionForAdmission {
        execution_id: id,
        lease_id: String::new(),
        lease_epoch: String::new(),
        attempt_id: String::new(),
        blocking_reason: reason.to_owned(),
        blocking_detail: String::new(),
        opens_at: None,
        budget_id: None,
    }
}

conformance! {
    async fn b1_a_report_or_a_reset_before_the_creation_makes_nothing(d: &Deployment) {
        let id = d.new_budget_id();
        let user = User { id: d.new_id(), epoch: 1 };
        let before = d.dump().await;
        assert_eq!(d.refused(user.report(id, "", words(["a", "1"]))).await, Code::BudgetNotFound);
        assert_eq!(d.refused(reset(id)).await, Code::BudgetNotFound);
        assert_eq!(d.dump().await, before);
    }

    async fn b2_a_key_of_one_budget_does_not_hide_a_report_to_another(d: &Deployment) {
        let (one, two) = (d.budget(["a", "9", ""]).await, d.budget(["a", "9", ""]).await);
        let user = d.user_of(one).await;
        d.call(user.check(two, words([]))).await;
        for id in [one, two] {
            assert_eq!(d.call(user.report(id, "same", words(["a", "1"]))).await, Told::Within {});
        }
        assert_eq!(d.refused(user.report(one, "same", words(["a", "2"]))).await,
            Code::IdempotencyConflict);
    }

    async fn b3_real_consumption_is_counted_although_the_limit_is_reached(d: &Deployment) {
        let id = d.budget(["tokens", "10", ""]).await;
        let user = d.user_of(id).await;
        d.call(user.report(id, "", words(["tokens", "15"]))).await;
        let told = d.call(user.report(id, "", words(["tokens", "1"]))).await;
        assert!(matches!(told, Told::HardBreach { usage: 16, .. }), "{told:?}");
    }

    async fn b4_duplicate_dimensions_are_refused(d: &Deployment) {
        let id = d.budget(["a", "9", ""]).await;
        let user = d.user_of(id).await;
        let twice = || words(["a", "5", "a", "5"]);
        assert_eq!(d.refused(user.report(id, "", twice())).await, Code::InvalidInput);
        assert_eq!(d.refused(user.reserve(id, "", twice())).await, Code::InvalidInput);
        assert_eq!(d.refused(user.under(2).check(id, twice())).await, Code::InvalidInput);
    }

    async fn b5_b6_a_fraction_or_a_negative_number_applies_nothing(d: &Deployment) {
        let id = d.budget(["a", "9", ""]).await;
        let user = d.user_of(id).await;
        for wrong in ["1.5", "-1", "", "x", "1e3", "01"] {
            let call = user.report(id, "k", words(["a", "1", "b", wrong]));
            assert_eq!(d.refused(call).await, Code::InvalidInput, "{wrong}");
        }
        assert_eq!(d.call(user.report(id, "k", words(["a", "1"]))).await, Told::Within {});
        assert_eq!(d.budget_record(id).await.dimensions["a"].used, 1);
    }

    async fn b7_large_numbers_are_exact_and_what_would_overflow_is_refused(d: &Deployment) {
        let most = limits::USAGE_MAX.to_string();
        let id = d.budget(["a", &most, ""]).await;
        let user = d.user_of(id).await;
        for round in 1..=3u64 {
            let told = d.call(user.report(id, "", words(["a", &most]))).await;
            let usage = round * limits::USAGE_MAX;
            assert!(matches!(told, Told::HardBreach { usage: told, .. } if told == usage));
        }
        let beyond = (limits::USAGE_MAX + 1).to_string();
        let call = user.report(id, "", words(["a", &beyond]));
        assert_eq!(d.refused(call).await, Code::InvalidInput);
    }

    async fn b8_a_repeated_report_does_not_count_a_breach_again(d: &Deployment) {
        let id = d.budget(["a", "1", ""]).await;
        let user = d.user_of(id).await;
        for _ in 0..3 {
            d.call(user.report(id, "k", words(["a", "5"]))).await;
        }
        assert_eq!(d.budget_record(id).await.breach_count, 1);
    }

    async fn b9_a_reset_has_a_due_test_does_not_drift_and_wakes_who_waits(d: &Deployment) {
        let id = d.budget(["tokens", "1", ""]).await;
        let due = ff_script::calls::budget::ResetBudget { due_only: true, ..reset(id) };
        assert_eq!(d.refused(due).await, Code::NotDue);
        let user = d.user_of(id).await;
        d.call(user.report(id, "", words(["tokens", "1"]))).await;
        let waits = d.create_with(&[id], 0).send().await;
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
        d.call(reset(id)).await;
        d.carry_out().await;
        assert_eq!(d.take_one().await.expect("it was woken").id, waits);
    }

    async fn b10_a_budget_is_made_whole_and_can_be_changed_and_removed(d: &Deployment) {
        let (id, before) = (d.new_budget_id(), d.dump().await);
        for interval in ["-1", "1.5", "soon", "9007199254740993"] {
            let id = id.to_string();
            let words = [&id, "lane", "elsewhere", "block", interval, "", "tokens", "5", ""];
            let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(d.raw("ff_create_budget", &args).await.code(), "invalid_input");
        }
        assert_eq!(d.dump().await, before, "nothing is half made");
        let call = || budget(id, words(["tokens", "5", ""]));
        d.call(call()).await;
        let other = CreateBudget { reset_interval_ms: Some(1000), ..call() };
        assert_eq!(d.refused(other).await, Code::BudgetAttachConflict);
        d.call(update(id, words(["tokens", "7", ""]))).await;
        assert_eq!(d.budget_record(id).await.dimensions["tokens"].hard, Some(7));
        d.call(DeleteBudget { budget_id: id }).await;
        assert_eq!(d.refused(reset(id)).await, Code::BudgetNotFound);
    }

    async fn b11_all_limits_are_looked_at_not_the_first_alone(d: &Deployment) {
        let id = d.budget(["a", "", "5", "b", "", "5"]).await;
        let user = d.user_of(id).await;
        d.call(user.report(id, "", words(["a", "5", "b", "5"]))).await;
        assert_eq!(d.budget_record(id).await.soft_breach_count, 2);
    }

    async fn b12_reports_are_fenced(d: &Deployment) {
        let id = d.budget(["a", "9", ""]).await;
        let user = d.user_of(id).await;
        for epoch in [2, 7] {
            let call = user.under(epoch).report(id, "", words(["a", "1"]));
            assert_eq!(d.refused(call).await, Code::StaleLease);
        }
    }

    async fn b13_budgets_are_attached_at_creation(d: &Deployment) {
        let id = d.budget(["tokens", "10", ""]).await;
        d.create_with(&[id], 5).send().await;
        d.take_one().await.expect("there is room");
        assert_eq!(d.tokens(id).await, (0, 5));
    }

    async fn b14_only_what_is_eligible_is_blocked(d: &Deployment) {
        let delayed = d.create().delayed_by(1000).send().await;
        let call = block(delayed, "paused_by_policy");
        assert_eq!(d.refused(call).await, Code::ExecutionNotEligible);
        let held = d.create_and_claim().await;
        let call = block(held.id, "paused_by_policy");
        assert_eq!(d.refused(call).await, Code::ExecutionNotEligible);
    }

    async fn b15_what_is_paused_by_policy_can_be_let_go(d: &Deployment) {
        let id = d.create_one().await;
        d.call(block(id, "paused_by_policy")).await;
        assert!(d.try_claim(LANE).await.is_none());
        let expected_reason = "paused_by_policy".to_owned();
        d.call(UnblockExecution { execution_id: id, expected_reason }).await;
        assert_eq!(d.claim(LANE).await.id, id);
    }

    async fn b16_reason_state_and_index_belong_together(d: &Deployment) {
        for (reason, told, public) in [
            ("paused_by_policy", BlockingReason::PausedByPolicy, PublicState::Waiting),
            ("paused_by_operator", BlockingReason::PausedByOperator, PublicState::Waiting),
            ("waiting_for_capable_worker", BlockingReason::WaitingForCapableWorker,
                PublicState::Waiting),
        ] {
            let id = d.create_one().await;
            d.call(block(id, reason)).await;
            let described = d.describe(id).await;
            assert_eq!((described.state.blocking_reason, described.public_state()), (told, public));
        }
        let id = d.create_one().await;
        assert_eq!(d.refused(block(id, "waiting_for_budget")).await, Code::InvalidBlockingReason,
            "it has none");
        assert_eq!(d.refused(block(id, "tired")).await, Code::InvalidBlockingReason);
    }

    async fn b17_times_are_those_of_the_store(d: &Deployment) {
        let id = d.budget(["a", "1", ""]).await;
        d.advance(17).await;
        let user = d.user_of(id).await;
        d.call(user.report(id, "", words(["a", "1"]))).await;
        assert_eq!(d.budget_record(id).await.last_breach_at, Some(d.now()));
    }
}
