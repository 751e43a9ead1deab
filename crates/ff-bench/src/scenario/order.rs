//! In which order executions are taken that all wait: the more urgent ones first, and among equals
//! those that were submitted first.

use std::time::{Duration, Instant};

use clap::{Args, value_parser};

use super::crew::{Crew, Taken, input};
use super::deployment::Deployment;
use super::monitor::{Calls, Monitor};
use super::sdk::LANE;
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::machine_speed;
use crate::report::Report;
use crate::statistics::Latencies;

/// Options of `order`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The store.
    #[arg(long, value_enum, default_value_t = HostKind::Valkey)]
    host: HostKind,

    /// Workers, each with one task at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// Connections that the workers share; each looks for work on its own, as a server does.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=100))]
    connections: u32,

    /// Executions of priority 0 that are submitted first.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    low: usize,

    /// Executions of priority 9000 that are submitted after them.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u16).range(1..))]
    high: u16,

    /// Executions that are submitted one after the other.
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = value_parser!(u16).range(2..))]
    sequence: u16,

    /// Between two of them.
    #[arg(long, value_name = "MS", default_value_t = 2)]
    pace_ms: u64,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

const HIGH: u16 = 9_000;
/// Whoever was submitted so much later and is taken before counts as overtaking.
const TOLERATED: Duration = Duration::from_millis(50);
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(options.host, options.partitions);
    let deployment = Deployment::start(&on).await?;
    let positions = high_positions(&deployment, options).await?;
    let (overtaking, calls) = overtaking(&deployment, options).await?;
    let mut machine_speed = Latencies::default();
    machine_speed::measure(&mut machine_speed);
    let sequence = f64::from(options.sequence);
    let claims = calls.as_ref().map(|calls| claim_calls(calls) / sequence);
    Ok(Report::about("order", &on)
        .field("workers", options.workers)
        .field("connections", options.connections)
        .field("low", options.low)
        .field("high", options.high)
        .field("high_priority_positions", positions.clone())
        .known("high_priority_last_position", positions.last().copied())
        .field("sequence", options.sequence)
        .measured("overtaken_share", Some(overtaking.count as f64 / sequence))
        .measured("worst_overtake_ms", Some(overtaking.worst.as_secs_f64() * 1e3))
        .measured("claim_calls_per_execution", claims)
        .known("calls_by_function", calls.map(|calls| told(&calls)))
        .measured("yardstick_us", machine_speed.percentile_us(0.5)))
}

/// At which positions the urgent ones are taken that were submitted last; 1 is the first.
async fn high_positions(on: &Deployment, options: &Options) -> Result<Vec<usize>, Failure> {
    let all = options.low + usize::from(options.high);
    let submissions = (0..all).map(|number| {
        let priority = if number < options.low { 0 } else { HIGH };
        on.client.submit_raw("bench", input(number)).lane(LANE).priority(priority)
    });
    for created in on.client.submit_many(submissions).await {
        created?;
    }
    let taken = take(on, options, "priority", all).await?;
    let places = taken.iter().zip(1..);
    Ok(places.filter(|(one, _)| one.number >= options.low).map(|(_, place)| place).collect())
}

#[derive(Debug, PartialEq)]
struct Overtaking {
    count: usize,
    worst: Duration,
}

async fn overtaking(
    on: &Deployment,
    options: &Options,
) -> Result<(Overtaking, Option<Calls>), Failure> {
    let mut submitted = Vec::new();
    for number in 0..usize::from(options.sequence) {
        on.client.submit_raw("bench", input(number)).lane(LANE).priority(0).await?;
        submitted.push(Instant::now());
        tokio::time::sleep(Duration::from_millis(options.pace_ms)).await;
    }
    let monitor = match on.url().filter(|_| options.host == HostKind::Valkey) {
        Some(url) => Some(Monitor::start(url).await?),
        None => None,
    };
    let taken = take(on, options, "sequence", submitted.len()).await?;
    let calls = match monitor {
        Some(monitor) => Some(monitor.stop().await?),
        None => None,
    };
    let order = taken.iter().map(|taken| submitted[taken.number]);
    Ok((overtaken(order), calls))
}

async fn take(
    on: &Deployment,
    options: &Options,
    name: &str,
    count: usize,
) -> Result<Vec<Taken>, Failure> {
    let crew = vec![Vec::new(); usize::try_from(options.workers)?];
    let connections = on.connections(options.connections).await?;
    let mut crew = Crew::start(name, &connections, crew).await?;
    let taken = crew.take(count, Instant::now() + TIME_LIMIT).await?;
    crew.stop().await?;
    if taken.len() < count {
        return Err(format!("only {} of {count} were taken", taken.len()).into());
    }
    Ok(taken)
}

/// Of things in the order in which they were taken, by when they were submitted.
fn overtaken(order: impl Iterator<Item = Instant>) -> Overtaking {
    let mut found = Overtaking { count: 0, worst: Duration::ZERO };
    let mut latest: Option<Instant> = None;
    for submitted in order {
        let by = latest.map_or(Duration::ZERO, |it| it.saturating_duration_since(submitted));
        found.count += usize::from(by > TOLERATED);
        found.worst = found.worst.max(by);
        latest = latest.max(Some(submitted));
    }
    found
}

fn claim_calls(calls: &Calls) -> f64 {
    let claims = calls.iter().filter(|(name, _)| name.contains("claim"));
    claims.map(|(_, count)| *count as f64).sum()
}

fn told(calls: &Calls) -> String {
    let each: Vec<String> = calls.iter().map(|(name, count)| format!("{name}={count}")).collect();
    each.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_taken_after_a_later_one_was_overtaken() {
        let begun = Instant::now();
        let order = |all: &[u64]| {
            let times: Vec<_> = all.iter().map(|ms| begun + Duration::from_millis(*ms)).collect();
            overtaken(times.into_iter())
        };
        let worst = Duration::from_millis;
        assert_eq!(order(&[1, 2, 3]), Overtaking { count: 0, worst: worst(0) });
        assert_eq!(order(&[40, 1]), Overtaking { count: 0, worst: worst(39) });
        assert_eq!(order(&[100, 1, 60, 20]), Overtaking { count: 2, worst: worst(99) });
    }
}
