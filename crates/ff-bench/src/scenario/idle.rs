//! What a deployment costs in which nothing happens: commands a second that servers and waiting
//! workers send to Valkey.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, value_parser};
use tokio::task::JoinSet;

use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::machine_speed;
use crate::metering;
use crate::report::Report;
use crate::server::ServedStore;
use crate::statistics::Latencies;
use crate::store::{Inside, Store};

use super::sdk;

/// Options of `idle`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Workers that wait for work, each with a connection of its own.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(0..=1000))]
    workers: u32,

    /// Servers, each with an engine.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=16))]
    servers: u32,

    /// How long it is measured: everything that happens now and then does so once a minute.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,

    /// How long everything has to come to rest before that.
    #[arg(long, value_name = "S", default_value_t = 5)]
    rest_seconds: u64,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

/// Longer than any run: nobody comes back for nothing.
const WAIT: Duration = Duration::from_secs(3600);

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(HostKind::Valkey, options.partitions);
    let served = ServedStore::start(&on)?;
    let servers: Result<Vec<_>, _> = (0..options.servers).map(|_| served.serve()).collect();
    let servers = servers?;
    let store =
        Store::open(&StoreOptions { url: Some(served.store.clone()), ..on.clone() }).await?;
    let mut waiting = JoinSet::new();
    let one_each = options.workers.max(1);
    for worker in sdk::connect(&served.store, options.workers, one_each).await? {
        waiting.spawn(async move { worker.claim(WAIT).await.map(drop) });
    }
    tokio::time::sleep(Duration::from_secs(options.rest_seconds)).await;
    let before = counted(&store).await?;
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let after = counted(&store).await?;
    if let Some(ended) = waiting.try_join_next() {
        ended??;
        return Err("a worker did not wait to the end".into());
    }
    drop(servers);
    Ok(report(&on, options, &before, &after))
}

pub(super) type Counts = BTreeMap<String, f64>;

pub(super) async fn counted(store: &Store) -> Result<Counts, Failure> {
    let Inside::Valkey(host) = &store.inside else { return Err("there is no Valkey".into()) };
    metering::calls_by_command(host).await
}

fn report(on: &StoreOptions, options: &Options, before: &Counts, after: &Counts) -> Report {
    let rate = |name: &String| {
        let count = |counts: &Counts| counts.get(name).copied().unwrap_or(0.0);
        // The first look is not part of the idle deployment.
        let own = if name == "info" { 1.0 } else { 0.0 };
        (count(after) - count(before) - own) / options.seconds as f64
    };
    let rates: BTreeMap<&str, f64> = after
        .keys()
        .map(|name| (name.as_str(), rate(name)))
        .filter(|(_, rate)| *rate > 0.0)
        .collect();
    let sent: f64 = rates.iter().filter(|(name, _)| is_sent(name)).map(|(_, rate)| rate).sum();
    let inside: f64 = rates.iter().filter(|(name, _)| !is_sent(name)).map(|(_, rate)| rate).sum();
    let by_command: Vec<String> =
        rates.iter().map(|(name, rate)| format!("{name}={rate:.1}")).collect();
    let mut machine_speed = Latencies::default();
    machine_speed::measure(&mut machine_speed);
    Report::about("idle", on)
        .field("workers", options.workers)
        .field("servers", options.servers)
        .field("seconds", options.seconds)
        .measured("commands_per_s", Some(sent))
        .measured("commands_inside_functions_per_s", Some(inside))
        .field("by_command", by_command.join(" "))
        .measured("yardstick_us", machine_speed.percentile_us(0.5))
}

/// Valkey counts what functions do like what is sent. Data is only ever touched by functions, so
/// that all other commands were sent.
pub(super) fn is_sent(command: &str) -> bool {
    const KINDS: [&str; 10] = [
        "fcall",
        "function",
        "client",
        "hello",
        "ping",
        "cluster",
        "ssubscribe",
        "auth",
        "config",
        "info",
    ];
    KINDS.iter().any(|kind| command.starts_with(kind))
}
