//! What the hard limit of a budget means to those who run.

use ff_conformance::budgets::words;
use ff_conformance::{Deployment, Held, conformance};
use ff_core::contracts::{ApprovalRequest, Condition, OnHardLimit};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::{BlockingReason, PublicState};
use ff_core::types::{
    Approver, BudgetId, ExecutionId, LeaseEpoch, SignalId, SuspensionId, WaitpointId,
};
use ff_script::calls::approval::{RecordDecision, RecordDecisionReply};
use ff_script::calls::budget::DeleteBudget;
use ff_script::calls::lease::RenewLeaseReply;
use ff_script::calls::stop::{
    NoteBudgetsReached, NoteBudgetsReachedReply, PauseForBudget, PauseForBudgetReply,
    StopForBudget, StopForBudgetReply,
};
use ff_script::calls::usage::ReportUsageAndCheckReply as Told;
use ff_script::wire::Rest;

pub(crate) fn stop(held: &Held, action: &str, budget_id: BudgetId) -> StopForBudget {
    StopForBudget {
        execution_id: held.id,
        lease_epoch: held.lease_epoch,
        action: action.to_owned(),
        budget_id,
    }
}

/// Tells a lease how the hard limit of a budget stands.
pub(crate) fn tell(
    held: &Held,
    budget_id: BudgetId,
    order: u64,
    is_reached: bool,
) -> NoteBudgetsReached {
    let epoch = held.lease_epoch.to_string();
    let (order, is_reached) = (order.to_string(), u8::from(is_reached).to_string());
    let texts = [held.id.to_string(), epoch, budget_id.to_string(), order, is_reached];
    NoteBudgetsReached { items: Rest(texts.to_vec()) }
}

pub(crate) fn pause(d: &Deployment, held: &Held, budget_id: BudgetId) -> PauseForBudget {
    let condition = Condition::any(["approved", "rejected"]);
    PauseForBudget {
        execution_id: held.id,
        lease_epoch: held.lease_epoch,
        budget_id,
        ask: 1,
        suspension_id: SuspensionId::from_uuid(d.new_uuid()),
        waitpoint_id: WaitpointId::from_uuid(d.new_uuid()),
        resume_condition_json: condition.to_json(Some(true)).expect("a condition"),
        approval: ApprovalRequest::new("More?").to_json().expect("a question"),
    }
}

/// What people decide about what an execution asks.
async fn decide(d: &Deployment, held: &Held, word: &str) -> RecordDecisionReply {
    let waitpoint_id = d.describe(held.id).await.current_waitpoint.expect("it asks");
    d.call(RecordDecision {
        execution_id: held.id,
        waitpoint_id,
        signal_id: SignalId::from_uuid(d.new_uuid()),
        approver: Approver::try_new("mia").expect("a name"),
        signal_name: word.to_owned(),
    })
    .await
}

/// An execution that has reached the limit of a budget of a hundred tokens, and another one that
/// waits for it.
async fn reached(d: &Deployment, action: OnHardLimit) -> (BudgetId, Held, ExecutionId) {
    let id = d.budget_that(action, 100).await;
    d.install_secret().await;
    d.create_with(&[id], 0).send().await;
    let held = d.take_one().await.expect("there is room");
    d.advance(1).await;
    let next = d.create_with(&[id], 0).send().await;
    assert!(matches!(d.report(&held, id, 130).await, Told::HardBreach { .. }));
    assert!(d.take_one().await.is_none(), "admission stops at once");
    d.carry_out().await;
    (id, held, next)
}

/// What a renewal says of budgets.
async fn hears(d: &Deployment, held: &Held) -> Vec<BudgetId> {
    let RenewLeaseReply::Renewed { budgets_reached, .. } = d.call(held.renew(60_000)).await;
    budgets_reached.0
}

