//! Create, claim, complete: how many a second, how long each takes, and what the store spends.
//!
//! A run consists of rounds. Each does a bit of everything that is reported (bare calls, calls of a
//! function that does nothing, whole lifecycles, each kind of call on its own), so that whatever
//! else the machine does hits all of it alike, and medians over the rounds can be compared.

mod compare;
mod phases;

use std::time::{Duration, Instant};

use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::call::Call;
use ff_script::calls::library::Version;

use crate::Failure;
use crate::arguments::{HostKind, Lifecycle};
use crate::caller::{self, Caller};
use crate::fill;
use crate::machine_speed;
use crate::metering;
use crate::noop::{self, NoopCaller};
use crate::progress::Progress;
use crate::report::Report;
use crate::statistics::{Latencies, Rounds};
use crate::store::{Inside, Store};
use crate::worker::Worker;
use phases::PhaseCosts;

const ROUNDS: u64 = 20;
const BARE_CALLS_PER_ROUND: u64 = 100;
/// Enough for a stable mean, few enough to leave the lifecycles most of the time.
const NOOP_CALLS_PER_ROUND_MAX: u64 = 5_000;
const PHASE_EXECUTIONS_PER_ROUND_MAX: u64 = 2_000;
const WARM_UP_EXECUTIONS_MAX: u64 = 5_000;

/// Runs the scenario.
pub(crate) async fn run(options: &Lifecycle) -> Result<Report, Failure> {
    if !options.compare_waiting.is_empty() {
        return compare::run(options).await;
    }
    let store = Store::open(&options.store).await?;
    fill::fill(&store, &options.load, options.waiting).await?;
    if let Inside::Valkey(host) = &store.inside {
        noop::install(host).await?;
    }
    let mut run = Run::warm_up(&store, options).await?;
    let memory_before = metering::memory_bytes(&store).await?;
    let progress = Progress::new("executions", options.load.executions);
    for round in 0..run.plan.rounds {
        progress.add(run.round(round).await?);
    }
    drop(progress);
    let memory_after = metering::memory_bytes(&store).await?;
    let bytes = memory_after.zip(memory_before).map(|(after, before)| after - before);
    if let Inside::Valkey(host) = &store.inside {
        noop::remove(host).await?;
    }
    store.check_journal(options.store.journal)?;
    Ok(run.report(bytes))
}

/// How the executions are spread over the rounds.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: u64,
    /// Executions of one step.
    group: u64,
    /// Steps of all rounds.
    steps: u64,
    phase_steps: u64,
    noop_calls: u64,
}

impl Plan {
    fn new(options: &Lifecycle) -> Self {
        let group = u64::from(options.claim_batch);
        let steps = options.load.executions.div_ceil(group);
        let rounds = ROUNDS.min(steps);
        let per_round = steps / rounds;
        Self {
            rounds,
            group,
            steps,
            phase_steps: per_round.min(PHASE_EXECUTIONS_PER_ROUND_MAX / group).max(1),
            noop_calls: (per_round * group * 3).min(NOOP_CALLS_PER_ROUND_MAX),
        }
    }

    fn steps_of(&self, round: u64) -> u64 {
        self.steps * (round + 1) / self.rounds - self.steps * round / self.rounds
    }
}

/// A run under way and what it found so far.
struct Run<'a> {
    store: &'a Store,
    options: &'a Lifecycle,
    plan: Plan,
    callers: Vec<LifecycleCaller>,
    noops: Vec<NoopCaller>,
    completed: u64,
    found: Found,
}

#[derive(Default)]
struct Found {
    bare_rtt: Latencies,
    machine_speed: Latencies,
    lifecycle_wall: Duration,
    throughput: Rounds,
    store_us: Rounds,
    client_us: Rounds,
    noop_us: Rounds,
    phases: PhaseCosts,
}

impl<'a> Run<'a> {
    async fn warm_up(store: &'a Store, options: &'a Lifecycle) -> Result<Self, Failure> {
        let plan = Plan::new(options);
        let workers = Worker::several(store, &options.load, options.claim_batch)?;
        let callers = workers.into_iter().map(LifecycleCaller::new).collect();
        let steps = (plan.steps / 10).min(WARM_UP_EXECUTIONS_MAX / plan.group).max(1);
        let mut callers = caller::run(callers, steps).await?;
        callers.iter_mut().for_each(|caller| caller.latencies = Latencies::default());
        let noops = NoopCaller::several(store, options.load.concurrency);
        let found = Found::default();
        Ok(Self { store, options, plan, callers, noops, completed: 0, found })
    }

    /// Does one round; answers how many executions it measured.
    async fn round(&mut self, round: u64) -> Result<u64, Failure> {
        machine_speed::measure(&mut self.found.machine_speed);
        self.bare_calls().await?;
        self.noop_calls().await?;
        let executions = self.lifecycles(self.plan.steps_of(round)).await?;
        let Self { store, options, plan, .. } = *self;
        let costs = phases::measure(store, options, plan.phase_steps).await?;
        self.found.phases.merge(costs);
        self.completed += executions + plan.phase_steps * plan.group;
        Ok(executions)
    }

