//! Flows run by workers of the SDK: how many a second, how long each takes, and what the store
//! spends on a member, compared with plain executions by the same workers in the same run.
//!
//! Each round measures both, and what they are compared with, in turn, so that whatever else the
//! machine does hits all alike. Beside a value for which there is a limit stands whether it keeps
//! to it.

mod large;
mod load;
mod shape;

use std::time::Instant;

use clap::{Args, value_parser};
use ff_sdk::LaneId;

use super::deployment::Deployment;
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::caller;
use crate::machine_speed;
use crate::progress::Progress;
use crate::report::{Limit, Report};
use crate::statistics::{Latencies, Rounds};
use large::Large;
use load::{Board, Member, Submitter, Work};
use shape::Graphs;
pub(crate) use shape::Shape;

/// Options of `flow`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The store: inside this process, one Valkey server, or a Valkey cluster.
    #[arg(long, value_enum, default_value_t = HostKind::Valkey)]
    host: HostKind,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,

    /// How the members of a flow wait for each other.
    #[arg(long, value_enum, default_value_t = Shape::Chain)]
    shape: Shape,

    /// Members of each flow.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=100_000))]
    nodes: u32,

    /// Flows in each round.
    #[arg(long, value_name = "F", default_value_t = 100, value_parser = value_parser!(u32).range(1..=100_000))]
    flows: u32,

    /// Workers, each with one task at a time; and as many submitters.
    #[arg(long, value_name = "W", default_value_t = 16, value_parser = value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// Rounds; the median counts.
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
    rounds: u32,

    /// Also free 10,000 members at once, cancel 1,000 of which a quarter runs, and submit 10,000
    /// with 50,000 edges, directly and by HTTP.
    #[arg(long)]
    large: bool,
}

const LANE: &str = "bench";

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let on = StoreOptions::on(options.host, options.partitions);
    let deployment = Deployment::start(&on).await?;
    let mut run = Run::start(&deployment, options).await?;
    run.warm_up().await?;
    let progress = Progress::new("rounds", u64::from(options.rounds));
    for round in 0..options.rounds {
        run.round(round).await?;
        progress.add(1);
    }
    drop(progress);
    let Options { shape, nodes, flows, .. } = *options;
    run.found.bytes_per_edge = large::bytes_per_edge(&deployment, shape, nodes, flows).await?;
    run.report(&on).await
}

/// A run under way and what it found so far.
struct Run<'a> {
    on: &'a Deployment,
    options: &'a Options,
    board: Board,
    members: Vec<Member>,
    found: Found,
}

#[derive(Default)]
struct Found {
    nodes_per_s: Rounds,
    plain_per_s: Rounds,
    nodes_ratio: Rounds,
    node_us: Rounds,
    plain_us: Rounds,
    server_ratio: Rounds,
    client_us: Rounds,
    flow: Latencies,
    in_flight: Latencies,
    claim_and_complete: Latencies,
    longest_call_us: Rounds,
    large: Large,
    bytes_per_edge: Option<f64>,
    machine_speed: Latencies,
}

/// What some work took.
struct Took {
    members_per_s: f64,
    store_us: Option<f64>,
    client_us: Option<f64>,
    latencies: Latencies,
}

impl<'a> Run<'a> {
    async fn start(on: &'a Deployment, options: &'a Options) -> Result<Self, Failure> {
        let board = Board::default();
        let member =
            |worker| Member { worker, board: board.clone(), latencies: Latencies::default() };
        let members = on.workers(options.workers).await?.into_iter().map(member).collect();
        Ok(Self { on, options, board, members, found: Found::default() })
    }

    fn graphs(&self) -> Graphs {
        let Options { shape, nodes, .. } = *self.options;
        Graphs { shape, nodes, lane: LaneId::new(LANE) }
    }

    /// Plain executions that are as many as the members of all flows.
    fn plain_count(&self) -> u64 {
        u64::from(self.options.flows) * u64::from(self.options.nodes)
    }

    async fn warm_up(&mut self) -> Result<(), Failure> {
        let flows = u64::from(self.options.flows);
        self.work(Work::Plain, self.plain_count().div_ceil(4), false).await?;
        self.work(Work::Flows(self.graphs()), flows.div_ceil(4), false).await?;
        Ok(())
    }

    async fn round(&mut self, round: u32) -> Result<(), Failure> {
        machine_speed::measure(&mut self.found.machine_speed);
        let flows = u64::from(self.options.flows);
        self.on.begin_slow_log().await?;
        let plain = self.work(Work::Plain, self.plain_count(), false).await?;
        let flow = self.work(Work::Flows(self.graphs()), flows, false).await?;
        self.drain().await?;
        let in_flight = self.work(Work::Flows(self.graphs()), flows, true).await?;
        if self.options.large {
            self.found.large.round(self.on, round).await?;
        }
        self.on
            .longest_call_us()
            .await?
            .into_iter()
            .for_each(|us| self.found.longest_call_us.add(us));
        self.found.in_flight.merge(in_flight.latencies);
        self.found.note(plain, flow);
        Ok(())
    }