conformance! {
    async fn all_who_run_hear_of_a_reached_limit_by_their_next_renewal(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let other = d.budget(["tokens", "1000", ""]).await;
        let mut running = Vec::new();
        // More than one step of a walk looks at.
        for _ in 0..limits::USERS_STEP + 6 {
            d.create_with(&[other, id], 0).send().await;
            running.push(d.take_one().await.expect("there is room"));
        }
        assert_eq!(hears(d, &running[0]).await, []);
        d.report(&running[1], id, 130).await;
        d.carry_out().await;
        for held in &running {
            assert_eq!(hears(d, held).await, [id]);
        }
        d.report(&running[1], other, 1000).await;
        d.carry_out().await;
        assert_eq!(hears(d, &running[0]).await, [other, id]);
        d.call(super::budget::reset(id)).await;
        d.carry_out().await;
        assert_eq!(hears(d, &running[0]).await, [other]);
        d.call(DeleteBudget { budget_id: other }).await;
        d.carry_out().await;
        assert_eq!(hears(d, &running[0]).await, []);
    }

    async fn a_limit_that_is_lowered_below_what_was_used_is_heard_of(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.create_with(&[id], 0).send().await;
        let held = d.take_one().await.expect("there is room");
        d.report(&held, id, 50).await;
        d.call(super::budget::update(id, words(["tokens", "40", ""]))).await;
        d.carry_out().await;
        assert_eq!(hears(d, &held).await, [id]);
        d.call(super::budget::update(id, words(["tokens", "400", ""]))).await;
        d.carry_out().await;
        assert_eq!(hears(d, &held).await, []);
    }

    async fn what_a_lease_was_told_ends_with_it_and_an_old_word_changes_nothing(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.create_with(&[id], 0).send().await;
        let held = d.take_one().await.expect("there is room");
        let word = |order, is_reached| tell(&held, id, order, is_reached);
        let noted = |noted| NoteBudgetsReachedReply::Noted { noted };
        assert_eq!(d.call(word(7, true)).await, noted(1));
        assert_eq!(d.call(word(7, true)).await, noted(0));
        assert_eq!(d.call(word(8, false)).await, noted(1));
        assert_eq!(d.call(word(7, true)).await, noted(0));
        assert_eq!(hears(d, &held).await, []);
        assert_eq!(d.call(word(9, true)).await, noted(1));
        assert_eq!(hears(d, &held).await, [id]);
        d.call(held.delay(d.now().plus_millis(1))).await;
        assert_eq!(d.call(word(10, true)).await, noted(0));
        d.advance(1).await;
        d.tick().await;
        let next = d.take_one().await.expect("it goes on");
        assert_eq!((next.id, hears(d, &next).await), (held.id, vec![]));
        assert_eq!(d.call(word(11, true)).await, noted(0));
    }

    async fn what_runs_fails_or_is_cancelled_after_a_grace(d: &Deployment) {
        for (action, end) in [(OnHardLimit::Fail, PublicState::Failed),
            (OnHardLimit::Cancel, PublicState::Cancelled)] {
            let (id, held, next) = reached(d, action).await;
            d.call(held.renew(2 * limits::BUDGET_GRACE_MS)).await;
            d.advance(limits::BUDGET_GRACE_MS - 1).await;
            d.carry_out().await;
            assert_eq!(d.describe(held.id).await.public_state(), PublicState::Active);
            d.advance(1).await;
            d.carry_out().await;
            let ended = d.describe(held.id).await;
            assert_eq!(ended.public_state(), end);
            assert_eq!(d.describe(next).await.public_state(), PublicState::RateLimited);
            assert_eq!(d.tokens(id).await, (130, 0));
        }
    }

    async fn who_stops_by_itself_is_not_stopped(d: &Deployment) {
        let (_, held, _) = reached(d, OnHardLimit::Fail).await;
        d.call(held.complete(b"in time")).await;
        d.advance(limits::BUDGET_GRACE_MS).await;
        d.carry_out().await;
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Completed);
    }

    async fn a_limit_that_was_raised_in_time_stops_nobody(d: &Deployment) {
        let (id, held, _) = reached(d, OnHardLimit::Cancel).await;
        d.call(held.renew(2 * limits::BUDGET_GRACE_MS)).await;
        d.call(super::budget::update(id, words(["tokens", "1000", ""]))).await;
        d.advance(limits::BUDGET_GRACE_MS).await;
        d.carry_out().await;
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Active);
    }

    async fn the_one_that_reached_the_limit_asks_and_goes_on_when_it_is_approved(d: &Deployment) {
        let (id, held, next) = reached(d, OnHardLimit::Ask).await;
        let asks = d.describe(held.id).await;
        assert_eq!(asks.public_state(), PublicState::Suspended);
        assert_eq!(asks.state.blocking_reason, BlockingReason::WaitingForBudget);
        assert_eq!(d.describe(next).await.state.blocking_reason, BlockingReason::WaitingForBudget);
        assert_eq!(d.refused(held.complete(b"")).await, Code::ExecutionNotActive);
        assert!(matches!(decide(d, &held, "approved").await, RecordDecisionReply::Recorded { .. }));
        d.carry_out().await;
        let raised = d.budget_record(id).await;
        assert_eq!(raised.dimensions["tokens"].hard, Some(200));
        assert_eq!(raised.events[0].event, "raised");
        let ids = [d.take_one().await, d.take_one().await].map(|it| it.expect("free").id);
        assert!(ids.contains(&held.id) && ids.contains(&next), "everything goes on");
    }

    async fn a_rejection_fails_the_one_that_asked(d: &Deployment) {
        let (id, held, next) = reached(d, OnHardLimit::Ask).await;
        decide(d, &held, "rejected").await;
        d.carry_out().await;
        let failed = d.describe(held.id).await;
        assert_eq!(failed.public_state(), PublicState::Failed);
        assert!(failed.failure.expect("a failure").reason.starts_with("budget_rejected"));
        assert_eq!(d.budget_record(id).await.dimensions["tokens"].hard, Some(100));
        assert_eq!(d.describe(next).await.public_state(), PublicState::RateLimited);
    }

    async fn an_operator_may_let_it_go_on_without_more(d: &Deployment) {
        let (id, held, _) = reached(d, OnHardLimit::Ask).await;
        d.call(super::budget::reset(id)).await;
        d.carry_out().await;
        d.call(d.resumption(held.id)).await;
        assert_eq!(d.budget_record(id).await.dimensions["tokens"].hard, Some(100));
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Waiting);
    }

    async fn who_goes_on_under_another_lease_is_left_alone(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.create_with(&[id], 0).send().await;
        let held = d.take_one().await.expect("there is room");
        let call = stop(&held, "fail", id);
        let stale = StopForBudget { lease_epoch: LeaseEpoch::new(7), ..call.clone() };
        assert_eq!(d.refused(stale).await, Code::StaleLease);
        let unknown = StopForBudget { execution_id: d.new_id(), ..call.clone() };
        assert_eq!(d.refused(unknown).await, Code::ExecutionNotFound);
        let public_state = PublicState::Failed;
        assert_eq!(d.call(call.clone()).await, StopForBudgetReply::Stopped { public_state });
        assert_eq!(d.refused(call).await, Code::StaleLease);
        assert_eq!(d.refused(pause(d, &held, id)).await, Code::StaleLease);
        let gone = PauseForBudget { execution_id: d.new_id(), ..pause(d, &held, id) };
        assert_eq!(d.refused(gone).await, Code::ExecutionNotFound);
    }

    async fn a_question_that_is_asked_again_is_recognised(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.install_secret().await;
        d.create_with(&[id], 0).send().await;
        let held = d.take_one().await.expect("there is room");
        let call = pause(d, &held, id);
        assert_eq!(d.call(call.clone()).await, PauseForBudgetReply::Paused {});
        assert_eq!(d.call(call).await, PauseForBudgetReply::PausedBefore {});
    }
}
