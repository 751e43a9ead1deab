//! What limits cost: a claim with no gate, a quota, a budget and both, how fast executions pass
//! one key, how many calls each of them takes, and how soon a freed place is taken again.

use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use ff_core::limits;
use ff_sdk::{
    BudgetScope, CreateBudget, CreateQuota, DimensionLimits, ExecutionPolicy, QuotaLimits, QuotaUse,
};

use super::crew::{Crew, Taken, input};
use super::deployment::Deployment;
use super::monitor::{Calls, Monitor};
use super::sdk::LANE;
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::machine_speed;
use crate::report::Report;
use crate::statistics::Latencies;

/// Options of `admission`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The store.
    #[arg(long, value_enum, default_value_t = HostKind::Valkey)]
    host: HostKind,

    /// Executions of each part.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = value_parser!(u32).range(10..))]
    executions: u32,

    /// How many may run at a time under the key.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=1000))]
    limit: u32,

    /// Workers, each with one task at a time; more than the limit, so that one is always free.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

const TIME_LIMIT: Duration = Duration::from_secs(300);
/// More than ever run: nobody is refused.
const ENOUGH: u64 = 1_000_000;

/// The functions that only admission calls, by how they begin.
const OWN: [&str; 9] = [
    "ff_check_admission_and_record",
    "ff_check_budget_and_reserve",
    "ff_block_execution_for_admission",
    "ff_release_admission",
    "ff_release_budget",
    "ff_forget_",
    "ff_await_gates",
    "ff_open_gate",
    "ff_settle_openings",
];

/// What each worker calls when it comes and goes, however much it does in between: it looks once
/// through all partitions, for example.
const OF_WORKERS: [&str; 7] = [
    "ff_version",
    "ff_open_deployment",
    "ff_check_rights",
    "ff_read_facts",
    "ff_list_needs",
    "ff_register_worker",
    "ff_unregister_worker",
];

/// What a part took.
struct Part {
    taken: Vec<Taken>,
    time: Duration,
    calls: Option<Calls>,
    store_us: Option<f64>,
}

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(options.host, options.partitions);
    let deployment = Deployment::start(&on).await?;
    let free = part(&deployment, options, "free", Gates::default()).await?;
    let passing = part(&deployment, options, "passing", Gates::quota(ENOUGH)).await?;
    let budget = Gates { quota: None, budget: true };
    let budget = part(&deployment, options, "budget", budget).await?;
    let both = Gates { budget: true, ..Gates::quota(ENOUGH) };
    let both = part(&deployment, options, "both", both).await?;
    let limited = part(&deployment, options, "limited", Gates::quota(options.limit.into())).await?;
    let single = part(&deployment, options, "single", Gates::quota(1)).await?;
    // Each place is free and taken in turn, and all of them at the same time.
    let of_each = |calls: f64| calls / f64::from(options.workers);
    let cycle_ms = f64::from(options.limit) * 1e3 / limited.per_s();
    let mut freed = between(&single.taken);
    let mut machine_speed = Latencies::default();
    machine_speed::measure(&mut machine_speed);
    Ok(Report::about("admission", &on)
        .field("executions", options.executions)
        .field("limit", options.limit)
        .field("workers", options.workers)
        .measured("claim_and_complete_per_s", Some(free.per_s()))
        .measured("claim_and_complete_store_us", free.store_us)
        .measured("calls_per_execution", free.calls_each())
        .measured("with_quota_per_s", Some(passing.per_s()))
        .measured("with_quota_store_us", passing.store_us)
        .measured("with_quota_calls_per_execution", passing.calls_each())
        .measured("with_quota_ratio", passing.ratio_to(&free))
        .measured("with_budget_per_s", Some(budget.per_s()))
        .measured("with_budget_store_us", budget.store_us)
        .measured("with_budget_calls_per_execution", budget.calls_each())
        .measured("with_budget_ratio", budget.ratio_to(&free))
        .measured("with_both_per_s", Some(both.per_s()))
        .measured("with_both_store_us", both.store_us)
        .measured("with_both_calls_per_execution", both.calls_each())
        .measured("with_both_ratio", both.ratio_to(&free))
        .measured("admitted_per_s", Some(limited.per_s()))
        .measured("admitted_store_us", limited.store_us)
        .measured("calls_per_admitted", limited.calls_each())
        .measured("own_calls_per_admitted", limited.own_calls_each())
        .measured("calls_of_each_worker", limited.count(&OF_WORKERS).map(of_each))
        .measured("place_free_to_free_ms", Some(cycle_ms))
        .known("calls_by_function", limited.calls.as_ref().map(told))
        .measured("freed_to_running_ms_p50", freed.percentile_us(0.5).map(|us| us / 1e3))
        .measured("freed_to_running_ms_p99", freed.percentile_us(0.99).map(|us| us / 1e3))
        .measured("yardstick_us", machine_speed.percentile_us(0.5)))
}

