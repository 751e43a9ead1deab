//! Executions pass a budget, report what they used of it, and give back what was promised.

use ff_conformance::budgets::{User, words};
use ff_conformance::{Deployment, conformance};
use ff_core::contracts::OnHardLimit;
use ff_core::error::Code;
use ff_core::types::BudgetId;
use ff_script::calls::usage::{
    CheckBudgetAndReserveReply, ForgetUsage, ReleaseBudget, ReleaseBudgetReply,
    ReportUsageAndCheckReply as Told, ReserveUsageReply,
};
use ff_script::wire::Rest;

fn user(d: &Deployment) -> User {
    User { id: d.new_id(), epoch: 1 }
}

pub(crate) fn release(budget_id: BudgetId, user: User) -> ReleaseBudget {
    let items = [budget_id.to_string(), user.id.to_string(), user.epoch.to_string()];
    ReleaseBudget { items: Rest(items.to_vec()) }
}

pub(crate) fn forget(budget_id: BudgetId, user: User) -> ForgetUsage {
    ForgetUsage { items: Rest(vec![budget_id.to_string(), user.id.to_string()]) }
}

fn exceeded(dimension: &str, usage: u64, limit: u64) -> CheckBudgetAndReserveReply {
    let dimension = dimension.to_owned();
    CheckBudgetAndReserveReply::Exceeded { dimension, usage, limit, opens_at: None }
}

const PASSED: CheckBudgetAndReserveReply = CheckBudgetAndReserveReply::Admitted {};