    /// Submits so many things and runs all their members. Those who submit wait for the end of each
    /// before they go on if there shall be no more under way than they are.
    async fn work(&mut self, work: Work, count: u64, waits: bool) -> Result<Took, Failure> {
        let submitter = |_| Submitter {
            client: self.on.client.clone(),
            board: self.board.clone(),
            work: work.clone(),
            waits,
        };
        let submitters: Vec<_> = (0..self.options.workers).map(submitter).collect();
        let all = count * u64::from(work.members());
        let (before, start) = (self.on.spent().await?, Instant::now());
        let members = std::mem::take(&mut self.members);
        let (submitted, ran) =
            tokio::join!(caller::run(submitters, count), caller::run(members, all));
        submitted?;
        self.members = ran?;
        let wall = start.elapsed();
        let spent = self.on.spent().await?.each_since(before, all);
        Ok(Took {
            members_per_s: all as f64 / wall.as_secs_f64(),
            store_us: spent.store_us,
            client_us: spent.client_us,
            latencies: self.board.take_latencies(),
        })
    }

    /// Lets the workers take what waits already.
    async fn drain(&mut self) -> Result<(), Failure> {
        let inputs: Vec<Vec<u8>> = (0..self.plain_count()).map(|_| self.board.begin(1).0).collect();
        let submissions =
            inputs.into_iter().map(|input| self.on.client.submit_raw("bench", input).lane(LANE));
        for created in self.on.client.submit_many(submissions).await {
            created?;
        }
        self.members.iter_mut().for_each(|member| member.latencies = Latencies::default());
        let members = std::mem::take(&mut self.members);
        self.members = caller::run(members, self.plain_count()).await?;
        for member in &mut self.members {
            self.found.claim_and_complete.merge(std::mem::take(&mut member.latencies));
        }
        self.board.take_latencies();
        Ok(())
    }

    async fn report(self, on: &StoreOptions) -> Result<Report, Failure> {
        for member in self.members {
            member.worker.shutdown(load::TIME_LIMIT).await?;
        }
        let Options { shape, nodes, flows, workers, .. } = *self.options;
        let report = Report::about("flow", on)
            .field("shape", shape.to_string())
            .field("nodes", nodes)
            .field("edges", shape.edges(nodes))
            .field("flows", flows)
            .field("workers", workers);
        Ok(self.found.report(report, self.options))
    }
}

impl Found {
    fn note(&mut self, plain: Took, flow: Took) {
        self.plain_per_s.add(plain.members_per_s);
        self.nodes_per_s.add(flow.members_per_s);
        self.nodes_ratio.add(flow.members_per_s / plain.members_per_s);
        if let (Some(flow), Some(plain)) = (flow.store_us, plain.store_us) {
            self.node_us.add(flow);
            self.plain_us.add(plain);
            self.server_ratio.add(flow / plain);
        }
        flow.client_us.into_iter().for_each(|us| self.client_us.add(us));
        self.flow.merge(flow.latencies);
    }

    fn report(mut self, report: Report, options: &Options) -> Report {
        // What is promised of flows is promised of chains.
        let is_chain = options.shape == Shape::Chain;
        // An edge is small where members have several: the first one makes their lists.
        let is_random = options.shape == Shape::Random;
        let (nodes, large) = (f64::from(options.nodes), self.large);
        let one = self.claim_and_complete.percentile_us(0.5);
        let p99 = self.in_flight.percentile_us(0.99);
        let in_turn = p99.zip(one).map(|(p99, one)| p99 / (nodes * one));
        let nodes_per_s = self.nodes_per_s.median();
        report
            .measured("flows_per_s", nodes_per_s.map(|per_s| per_s / nodes))
            .measured("nodes_per_s", nodes_per_s)
            .measured("plain_per_s", self.plain_per_s.median())
            .limited(
                "nodes_ratio",
                self.nodes_ratio.median(),
                is_chain.then_some(Limit::AtLeast(0.6)),
            )
            .percentiles(["flow_p50_us", "flow_p99_us"], &mut self.flow)
            .percentiles(["in_flight_p50_us", "in_flight_p99_us"], &mut self.in_flight)
            .measured("claim_and_complete_p50_us", one)
            .limited("in_flight_ratio", in_turn, is_chain.then_some(Limit::AtMost(3.0)))
            .measured("server_us_per_node", self.node_us.median())
            .measured("server_us_per_plain", self.plain_us.median())
            .limited(
                "server_ratio",
                self.server_ratio.median(),
                is_chain.then_some(Limit::AtMost(1.6)),
            )
            .measured("client_us_per_node", self.client_us.median())
            .limited("longest_call_us", self.longest_call_us.median(), Limit::AtMost(5_000.0))
            .limited(
                "bytes_per_edge",
                self.bytes_per_edge,
                is_random.then_some(Limit::AtMost(256.0)),
            )
            .limited("freed_10000_ms", large.freed_ms.median(), Limit::AtMost(400.0))
            .limited("cancelled_1000_ms", large.cancelled_ms.median(), Limit::AtMost(50.0))
            .limited("submitted_10000_ms", large.submitted_ms.median(), Limit::AtMost(1_500.0))
            .limited(
                "submitted_10000_by_http_ms",
                large.submitted_by_http_ms.median(),
                Limit::AtMost(2_000.0),
            )
            .measured("yardstick_us", self.machine_speed.percentile_us(0.5))
    }
}
