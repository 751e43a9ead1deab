//! The command line.

use std::fmt;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, value_parser};

use crate::scenario::{
    admission, bullmq, claim, crowded, fairness, flow, full, http, idle, order, room, routing, sdk,
    stream, suspend,
};

use crate::server;

/// Measures FlowFabric. Each scenario prints one report.
#[derive(Debug, Parser)]
#[command(name = "ff-bench", version)]
pub(crate) struct Arguments {
    /// What is measured.
    #[command(subcommand)]
    pub(crate) scenario: Scenario,

    /// Print the report as one JSON object instead of a table.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Threads that run the callers; 0 runs them all on the main thread.
    #[arg(long, global = true, value_name = "T", default_value_t = CLIENT_THREADS)]
    pub(crate) client_threads: usize,
}

/// The main thread alone. Measured on two cores with 64 callers: worker threads take the store's
/// core away, and against Valkey they double what the callers spend (69 instead of 36 µs for each
/// lifecycle), because a connection that is woken by its first caller writes at once, while on one
/// thread it writes what all callers had to say.
const CLIENT_THREADS: usize = 0;

/// The scenarios, each in a file of its own under `scenario/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Creates, claims and completes executions: throughput, latency, and what the store spends.
    Lifecycle(Lifecycle),
    /// Submits, claims and completes over HTTP, against a server in a process of its own.
    Http(http::Options),
    /// Claims and completes through the SDK on Valkey, compared with pushing to and popping from a
    /// list.
    Sdk(sdk::Options),
    /// How long it takes from a submission until an idle worker has it.
    Claim(claim::Options),
    /// Commands that an idle deployment sends to Valkey.
    Idle(idle::Options),
    /// Appends output and follows it over HTTP: throughput, latency, and commands that Valkey gets.
    Stream(stream::Options),
    /// Suspends, signals, claims again and completes: latency, and what the store spends.
    Suspend(suspend::Options),
    /// Runs flows by workers of the SDK: throughput, latency, and what the store spends, compared
    /// with plain executions.
    Flow(flow::Options),
    /// How much room executions take, in the embedded store and in Valkey.
    Room(room::Options),
    /// Sends tasks to the workers that have the capabilities they require.
    Routing(routing::Options),
    /// How long one execution of a tenant waits behind many of another.
    Fairness(fairness::Options),
    /// The cost of a claim behind executions that its worker cannot take.
    Crowded(crowded::Options),
    /// In which order executions are taken: by priority, and then by when they were submitted.
    Order(order::Options),
    /// What quotas cost, how fast executions pass one key, and how soon a freed place is taken.
    Admission(admission::Options),
    /// Compares with BullMQ on the same Valkey. Needs node and npm, and fetches BullMQ.
    Bullmq(bullmq::Options),
    /// An embedded store at its memory limit: filled, drained, copied, killed, started and audited.
    Full(full::Options),
    /// The store of `full` in a process of its own.
    #[command(hide = true)]
    FullPart(full::part::Options),
    /// A part of `room` in a process of its own.
    #[command(hide = true)]
    RoomPart(room::part::Options),
    /// The server of the other scenarios: prints its address and runs until its input ends.
    #[command(hide = true)]
    Serve(server::Options),
}

/// Where the executions live. Shared by all scenarios.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreOptions {
    /// The store: inside this process, one Valkey server, or a Valkey cluster.
    #[arg(long)]
    pub(crate) host: HostKind,

    /// A running Valkey or cluster to measure instead of one started for the run. Its executions
    /// are left there.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// When a call counts as done: after it is on the disk, after it was handed to the operating
    /// system, which syncs once a second, or at once, with no journal at all.
    #[arg(long, value_enum, default_value_t = Journal::Off)]
    pub(crate) journal: Journal,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    pub(crate) partitions: u16,

    /// Shards of the embedded store, each with a thread of its own (default: 1).
    #[arg(long, value_name = "S", value_parser = value_parser!(u16).range(1..=64))]
    pub(crate) shards: Option<u16>,

    /// Masters of the cluster that is started (default: 3).
    #[arg(long, value_name = "M", value_parser = value_parser!(u16).range(1..=16))]
    pub(crate) masters: Option<u16>,

    /// Replicas of each Valkey that is started (default: 0, or 1 if they have to confirm).
    #[arg(long, value_name = "R", value_parser = value_parser!(u16).range(0..=2))]
    pub(crate) replicas: Option<u16>,

    /// Where Valkey must have a call before it counts as done.
    #[arg(long, value_enum, default_value_t = Durability::Primary)]
    pub(crate) durability: Durability,
}

impl StoreOptions {
    /// A store started for the run, with no journal.
    pub(crate) fn on(host: HostKind, partitions: u16) -> Self {
        Self {
            host,
            url: None,
            journal: Journal::Off,
            partitions,
            shards: None,
            masters: None,
            replicas: None,
            durability: Durability::Primary,
        }
    }

