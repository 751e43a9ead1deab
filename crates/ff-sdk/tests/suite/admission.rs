//! Tasks under quotas and budgets.

use ff_sdk::{
    BudgetId, BudgetScope, ClaimedTask, CreateBudget, CreateQuota, DimensionLimits,
    ExecutionPolicy, FlowFabricWorker, FlowId, PublicState, QuotaLimits, QuotaPolicyId, QuotaQuery,
    QuotaUse, ReportUsageResult, UpdateBudget,
};

use super::flows::{graph, member, submitted, task};
use crate::site::{LANE, LONG, Site, claim, eventually};

/// One place, and room for what one of two reserves.
struct Gates<'a> {
    site: &'a Site,
    quota: QuotaPolicyId,
    budget: BudgetId,
}

impl<'a> Gates<'a> {
    async fn make(site: &'a Site) -> Self {
        let quota = CreateQuota { limits: QuotaLimits::at_once(1), ..Default::default() };
        let budget = CreateBudget::new(BudgetScope::Kind, "nobody").hard("tokens", 100);
        Self {
            site,
            quota: site.client.create_quota(quota).await.expect("made").quota_policy_id,
            budget: site.client.create_budget(budget).await.expect("made").budget_id,
        }
    }

    fn policy(&self) -> ExecutionPolicy {
        ExecutionPolicy {
            quota: Some(QuotaUse::of(self.quota).with_key("k")),
            budget_ids: vec![self.budget],
            reserve_usage: [("tokens".to_owned(), 60)].into(),
            ..Default::default()
        }
    }

    /// How many hold a place, and what is reserved.
    async fn taken(&self) -> (u64, u64) {
        let quota = self.site.client.describe_quota(self.quota, QuotaQuery::of("k")).await;
        let budget = self.site.client.describe_budget(self.budget).await.expect("described");
        (quota.expect("described").running, budget.dimensions["tokens"].reserved)
    }

    /// A flow of two steps, the second of which has gates; its first step runs.
    async fn first_step(&self, worker: &FlowFabricWorker) -> (FlowId, ClaimedTask) {
        let mut second = task("b", "step", &["a"]);
        second.execution.policy = Some(self.policy());
        let graph = graph(vec![task("a", "step", &[]), second]);
        (submitted(&self.site.client, graph).await, claim(worker).await)
    }
}

pub(crate) async fn the_end_of_a_step_brings_the_next_one_only_past_its_gates(site: Site) {
    let gates = Gates::make(&site).await;
    let worker = site.worker("w-1", 2).await;
    let holder = site.client.submit_raw("test", b"").lane(LANE).policy(gates.policy());
    holder.await.expect("submitted");
    let holder = claim(&worker).await;
    assert_eq!(gates.taken().await, (1, 60));

    let (flow, first) = gates.first_step(&worker).await;
    let none = first.complete_and_claim_next(None).await.expect("landed");
    assert!(none.is_none(), "somebody else has the place");
    let id = member(&site.client, &flow, "b").await;
    let refused = site.describe(&id).await;
    assert_eq!(refused.public_state(), PublicState::RateLimited);
    assert_eq!(refused.total_attempt_count, 0, "the attempt did not begin");
    holder.complete(None).await.expect("landed");
    let second = claim(&worker).await;
    assert_eq!(*second.execution_id(), id, "the freed place let it go on");
    assert_eq!(gates.taken().await, (1, 60));
    second.complete(None).await.expect("landed");
    eventually("everything is back", async || gates.taken().await == (0, 0)).await;

    let (flow, first) = gates.first_step(&worker).await;
    let next = first.complete_and_claim_next(None).await.expect("landed");
    let next = next.expect("its gates let it pass");
    assert_eq!(*next.execution_id(), member(&site.client, &flow, "b").await);
    assert_eq!(gates.taken().await, (1, 60));
    next.complete(None).await.expect("landed");
    eventually("everything is back", async || gates.taken().await == (0, 0)).await;
    worker.shutdown(LONG).await.expect("stops");
}

pub(crate) async fn who_runs_hears_by_a_renewal_of_a_limit_that_another_reached(site: Site) {
    let budget = CreateBudget::new(BudgetScope::Kind, "nobody").hard("tokens", 100);
    let budget = site.client.create_budget(budget).await.expect("made").budget_id;
    let policy = ExecutionPolicy { budget_ids: vec![budget], ..Default::default() };
    for _ in 0..2 {
        let one = site.client.submit_raw("test", b"").lane(LANE).policy(policy.clone());
        one.await.expect("submitted");
    }
    let worker = site.worker("w-1", 2).await;
    let (one, other) = (claim(&worker).await, claim(&worker).await);
    assert_eq!(other.budgets_reached(), []);
    let told = one.report_usage(&budget, &[("tokens", 130)], None).await.expect("counted");
    assert!(matches!(told, ReportUsageResult::HardBreach { current_usage: 130, .. }), "{told:?}");
    assert_eq!(one.budgets_reached(), [budget], "its report told");
    eventually("the other hears of it", async || other.budgets_reached() == [budget]).await;
    let limits = DimensionLimits { hard: Some(1000), soft: None };
    let raised =
        UpdateBudget { dimensions: [("tokens".to_owned(), limits)].into(), ..Default::default() };
    site.client.update_budget(budget, raised).await.expect("raised");
    eventually("the word is taken back", async || other.budgets_reached().is_empty()).await;
    one.complete(None).await.expect("landed");
    other.complete(None).await.expect("landed");
    worker.shutdown(LONG).await.expect("stops");
}
