//! Which budgets apply to what is created in a scope.

use ff_conformance::budgets::{budget, words};
use ff_conformance::record::key_of;
use ff_conformance::{Deployment, conformance};
use ff_core::contracts::{self, BudgetScope};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::{BudgetId, ExecutionId};
use ff_script::calls::attachment::{AttachBudget, AttachBudgetReply, NoteBudget, NoteBudgetReply};
use ff_script::calls::budget::CreateBudget;
use ff_script::dump::Stored;

use super::quota_deaths::Dying;

pub(crate) fn note(scope_type: BudgetScope, scope_id: &str, budget_id: BudgetId) -> NoteBudget {
    NoteBudget { scope_type, scope_id: scope_id.to_owned(), budget_id, attached: true }
}

/// The budgets of an execution, as they are stored.
async fn budgets_of(d: &Deployment, id: ExecutionId) -> Vec<String> {
    let dump = d.dump().await;
    let Some(Stored::String(text)) = dump.get(&key_of(id, ":budgets")) else { return Vec::new() };
    let text = String::from_utf8_lossy(text);
    let (ids, _) = text.split_once(';').expect("budgets and what is reserved");
    ids.split(',').map(str::to_owned).collect()
}

fn texts<const N: usize>(ids: [BudgetId; N]) -> Vec<String> {
    ids.map(|id| id.to_string()).to_vec()
}

/// A budget of one execution.
fn of_one(id: ExecutionId, budget_id: BudgetId) -> contracts::CreateBudget {
    let mut budget = contracts::CreateBudget::new(BudgetScope::Execution, id.to_string());
    budget.budget_id = Some(budget_id);
    budget.hard("tokens", 9)
}

/// Does some budget apply to an execution that is yet to be made?
async fn is_attached(d: &Deployment, id: ExecutionId) -> bool {
    let attached = d.dump().await.remove(format!("{}:attached", d.home().key()).as_bytes());
    let name = format!("execution:{}", id.uuid());
    matches!(attached, Some(Stored::Hash(known)) if known.contains_key(name.as_bytes()))
}

