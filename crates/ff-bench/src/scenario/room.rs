//! How much room executions take, waiting and over, in the embedded store and in Valkey; and what
//! having many of them means for the embedded store: its start beside Valkey's on the same
//! directory, its check, and the rewriting of its journal.

pub(crate) mod part;
pub(crate) mod process;
mod valkey_start;

use clap::{Args, value_parser};
use ff_core::partition::Partition;
use part::Part;
use process::PartProcess;
use serde_json::Value;

use crate::Failure;
use crate::arguments::{HostKind, LoadOptions, StoreOptions};
use crate::fill;
use crate::metering;
use crate::progress::Progress;
use crate::report::{Limit, Report};
use crate::store::{self, Store};
use crate::worker::Worker;

/// Options of `room`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Executions that wait, and are then claimed and completed.
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = value_parser!(u64).range(1000..))]
    executions: u64,

    /// Bytes of each execution's input.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = value_parser!(u32).range(0..=8 << 20))]
    payload: u32,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,
}

/// Executions taken by one claim.
const GROUP: u16 = 64;
const RESULT_BYTES: u32 = 16;

/// Bytes that one execution takes.
struct Each {
    waiting: Option<f64>,
    ended: Option<f64>,
}

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let embedded = measured(options, HostKind::Embedded).await?;
    let valkey = measured(options, HostKind::Valkey).await?;
    let ratio = |ours: Option<f64>, theirs: Option<f64>| Some(ours? / theirs?);
    let on = StoreOptions::on(HostKind::Embedded, options.partitions);
    let report = Report::about("room", &on)
        .field("executions", options.executions)
        .field("payload_bytes", options.payload)
        .measured("waiting_bytes", embedded.waiting)
        .measured("ended_bytes", embedded.ended)
        .measured("valkey_waiting_bytes", valkey.waiting)
        .measured("valkey_ended_bytes", valkey.ended)
        .measured("waiting_ratio", ratio(embedded.waiting, valkey.waiting))
        .measured("ended_ratio", ratio(embedded.ended, valkey.ended));
    on_disk(options, report)
}

/// The limits that are kept to.
const START_RATIO: Limit = Limit::AtMost(0.15);
const CHECK_RATIO: Limit = Limit::AtMost(2.0);
const CHECK_MEMORY_RATIO: Limit = Limit::AtMost(1.3);
const COMPACTION_PEAK_RATIO: Limit = Limit::AtMost(1.15);
const P99_RATIO: Limit = Limit::AtMost(1.5);

/// Measures a store in a directory, one process after the other.
fn on_disk(options: &Options, report: Report) -> Result<Report, Failure> {
    let directory = store::directory()?;
    let data = directory.path().join("data");
    let measure = |part| {
        let process = PartProcess::of_room(part, &data, |command| {
            command.args(["--executions", &options.executions.to_string()]);
            command.args(["--payload", &options.payload.to_string()]);
            command.args(["--partitions", &options.partitions.to_string()]);
        });
        // Killed when it has answered.
        process?.answer()
    };
    let rewrite = measure(Part::Rewrite)?;
    let (start, check) = (measure(Part::Start)?, measure(Part::Check)?);
    let valkey_start_s = valkey_start::seconds(&data)?;
    let of = |found: &Value, name: &str| found[name].as_f64();
    let ratio = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let (start_s, check_s) = (of(&start, "s"), of(&check, "s"));
    let peaks = |name: &str| (of(&rewrite, name), of(&start, name), of(&check, name));
    let (rewrite_peak, start_peak, check_peak) = peaks("peak_bytes");
    let peak_ratio = ratio(rewrite_peak, of(&rewrite, "before_bytes"));
    let p99_ratio = ratio(of(&rewrite, "compacting_p99_us"), of(&rewrite, "p99_us"));
    Ok(report
        .measured("start_s", start_s)
        .measured("valkey_start_s", Some(valkey_start_s))
        .limited("start_ratio", start_s.map(|s| s / valkey_start_s), START_RATIO)
        .measured("check_s", check_s)
        .measured("check_survey_s", of(&check, "survey_s"))
        .limited("check_ratio", ratio(check_s, start_s), CHECK_RATIO)
        .limited("check_memory_ratio", ratio(check_peak, start_peak), CHECK_MEMORY_RATIO)
        .measured("compaction_s", of(&rewrite, "compaction_s"))
        .limited("compaction_peak_ratio", peak_ratio, COMPACTION_PEAK_RATIO)
        .measured("p99_us", of(&rewrite, "p99_us"))
        .measured("compacting_p99_us", of(&rewrite, "compacting_p99_us"))
        .limited("p99_ratio", p99_ratio, P99_RATIO))
}

async fn measured(options: &Options, host: HostKind) -> Result<Each, Failure> {
    let store = Store::open(&StoreOptions::on(host, options.partitions)).await?;
    let (executions, payload) = (options.executions, options.payload);
    let load = LoadOptions { executions, concurrency: 1, payload, result: RESULT_BYTES };
    let mut worker = Worker::new(&store, &load, GROUP)?;
    work_off(&mut worker, options.partitions, u64::from(options.partitions)).await?;
    let empty = metering::memory_bytes(&store).await?;
    fill::fill(&store, &load, executions).await?;
    let full = metering::memory_bytes(&store).await?;
    drain(&mut worker, options).await?;
    let over = metering::memory_bytes(&store).await?;
    let each = |bytes: Option<f64>| Some((bytes? - empty?) / executions as f64);
    Ok(Each { waiting: each(full), ended: each(over) })
}

/// Creates and completes some everywhere, so that what a partition needs once is there.
async fn work_off(worker: &mut Worker, partitions: u16, groups: u64) -> Result<(), Failure> {
    for group in 0..groups {
        let partition = Partition::flow((group % u64::from(partitions)) as u16);
        worker.create_many(partition, u64::from(GROUP)).await?;
        finish(worker, partition).await?;
    }
    Ok(())
}

async fn finish(worker: &mut Worker, partition: Partition) -> Result<(), Failure> {
    for handle in worker.claim_group(partition).await? {
        worker.complete(&handle).await?;
    }
    Ok(())
}

/// Claims and completes what waits, but for what is no whole group.
async fn drain(worker: &mut Worker, options: &Options) -> Result<(), Failure> {
    let partitions = u64::from(options.partitions);
    let groups = options.executions / partitions / u64::from(GROUP);
    let progress = Progress::new("claiming and completing", options.executions);
    for _ in 0..groups {
        for partition in 0..options.partitions {
            finish(worker, Partition::flow(partition)).await?;
            progress.add(u64::from(GROUP));
        }
    }
    Ok(())
}
