//! Output: how many frames a second are appended, and how soon those who follow have them.
//!
//! First frames are appended as fast as it goes, one and ten by a call, in rounds with calls of a
//! function that does nothing. Then every stream gets frames at a steady pace, and tails follow
//! them over HTTP, through a server in a process of its own. All commands that Valkey receives are
//! counted: with nobody there, with idle tails, and while frames come.

mod appending;
mod tails;

use std::time::{Duration, Instant};

use clap::{Args, value_parser};

use super::idle::{self, Counts};
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions, refuse};
use crate::machine_speed;
use crate::noop;
use crate::report::Report;
use crate::server::ServedStore;
use crate::statistics::Latencies;
use crate::store::{Inside, Store};
use appending::Throughput;
use tails::Tails;

/// Options of `stream`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Those who follow, each over a connection of its own; spread evenly over the streams.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000))]
    tails: u32,

    /// Executions that write output.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..=10_000))]
    streams: u32,

    /// Frames that are appended as fast as possible.
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = value_parser!(u64).range(1_000..))]
    frames: u64,

    /// Frames a second of each stream while they are followed.
    #[arg(long, value_name = "R", default_value_t = 20, value_parser = value_parser!(u32).range(1..=1_000))]
    rate: u32,

    /// How long they are followed, and how long idle tails are looked at.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,

    /// Bytes of a frame that is not followed.
    #[arg(long, value_name = "BYTES", default_value_t = 20, value_parser = value_parser!(u32).range(0..=65_536))]
    frame_bytes: u32,

    /// One Valkey server, or a Valkey cluster.
    #[arg(long, value_enum, default_value_t = HostKind::Valkey)]
    host: HostKind,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

impl Options {
    /// Frames that all streams get at their pace.
    fn paced(&self) -> u64 {
        u64::from(self.rate) * self.seconds * u64::from(self.streams)
    }
}

/// For everything to come to rest before commands are counted.
const REST: Duration = Duration::from_secs(3);

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    if options.host == HostKind::Embedded {
        refuse("what is counted are commands of a Valkey: --host valkey or --host cluster");
    }
    let on = StoreOptions::on(options.host, options.partitions);
    let served = ServedStore::start(&on)?;
    let at = StoreOptions { url: Some(served.store.clone()), ..on.clone() };
    let store = Store::open(&at).await?;
    let Inside::Valkey(host) = &store.inside else { return Err("there is no Valkey".into()) };
    noop::install(host).await?;
    let throughput = appending::measure(&store, options).await?;
    noop::remove(host).await?;
    let followed = follow(&store, &served, options).await?;
    Ok(report(&on, options, &throughput, followed))
}

/// What following cost and brought.
struct Followed {
    bare_idle: f64,
    idle: f64,
    commands_per_frame: f64,
    expected: u64,
    arrived: u64,
    latencies: Latencies,
}

async fn follow(
    store: &Store,
    served: &ServedStore,
    options: &Options,
) -> Result<Followed, Failure> {
    let writers = appending::writers(store, options).await?;
    let server = served.serve()?;
    let begun = Instant::now();
    tokio::time::sleep(REST).await;
    let bare_idle = idle_rate(store, options.seconds).await?;
    let (writers, bare) = counted_write(store, writers, options, (begun, bare_idle)).await?;
    let ids: Vec<String> = writers.iter().map(appending::Writer::id).collect();
    let tails = Tails::connect(&server.address, &ids, options.tails, begun).await?;
    tokio::time::sleep(REST).await;
    let idle = idle_rate(store, options.seconds).await?;
    let (before, started) = (idle::counted(store).await?, Instant::now());
    let writers = appending::write_at_a_pace(writers, options, begun).await?;
    let (written, streams) = (options.paced(), writers.len() as u64);
    let expected = written / streams * u64::from(options.tails);
    let (latencies, arrived) = tails.finish(expected).await;
    let counted = sent(&before, &idle::counted(store).await?);
    let more = counted - idle * started.elapsed().as_secs_f64() - bare;
    // What a frame costs that nobody follows, and what following adds to it.
    let followed = written / streams * streams.min(u64::from(options.tails));
    let commands_per_frame = bare / written as f64 + more / followed as f64;
    Ok(Followed { bare_idle, idle, commands_per_frame, expected, arrived, latencies })
}

/// Commands that are sent because frames are written which nobody follows: not those that would
/// have been sent in that time anyway.
async fn counted_write(
    store: &Store,
    writers: Vec<appending::Writer>,
    options: &Options,
    (begun, idle): (Instant, f64),
) -> Result<(Vec<appending::Writer>, f64), Failure> {
    let (before, started) = (idle::counted(store).await?, Instant::now());
    let writers = appending::write_at_a_pace(writers, options, begun).await?;
    let counted = sent(&before, &idle::counted(store).await?);
    Ok((writers, counted - idle * started.elapsed().as_secs_f64()))
}

async fn idle_rate(store: &Store, seconds: u64) -> Result<f64, Failure> {
    let before = idle::counted(store).await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Ok(sent(&before, &idle::counted(store).await?) / seconds as f64)
}

/// Commands that were sent between two moments.
fn sent(before: &Counts, after: &Counts) -> f64 {
    let more = |(name, count): (&String, &f64)| count - before.get(name).unwrap_or(&0.0);
    after.iter().filter(|(name, _)| idle::is_sent(name)).map(more).sum()
}

fn report(
    on: &StoreOptions,
    options: &Options,
    throughput: &Throughput,
    mut followed: Followed,
) -> Report {
    let mut machine_speed = Latencies::default();
    machine_speed::measure(&mut machine_speed);
    let report = Report::about("stream", on)
        .field("tails", options.tails)
        .field("streams", options.streams)
        .field("frames", options.frames)
        .field("frame_bytes", options.frame_bytes)
        .field("rate", options.rate)
        .field("seconds", options.seconds);
    throughput
        .report(report)
        .percentiles(["tail_p50_us", "tail_p99_us"], &mut followed.latencies)
        .field("tail_frames_expected", followed.expected)
        .field("tail_frames_arrived", followed.arrived)
        .measured("bare_idle_commands_per_s", Some(followed.bare_idle))
        .measured("idle_commands_per_s", Some(followed.idle))
        .measured("commands_per_frame", Some(followed.commands_per_frame))
        .measured("yardstick_us", machine_speed.percentile_us(0.5))
}
