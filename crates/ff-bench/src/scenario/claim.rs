//! From a submission to the moment an idle worker has it. One execution at a time: nothing but the
//! way itself is measured.

mod over_http;
mod over_sdk;

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, value_parser};
use tokio::sync::mpsc;

use crate::Failure;
use crate::arguments::{HostKind, ServedOptions};
use crate::machine_speed;
use crate::report::Report;
use crate::server::ServedStore;
use crate::statistics::Latencies;

/// Options of `claim`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    store: ServedOptions,

    /// The way of submitter and workers to the store (default: a server for the embedded store, the
    /// SDK for Valkey).
    #[arg(long, value_enum)]
    through: Option<Through>,

    /// Workers that wait.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// Executions that are submitted.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = value_parser!(u32).range(1..))]
    executions: u32,
}

/// A way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Through {
    /// A server's HTTP API.
    Server,
    /// The SDK, in this process, straight to Valkey.
    Sdk,
}

const LANE: &str = "bench";
/// Between two submissions, so that all workers wait again.
const PAUSE: Duration = Duration::from_millis(2);
/// Executions that are not counted.
const WARM_UP: u32 = 100;
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let store = options.store.store();
    let usual = match store.host {
        HostKind::Embedded => Through::Server,
        HostKind::Valkey | HostKind::Cluster => Through::Sdk,
    };
    let through = options.through.unwrap_or(usual);
    let served = ServedStore::start(&store)?;
    let found = match through {
        Through::Server => over_http::run(&served, options).await?,
        Through::Sdk if store.host == HostKind::Embedded => {
            return Err("--through sdk is for --host valkey and --host cluster".into());
        }
        Through::Sdk => over_sdk::run(&served, options).await?,
    };
    let mut found = found;
    let through = through.to_possible_value().map(|value| value.get_name().to_owned());
    Ok(Report::about("claim", &store)
        .known("through", through)
        .field("workers", options.workers)
        .field("executions", options.executions)
        .percentiles(["pickup_p50_us", "pickup_p99_us"], &mut found.pickup)
        .percentiles(["p50_us", "p99_us"], &mut found.whole)
        .measured("throughput_per_s", Some(found.per_second))
        .percentiles(["submit_p50_us", "submit_p99_us"], &mut found.submit)
        .measured("bare_rtt_us", found.bare_rtt.percentile_us(0.5))
        .measured("yardstick_us", found.machine_speed.percentile_us(0.5)))
}

#[derive(Default)]
struct Found {
    /// From the submission to the worker.
    pickup: Latencies,
    /// From the submission to the end of the execution.
    whole: Latencies,
    submit: Latencies,
    bare_rtt: Latencies,
    machine_speed: Latencies,
    per_second: f64,
}

/// What a worker did with an execution.
struct Worked {
    started: Instant,
    ended: Instant,
}

/// Somebody who submits.
trait Submitter {
    async fn submit(&mut self) -> Result<(), Failure>;
    /// A request that asks for nothing.
    async fn bare(&mut self) -> Result<(), Failure>;
}

/// Submits one execution after the other and waits for its end.
async fn measure(
    mut submitter: impl Submitter,
    mut worked: mpsc::UnboundedReceiver<Worked>,
    executions: u32,
) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut begun = Instant::now();
    for number in 0..WARM_UP + executions {
        if number == WARM_UP {
            (found, begun) = (Found::default(), Instant::now());
        }
        if number % 100 == 0 {
            machine_speed::measure(&mut found.machine_speed);
        }
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        submitter.bare().await?;
        found.bare_rtt.add(start.elapsed());
        let start = Instant::now();
        submitter.submit().await?;
        found.submit.add(start.elapsed());
        let one = tokio::time::timeout(TIME_LIMIT, worked.recv()).await?;
        let one = one.ok_or("no worker is left")?;
        found.pickup.add(one.started.duration_since(start));
        found.whole.add(one.ended.duration_since(start));
    }
    found.per_second = f64::from(executions) / begun.elapsed().as_secs_f64();
    Ok(found)
}
