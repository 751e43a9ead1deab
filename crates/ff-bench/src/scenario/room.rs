//! How much room executions take: waiting and over, in the embedded store and in Valkey.

use clap::{Args, value_parser};
use ff_core::partition::Partition;

use crate::Failure;
use crate::arguments::{HostKind, LoadOptions, StoreOptions};
use crate::fill;
use crate::metering;
use crate::progress::Progress;
use crate::report::Report;
use crate::store::Store;
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
    Ok(Report::about("room", &on)
        .field("executions", options.executions)
        .field("payload_bytes", options.payload)
        .measured("waiting_bytes", embedded.waiting)
        .measured("ended_bytes", embedded.ended)
        .measured("valkey_waiting_bytes", valkey.waiting)
        .measured("valkey_ended_bytes", valkey.ended)
        .measured("waiting_ratio", ratio(embedded.waiting, valkey.waiting))
        .measured("ended_ratio", ratio(embedded.ended, valkey.ended)))
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