    /// What a call costs that asks for next to nothing, with nobody else there.
    async fn bare_calls(&mut self) -> Result<(), Failure> {
        for _ in 0..BARE_CALLS_PER_ROUND {
            let start = Instant::now();
            let function = Version::FUNCTION;
            self.store.host.call(function, Partition::flow(0), Args::default()).await?;
            self.found.bare_rtt.add(start.elapsed());
        }
        Ok(())
    }

    async fn noop_calls(&mut self) -> Result<(), Failure> {
        if self.noops.is_empty() {
            return Ok(());
        }
        let callers = std::mem::take(&mut self.noops);
        let (callers, cost) = caller::measure(self.store, callers, self.plan.noop_calls).await?;
        self.noops = callers;
        cost.spent.store_us.into_iter().for_each(|us| self.found.noop_us.add(us));
        Ok(())
    }

    async fn lifecycles(&mut self, steps: u64) -> Result<u64, Failure> {
        let callers = std::mem::take(&mut self.callers);
        let (callers, cost) = caller::measure(self.store, callers, steps).await?;
        self.callers = callers;
        let (group, found) = (self.plan.group as f64, &mut self.found);
        found.lifecycle_wall += cost.wall;
        found.throughput.add(steps as f64 * group / cost.wall.as_secs_f64());
        cost.spent.store_us.into_iter().for_each(|us| found.store_us.add(us / group));
        cost.spent.client_us.into_iter().for_each(|us| found.client_us.add(us / group));
        Ok(steps * self.plan.group)
    }

    fn report(self, bytes: Option<f64>) -> Report {
        let Self { options, plan, mut found, completed, .. } = self;
        let mut latencies = Latencies::default();
        self.callers.into_iter().for_each(|caller| latencies.merge(caller.latencies));
        let mut load = options.load.clone();
        load.executions = plan.steps * plan.group;
        let throughput = load.executions as f64 / found.lifecycle_wall.as_secs_f64();
        let (store_us, noop_us) = (found.store_us.median(), found.noop_us.median());
        let bytes_name = match options.store.host {
            HostKind::Embedded => "resident_bytes_per_execution",
            HostKind::Valkey | HostKind::Cluster => "bytes_per_execution",
        };
        Report::new("lifecycle", &options.store, &load)
            .field("waiting", options.waiting)
            .field("claim_batch", options.claim_batch)
            .measured("throughput_per_s", Some(throughput))
            .measured("throughput_median_per_s", found.throughput.median())
            .measured("throughput_best_per_s", found.throughput.largest())
            .measured("p50_us", latencies.percentile_us(0.5))
            .measured("p99_us", latencies.percentile_us(0.99))
            .measured("bare_rtt_us", found.bare_rtt.percentile_us(0.5))
            .measured("server_us_per_execution", store_us)
            .measured("server_us_create", found.phases.create.median())
            .measured("server_us_claim", found.phases.claim.median())
            .measured("server_us_complete", found.phases.complete.median())
            .measured("claim_us", found.phases.claim.median())
            .measured("client_us_per_execution", found.client_us.median())
            .measured("noop_call_us", noop_us)
            .measured("noop_ratio", store_us.zip(noop_us).map(|(whole, noop)| whole / noop))
            .measured("yardstick_us", found.machine_speed.percentile_us(0.5))
            .measured(bytes_name, bytes.map(|bytes| bytes / completed as f64))
    }
}

/// Does whole lifecycles.
struct LifecycleCaller {
    worker: Worker,
    latencies: Latencies,
}

impl LifecycleCaller {
    fn new(worker: Worker) -> Self {
        Self { worker, latencies: Latencies::default() }
    }
}

impl Caller for LifecycleCaller {
    /// Each execution's time is counted from the beginning of its group.
    async fn step(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        let partition = self.worker.create_group().await?;
        for handle in self.worker.claim_group(partition).await? {
            self.worker.complete(&handle).await?;
            self.latencies.add(start.elapsed());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Scenario};
    use clap::Parser;

    fn plan(words: &str) -> Plan {
        let words = format!("ff-bench lifecycle --host embedded {words}");
        let arguments = Arguments::try_parse_from(words.split(' ')).expect("the options are right");
        let Scenario::Lifecycle(options) = arguments.scenario else { panic!("not {words}") };
        Plan::new(&options)
    }

    #[test]
    fn the_rounds_take_all_steps_between_them() {
        for (words, steps) in [
            ("--executions 1", 1),
            ("--executions 7", 7),
            ("--executions 1003", 1003),
            ("--executions 1003 --claim-batch 16", 63),
        ] {
            let plan = plan(words);
            let taken: u64 = (0..plan.rounds).map(|round| plan.steps_of(round)).sum();
            assert_eq!(taken, steps, "{words}");
            assert!((0..plan.rounds).all(|round| plan.steps_of(round) > 0), "{words}");
            assert!(plan.phase_steps > 0 && plan.noop_calls > 0, "{words}");
        }
    }
}