    /// Ends the program with a message if options contradict each other.
    pub(crate) fn check(&self) {
        let complaint = match (self.host, &self.url) {
            (HostKind::Embedded, Some(_)) => "--url is for --host valkey and --host cluster",
            (_, Some(_)) if self.journal != Journal::Off => {
                "--journal is for a store that is started here; the one at --url already runs"
            }
            (_, Some(_)) if self.masters.is_some() => {
                "--masters is for a cluster that is started here; the one at --url already runs"
            }
            (HostKind::Embedded | HostKind::Valkey, _) if self.masters.is_some() => {
                "--masters is for --host cluster"
            }
            (_, Some(_)) if self.replicas.is_some() => {
                "--replicas is for a store that is started here; the one at --url already runs"
            }
            (HostKind::Embedded, _)
                if self.replicas.is_some() || self.durability != Durability::Primary =>
            {
                "--replicas and --durability are for --host valkey and --host cluster"
            }
            (HostKind::Valkey | HostKind::Cluster, _) if self.shards.is_some() => {
                "--shards is for --host embedded"
            }
            _ => return,
        };
        refuse(complaint);
    }

    /// Replicas of each Valkey.
    pub(crate) fn replica_count(&self) -> u16 {
        self.replicas.unwrap_or(u16::from(self.durability == Durability::Replica))
    }

    /// Where calls must be, if there is more than one place.
    pub(crate) fn durability_told(&self) -> Option<String> {
        (self.replica_count() > 0).then(|| self.durability.to_string())
    }

    /// Shards of the embedded store; none elsewhere.
    pub(crate) fn shard_count(&self) -> Option<u16> {
        (self.host == HostKind::Embedded).then(|| self.shards.unwrap_or(1))
    }
}

/// Where the executions of scenarios with a server live: always in a store started for the run.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServedOptions {
    /// The store: inside the server, one Valkey server, or a Valkey cluster.
    #[arg(long, value_enum, default_value_t = HostKind::Embedded)]
    pub(crate) host: HostKind,

    /// When a call counts as done (default: always for the embedded store, off for Valkey).
    #[arg(long, value_enum)]
    journal: Option<Journal>,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    pub(crate) partitions: u16,
}

impl ServedOptions {
    /// The same as other scenarios say it.
    pub(crate) fn store(&self) -> StoreOptions {
        let usual = match self.host {
            HostKind::Embedded => Journal::Always,
            HostKind::Valkey | HostKind::Cluster => Journal::Off,
        };
        let journal = self.journal.unwrap_or(usual);
        StoreOptions { journal, ..StoreOptions::on(self.host, self.partitions) }
    }
}

/// Prints what is wrong with the command line, and ends the program.
pub(crate) fn refuse(complaint: &str) -> ! {
    Arguments::command().error(ErrorKind::ArgumentConflict, complaint).exit()
}

/// The stores there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostKind {
    /// Inside this process.
    Embedded,
    /// One Valkey server.
    Valkey,
    /// A Valkey cluster.
    Cluster,
}

/// When a call counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Journal {
    /// After it is on the disk.
    Always,
    /// After it was handed to the operating system.
    Everysec,
    /// At once: nothing is kept.
    Off,
}

/// Where a call must be before it counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// On the primary.
    Primary,
    /// On a replica, too.
    Replica,
}

impl From<Durability> for ff_backend_valkey::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Primary => Self::Primary,
            Durability::Replica => Self::Replica,
        }
    }
}

macro_rules! display_as_option {
    ($($name:ty),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
            }
        }
    )*};
}

display_as_option!(HostKind, Journal, Durability, flow::Shape, routing::Mode);

/// What the callers of most scenarios do.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadOptions {
    /// Executions that are measured.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u64).range(1..))]
    pub(crate) executions: u64,

    /// Concurrent callers.
    #[arg(long, value_name = "C", default_value_t = 64, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) concurrency: u32,

    /// Bytes of each execution's input.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = value_parser!(u32).range(0..=8 << 20))]
    pub(crate) payload: u32,

    /// Bytes of each execution's result.
    #[arg(long, value_name = "BYTES", default_value_t = 16, value_parser = value_parser!(u32).range(0..=8 << 20))]
    pub(crate) result: u32,
}

/// Options of `lifecycle`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Lifecycle {
    #[command(flatten)]
    pub(crate) store: StoreOptions,

    #[command(flatten)]
    pub(crate) load: LoadOptions,

    /// Executions that wait in the same lane from the beginning and are still as many at the end.
    #[arg(long, value_name = "W", default_value_t = 0)]
    pub(crate) waiting: u64,

    /// Executions taken by one claim, as a worker with so many free places takes them. A caller
    /// creates as many, claims them with one call, and completes them one by one.
    #[arg(long, value_name = "B", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    pub(crate) claim_batch: u16,

    /// Compare what a claim costs with these numbers of waiting executions, as in 1000,1000000.
    /// Each gets a store of its own; they are measured in turn.
    #[arg(long, value_name = "W,W", value_delimiter = ',', conflicts_with_all = ["waiting", "url"])]
    pub(crate) compare_waiting: Vec<u64>,
}

impl Lifecycle {
    /// Ends the program with a message if options contradict each other.
    pub(crate) fn check(&self) {
        self.store.check();
        if self.compare_waiting.len() == 1 {
            refuse("--compare-waiting takes two numbers or more, as in 1000,1000000");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn an_option_out_of_range_is_named() {
        let words = ["ff-bench", "lifecycle", "--host", "valkey", "--concurrency", "0"];
        let error = Arguments::try_parse_from(words).expect_err("no caller is too few");
        assert!(error.to_string().contains("--concurrency"), "{error}");
    }
}