conformance! {
    async fn what_is_used_is_counted_and_the_limits_are_told(d: &Deployment) {
        let id = d.budget(["tokens", "100", "50"]).await;
        let one = d.user_of(id).await;
        assert_eq!(d.call(one.report(id, "", words(["tokens", "49"]))).await, Told::Within {});
        let soft = Told::SoftBreach { dimension: "tokens".to_owned(), usage: 50, limit: 50 };
        assert_eq!(d.call(one.report(id, "", words(["tokens", "1"]))).await, soft);
        let hard = Told::HardBreach { dimension: "tokens".to_owned(), usage: 130, limit: 100,
            on_hard_limit: OnHardLimit::Block, ask: None };
        assert_eq!(d.call(one.report(id, "", words(["tokens", "80"]))).await, hard);
        assert_eq!(d.tokens(id).await, (130, 0));
        let record = d.budget_record(id).await;
        assert_eq!((record.breach_count, record.soft_breach_count), (1, 1));
        assert_eq!(record.last_breach_dimension.as_deref(), Some("tokens"));
        let told: Vec<_> = record.events.iter()
            .map(|it| (it.event.as_str(), it.usage, it.limit, it.execution_id)).collect();
        assert_eq!(told, [("hard_limit", Some(130), Some(100), Some(one.id)),
            ("soft_limit", Some(50), Some(50), Some(one.id))]);
    }

    async fn a_limit_is_crossed_once_until_the_budget_begins_anew(d: &Deployment) {
        let id = d.budget(["tokens", "", "10"]).await;
        let one = d.user_of(id).await;
        for _ in 0..3 {
            d.call(one.report(id, "", words(["tokens", "10"]))).await;
        }
        assert_eq!(d.budget_record(id).await.soft_breach_count, 1);
        d.call(super::budget::reset(id)).await;
        d.call(one.report(id, "", words(["tokens", "10"]))).await;
        assert_eq!(d.budget_record(id).await.soft_breach_count, 2);
    }

    async fn a_limit_that_another_dimension_reached_is_heard_too(d: &Deployment) {
        let id = d.budget(["cost", "5", "", "tokens", "100", ""]).await;
        let (one, other) = (d.user_of(id).await, d.user_of(id).await);
        d.call(one.report(id, "", words(["cost", "5"]))).await;
        let told = d.call(other.report(id, "", words(["tokens", "1"]))).await;
        let Told::HardBreach { dimension, usage, .. } = told else { panic!("{told:?}") };
        assert_eq!((dimension.as_str(), usage), ("cost", 5));
    }

    async fn at_the_limit_nobody_passes(d: &Deployment) {
        let id = d.budget(["tokens", "10", ""]).await;
        let one = d.user_of(id).await;
        d.call(one.report(id, "", words(["tokens", "9"]))).await;
        assert_eq!(d.call(user(d).check(id, words([]))).await, PASSED);
        d.call(one.report(id, "", words(["tokens", "1"]))).await;
        assert_eq!(d.call(user(d).check(id, words([]))).await, exceeded("tokens", 10, 10));
        let again = d.call(one.check(id, words([]))).await;
        assert_eq!(again, CheckBudgetAndReserveReply::AdmittedBefore {}, "who passed has passed");
    }

    async fn reserved_usage_never_exceeds_a_hard_limit(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let mut passed = Vec::new();
        for _ in 0..9 {
            let one = user(d);
            if d.call(one.check(id, words(["tokens", "30"]))).await == PASSED {
                passed.push(one);
            }
        }
        assert_eq!((passed.len(), d.tokens(id).await), (3, (0, 90)));
        let (code, details) = d.refusal(passed[0].reserve(id, "", words(["tokens", "11"]))).await;
        assert_eq!((code, details.join(" ")), (Code::BudgetExceeded, "tokens 90 100".to_owned()));
        assert_eq!(d.tokens(id).await, (0, 90), "what is refused changes nothing");
        let done = d.call(passed[0].reserve(id, "", words(["tokens", "10"]))).await;
        assert_eq!(done, ReserveUsageReply::Reserved {});
        assert_eq!(d.tokens(id).await, (0, 100));
    }

    async fn what_is_reported_uses_up_what_was_promised_and_the_rest_goes_back(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let one = user(d);
        d.call(one.check(id, words(["tokens", "30"]))).await;
        d.call(one.report(id, "", words(["tokens", "20"]))).await;
        assert_eq!(d.tokens(id).await, (20, 10));
        assert!(matches!(d.call(release(id, one)).await, ReleaseBudgetReply::Released { .. }));
        assert_eq!(d.tokens(id).await, (20, 0));
        let again = d.call(release(id, one)).await;
        assert!(matches!(again, ReleaseBudgetReply::ReleasedBefore { .. }));
        assert_eq!(d.refused(one.report(id, "", words(["tokens", "1"]))).await, Code::StaleLease);
        let two = one.under(2);
        d.call(two.check(id, words(["tokens", "30"]))).await;
        d.call(two.report(id, "", words(["tokens", "50"]))).await;
        assert_eq!(d.tokens(id).await, (70, 0), "more than was promised is counted");
    }

    async fn a_late_question_after_its_release_is_refused(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let one = user(d);
        d.call(release(id, one)).await;
        assert_eq!(d.refused(one.check(id, words(["tokens", "30"]))).await, Code::StaleLease);
        assert_eq!(d.tokens(id).await, (0, 0));
        let two = one.under(2);
        assert_eq!(d.call(two.check(id, words(["tokens", "30"]))).await, PASSED);
        assert_eq!(d.refused(one.check(id, words([]))).await, Code::StaleLease);
    }

    async fn a_later_lease_takes_over_what_an_earlier_one_was_promised(d: &Deployment) {
        let id = d.budget(["tokens", "50", ""]).await;
        let one = user(d);
        d.call(one.check(id, words(["tokens", "30"]))).await;
        let two = one.under(2);
        assert_eq!(d.call(two.check(id, words(["tokens", "30"]))).await, PASSED);
        assert_eq!(d.tokens(id).await, (0, 30));
        d.call(release(id, one)).await;
        assert_eq!(d.tokens(id).await, (0, 30), "the release of the first comes late");
        d.call(two.report(id, "", words(["tokens", "1"]))).await;
    }

    async fn only_the_lease_that_passed_may_report_or_reserve(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let stranger = user(d);
        let one = || words(["tokens", "1"]);
        assert_eq!(d.refused(stranger.report(id, "", one())).await, Code::NoActiveLease);
        assert_eq!(d.refused(stranger.reserve(id, "", one())).await, Code::NoActiveLease);
        let known = d.user_of(id).await;
        assert_eq!(d.refused(known.under(2).report(id, "", one())).await, Code::StaleLease);
        assert_eq!(d.refused(known.under(2).reserve(id, "", one())).await, Code::StaleLease);
        let unknown = d.new_budget_id();
        assert_eq!(d.refused(known.report(unknown, "", one())).await, Code::BudgetNotFound);
        assert_eq!(d.refused(known.reserve(unknown, "", one())).await, Code::BudgetNotFound);
        assert_eq!(d.refused(known.check(unknown, one())).await, Code::BudgetNotFound);
        assert_eq!(d.tokens(id).await, (0, 0));
    }

    async fn a_report_counts_once_under_its_key_and_another_content_is_a_conflict(
        d: &Deployment
    ) {
        let id = d.budget(["tokens", "10", ""]).await;
        let one = d.user_of(id).await;
        let report = |tokens: &str| one.report(id, "step-1", words(["tokens", tokens]));
        d.call(report("12")).await;
        let again = Told::AppliedBefore { outcome: "HARD_BREACH".to_owned(),
            dimension: "tokens".to_owned(), usage: 12, limit: 10 };
        assert_eq!(d.call(report("12")).await, again);
        assert_eq!(d.tokens(id).await.0, 12);
        assert_eq!(d.refused(report("13")).await, Code::IdempotencyConflict);
        let other = d.budget(["tokens", "10", ""]).await;
        d.call(one.check(other, words([]))).await;
        let there = d.call(one.report(other, "step-1", words(["tokens", "3"]))).await;
        assert_eq!(there, Told::Within {}, "a key counts for one budget");
        d.call(super::budget::reset(id)).await;
        let friend = d.user_of(id).await;
        let theirs = d.call(friend.report(id, "step-1", words(["tokens", "1"]))).await;
        assert_eq!(theirs, Told::Within {}, "and for one execution");
        d.call(release(id, one)).await;
        d.call(one.under(2).check(id, words([]))).await;
        let later = d.call(one.under(2).report(id, "step-1", words(["tokens", "12"]))).await;
        assert!(matches!(later, Told::AppliedBefore { .. }), "in all of its attempts");
    }

    async fn a_reservation_counts_once_under_its_key(d: &Deployment) {
        let id = d.budget(["tokens", "10", ""]).await;
        let one = d.user_of(id).await;
        let reserve = |tokens: &str| one.reserve(id, "r", words(["tokens", tokens]));
        assert_eq!(d.call(reserve("4")).await, ReserveUsageReply::Reserved {});
        assert_eq!(d.call(reserve("4")).await, ReserveUsageReply::ReservedBefore {});
        assert_eq!(d.refused(reserve("5")).await, Code::IdempotencyConflict);
        assert_eq!(d.tokens(id).await, (0, 4));
    }

    async fn what_an_execution_used_stays_counted_when_it_is_gone(d: &Deployment) {
        let id = d.budget(["tokens", "10", ""]).await;
        let one = user(d);
        d.call(one.check(id, words(["tokens", "8"]))).await;
        d.call(one.report(id, "k", words(["tokens", "3"]))).await;
        d.call(forget(id, one)).await;
        assert_eq!(d.tokens(id).await, (3, 0));
        assert_eq!(d.budget_record(id).await.users, Some(0));
        let left = d.dump().await.into_keys().filter(|key| {
            String::from_utf8_lossy(key).contains(&one.id.to_string())
        });
        assert_eq!(left.count(), 0);
        d.call(forget(id, one)).await;
        assert_eq!(d.tokens(id).await, (3, 0));
    }
}
