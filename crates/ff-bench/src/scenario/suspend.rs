//! Suspend, signal, claim again, complete: how long that takes, and what the store spends.
//!
//! Also what it costs to refuse a signal: by its token, and by its name, which is the same without
//! a look at waitpoint and token. In a store with a synced journal, all four calls are compared
//! with four that do nothing but one write.
//!
//! The executions of a round are created and claimed before it is measured. Each round does a bit
//! of everything that is reported, as in `lifecycle`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::{Args, value_parser};
use ff_core::backend::Handle;
use ff_core::partition::Partition;
use ff_core::types::LaneId;
use ff_script::args::Args as CallArgs;
use ff_script::call::Call;
use ff_script::calls::deployment::RegisterLane;
use ff_script::calls::library::Version;

use crate::Failure;
use crate::arguments::{Journal, LoadOptions, StoreOptions};
use crate::caller::{self, Caller};
use crate::ids::Ids;
use crate::machine_speed;
use crate::metering::Spent;
use crate::noop::{self, NoopCaller};
use crate::progress::Progress;
use crate::report::Report;
use crate::statistics::{Latencies, Rounds};
use crate::store::{Inside, Store};
use crate::worker::{Refusal, Worker};

const ROUNDS: u64 = 20;
const BARE_CALLS_PER_ROUND: u64 = 100;
const NOOP_CALLS_PER_ROUND: u64 = 1_000;
const PHASE_EXECUTIONS_PER_ROUND: u64 = 50;
const DURABLE_CALLS_PER_ROUND: u64 = 20;
/// Calls of a wait, each with a write.
const CALLS_OF_A_WAIT: f64 = 4.0;

/// Where, how many, and by how many callers.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) store: StoreOptions,

    /// Executions that are measured.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    executions: u64,

    /// Concurrent callers.
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
}

impl Options {
    fn load(&self) -> LoadOptions {
        let Self { executions, concurrency, .. } = *self;
        LoadOptions { executions, concurrency, payload: 100, result: 16 }
    }
}

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    options.store.check();
    let store = Store::open(&options.store).await?;
    if let Inside::Valkey(host) = &store.inside {
        noop::install(host).await?;
    }
    let mut run = Run::new(&store, options)?;
    run.warm_up().await?;
    let progress = Progress::new("executions", options.executions);
    for round in 0..ROUNDS {
        let executions = options.executions;
        let steps = executions * (round + 1) / ROUNDS - executions * round / ROUNDS;
        run.round(steps).await?;
        progress.add(steps);
    }
    drop(progress);
    if let Inside::Valkey(host) = &store.inside {
        noop::remove(host).await?;
    }
    store.check_journal(options.store.journal)?;
    Ok(run.report())
}

/// A run under way and what it found so far.
struct Run<'a> {
    store: &'a Store,
    options: &'a Options,
    ready: Ready,
    callers: Vec<WaitCaller>,
    noops: Vec<NoopCaller>,
    bare_rtt: Latencies,
    durable_call: Latencies,
    ids: Ids,
    machine_speed: Latencies,
    store_us: Rounds,
    client_us: Rounds,
    noop_us: Rounds,
    phases: Phases,
}

/// What the store spends on each call of a wait.
#[derive(Default)]
struct Phases {
    suspend: Rounds,
    refusal: Rounds,
    malformed: Rounds,
    signal: Rounds,
    claim: Rounds,
    complete: Rounds,
}

/// Executions that are claimed and do not wait yet.
type Ready = Arc<Mutex<Vec<Handle>>>;

impl<'a> Run<'a> {
    fn new(store: &'a Store, options: &'a Options) -> Result<Self, Failure> {
        let ready = Ready::default();
        let workers = Worker::several(store, &options.load(), 1)?;
        let callers = workers.into_iter().map(|worker| WaitCaller {
            worker,
            ready: Arc::clone(&ready),
            latencies: Latencies::default(),
        });
        Ok(Self {
            store,
            options,
            callers: callers.collect(),
            ready,
            noops: NoopCaller::several(store, options.concurrency),
            bare_rtt: Latencies::default(),
            durable_call: Latencies::default(),
            ids: Ids::new(),
            machine_speed: Latencies::default(),
            store_us: Rounds::default(),
            client_us: Rounds::default(),
            noop_us: Rounds::default(),
            phases: Phases::default(),
        })
    }

