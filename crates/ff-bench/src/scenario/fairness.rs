//! Two tenants of one fair lane: one submits very many, then the other submits one. How long the
//! one waits, and how many are taken before it.

use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use ff_core::contracts::{LaneOrder, SetLane};
use ff_sdk::Client;

use super::crew::{Crew, input};
use super::deployment::Deployment;
use super::sdk::LANE;
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::machine_speed;
use crate::progress::Progress;
use crate::report::Report;
use crate::statistics::Latencies;

/// Options of `fairness`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The store.
    #[arg(long, value_enum, default_value_t = HostKind::Valkey)]
    host: HostKind,

    /// Workers, each with one task at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// Executions of the first tenant that wait.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    flood: usize,

    /// How long the one may wait.
    #[arg(long, value_name = "S", default_value_t = 300)]
    seconds: u64,

    /// Leaves the lane in order, to see the difference.
    #[arg(long)]
    in_order: bool,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

/// Submissions that are sent at a time.
const CHUNK: usize = 5_000;

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(options.host, options.partitions);
    let deployment = Deployment::start(&on).await?;
    if !options.in_order {
        let fair = SetLane { order: Some(LaneOrder::Fair), ..SetLane::default() };
        deployment.client.set_lane(&LANE.parse()?, fair).await?;
    }
    let many = deployment.client.clone().with_namespace("many".parse()?);
    let one = deployment.client.clone().with_namespace("one".parse()?);
    let crew = vec![Vec::new(); usize::try_from(options.workers)?];
    let connections = [deployment.connection.clone()];
    let number = options.flood;

    let alone = Crew::start("alone", &connections, crew.clone()).await?;
    let alone = wait_of(&one, number, alone, options).await?;
    flood(&many, options.flood).await?;
    let behind = Crew::start("behind", &connections, crew).await?;
    let behind = wait_of(&one, number, behind, options).await?;

    let mut machine_speed = Latencies::default();
    machine_speed::measure(&mut machine_speed);
    Ok(Report::about("fairness", &on)
        .field("workers", options.workers)
        .field("flood", options.flood)
        .field("is_fair", !options.in_order)
        .measured("wait_alone_us", alone.wait.map(micros))
        .field("was_taken", behind.wait.is_some())
        .measured("wait_us", behind.wait.map(micros))
        .field("taken_before", behind.before)
        .measured(
            "wait_ratio",
            behind.wait.zip(alone.wait).map(|(it, alone)| micros(it) / micros(alone)),
        )
        .measured("yardstick_us", machine_speed.percentile_us(0.5)))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

async fn flood(client: &Client, count: usize) -> Result<(), Failure> {
    let progress = Progress::new("submitting", u64::try_from(count)?);
    for begin in (0..count).step_by(CHUNK) {
        let numbers = begin..count.min(begin + CHUNK);
        let sent = u64::try_from(numbers.len())?;
        let chunk = numbers.map(|number| client.submit_raw("bench", input(number)).lane(LANE));
        for created in client.submit_many(chunk).await {
            created?;
        }
        progress.add(sent);
    }
    Ok(())
}

struct Waited {
    /// Absent if it was not taken in time.
    wait: Option<Duration>,
    /// What was taken between its submission and itself.
    before: usize,
}

async fn wait_of(
    client: &Client,
    number: usize,
    mut crew: Crew,
    options: &Options,
) -> Result<Waited, Failure> {
    let begun = Instant::now();
    client.submit_raw("bench", input(number)).lane(LANE).await?;
    let deadline = begun + Duration::from_secs(options.seconds);
    let mut found = Waited { wait: None, before: 0 };
    while let Some(taken) = crew.next(deadline).await? {
        if taken.number == number {
            found.wait = Some(taken.at.duration_since(begun));
            break;
        }
        found.before += usize::from(taken.at >= begun);
    }
    crew.stop().await?;
    Ok(found)
}
