//! Beside BullMQ on the same Valkey, in turn, both warm: claiming and completing what waits, and
//! submissions that are worked off at the same time. What the server spends is its processor time,
//! connections included.

mod driver;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use ff_sdk::{FlowFabricWorker, ShutdownHandle, Worker};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::deployment::Deployment;
use super::sdk::{self, LANE};
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::caller::{self, Caller};
use crate::machine_speed;
use crate::metering;
use crate::report::{Limit, Report};
use crate::statistics::{Latencies, Rounds};
use driver::Driver;

/// Options of `bullmq`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Tasks at a time, and submitters where there are some.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// Jobs that wait at the beginning of each round, and jobs that are submitted in it.
    #[arg(long, value_name = "W", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..))]
    waiting: u64,

    /// Bytes of each job.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    payload: u32,

    /// Rounds after one that only warms up; the median counts.
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = value_parser!(u32).range(1..))]
    rounds: u32,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

const KIND: &str = "bench";
/// Submissions that are sent at a time when only the filling counts.
const CHUNK: u64 = 2_000;

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(HostKind::Valkey, options.partitions);
    let deployment = Deployment::start(&on).await?;
    let port = deployment.url().and_then(|url| url.trim_end_matches('/').rsplit(':').next());
    let port = port.ok_or("the server has no port")?.parse()?;
    let mut bullmq = Driver::start(port, options.workers, options.payload).await?;
    let mut found = Found::default();
    for round in 0..=options.rounds {
        found.round(&deployment, &mut bullmq, options).await?;
        if round == 0 {
            found = Found::default();
        }
    }
    Ok(found.report(&on, options))
}

#[derive(Default)]
struct Found {
    ours: Side,
    theirs: Side,
    drain_ratio: Rounds,
    cpu_ratio: Rounds,
    together_ratio: Rounds,
    machine_speed: Latencies,
}

/// What one of the two did.
#[derive(Default)]
struct Side {
    drained: Rounds,
    cpu_us: Rounds,
    together: Rounds,
}

impl Found {
    async fn round(
        &mut self,
        on: &Deployment,
        bullmq: &mut Driver,
        options: &Options,
    ) -> Result<(), Failure> {
        machine_speed::measure(&mut self.machine_speed);
        let count = options.waiting;
        let per_second = |took: Duration| count as f64 / took.as_secs_f64();

        fill(on, options).await?;
        let before = server_cpu_us(on).await?;
        let ours = per_second(drain(on, options).await?);
        let our_cpu = (server_cpu_us(on).await? - before) / count as f64;
        bullmq.run("fill", count).await?;
        let before = server_cpu_us(on).await?;
        let theirs = per_second(bullmq.run("drain", count).await?);
        let their_cpu = (server_cpu_us(on).await? - before) / count as f64;
        let our_together = per_second(together(on, options).await?);
        let their_together = per_second(bullmq.run("together", count).await?);

        self.ours.add(ours, our_cpu, our_together);
        self.theirs.add(theirs, their_cpu, their_together);
        self.drain_ratio.add(ours / theirs);
        self.cpu_ratio.add(our_cpu / their_cpu);
        self.together_ratio.add(our_together / their_together);
        Ok(())
    }

    fn report(mut self, on: &StoreOptions, options: &Options) -> Report {
        Report::about("bullmq", on)
            .field("workers", options.workers)
            .field("waiting", options.waiting)
            .field("payload_bytes", options.payload)
            .field("rounds", options.rounds)
            .measured("claim_complete_per_s", self.ours.drained.median())
            .measured("bullmq_claim_complete_per_s", self.theirs.drained.median())
            .limited("claim_complete_ratio", self.drain_ratio.median(), Limit::AtLeast(1.3))
            .measured("server_us_per_job", self.ours.cpu_us.median())
            .measured("bullmq_server_us_per_job", self.theirs.cpu_us.median())
            .limited("server_us_ratio", self.cpu_ratio.median(), Limit::AtMost(0.8))
            .measured("submit_claim_complete_per_s", self.ours.together.median())
            .measured("bullmq_submit_claim_complete_per_s", self.theirs.together.median())
            .limited(
                "submit_claim_complete_ratio",
                self.together_ratio.median(),
                Limit::AtLeast(1.2),
            )
            .measured("yardstick_us", self.machine_speed.percentile_us(0.5))
    }
}