conformance! {
    async fn a_budget_of_a_namespace_a_lane_or_a_kind_applies_to_what_is_created_there(
        d: &Deployment
    ) {
        let ids = [d.new_budget_id(), d.new_budget_id(), d.new_budget_id()];
        d.call(note(BudgetScope::Namespace, "shop", ids[0])).await;
        d.call(note(BudgetScope::Lane, "slow", ids[1])).await;
        d.call(note(BudgetScope::Kind, "agent", ids[2])).await;
        let all = d.create().namespace("shop").lane("slow").kind("agent").send().await;
        assert_eq!(budgets_of(d, all).await, texts(ids));
        let one = d.create().kind("agent").send().await;
        assert_eq!(budgets_of(d, one).await, texts([ids[2]]));
        assert_eq!(budgets_of(d, d.create_one().await).await, Vec::<String>::new());
    }

    async fn what_is_attached_later_binds_new_executions_only(d: &Deployment) {
        let before = d.create().kind("agent").send().await;
        let id = d.new_budget_id();
        d.call(note(BudgetScope::Kind, "agent", id)).await;
        let after = d.create().kind("agent").send().await;
        assert_eq!(budgets_of(d, before).await, Vec::<String>::new());
        assert_eq!(budgets_of(d, after).await, texts([id]));
        d.call(NoteBudget { attached: false, ..note(BudgetScope::Kind, "agent", id) }).await;
        let last = d.create().kind("agent").send().await;
        assert_eq!(budgets_of(d, last).await, Vec::<String>::new());
    }

    async fn a_budget_that_the_policy_names_applies_once(d: &Deployment) {
        let id = d.new_budget_id();
        d.call(note(BudgetScope::Kind, "work", id)).await;
        let other = d.new_budget_id();
        let made = d.create_with(&[other, id], 5).send().await;
        assert_eq!(budgets_of(d, made).await, texts([other, id]));
    }

    async fn a_budget_of_one_execution_applies_when_it_is_created(d: &Deployment) {
        let (id, budget_id) = (d.new_id(), d.new_budget_id());
        let scope_type = BudgetScope::Execution;
        let attach = |attached| AttachBudget {
            scope_type, scope_id: id.uuid(), budget_id, attached,
        };
        assert_eq!(d.call(attach(true)).await, AttachBudgetReply::Changed {});
        assert_eq!(d.call(attach(true)).await, AttachBudgetReply::Known {});
        d.create().id(id).send().await;
        assert_eq!(budgets_of(d, id).await, texts([budget_id]));
        let attached = format!("{}:attached", d.home().key());
        assert!(!d.dump().await.contains_key(attached.as_bytes()), "it is said for good");
    }

    async fn a_budget_whose_maker_died_before_it_applied_is_made_to_by_making_it_again(
        d: &Deployment
    ) {
        let (id, budget_id) = (d.new_id(), d.new_budget_id());
        let made = CreateBudget {
            scope_type: BudgetScope::Execution,
            scope_id: id.to_string(),
            ..budget(budget_id, words(["tokens", "9", ""]))
        };
        d.call(made).await;
        let told = d.backend.create_budget(of_one(id, budget_id)).await.expect("it is the same");
        assert_eq!((told.created, told.failed), (false, vec![]));
        d.create().id(id).send().await;
        assert_eq!(budgets_of(d, id).await, texts([budget_id]));
    }

    async fn whoever_dies_while_a_budget_is_made_or_removed_it_is_finished_by_repeating_it(
        d: &Deployment
    ) {
        let mut deaths = 0;
        for is_done in [false, true] {
            for calls in 0.. {
                let (id, budget_id) = (d.new_id(), d.new_budget_id());
                let dying = Dying::after(d, calls, is_done).await;
                let make = || dying.create_budget(of_one(id, budget_id));
                let is_cut = make().await.is_err() || dying.delete_budget(budget_id).await.is_err();
                assert_eq!(is_cut, dying.host().is_dead());
                if !is_cut {
                    break;
                }
                deaths += 1;
                d.carry_out().await;
                d.backend.create_budget(of_one(id, budget_id)).await.expect("made");
                assert!(is_attached(d, id).await, "after {calls} calls, done {is_done}");
                let dying = Dying::after(d, calls, is_done).await;
                let _ = dying.delete_budget(budget_id).await;
                d.backend.delete_budget(budget_id).await.expect("removed");
                assert!(!is_attached(d, id).await, "after {calls} calls, done {is_done}");
                let left = d.backend.describe_budget(budget_id).await;
                assert_eq!(left.expect_err("gone").code(), Some(Code::BudgetNotFound));
                d.carry_out().await;
            }
        }
        assert!(deaths >= 10, "{deaths} were cut off");
    }

    async fn a_budget_that_cannot_apply_is_not_made(d: &Deployment) {
        let id = d.new_id();
        for _ in 0..limits::BUDGETS_MAX {
            d.backend.create_budget(of_one(id, d.new_budget_id())).await.expect("made");
        }
        let one_more = d.new_budget_id();
        let refused = d.backend.create_budget(of_one(id, one_more)).await.expect_err("too many");
        assert_eq!(refused.code(), Some(Code::FactsLimitExceeded));
        let left = d.backend.describe_budget(one_more).await;
        assert_eq!(left.expect_err("not made").code(), Some(Code::BudgetNotFound));
    }

    async fn attaching_again_changes_nothing_and_too_many_are_refused(d: &Deployment) {
        let id = d.new_budget_id();
        let noted = || note(BudgetScope::Lane, "slow", id);
        assert!(matches!(d.call(noted()).await, NoteBudgetReply::Changed { .. }));
        assert!(matches!(d.call(noted()).await, NoteBudgetReply::Known { .. }));
        for _ in 1..limits::BUDGETS_MAX {
            d.call(note(BudgetScope::Lane, "slow", d.new_budget_id())).await;
        }
        let more = note(BudgetScope::Lane, "slow", d.new_budget_id());
        assert_eq!(d.refused(more).await, Code::FactsLimitExceeded);
        let uuid = d.new_uuid();
        let attach = |budget_id| AttachBudget {
            scope_type: BudgetScope::Flow, scope_id: uuid, budget_id, attached: true,
        };
        for _ in 0..limits::BUDGETS_MAX {
            d.call(attach(d.new_budget_id())).await;
        }
        assert_eq!(d.refused(attach(d.new_budget_id())).await, Code::FactsLimitExceeded);
    }

    async fn a_broken_list_of_budgets_is_named_in_the_policy(d: &Deployment) {
        for (policy, path) in [
            (r#"{"budget_ids":"x"}"#, "budget_ids"),
            (r#"{"budget_ids":["x"]}"#, "budget_ids"),
            (r#"{"reserve_usage":[]}"#, "reserve_usage"),
            (r#"{"reserve_usage":{"tokens":-1}}"#, "reserve_usage"),
            (r#"{"reserve_usage":{"tokens":1.5}}"#, "reserve_usage"),
            (r#"{"reserve_usage":{"to kens":1}}"#, "reserve_usage"),
        ] {
            let (code, details) = d.refusal(d.create().policy(policy).call()).await;
            assert_eq!(code, Code::InvalidPolicyJson, "{policy}");
            assert!(details.concat().starts_with(path), "{policy}: {details:?}");
        }
        d.call(budget(d.new_budget_id(), words(["tokens", "1", ""]))).await;
    }
}
