//! Submit, claim, complete over HTTP: how many a second, and how long each request takes.
//!
//! First as fast as it goes, every client beginning the next life when the last one is over; then
//! at half that rate, whether or not earlier lives are over. The server is a process of its own,
//! but shares the machine with the load.

mod client;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, value_parser};

use crate::Failure;
use crate::arguments::ServedOptions;
use crate::http_client::HttpClient;
use crate::machine_speed;
use crate::report::Report;
use crate::server::{ServedStore, ServerProcess};
use crate::statistics::{Latencies, Rounds};
use crate::threads::{self, ThreadTimes};
use client::{Client, Times};

/// Options of `http`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    store: ServedOptions,

    /// Clients, each with a connection of its own. A client submits, claims and completes.
    #[arg(long, value_name = "C", default_value_t = 64, value_parser = value_parser!(u32).range(1..=10_000))]
    concurrency: u32,

    /// Begin so many lives a second, late ones too, instead of as many as possible.
    #[arg(long, value_name = "R", value_parser = value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// How long each part is measured.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,

    /// Executions taken by one claim. A client submits as many first.
    #[arg(long, value_name = "B", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    claim_batch: u16,

    /// Bytes of each execution's input.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = value_parser!(u32).range(0..=8 << 20))]
    payload: u32,

    /// Bytes of each execution's result.
    #[arg(long, value_name = "BYTES", default_value_t = 16, value_parser = value_parser!(u32).range(0..=8 << 20))]
    result: u32,
}

const WARM_UP: Duration = Duration::from_secs(1);
const ROUND: Duration = Duration::from_secs(1);
const BARE_REQUESTS: u32 = 200;

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let store = options.store.store();
    let begun = Instant::now();
    let served = ServedStore::start(&store)?;
    let mut run = Run::new(options, served.serve()?).await?;
    let start = begun.elapsed();
    let idle_bytes = run.server.resident_bytes();
    let bare_rtt = run.bare_requests().await?;
    run.part(WARM_UP, None).await?;
    let report = Report::about("http", &store)
        .field("concurrency", options.concurrency)
        .field("payload_bytes", options.payload)
        .field("result_bytes", options.result)
        .field("claim_batch", options.claim_batch)
        .measured("bare_rtt_us", bare_rtt)
        .measured("start_ms", Some(start.as_secs_f64() * 1e3))
        .known("resident_idle_bytes", idle_bytes);
    let report = match options.rate {
        Some(rate) => run.at_rate(f64::from(rate), report, &NAMES).await?,
        None => run.as_fast_as_possible(report).await?,
    };
    Ok(report
        .known("resident_bytes", run.server.resident_bytes())
        .measured("yardstick_us", run.machine_speed.percentile_us(0.5)))
}

