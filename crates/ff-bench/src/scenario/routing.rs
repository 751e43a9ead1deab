//! Tasks that only some workers can do: how many reach one, how soon, and how many a second,
//! compared in the same run with what would be possible.

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, value_parser};
use ff_sdk::Submission;

use super::crew::{Crew, input};
use super::deployment::Deployment;
use super::sdk::LANE;
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::machine_speed;
use crate::report::{Limit, Report};
use crate::statistics::Latencies;

/// Options of `routing`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Who can do what.
    #[arg(long, value_enum)]
    mode: Mode,

    /// The store.
    #[arg(long, value_enum, default_value_t = HostKind::Valkey)]
    host: HostKind,

    /// Workers, each with one task at a time.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(2..=1000))]
    workers: u32,

    /// Capabilities that there are; each task requires two of them.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(2..=64))]
    capabilities: u32,

    /// Tasks, submitted together while all workers wait.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = value_parser!(u32).range(1..))]
    tasks: u32,

    /// How long it may take until all of them have reached a worker.
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u64,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

/// Who can do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Every worker has all capabilities; compared with tasks that require none.
    Happy,
    /// One worker in ten has all of them, the others one each; compared with happy.
    Partial,
    /// One worker has all of them, the others one each; compared with that one alone.
    Scarce,
}

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(options.host, options.partitions);
    let deployment = Deployment::start(&on).await?;
    let all = usize::try_from(options.workers)?;
    let (baseline, able) = match options.mode {
        Mode::Happy => (measure(&deployment, options, vec![Vec::new(); all], false).await?, all),
        Mode::Partial => {
            (measure(&deployment, options, crew(options, all), true).await?, (all / 10).max(1))
        }
        Mode::Scarce => {
            let mut alone = crew(options, 1);
            alone.truncate(1);
            (measure(&deployment, options, alone, true).await?, 1)
        }
    };
    let found = measure(&deployment, options, crew(options, able), true).await?;
    Ok(report(&on, options, found, baseline))
}

/// What each worker can do, the first so many of them everything.
fn crew(options: &Options, able: usize) -> Vec<Vec<String>> {
    let workers = (0_u32..options.workers).zip(0_usize..);
    workers
        .map(|(number, place)| match place < able {
            true => (0..options.capabilities).map(capability).collect(),
            false => vec![capability(number % options.capabilities)],
        })
        .collect()
}

fn capability(number: u32) -> String {
    format!("c{number}")
}

struct Found {
    routed: usize,
    waits: Latencies,
    per_second: f64,
}

async fn measure(
    deployment: &Deployment,
    options: &Options,
    capabilities: Vec<Vec<String>>,
    required: bool,
) -> Result<Found, Failure> {
    let connections = [deployment.connection.clone()];
    let name = if required { "routed" } else { "plain" };
    let mut crew =
        Crew::start(&format!("{name}-{}", capabilities.len()), &connections, capabilities).await?;
    let tasks = (0..options.tasks).zip(0..).map(|(number, place)| {
        let task = deployment.client.submit_raw("bench", input(place)).lane(LANE);
        if required { requiring(task, number, options.capabilities) } else { task }
    });
    let tasks: Vec<Submission> = tasks.collect();
    let begun = Instant::now();
    for created in deployment.client.submit_many(tasks).await {
        created?;
    }
    let deadline = begun + Duration::from_secs(options.seconds);
    let taken = crew.take(usize::try_from(options.tasks)?, deadline).await?;
    crew.stop().await?;
    let mut waits = Latencies::default();
    taken.iter().for_each(|taken| waits.add(taken.at.saturating_duration_since(begun)));
    let last = taken.last().map_or(begun, |taken| taken.at);
    let per_second = taken.len() as f64 / last.duration_since(begun).as_secs_f64();
    Ok(Found { routed: taken.len(), waits, per_second })
}

/// Two capabilities that stand beside each other.
fn requiring(task: Submission, number: u32, count: u32) -> Submission {
    task.requires(capability(number % count)).requires(capability((number + 1) % count))
}

fn report(on: &StoreOptions, options: &Options, mut found: Found, mut baseline: Found) -> Report {
    let mut machine_speed = Latencies::default();
    machine_speed::measure(&mut machine_speed);
    let share = found.routed as f64 / f64::from(options.tasks);
    let slow = |found: &mut Found| found.waits.percentile_us(0.99);
    let p99_ratio = slow(&mut found).zip(slow(&mut baseline)).map(|(one, other)| one / other);
    let (least, most) = match options.mode {
        Mode::Happy => (Some(Limit::AtLeast(0.5)), None),
        Mode::Partial => (None, Some(Limit::AtMost(10.0))),
        Mode::Scarce => (Some(Limit::AtLeast(0.7)), None),
    };
    Report::about("routing", on)
        .field("mode", options.mode.to_string())
        .field("workers", options.workers)
        .field("capabilities", options.capabilities)
        .field("tasks", options.tasks)
        .field("routed", found.routed)
        .limited("routed_share", Some(share), Limit::AtLeast(1.0))
        .percentiles(["p50_us", "p99_us"], &mut found.waits)
        .measured("throughput_per_s", Some(found.per_second))
        .measured("baseline_per_s", Some(baseline.per_second))
        .limited("throughput_ratio", Some(found.per_second / baseline.per_second), least)
        .percentiles(["baseline_p50_us", "baseline_p99_us"], &mut baseline.waits)
        .limited("p99_ratio", p99_ratio, most)
        .measured("yardstick_us", machine_speed.percentile_us(0.5))
}
