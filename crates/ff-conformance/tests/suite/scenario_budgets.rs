//! The state that each function of budgets is prepared with, and its arguments.

use ff_conformance::Deployment;
use ff_conformance::budgets::{User, budget, words};
use ff_core::contracts::BudgetScope;
use ff_core::types::{BudgetId, RequestId};
use ff_script::calls::attachment::AttachBudget;
use ff_script::calls::budget::{
    DeleteBudget, DescribeBudget, ListBudgetUsage, ListBudgets, RaiseBudget, ResetBudget,
};

use super::attachment::note;
use super::budget::{reset, update};
use super::scenario::{encode, fresh_lane};
use super::stop::{pause, stop, tell};
use super::usage::{forget, release};

/// A budget that somebody has passed.
async fn passed(d: &Deployment) -> (BudgetId, User) {
    let id = d.budget(["tokens", "100", "50"]).await;
    (id, d.user_of(id).await)
}

pub(crate) async fn prepare(d: &Deployment, name: &str) -> Option<Vec<Vec<u8>>> {
    let tokens = || words(["tokens", "7"]);
    Some(match name {
        "ff_note_budget" => encode(&note(BudgetScope::Kind, "agent", d.new_budget_id())),
        "ff_attach_budget" => encode(&AttachBudget {
            scope_type: BudgetScope::Flow,
            scope_id: d.new_uuid(),
            budget_id: d.new_budget_id(),
            attached: true,
        }),
        "ff_create_budget" => encode(&budget(d.new_budget_id(), words(["tokens", "9", "5"]))),
        "ff_update_budget" => {
            encode(&update(d.budget(["tokens", "9", ""]).await, words(["tokens", "10", "5"])))
        }
        "ff_delete_budget" => {
            encode(&DeleteBudget { budget_id: d.budget(["tokens", "9", ""]).await })
        }
        "ff_reset_budget" => {
            let request_id = Some(RequestId::from_uuid(d.new_uuid()));
            encode(&ResetBudget { request_id, ..reset(passed(d).await.0) })
        }
        "ff_raise_budget" => encode(&RaiseBudget { budget_id: passed(d).await.0, ask: 1 }),
        "ff_describe_budget" => encode(&DescribeBudget { budget_id: passed(d).await.0 }),
        "ff_list_budgets" => encode(&ListBudgets { cursor: String::new(), limit: 10 }),
        "ff_list_budget_usage" => {
            let budget_id = passed(d).await.0;
            encode(&ListBudgetUsage { budget_id, offset: Some(0), limit: 10 })
        }
        "ff_report_usage_and_check" => {
            let (id, user) = passed(d).await;
            encode(&user.report(id, "step", tokens()))
        }
        "ff_reserve_usage" => {
            let (id, user) = passed(d).await;
            encode(&user.reserve(id, "step", tokens()))
        }
        "ff_check_budget_and_reserve" => {
            let (id, user) = passed(d).await;
            encode(&user.under(2).check(id, tokens()))
        }
        "ff_release_budget" => {
            let (id, user) = passed(d).await;
            encode(&release(id, user))
        }
        "ff_forget_usage" => {
            let (id, user) = passed(d).await;
            encode(&forget(id, user))
        }
        "ff_stop_for_budget" | "ff_pause_for_budget" | "ff_note_budgets_reached" => {
            let (id, lane) = (d.budget(["tokens", "100", ""]).await, fresh_lane(d));
            d.create_with(&[id], 0).lane(&lane).send().await;
            let held = d.claim(&lane).await;
            match name {
                "ff_stop_for_budget" => encode(&stop(&held, "fail", id)),
                "ff_note_budgets_reached" => encode(&tell(&held, id, 7, true)),
                _ => encode(&pause(d, &held, id)),
            }
        }
        _ => return None,
    })
}
