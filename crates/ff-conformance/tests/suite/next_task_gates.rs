//! Ending an execution and taking the next one in one call, where the next one has gates.

use ff_conformance::gates::Limits;
use ff_conformance::record::listed_in;
use ff_conformance::{Deployment, LEASE_MS, conformance};
use ff_core::backend::Handle;
use ff_core::contracts::{ClaimRequest, TakeFrom, TaskEnd};
use ff_core::engine_backend::roles::*;
use ff_core::error::{Code, EngineError};
use ff_core::state::{BlockingReason, PublicState};
use ff_core::types::{BudgetId, ExecutionId, QuotaPolicyId};

use super::budget::update;
use super::quota::{holders, running};

/// What asks for one more of the usual queue.
fn next(d: &Deployment) -> ClaimRequest {
    let from = TakeFrom { need: "tests:work".parse().ok(), score_max: None };
    ClaimRequest { from, ..d.claim_request(1) }
}

/// Completes a task and takes the next one; gives which that is.
async fn finish(
    d: &Deployment,
    handle: &Handle,
    next: ClaimRequest,
) -> Result<Option<ExecutionId>, EngineError> {
    let told = d.backend.finish(handle, TaskEnd::Complete(None), next).await?;
    Ok(told.finished.next.map(|next| next.handle.execution_id))
}

/// Creates an execution under a quota and a budget, of which it reserves 60 tokens.
async fn under_both(d: &Deployment, policy: QuotaPolicyId, budget: BudgetId) -> ExecutionId {
    let gates = format!(
        r#"{{"quota":{{"policy_id":"{policy}","key":"k"}},"budget_ids":["{budget}"],
            "reserve_usage":{{"tokens":60}}}}"#
    );
    let id = d.create().policy(&gates).send().await;
    d.advance(1).await;
    id
}

conformance! {
    async fn what_an_end_takes_is_told_only_when_its_quota_has_let_it_pass(d: &Deployment) {
        for (places, passes) in [(1, false), (2, true)] {
            let policy = d.quota(Limits::at_once(places)).await;
            let ids = d.queue_under(policy, "k", 2).await;
            let first = d.take_on(d.home(), 1).await.pop().expect("there is room");
            let told = finish(d, &first.handle, next(d)).await.expect("it ends");
            assert_eq!(told, passes.then_some(ids[1]));
            let second = d.describe(ids[1]).await;
            let expected = if passes { PublicState::Active } else { PublicState::RateLimited };
            assert_eq!(second.public_state(), expected);
            assert_eq!(second.total_attempt_count, u32::from(passes));
            d.carry_out().await;
            let held = d.take_one().await.map(|held| held.id);
            assert_eq!(held, (!passes).then_some(ids[1]), "a freed place lets it go on");
            assert_eq!(holders(d, policy, "k").await, [ids[1]]);
        }
    }

    async fn what_an_end_takes_passes_all_its_gates_or_none(d: &Deployment) {
        let policy = d.quota(Limits::at_once(2)).await;
        let budget = d.budget(["tokens", "100", ""]).await;
        under_both(d, policy, budget).await;
        let second = under_both(d, policy, budget).await;
        let third = under_both(d, policy, budget).await;
        let first = d.take_on(d.home(), 1).await.pop().expect("there is room");
        let told = finish(d, &first.handle, next(d)).await.expect("it ends");
        assert_eq!(told, None, "what the first one reserved is not back yet");
        let refused = d.describe(second).await;
        assert_eq!(refused.state.blocking_reason, BlockingReason::WaitingForBudget);
        assert_eq!(refused.total_attempt_count, 0, "nobody was told of it");
        assert_eq!(listed_in(&d.dump().await, second), [format!("gate:b:{budget}")]);
        d.carry_out().await;
        assert_eq!((running(d, policy, "k").await, d.tokens(budget).await), (0, (0, 0)));
        let held = d.take_on(d.home(), 1).await.pop().expect("it was let go");
        assert_eq!(held.handle.execution_id, second);
        let twice = update(budget, ff_conformance::budgets::words(["tokens", "200", ""]));
        d.call(twice).await;
        d.carry_out().await;
        let told = finish(d, &held.handle, next(d)).await.expect("it ends");
        assert_eq!(told, Some(third), "there is room for both");
        assert_eq!(holders(d, policy, "k").await.len(), 2, "the one that ended gives back later");
        d.carry_out().await;
        assert_eq!(holders(d, policy, "k").await, [third]);
        assert_eq!(d.tokens(budget).await, (0, 60));
    }

    async fn an_end_that_is_told_again_takes_no_second_place(d: &Deployment) {
        let policy = d.quota(Limits::at_once(3)).await;
        let ids = d.queue_under(policy, "k", 3).await;
        let first = d.take_on(d.home(), 1).await.pop().expect("there is room");
        let next = next(d);
        for _ in 0..2 {
            let told = finish(d, &first.handle, next.clone()).await.expect("it ends");
            assert_eq!(told, Some(ids[1]));
        }
        d.carry_out().await;
        assert_eq!(holders(d, policy, "k").await, [ids[1]]);
        assert_eq!(d.describe(ids[2]).await.public_state(), PublicState::Waiting);
    }

    async fn who_lost_its_lease_takes_nothing_through_a_gate(d: &Deployment) {
        let policy = d.quota(Limits::at_once(2)).await;
        let ids = d.queue_under(policy, "k", 2).await;
        let stale = d.take_on(d.home(), 1).await.pop().expect("there is room");
        d.advance(LEASE_MS).await;
        let before = d.dump().await;
        let refused = finish(d, &stale.handle, next(d)).await.expect_err("its lease is over");
        assert_eq!(refused.code(), Some(Code::LeaseExpired));
        assert_eq!(d.dump().await, before, "no gate was asked");
        d.carry_out().await;
        assert_eq!(running(d, policy, "k").await, 0, "the lost lease gave its place back");
        let mut taken = d.take_on(d.home(), 2).await;
        taken.sort_by_key(|one| one.created_at);
        assert_eq!(taken.iter().map(|one| one.handle.execution_id).collect::<Vec<_>>(), ids);
    }
}
