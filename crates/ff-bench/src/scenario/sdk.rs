//! Claim and complete through the SDK on Valkey: how many a second, compared with the least that
//! any queue on that Valkey does, a push to a list and a pop from it.
//!
//! Each round fills the queues, then measures the list and the workers in turn, so that whatever
//! else the machine does hits both alike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use ff_core::partition::Partition;
use ff_sdk::{BackendConfig, Connection, FlowFabricWorker, WorkerConfig};

use crate::Failure;
use crate::arguments::{HostKind, LoadOptions, StoreOptions};
use crate::caller::{self, Caller};
use crate::fill;
use crate::machine_speed;
use crate::report::Report;
use crate::server::ServedStore;
use crate::statistics::{Latencies, Rounds};
use crate::store::{Inside, Store};

/// Options of `sdk`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Workers, each with one task at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// Executions that wait at the beginning of each round.
    #[arg(long, value_name = "W", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..))]
    waiting: u64,

    /// Connections that the workers share.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1000))]
    connections: u32,

    /// Rounds; the median counts.
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
    rounds: u32,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

/// Pairs of a push and a pop in each round.
const PAIRS: u64 = 5_000;
pub(super) const LANE: &str = "bench";
const LEASE_TTL_MS: u64 = 30_000;
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(HostKind::Valkey, options.partitions);
    let served = ServedStore::start(&on)?;
    let store =
        Store::open(&StoreOptions { url: Some(served.store.clone()), ..on.clone() }).await?;
    let workers = connect(&served.store, options.workers, options.connections).await?;
    let mut found = Found::default();
    let mut drainers: Vec<_> = workers.into_iter().map(Drainer::new).collect();
    for _ in 0..options.rounds {
        drainers = found.round(&store, drainers, options).await?;
    }
    for drainer in drainers {
        found.latencies.merge(drainer.latencies);
        drainer.worker.shutdown(TIME_LIMIT).await?;
    }
    Ok(found.report(&on, options))
}

/// Workers over as few connections.
pub(super) async fn connect(
    url: &str,
    workers: u32,
    connections: u32,
) -> Result<Vec<FlowFabricWorker>, Failure> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(BackendConfig::valkey_url(url)?).await?);
    }
    connect_to(&open, workers).await
}

/// Workers over these connections.
pub(super) async fn connect_to(
    open: &[Connection],
    workers: u32,
) -> Result<Vec<FlowFabricWorker>, Failure> {
    let mut connected = Vec::new();
    for (number, connection) in (0..workers).zip(open.iter().cycle()) {
        let config = worker_config(format!("bench-{number}"), Vec::new())?;
        connected.push(FlowFabricWorker::connect_to(config, connection).await?);
    }
    Ok(connected)
}

/// A worker with one task at a time.
pub(super) fn worker_config(
    instance: String,
    capabilities: Vec<String>,
) -> Result<WorkerConfig, Failure> {
    Ok(WorkerConfig {
        // Not looked at: there is a connection.
        backend: BackendConfig::embedded_in_memory(),
        worker_id: "bench".parse()?,
        worker_instance_id: instance.parse()?,
        namespace: "*".parse()?,
        lanes: vec![LANE.parse()?],
        capabilities,
        lease_ttl_ms: LEASE_TTL_MS,
        claim_poll_interval_ms: 1_000,
        max_concurrent_tasks: 1,
    })
}

#[derive(Default)]
struct Found {
    throughput: Rounds,
    pushpop: Rounds,
    pushpop_together: Rounds,
    ratio: Rounds,
    store_us: Rounds,
    client_us: Rounds,
    latencies: Latencies,
    bare_rtt: Latencies,
    machine_speed: Latencies,
}

impl Found {
    async fn round(
        &mut self,
        store: &Store,
        drainers: Vec<Drainer>,
        options: &Options,
    ) -> Result<Vec<Drainer>, Failure> {
        machine_speed::measure(&mut self.machine_speed);
        let load = LoadOptions {
            executions: options.waiting,
            concurrency: options.workers,
            payload: 100,
            result: 16,
        };
        fill::fill(store, &load, options.waiting).await?;
        let alone = self.push_and_pop(store, 1).await?;
        let together = self.push_and_pop(store, options.workers).await?;
        let (drainers, cost) = caller::measure(store, drainers, options.waiting).await?;
        let drained = options.waiting as f64 / cost.wall.as_secs_f64();
        cost.spent.store_us.into_iter().for_each(|us| self.store_us.add(us));
        cost.spent.client_us.into_iter().for_each(|us| self.client_us.add(us));
        self.throughput.add(drained);
        self.pushpop.add(alone);
        self.pushpop_together.add(together);
        self.ratio.add(drained / alone);
        Ok(drainers)
    }

    /// Pairs a second, by so many callers of one connection.
    async fn push_and_pop(&mut self, store: &Store, callers: u32) -> Result<f64, Failure> {
        let Inside::Valkey(host) = &store.inside else { return Err("there is no list".into()) };
        let pair = |_| PushPop { host: Arc::clone(host), calls: Latencies::default() };
        let start = Instant::now();
        let callers = caller::run((0..callers).map(pair).collect(), PAIRS).await?;
        let pairs = PAIRS as f64 / start.elapsed().as_secs_f64();
        if let [only] = &*callers {
            self.bare_rtt.merge(only.calls.clone());
        }
        Ok(pairs)
    }

    fn report(mut self, on: &StoreOptions, options: &Options) -> Report {
        Report::about("sdk", on)
            .field("executions", options.waiting * u64::from(options.rounds))
            .field("workers", options.workers)
            .field("waiting", options.waiting)
            .field("connections", options.connections)
            .measured("throughput_per_s", self.throughput.median())
            .measured("throughput_best_per_s", self.throughput.largest())
            .percentiles(["p50_us", "p99_us"], &mut self.latencies)
            .measured("bare_rtt_us", self.bare_rtt.percentile_us(0.5))
            .measured("server_us_per_execution", self.store_us.median())
            .measured("client_us_per_execution", self.client_us.median())
            .measured("raw_pushpop_per_s", self.pushpop.median())
            .measured("raw_pushpop_together_per_s", self.pushpop_together.median())
            .measured("pushpop_ratio", self.ratio.median())
            .measured("yardstick_us", self.machine_speed.percentile_us(0.5))
    }
}

/// A worker that takes what waits.
struct Drainer {
    worker: FlowFabricWorker,
    latencies: Latencies,
}

impl Drainer {
    fn new(worker: FlowFabricWorker) -> Self {
        Self { worker, latencies: Latencies::default() }
    }
}

impl Caller for Drainer {
    async fn step(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        let task = self.worker.claim(TIME_LIMIT).await?.ok_or("nothing waits any more")?;
        task.complete(Some(vec![b'r'; 16])).await?;
        self.latencies.add(start.elapsed());
        Ok(())
    }
}

/// Pushes to a list and pops from it.
struct PushPop {
    host: Arc<ff_backend_valkey::ValkeyHost>,
    calls: Latencies,
}

impl PushPop {
    async fn call(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        let start = Instant::now();
        self.host.exec(Partition::flow(0), words).await?;
        self.calls.add(start.elapsed());
        Ok(())
    }
}

impl Caller for PushPop {
    async fn step(&mut self) -> Result<(), Failure> {
        static VALUE: [u8; 100] = [b'p'; 100];
        self.call(&[b"LPUSH", b"bench:{fp:0}:list", &VALUE]).await?;
        self.call(&[b"RPOP", b"bench:{fp:0}:list"]).await
    }
}