    /// Also makes the keys that tokens are signed with, in partitions that have none.
    async fn warm_up(&mut self) -> Result<(), Failure> {
        let steps = 2 * u64::from(self.store.partitions()).min(self.options.executions);
        self.prepare(steps).await?;
        self.callers = caller::run(std::mem::take(&mut self.callers), steps).await?;
        self.callers.iter_mut().for_each(|caller| caller.latencies = Latencies::default());
        Ok(())
    }

    async fn prepare(&mut self, count: u64) -> Result<(), Failure> {
        let mut handles = Vec::new();
        for _ in 0..count {
            let worker = &mut self.callers[0].worker;
            let partition = worker.create_group().await?;
            handles.extend(worker.claim_group(partition).await?);
        }
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = handles;
        Ok(())
    }

    async fn round(&mut self, steps: u64) -> Result<(), Failure> {
        machine_speed::measure(&mut self.machine_speed);
        self.bare_calls().await?;
        self.durable_calls().await?;
        let noops = std::mem::take(&mut self.noops);
        if !noops.is_empty() {
            let (noops, cost) = caller::measure(self.store, noops, NOOP_CALLS_PER_ROUND).await?;
            self.noops = noops;
            cost.spent.store_us.into_iter().for_each(|us| self.noop_us.add(us));
        }
        self.phases().await?;
        if steps == 0 {
            return Ok(());
        }
        self.prepare(steps).await?;
        let callers = std::mem::take(&mut self.callers);
        let (callers, cost) = caller::measure(self.store, callers, steps).await?;
        self.callers = callers;
        cost.spent.store_us.into_iter().for_each(|us| self.store_us.add(us));
        cost.spent.client_us.into_iter().for_each(|us| self.client_us.add(us));
        Ok(())
    }

