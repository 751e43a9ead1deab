//! What a claim costs the store behind executions that its worker cannot take, compared in the same
//! run with the same claims without them.

use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use ff_sdk::Submission;

use super::crew::{Crew, input};
use super::deployment::Deployment;
use super::sdk::LANE;
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::machine_speed;
use crate::report::{Limit, Report};
use crate::statistics::Latencies;

/// Options of `crowded`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The store.
    #[arg(long, value_enum, default_value_t = HostKind::Valkey)]
    host: HostKind,

    /// Executions that no worker can take, submitted before the others.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u32).range(1..))]
    unsuitable: u32,

    /// Combinations of kind and capabilities that they are spread over.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=1000))]
    combinations: u32,

    /// Workers, each with one task at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// Tasks whose claims and ends are measured; as many before them warm up, for as long as the
    /// workers take to start.
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = value_parser!(u32).range(1_000..))]
    tasks: u32,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

/// Submissions that are sent together.
const TOGETHER: usize = 1_000;
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(options.host, options.partitions);
    let deployment = Deployment::start(&on).await?;
    let alone = measure(&deployment, options, "alone").await?;
    let crowd = (0..options.unsuitable).map(|number| {
        let combination = number % options.combinations;
        let kind = format!("kind-{}", combination % 10);
        let task = deployment.client.submit_raw(&kind, input(0)).lane(LANE);
        task.requires(format!("u{combination}")).requires("nobody")
    });
    submit(&deployment, crowd).await?;
    let crowded = measure(&deployment, options, "crowded").await?;
    let mut machine_speed = Latencies::default();
    machine_speed::measure(&mut machine_speed);
    let ratio = crowded.zip(alone).map(|(crowded, alone)| crowded / alone);
    Ok(Report::about("crowded", &on)
        .field("unsuitable", options.unsuitable)
        .field("combinations", options.combinations)
        .field("workers", options.workers)
        .field("tasks", options.tasks)
        .measured("server_us", crowded)
        .measured("server_us_alone", alone)
        .limited("server_ratio", ratio, Limit::AtMost(1.2))
        .measured("yardstick_us", machine_speed.percentile_us(0.5)))
}

async fn submit(
    deployment: &Deployment,
    tasks: impl Iterator<Item = Submission>,
) -> Result<(), Failure> {
    let mut tasks = tasks.peekable();
    while tasks.peek().is_some() {
        let together: Vec<_> = tasks.by_ref().take(TOGETHER).collect();
        for created in deployment.client.submit_many(together).await {
            created?;
        }
    }
    Ok(())
}

/// What the store spends on the claim and the end of a task, of those that wait already.
async fn measure(
    deployment: &Deployment,
    options: &Options,
    name: &str,
) -> Result<Option<f64>, Failure> {
    let half = usize::try_from(options.tasks)?;
    let tasks =
        (0..2 * half).map(|number| deployment.client.submit_raw("bench", input(number)).lane(LANE));
    submit(deployment, tasks).await?;
    let connections = [deployment.connection.clone()];
    let able = vec![Vec::new(); usize::try_from(options.workers)?];
    let mut crew = Crew::start(name, &connections, able).await?;
    let warm = crew.take(half, Instant::now() + TIME_LIMIT).await?.len();
    let before = deployment.spent().await?;
    let taken = crew.take(half, Instant::now() + TIME_LIMIT).await?.len();
    let spent = deployment.spent().await?.each_since(before, options.tasks.into());
    crew.stop().await?;
    if warm + taken < 2 * half {
        return Err("not all tasks were taken in time".into());
    }
    Ok(spent.store_us)
}
