//! Budgets, and what is used of them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use ff_api::usage::{ReportUsage, ReserveUsage};
use ff_core::contracts::{
    CreateBudget, DeleteBudget, DescribeBudget, ListBudgetUsage, ListBudgets, ReportUsageResult,
    ResetBudget, UpdateBudget,
};
use ff_core::types::BudgetId;

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::{Asked, On, TaskHeader, handle};
use crate::refusal::Refusal;
use crate::route::{Route, direct, json};

pub(super) fn routes() -> Vec<Route> {
    let about = "The task's token, unless the body has it.";
    let of_tasks = [json::<ReportUsage, _, _>(report), json::<ReserveUsage, _, _>(reserve)];
    let of_tasks =
        of_tasks.into_iter().map(|route| route.header::<String>("FlowFabric-Task", about));
    let routes = vec![
        direct::<CreateBudget, _>(|engine, _, it| engine.create_budget(it)),
        direct::<ListBudgets, _>(|engine, _, query| engine.list_budgets(query)),
        direct::<DescribeBudget, _>(|engine, id, _| engine.describe_budget(id)),
        direct::<UpdateBudget, _>(|engine, id, it| engine.update_budget(id, it)),
        direct::<DeleteBudget, _>(|engine, id, _| engine.delete_budget(id)),
        direct::<ResetBudget, _>(|engine, id, it| engine.reset_budget(id, it)),
        direct::<ListBudgetUsage, _>(|engine, id, query| engine.list_budget_usage(id, query)),
    ];
    routes.into_iter().chain(of_tasks).collect()
}

async fn report(
    State(app): State<Arc<App>>,
    On(budget_id, _): On<BudgetId>,
    header: TaskHeader,
    Asked(mut request, _): Asked<ReportUsage>,
) -> Answered<ReportUsageResult> {
    let handle = handle(&app, header, request.task_token.take())?;
    let result = app.backend.report_usage(&handle, budget_id, request.into_usage()).await?;
    if let ReportUsageResult::HardBreach { dimension, .. } = &result {
        app.metrics.budget_hit(dimension);
    }
    ok(result)
}

async fn reserve(
    State(app): State<Arc<App>>,
    On(budget_id, _): On<BudgetId>,
    header: TaskHeader,
    Asked(mut request, _): Asked<ReserveUsage>,
) -> Result<StatusCode, Refusal> {
    let handle = handle(&app, header, request.task_token.take())?;
    app.backend.reserve_usage(&handle, budget_id, request.into_usage()).await?;
    Ok(StatusCode::NO_CONTENT)
}