/// The names of a part's times: whole lives, then each request.
type Names = [[&'static str; 2]; 4];

const NAMES: Names = [
    ["p50_us", "p99_us"],
    ["submit_p50_us", "submit_p99_us"],
    ["claim_p50_us", "claim_p99_us"],
    ["complete_p50_us", "complete_p99_us"],
];

const NAMES_AT_HALF: Names = [
    ["half_p50_us", "half_p99_us"],
    ["half_submit_p50_us", "half_submit_p99_us"],
    ["half_claim_p50_us", "half_claim_p99_us"],
    ["half_complete_p50_us", "half_complete_p99_us"],
];

/// What the server counts, and what it is called for each execution.
const COUNTERS: [(&str, &str); 2] = [
    ("ff_store_calls_total ", "store_calls_per_execution"),
    ("ff_journal_syncs_total ", "journal_syncs_per_execution"),
];

struct Run<'a> {
    options: &'a Options,
    server: ServerProcess,
    clients: Vec<Client>,
    machine_speed: Latencies,
}

/// What a part of a run found.
struct Part {
    lives: u64,
    wall: Duration,
    times: Times,
    server: ThreadTimes,
    client_us: f64,
}

impl<'a> Run<'a> {
    async fn new(options: &'a Options, server: ServerProcess) -> Result<Self, Failure> {
        let mut clients = Vec::new();
        for number in 0..options.concurrency {
            let http = HttpClient::connect(&server.address).await?;
            clients.push(Client::new(http, number, options));
        }
        // Whoever starts a server waits for its first answer.
        if let Some(first) = clients.first_mut() {
            first.http.get("/healthz").await?;
        }
        Ok(Self { options, server, clients, machine_speed: Latencies::default() })
    }

    /// What a request costs that asks for nothing, with nobody else there.
    async fn bare_requests(&mut self) -> Result<Option<f64>, Failure> {
        let mut times = Latencies::default();
        let mut http = HttpClient::connect(&self.server.address).await?;
        for _ in 0..BARE_REQUESTS {
            let start = Instant::now();
            http.get("/healthz").await?;
            times.add(start.elapsed());
        }
        Ok(times.percentile_us(0.5))
    }

    async fn as_fast_as_possible(&mut self, report: Report) -> Result<Report, Failure> {
        let before = self.counters().await?;
        let (mut throughput, mut lives, mut wall) = (Rounds::default(), 0, Duration::ZERO);
        let (mut server_us, mut store_us) = (Rounds::default(), Rounds::default());
        let (mut client_us, mut times) = (Rounds::default(), Times::default());
        for _ in 0..self.options.seconds {
            let part = self.part(ROUND, None).await?;
            throughput.add(part.per_second());
            server_us.add(part.each_us(part.server.store_us + part.server.client_us));
            store_us.add(part.each_us(part.server.store_us));
            client_us.add(part.each_us(part.client_us));
            (lives, wall) = (lives + part.lives, wall + part.wall);
            times.merge(part.times);
        }
        let per_second = lives as f64 / wall.as_secs_f64();
        let report = report
            .field("executions", lives)
            .measured("throughput_per_s", Some(per_second))
            .measured("throughput_median_per_s", throughput.median())
            .measured("throughput_best_per_s", throughput.largest());
        let report = with_times(report, &NAMES, times)
            .measured("server_us_per_execution", server_us.median())
            .measured("server_store_us_per_execution", store_us.median())
            .measured("client_us_per_execution", client_us.median());
        let after = self.counters().await?;
        let report = COUNTERS.iter().zip(after.into_iter().zip(before)).fold(
            report,
            |report, ((_, name), (after, before))| {
                let each = after.zip(before).map(|(after, before)| (after - before) / lives as f64);
                report.measured(name, each)
            },
        );
        self.at_half(report, per_second / 2.0).await
    }

    /// What the server counted so far; nothing for a store that does not count.
    async fn counters(&mut self) -> Result<[Option<f64>; COUNTERS.len()], Failure> {
        let mut http = HttpClient::connect(&self.server.address).await?;
        let metrics = String::from_utf8_lossy(http.get("/metrics").await?).into_owned();
        Ok(COUNTERS.map(|(metric, _)| {
            let line = |line: &str| line.strip_prefix(metric)?.trim().parse().ok();
            metrics.lines().find_map(line)
        }))
    }

    async fn at_half(&mut self, report: Report, rate: f64) -> Result<Report, Failure> {
        let lasting = Duration::from_secs(self.options.seconds);
        let part = self.part(lasting, Some(rate)).await?;
        let report = report.measured("half_throughput_per_s", Some(part.per_second()));
        Ok(with_times(report, &NAMES_AT_HALF, part.times))
    }

    async fn at_rate(&mut self, rate: f64, to: Report, names: &Names) -> Result<Report, Failure> {
        let lasting = Duration::from_secs(self.options.seconds);
        let part = self.part(lasting, Some(rate)).await?;
        let report = to
            .field("executions", part.lives)
            .field("rate_per_s", rate)
            .measured("throughput_per_s", Some(part.per_second()))
            .measured("server_us_per_execution", Some(part.each_us(part.server_us())))
            .measured("client_us_per_execution", Some(part.each_us(part.client_us)));
        Ok(with_times(report, names, part.times))
    }

    /// Lets all clients live for a while.
    async fn part(&mut self, lasting: Duration, rate: Option<f64>) -> Result<Part, Failure> {
        machine_speed::measure(&mut self.machine_speed);
        let (server, own) = (self.server.times(), threads::times().unwrap_or_default());
        let begun = Instant::now();
        let pace = Arc::new(Pace::new(begun, lasting, rate, self.options.claim_batch));
        let running: Vec<_> = std::mem::take(&mut self.clients)
            .into_iter()
            .map(|client| tokio::spawn(client.live(Arc::clone(&pace))))
            .collect();
        let mut times = Times::default();
        for client in running {
            let (client, lived) = client.await??;
            times.merge(lived);
            self.clients.push(client);
        }
        let (after, own_after) = (self.server.times(), threads::times().unwrap_or_default());
        let server = ThreadTimes {
            store_us: after.store_us - server.store_us,
            client_us: after.client_us - server.client_us,
        };
        let client_us = own_after.client_us - own.client_us;
        Ok(Part { lives: times.lives(), wall: begun.elapsed(), times, server, client_us })
    }
}

impl Part {
    fn per_second(&self) -> f64 {
        self.lives as f64 / self.wall.as_secs_f64()
    }

    fn each_us(&self, us: f64) -> f64 {
        us / self.lives as f64
    }

    fn server_us(&self) -> f64 {
        self.server.store_us + self.server.client_us
    }
}

fn with_times(report: Report, names: &Names, times: Times) -> Report {
    let Times { mut whole, mut submit, mut claim, mut complete } = times;
    report
        .percentiles(names[0], &mut whole)
        .percentiles(names[1], &mut submit)
        .percentiles(names[2], &mut claim)
        .percentiles(names[3], &mut complete)
}

/// When lives begin.
struct Pace {
    begin: Instant,
    end: Instant,
    /// Between two beginnings, of all clients together; none if there is no plan.
    interval: Option<Duration>,
    begun: AtomicU64,
}

impl Pace {
    fn new(begin: Instant, lasting: Duration, rate: Option<f64>, group: u16) -> Self {
        let interval = rate.map(|rate| Duration::from_secs_f64(f64::from(group) / rate));
        Self { begin, end: begin + lasting, interval, begun: AtomicU64::new(0) }
    }

    /// Waits until a life is to begin; answers when that was, or none if there is no more. A life
    /// that nobody was free for in time has begun when it should have.
    async fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let Some(interval) = self.interval else { return (now < self.end).then_some(now) };
        let at = self.begin + interval.mul_f64(number as f64);
        if at >= self.end {
            return None;
        }
        if at <= now {
            return Some(at);
        }
        tokio::time::sleep_until(at.into()).await;
        Some(Instant::now())
    }
}
