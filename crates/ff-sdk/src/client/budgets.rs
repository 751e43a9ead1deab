//! Budgets: how much may be used, over all executions that they apply to.

use ff_core::contracts::{
    BudgetCreated, BudgetDeleted, BudgetPage, BudgetRecord, BudgetReset, BudgetUsagePage,
    CreateBudget, ListBudgetUsage, ListBudgets, ResetBudget, UpdateBudget,
};
use ff_core::types::BudgetId;

use super::Client;
use crate::error::{Context as _, SdkError};

impl Client {
    /// Makes a budget and attaches it to its scope: it applies to every execution of the scope that
    /// is created from then on.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use ff_sdk::{BackendConfig, BudgetScope, Client, CreateBudget};
    /// # let client = Client::connect(BackendConfig::embedded_in_memory()).await?;
    /// let budget = CreateBudget::new(BudgetScope::Kind, "agent").hard("tokens", 100_000);
    /// let id = client.create_budget(budget).await?.budget_id;
    /// assert_eq!(client.describe_budget(id).await?.dimensions["tokens"].used, 0);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn create_budget(&self, budget: CreateBudget) -> Result<BudgetCreated, SdkError> {
        self.engine().create_budget(budget).await.context("create_budget")
    }

    /// A budget, with what was used of it.
    pub async fn describe_budget(&self, budget_id: BudgetId) -> Result<BudgetRecord, SdkError> {
        self.engine().describe_budget(budget_id).await.context("describe_budget")
    }

    /// Gives a budget other limits or rules. A limit that is raised frees at once what was blocked.
    pub async fn update_budget(
        &self,
        budget_id: BudgetId,
        change: UpdateBudget,
    ) -> Result<BudgetRecord, SdkError> {
        self.engine().update_budget(budget_id, change).await.context("update_budget")
    }

    /// Removes a budget: its limits do not hold any more.
    pub async fn delete_budget(&self, budget_id: BudgetId) -> Result<BudgetDeleted, SdkError> {
        self.engine().delete_budget(budget_id).await.context("delete_budget")
    }

    /// All budgets, partition by partition.
    pub async fn list_budgets(&self, query: ListBudgets) -> Result<BudgetPage, SdkError> {
        self.engine().list_budgets(query).await.context("list_budgets")
    }

    /// Begins a budget anew, whatever time it is.
    pub async fn reset_budget(&self, budget_id: BudgetId) -> Result<BudgetReset, SdkError> {
        let request = ResetBudget::default();
        self.engine().reset_budget(budget_id, request).await.context("reset_budget")
    }

    /// Who has used a budget, latest first.
    pub async fn list_budget_usage(
        &self,
        budget_id: BudgetId,
        query: ListBudgetUsage,
    ) -> Result<BudgetUsagePage, SdkError> {
        self.engine().list_budget_usage(budget_id, query).await.context("list_budget_usage")
    }
}