impl Side {
    fn add(&mut self, drained: f64, cpu_us: f64, together: f64) {
        self.drained.add(drained);
        self.cpu_us.add(cpu_us);
        self.together.add(together);
    }
}

async fn server_cpu_us(on: &Deployment) -> Result<f64, Failure> {
    metering::process_us(on.valkey().ok_or("there is no Valkey")?).await
}

async fn fill(on: &Deployment, options: &Options) -> Result<(), Failure> {
    let payload = vec![b'p'; usize::try_from(options.payload)?];
    for begin in (0..options.waiting).step_by(usize::try_from(CHUNK)?) {
        let count = CHUNK.min(options.waiting - begin);
        let jobs = (0..count).map(|_| on.client.submit_raw(KIND, payload.clone()).lane(LANE));
        for created in on.client.submit_many(jobs).await {
            created?;
        }
    }
    Ok(())
}

/// From the moment the worker may begin until the last one is completed.
async fn drain(on: &Deployment, options: &Options) -> Result<Duration, Failure> {
    let worker = Working::start(on, options).await?;
    let begun = Instant::now();
    worker.done().await;
    let took = begun.elapsed();
    worker.stop().await?;
    Ok(took)
}

/// From the first submission until the last one is completed.
async fn together(on: &Deployment, options: &Options) -> Result<Duration, Failure> {
    let worker = Working::start(on, options).await?;
    let payload = vec![b'p'; usize::try_from(options.payload)?];
    let submitter = |_| Submitter { on: on.client.clone(), payload: payload.clone() };
    let submitters = (0..options.workers).map(submitter).collect();
    let begun = Instant::now();
    let (submitted, ()) = tokio::join!(caller::run(submitters, options.waiting), worker.done());
    let took = begun.elapsed();
    submitted?;
    worker.stop().await?;
    Ok(took)
}

struct Submitter {
    on: ff_sdk::Client,
    payload: Vec<u8>,
}

impl Caller for Submitter {
    async fn step(&mut self) -> Result<(), Failure> {
        self.on.submit_raw(KIND, self.payload.clone()).lane(LANE).await?;
        Ok(())
    }
}

/// A worker of the SDK, as people write it, that counts what it did.
struct Working {
    done: Arc<Notify>,
    stop: ShutdownHandle,
    running: JoinHandle<Result<ff_sdk::ShutdownReport, ff_sdk::SdkError>>,
}

impl Working {
    async fn start(on: &Deployment, options: &Options) -> Result<Self, Failure> {
        let mut config = sdk::worker_config("bench-runtime".to_owned(), Vec::new())?;
        config.max_concurrent_tasks = usize::try_from(options.workers)?;
        let connected = FlowFabricWorker::connect_to(config, &on.connection).await?;
        let (left, done) = (Arc::new(AtomicU64::new(options.waiting)), Arc::new(Notify::new()));
        let told = Arc::clone(&done);
        let worker = Worker::builder("bench")
            .worker(connected)
            .on_raw(KIND, move |_, _| {
                let last = left.fetch_sub(1, Ordering::Relaxed) == 1;
                let told = Arc::clone(&told);
                async move {
                    if last {
                        told.notify_one();
                    }
                    Ok(vec![b'r'; 16])
                }
            })
            .build()?;
        let stop = worker.shutdown_handle();
        Ok(Self { done, stop, running: tokio::spawn(worker.run()) })
    }

    /// Returns when all were taken; the last few are then being completed.
    async fn done(&self) {
        self.done.notified().await;
    }

    async fn stop(self) -> Result<(), Failure> {
        self.stop.shutdown();
        self.running.await??;
        Ok(())
    }
}