    /// Does each kind of call for several executions in a row.
    async fn phases(&mut self) -> Result<(), Failure> {
        self.prepare(PHASE_EXECUTIONS_PER_ROUND).await?;
        let handles =
            std::mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner));
        let (worker, store) = (&mut self.callers[0].worker, self.store);
        let (mut waiting, mut resumed) = (Vec::new(), Vec::new());
        let start = Spent::so_far(store).await?;
        for handle in &handles {
            waiting.push(worker.suspend(handle).await?);
        }
        let suspended = Spent::so_far(store).await?;
        for (handle, (waitpoint_id, _)) in handles.iter().zip(&waiting) {
            worker.refused_signal(handle.execution_id, *waitpoint_id, Refusal::ByToken).await?;
        }
        let refused = Spent::so_far(store).await?;
        for (handle, (waitpoint_id, _)) in handles.iter().zip(&waiting) {
            worker.refused_signal(handle.execution_id, *waitpoint_id, Refusal::ByName).await?;
        }
        let malformed = Spent::so_far(store).await?;
        for (handle, (waitpoint_id, token)) in handles.iter().zip(waiting) {
            worker.signal(handle.execution_id, waitpoint_id, token).await?;
        }
        let signalled = Spent::so_far(store).await?;
        for handle in &handles {
            resumed.extend(worker.claim_group(handle.execution_id.partition()).await?);
        }
        let claimed = Spent::so_far(store).await?;
        for handle in &resumed {
            worker.complete(handle).await?;
        }
        let completed = Spent::so_far(store).await?;
        add(&mut self.phases.suspend, suspended, start);
        add(&mut self.phases.refusal, refused, suspended);
        add(&mut self.phases.malformed, malformed, refused);
        add(&mut self.phases.signal, signalled, malformed);
        add(&mut self.phases.claim, claimed, signalled);
        add(&mut self.phases.complete, completed, claimed);
        Ok(())
    }

    /// What a call costs that asks for next to nothing, with nobody else there.
    async fn bare_calls(&mut self) -> Result<(), Failure> {
        for _ in 0..BARE_CALLS_PER_ROUND {
            let start = Instant::now();
            let (function, partition) = (Version::FUNCTION, Partition::flow(0));
            self.store.host.call(function, partition, CallArgs::default()).await?;
            self.bare_rtt.add(start.elapsed());
        }
        Ok(())
    }

    /// What a call costs that does nothing but write once, in a store that syncs what it writes.
    async fn durable_calls(&mut self) -> Result<(), Failure> {
        let synced = self.options.store.journal == Journal::Always;
        if !synced || !matches!(self.store.inside, Inside::Embedded(_)) {
            return Ok(());
        }
        for _ in 0..DURABLE_CALLS_PER_ROUND {
            let write = RegisterLane { lane: LaneId::try_new(self.ids.uuid().to_string())? };
            let args = write.encode_short();
            let start = Instant::now();
            self.store.host.call(RegisterLane::FUNCTION, Partition::flow(0), args).await?;
            self.durable_call.add(start.elapsed());
        }
        Ok(())
    }

    fn report(mut self) -> Report {
        let mut latencies = Latencies::default();
        self.callers.into_iter().for_each(|caller| latencies.merge(caller.latencies));
        let (p50, bare) = (latencies.percentile_us(0.5), self.bare_rtt.percentile_us(0.5));
        let (server, noop) = (self.store_us.median(), self.noop_us.median());
        let (refusal, malformed) = (self.phases.refusal.median(), self.phases.malformed.median());
        let token_check = refusal.zip(malformed).map(|(whole, malformed)| whole - malformed);
        let durable = self.durable_call.percentile_us(0.5);
        let ratio = |whole: Option<f64>, part: Option<f64>| Some(whole? / part?);
        Report::new("suspend", &self.options.store, &self.options.load())
            .measured("p50_us", p50)
            .measured("p99_us", latencies.percentile_us(0.99))
            .measured("bare_rtt_us", bare)
            .measured("rtt_ratio", ratio(p50, bare))
            .measured("durable_call_us", durable)
            .measured("durable_ratio", ratio(p50, durable.map(|us| CALLS_OF_A_WAIT * us)))
            .measured("server_us", server)
            .measured("server_us_suspend", self.phases.suspend.median())
            .measured("server_us_signal", self.phases.signal.median())
            .measured("server_us_claim", self.phases.claim.median())
            .measured("server_us_complete", self.phases.complete.median())
            .measured("client_us", self.client_us.median())
            .measured("noop_call_us", noop)
            .measured("noop_ratio", ratio(server, noop))
            .measured("server_us_refusal", refusal)
            .measured("refusal_ratio", ratio(refusal, noop))
            .measured("server_us_token_check", token_check)
            .measured("token_check_ratio", ratio(token_check, noop))
            .measured("yardstick_us", self.machine_speed.percentile_us(0.5))
    }
}

fn add(phase: &mut Rounds, now: Spent, before: Spent) {
    let each = now.each_since(before, PHASE_EXECUTIONS_PER_ROUND);
    each.store_us.into_iter().for_each(|us| phase.add(us));
}

/// Suspends an execution, signals it, claims it again and completes it.
struct WaitCaller {
    worker: Worker,
    ready: Ready,
    latencies: Latencies,
}

impl Caller for WaitCaller {
    /// With several callers on a partition, one may go on with what another has signalled: there
    /// are as many as are claimed.
    async fn step(&mut self) -> Result<(), Failure> {
        let handle = self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let handle = handle.ok_or("fewer executions were made ready than steps were taken")?;
        let start = Instant::now();
        let (waitpoint_id, token) = self.worker.suspend(&handle).await?;
        self.worker.signal(handle.execution_id, waitpoint_id, token).await?;
        for handle in self.worker.claim_group(handle.execution_id.partition()).await? {
            self.worker.complete(&handle).await?;
        }
        self.latencies.add(start.elapsed());
        Ok(())
    }
}
