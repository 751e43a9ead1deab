//! Budgets: made, changed, begun anew, removed and looked at.

use ff_conformance::budgets::{User, budget, words};
use ff_conformance::{Deployment, conformance};
use ff_core::contracts::{BudgetScope, ListBudgetUsage, OnHardLimit};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::{BudgetId, RequestId};
use ff_script::calls::budget::{
    CreateBudget, CreateBudgetReply, DeleteBudget, DeleteBudgetReply, DescribeBudget,
    ListBudgetUsage as ListUsage, ListBudgets, ListBudgetsReply, RaiseBudget, RaiseBudgetReply,
    ResetBudget, ResetBudgetReply, UpdateBudget,
};
use ff_script::calls::usage::{
    CheckBudgetAndReserveReply, ForgetUsage, ReleaseBudget, ReportUsageAndCheckReply,
};
use ff_script::wire::Rest;

use super::cancel::outside;

pub(crate) fn reset(budget_id: BudgetId) -> ResetBudget {
    ResetBudget { budget_id, due_only: false, request_id: None }
}

pub(crate) fn update(budget_id: BudgetId, dimensions: Rest<String>) -> UpdateBudget {
    UpdateBudget { budget_id, on_hard_limit: None, reset_interval_ms: None, dimensions }
}

/// The keys of a store that name a budget.
async fn keys_about(d: &Deployment, id: BudgetId) -> Vec<String> {
    let keys = d.dump().await.into_keys();
    let texts = keys.map(|key| String::from_utf8_lossy(&key).into_owned());
    texts.filter(|key| key.contains(&id.to_string())).collect()
}

async fn events(d: &Deployment, id: BudgetId) -> Vec<String> {
    d.budget_record(id).await.events.into_iter().map(|event| event.event).collect()
}