impl Part {
    fn per_s(&self) -> f64 {
        self.taken.len() as f64 / self.time.as_secs_f64()
    }

    /// All calls but those of workers that come and go.
    fn calls_each(&self) -> Option<f64> {
        let (all, of_workers) = (self.count(&[""])?, self.count(&OF_WORKERS)?);
        Some((all - of_workers) / self.taken.len() as f64)
    }

    /// Those of them that admission makes: nobody else calls these functions.
    fn own_calls_each(&self) -> Option<f64> {
        Some(self.count(&OWN)? / self.taken.len() as f64)
    }

    /// How often functions were called whose names begin so.
    fn count(&self, begins: &[&str]) -> Option<f64> {
        let calls = self.calls.as_ref()?.iter();
        let own = calls.filter(|(name, _)| begins.iter().any(|begin| name.starts_with(begin)));
        Some(own.map(|(_, count)| *count).sum::<u64>() as f64)
    }

    /// How many times as much of the store's time each execution takes.
    fn ratio_to(&self, other: &Self) -> Option<f64> {
        Some(self.store_us? / other.store_us?)
    }
}

/// What executions must pass.
#[derive(Clone, Copy, Default)]
struct Gates {
    /// A key of a quota, with so many at a time.
    quota: Option<u64>,
    /// A budget, of which each reserves a little.
    budget: bool,
}

impl Gates {
    fn quota(places: u64) -> Self {
        Self { quota: Some(places), budget: false }
    }

    async fn policy(self, on: &Deployment) -> Result<ExecutionPolicy, Failure> {
        let mut policy = ExecutionPolicy::default();
        if let Some(places) = self.quota {
            let quota = CreateQuota { limits: QuotaLimits::at_once(places), ..Default::default() };
            let id = on.client.create_quota(quota).await?.quota_policy_id;
            policy.quota = Some(QuotaUse::of(id).with_key("key"));
        }
        if self.budget {
            let mut budget = CreateBudget::new(BudgetScope::Kind, "nobody");
            let hard = Some(limits::USAGE_MAX);
            let limits = DimensionLimits { hard, soft: None };
            budget.dimensions.insert("tokens".to_owned(), limits);
            policy.budget_ids = vec![on.client.create_budget(budget).await?.budget_id];
            policy.reserve_usage = [("tokens".to_owned(), 1)].into();
        }
        Ok(policy)
    }
}

/// Submits executions with these gates, and has them all run.
async fn part(
    on: &Deployment,
    options: &Options,
    name: &str,
    gates: Gates,
) -> Result<Part, Failure> {
    let policy = gates.policy(on).await?;
    let count = usize::try_from(options.executions)?;
    let submissions = (0..count).map(|number| {
        on.client.submit_raw("bench", input(number)).lane(LANE).policy(policy.clone())
    });
    for created in on.client.submit_many(submissions).await {
        created?;
    }
    run_all(on, options, name, count).await
}

async fn run_all(
    on: &Deployment,
    options: &Options,
    name: &str,
    count: usize,
) -> Result<Part, Failure> {
    let monitor = match on.url().filter(|_| options.host == HostKind::Valkey) {
        Some(url) => Some(Monitor::start(url).await?),
        None => None,
    };
    let (before, begun) = (on.spent().await?, Instant::now());
    let crew = vec![Vec::new(); usize::try_from(options.workers)?];
    let mut crew = Crew::start(name, std::slice::from_ref(&on.connection), crew).await?;
    let taken = crew.take(count, begun + TIME_LIMIT).await?;
    let (Some(first), Some(last)) = (taken.first(), taken.last()) else {
        return Err(format!("{name}: nothing was taken").into());
    };
    let time = last.at - first.at;
    crew.stop().await?;
    let spent = on.spent().await?.each_since(before, taken.len() as u64);
    let calls = match monitor {
        Some(monitor) => Some(monitor.stop().await?),
        None => None,
    };
    if taken.len() < count {
        return Err(format!("{name}: only {} of {count} were taken", taken.len()).into());
    }
    Ok(Part { taken, time, calls, store_us: spent.store_us })
}

/// From each begin to the next: one at a time, so the place was freed in between.
fn between(taken: &[Taken]) -> Latencies {
    let mut latencies = Latencies::default();
    for pair in taken.windows(2) {
        latencies.add(pair[1].at.saturating_duration_since(pair[0].at));
    }
    latencies
}

fn told(calls: &Calls) -> String {
    let each: Vec<String> = calls.iter().map(|(name, count)| format!("{name}={count}")).collect();
    each.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_two_begins_is_that_of_a_freed_place() {
        let begun = Instant::now();
        let taken = |ms| Taken { number: 0, at: begun + Duration::from_millis(ms) };
        let mut found = between(&[taken(0), taken(2), taken(12)]);
        assert_eq!(found.percentile_us(0.5), Some(2000.0));
        assert_eq!(found.percentile_us(1.0), Some(10_000.0));
    }
}