conformance! {
    async fn a_new_budget_is_read_as_it_was_made(d: &Deployment) {
        let id = d.new_budget_id();
        let call = CreateBudget {
            scope_type: BudgetScope::Kind,
            scope_id: "agent".to_owned(),
            on_hard_limit: OnHardLimit::Ask,
            reset_interval_ms: Some(60_000),
            name: "Tokens of agents".to_owned(),
            ..budget(id, words(["tokens", "100", "80", "cost", "", "5", "calls", "7", ""]))
        };
        assert_eq!(d.call(call).await, CreateBudgetReply::Created { budget_id: id });
        let record = d.budget_record(id).await;
        assert_eq!((record.scope_type, record.scope_id.as_str()), (BudgetScope::Kind, "agent"));
        assert_eq!(record.name, "Tokens of agents");
        assert_eq!(record.on_hard_limit, OnHardLimit::Ask);
        assert_eq!(record.next_reset_at, Some(d.now().plus_millis(60_000)));
        assert_eq!((record.created_at, record.reset_count, record.breach_count), (d.now(), 0, 0));
        let limits: Vec<_> = record.dimensions.iter()
            .map(|(name, it)| (name.as_str(), it.hard, it.soft, it.used)).collect();
        assert_eq!(limits, [("calls", Some(7), None, 0), ("cost", None, Some(5), 0),
            ("tokens", Some(100), Some(80), 0)]);
    }

    async fn making_it_again_changes_nothing_and_another_one_is_a_conflict(d: &Deployment) {
        let id = d.new_budget_id();
        let call = || budget(id, words(["tokens", "100", ""]));
        d.call(call()).await;
        assert_eq!(d.call(call()).await, CreateBudgetReply::CreatedBefore { budget_id: id });
        let other = budget(id, words(["tokens", "101", ""]));
        assert_eq!(d.refused(other).await, Code::BudgetAttachConflict);
        d.call(update(id, words(["tokens", "200", ""]))).await;
        assert_eq!(d.call(call()).await, CreateBudgetReply::CreatedBefore { budget_id: id });
        assert_eq!(d.budget_record(id).await.dimensions["tokens"].hard, Some(200));
    }

    async fn an_unknown_scope_and_broken_limits_are_refused_before_anything_is_written(
        d: &Deployment
    ) {
        let id = d.new_budget_id();
        let scope = CreateBudget { scope_id: String::new(), ..budget(id, words(["a", "1", ""])) };
        assert_eq!(d.refused(scope).await, Code::InvalidBudgetScope);
        let raw = ["team", "x", "block", "", "", "a", "1", ""];
        let id_text = id.to_string();
        let given = std::iter::once(id_text.as_str()).chain(raw);
        let args: Vec<&[u8]> = given.map(str::as_bytes).collect();
        assert_eq!(d.raw("ff_create_budget", &args).await.code(), "invalid_budget_scope");
        for wrong in [["a", "0", ""], ["a", "-1", ""], ["a", "1.5", ""], ["a", "", "0"],
            ["a", "5", "6"], ["a b", "1", ""], ["", "1", ""], [".a", "1", ""],
            ["a", "1000000000001", ""], ["a", "9007199254740993", ""]] {
            assert_eq!(d.refused(budget(id, words(wrong))).await, Code::InvalidInput, "{wrong:?}");
        }
        let twice = budget(id, words(["a", "1", "", "a", "2", ""]));
        assert_eq!(d.refused(twice).await, Code::InvalidInput);
        let none = budget(id, words([]));
        assert_eq!(d.refused(none).await, Code::InvalidInput);
        assert!(d.dump().await.keys().all(|key| !key.windows(7).any(|part| part == b"budget:")));
        assert_eq!(d.refused(DescribeBudget { budget_id: id }).await, Code::BudgetNotFound);
    }

    async fn a_budget_is_not_looked_for_in_a_partition_of_another_family(d: &Deployment) {
        let id = d.budget(["tokens", "1", ""]).await;
        let refused = d.backend.call(d.home(), DescribeBudget { budget_id: id }).await;
        assert_eq!(refused.expect_err("refused").code(), Some(Code::InvalidInput));
    }

    async fn a_change_concerns_what_it_names(d: &Deployment) {
        let id = d.budget(["tokens", "100", "80", "cost", "5", ""]).await;
        d.advance(5).await;
        d.call(UpdateBudget { on_hard_limit: Some(OnHardLimit::Fail), reset_interval_ms: Some(100),
            ..update(id, words(["tokens", "200", "", "calls", "", "3"])) }).await;
        let record = d.budget_record(id).await;
        let (tokens, cost) = (record.dimensions["tokens"], record.dimensions["cost"]);
        assert_eq!((tokens.hard, tokens.soft, cost.hard), (Some(200), None, Some(5)));
        assert_eq!(record.dimensions["calls"].soft, Some(3));
        assert_eq!((record.on_hard_limit, record.changed_at), (OnHardLimit::Fail, Some(d.now())));
        assert_eq!(record.next_reset_at, Some(d.now().plus_millis(100)));
        d.call(UpdateBudget { reset_interval_ms: Some(0), ..update(id, words([])) }).await;
        assert_eq!(d.budget_record(id).await.next_reset_at, None);
        let before = d.dump().await;
        d.call(update(id, words(["tokens", "200", ""]))).await;
        assert_eq!(d.dump().await, before, "what is as it was is not written");
        assert_eq!(d.refused(update(d.new_budget_id(), words([]))).await, Code::BudgetNotFound);
    }

    async fn a_budget_begins_anew_when_its_time_has_come_and_does_not_drift(d: &Deployment) {
        let id = d.new_budget_id();
        let call = budget(id, words(["tokens", "10", ""]));
        d.call(CreateBudget { reset_interval_ms: Some(100), ..call }).await;
        let begun = d.now();
        let user = d.user_of(id).await;
        d.call(user.report(id, "", words(["tokens", "10"]))).await;
        d.advance(99).await;
        d.carry_out().await;
        assert_eq!(d.tokens(id).await.0, 10);
        d.advance(251).await;
        d.carry_out().await;
        let record = d.budget_record(id).await;
        assert_eq!((record.dimensions["tokens"].used, record.reset_count), (0, 1));
        assert_eq!(record.next_reset_at, Some(begun.plus_millis(400)));
        assert_eq!((record.last_reset_at, record.last_breach_at), (Some(d.now()), None));
        assert_eq!(events(d, id).await, ["reset", "hard_limit"]);
    }

    async fn a_reset_by_an_operator_counts_once_and_one_that_is_not_due_is_refused(
        d: &Deployment
    ) {
        let id = d.new_budget_id();
        let call = budget(id, words(["tokens", "10", ""]));
        d.call(CreateBudget { reset_interval_ms: Some(100), ..call }).await;
        let at = d.now().plus_millis(100);
        let next_reset_at = Some(at);
        let (code, details) = d.refusal(ResetBudget { due_only: true, ..reset(id) }).await;
        assert_eq!((code, details), (Code::NotDue, vec![at.to_string()]));
        let request_id = Some(RequestId::from_uuid(d.new_uuid()));
        let named = || ResetBudget { request_id, ..reset(id) };
        let user = d.user_of(id).await;
        d.call(user.report(id, "", words(["tokens", "4"]))).await;
        let done = ResetBudgetReply::Reset { next_reset_at, reset_count: 1 };
        assert_eq!(d.call(named()).await, done);
        d.call(user.report(id, "", words(["tokens", "3"]))).await;
        let again = ResetBudgetReply::ResetBefore { next_reset_at, reset_count: 1 };
        assert_eq!(d.call(named()).await, again);
        assert_eq!(d.tokens(id).await.0, 3);
        d.advance(100).await;
        d.call(ResetBudget { due_only: true, ..reset(id) }).await;
        assert_eq!(d.tokens(id).await.0, 0);
        assert_eq!(d.refused(reset(d.new_budget_id())).await, Code::BudgetNotFound);
    }

    async fn what_one_execution_used_begins_anew_with_the_budget(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let user = d.user_of(id).await;
        d.call(user.report(id, "", words(["tokens", "7"]))).await;
        d.call(reset(id)).await;
        let used = |page: ff_core::contracts::BudgetUsagePage| {
            page.usage[0].dimensions.get("tokens").map(|amount| amount.used)
        };
        let list = || d.backend.list_budget_usage(id, ListBudgetUsage::default());
        assert_eq!(used(list().await.expect("a list")), None);
        d.advance(1).await;
        d.call(user.report(id, "", words(["tokens", "2"]))).await;
        assert_eq!(used(list().await.expect("a list")), Some(2));
    }

    async fn a_removed_budget_is_gone_bit_by_bit(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let mut users = Vec::new();
        for _ in 0..limits::USERS_STEP + 3 {
            let user = d.user_of(id).await;
            d.call(user.report(id, "k", words(["tokens", "1"]))).await;
            users.push(user);
        }
        let (scope_type, scope_id) = (BudgetScope::Lane, "elsewhere".to_owned());
        let deleted = DeleteBudgetReply::Deleted { scope_type, scope_id };
        assert_eq!(d.call(DeleteBudget { budget_id: id }).await, deleted);
        assert_eq!(d.refused(DescribeBudget { budget_id: id }).await, Code::BudgetNotFound);
        let again = d.call(DeleteBudget { budget_id: id }).await;
        assert_eq!(again, DeleteBudgetReply::DeletedBefore {});
        d.carry_out().await;
        let left = keys_about(d, id).await;
        assert_eq!(left.len(), users.len(), "of each only that its lease is over: {left:?}");
        for user in users {
            let items = Rest(vec![id.to_string(), user.id.to_string()]);
            d.call(ForgetUsage { items }).await;
        }
        assert_eq!(keys_about(d, id).await, Vec::<String>::new());
    }

    async fn a_question_from_before_a_removal_is_refused_by_the_next_budget(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let (asked, late) = (d.user_of(id).await, User { id: d.new_id(), epoch: 1 });
        d.call(DeleteBudget { budget_id: id }).await;
        d.carry_out().await;
        let items = Rest(vec![id.to_string(), late.id.to_string(), "1".to_owned()]);
        d.call(ReleaseBudget { items }).await;
        d.call(budget(id, words(["tokens", "100", ""]))).await;
        for user in [asked, late] {
            assert_eq!(d.refused(user.check(id, words([]))).await, Code::StaleLease);
            let passed = d.call(user.under(2).check(id, words([]))).await;
            assert_eq!(passed, CheckBudgetAndReserveReply::Admitted {});
        }
    }

    async fn who_never_passed_a_removed_budget_is_forgotten_with_its_execution(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let policy = format!(
            r#"{{"budget_ids":["{id}"],"reserve_usage":{{"tokens":101}},"retention_ms":0}}"#
        );
        let refused = d.create().policy(&policy).send().await;
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
        d.call(outside(refused, "operator_override")).await;
        d.call(DeleteBudget { budget_id: id }).await;
        d.carry_out().await;
        d.advance(120_000).await;
        d.carry_out().await;
        assert_eq!(keys_about(d, id).await, Vec::<String>::new());
    }

    async fn a_budget_is_not_made_again_while_the_one_before_is_going(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        d.user_of(id).await;
        d.call(DeleteBudget { budget_id: id }).await;
        let again = || budget(id, words(["tokens", "5", ""]));
        assert_eq!(d.refused(again()).await, Code::BudgetAttachConflict);
        d.carry_out().await;
        d.call(again()).await;
        let user = d.user_of(id).await;
        d.carry_out().await;
        let told = d.call(user.report(id, "", words(["tokens", "5"]))).await;
        assert!(matches!(told, ReportUsageAndCheckReply::HardBreach { usage: 5, .. }), "{told:?}");
    }

    async fn budgets_are_listed_page_by_page(d: &Deployment) {
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(d.budget(["tokens", "1", ""]).await);
        }
        ids.sort();
        let (mut cursor, mut found) = (String::new(), Vec::new());
        loop {
            let ListBudgetsReply::Page { budgets, next_cursor } =
                d.call(ListBudgets { cursor, limit: 2 }).await;
            found.extend(budgets.0.into_iter().map(|row| row.budget_id));
            let Some(next) = next_cursor else { break };
            cursor = next;
        }
        assert_eq!(found, ids);
    }

    async fn who_used_a_budget_is_listed_latest_first(d: &Deployment) {
        let id = d.budget(["tokens", "100", ""]).await;
        let mut users: Vec<User> = Vec::new();
        for _ in 0..3 {
            d.advance(1).await;
            users.push(d.user_of(id).await);
        }
        d.advance(1).await;
        d.call(users[0].report(id, "", words(["tokens", "5"]))).await;
        d.call(users[0].reserve(id, "", words(["tokens", "9"]))).await;
        let query = ListBudgetUsage { offset: None, limit: Some(2) };
        let page = d.backend.list_budget_usage(id, query).await.expect("a page");
        let ids: Vec<_> = page.usage.iter().map(|one| one.execution_id).collect();
        assert_eq!(ids, [users[0].id, users[2].id]);
        let tokens = page.usage[0].dimensions["tokens"];
        assert_eq!((tokens.used, tokens.reserved, page.usage[0].at), (5, 9, d.now()));
        let query = ListBudgetUsage { offset: Some(2), limit: Some(2) };
        let rest = d.backend.list_budget_usage(id, query).await.expect("a page");
        assert_eq!(rest.usage.len(), 1);
        let unknown = ListUsage { budget_id: d.new_budget_id(), offset: None, limit: 1 };
        assert_eq!(d.refused(unknown).await, Code::BudgetNotFound);
    }

    async fn an_approval_raises_what_is_reached_once(d: &Deployment) {
        let id = d.budget(["tokens", "100", "", "cost", "10", ""]).await;
        let user = d.user_of(id).await;
        d.call(user.report(id, "", words(["tokens", "250"]))).await;
        let raise = |ask| RaiseBudget { budget_id: id, ask };
        assert_eq!(d.call(raise(1)).await, RaiseBudgetReply::Raised {});
        assert_eq!(d.call(raise(1)).await, RaiseBudgetReply::RaisedBefore {});
        let record = d.budget_record(id).await;
        assert_eq!(record.dimensions["tokens"].hard, Some(300), "by what was set, until it fits");
        assert_eq!(record.dimensions["cost"].hard, Some(10));
        assert_eq!(events(d, id).await, ["raised", "hard_limit"]);
        let next = User { id: d.new_id(), epoch: 1 };
        let passed = d.call(next.check(id, words([]))).await;
        assert_eq!(passed, CheckBudgetAndReserveReply::Admitted {});
        let unknown = RaiseBudget { budget_id: d.new_budget_id(), ask: 1 };
        assert_eq!(d.refused(unknown).await, Code::BudgetNotFound);
    }
}
