//! An embedded store at its memory limit: it is filled until it refuses, drained, rewritten, copied
//! under load, killed and started again, and the audit looks at all that is left.

pub(crate) mod part;

use std::path::Path;
use std::time::Duration;

use clap::{Args, value_parser};
use ff_backend_embedded::MemoryLimit;
use serde_json::Value;

use super::room::part::Part;
use super::room::process::PartProcess;
use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::report::Report;
use crate::store;

/// Options of `full`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// How much memory keys and values may take, as in 512MiB.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory_limit: MemoryLimit,

    /// Bytes of each execution's input.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = value_parser!(u32).range(0..=8 << 20))]
    payload: u32,

    /// Number of flow partitions.
    #[arg(long, value_name = "P", default_value_t = 256, value_parser = value_parser!(u16).range(1..))]
    partitions: u16,

    /// How long the store works after it was copied, before it is killed.
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    kill_after_ms: u64,
}

/// Runs the scenario.
pub(crate) fn run(options: &Options) -> Result<Report, Failure> {
    let directory = store::directory()?;
    let data = directory.path().join("data");
    let mut running = PartProcess::start("full-part", |command| {
        command.arg("--directory").arg(&data);
        command.args(["--memory-limit", &options.memory_limit.to_string()]);
        command.args(["--payload", &options.payload.to_string()]);
        command.args(["--partitions", &options.partitions.to_string()]);
    })?;
    let (filled, drained, copied) = (running.answer()?, running.answer()?, running.answer()?);
    std::thread::sleep(Duration::from_millis(options.kill_after_ms));
    let peak = running.peak_bytes();
    // A kill -9, whatever it was doing.
    drop(running);
    let start = measured(Part::Start, &data)?;
    let check = measured(Part::Check, &data)?;
    let backup = copied["backup"].as_str().ok_or("there is no copy")?;
    let backup_start = measured(Part::Start, Path::new(backup))?;
    let backup_check = measured(Part::Check, Path::new(backup))?;
    let of = |found: &Value, name: &str| found[name].as_f64();
    let on = StoreOptions::on(HostKind::Embedded, options.partitions);
    Ok(Report::about("full", &on)
        .field("memory_limit", options.memory_limit.to_string())
        .field("payload_bytes", options.payload)
        .measured("executions", of(&filled, "executions"))
        .measured("full_bytes", of(&filled, "used_bytes"))
        .measured("completed", of(&drained, "completed"))
        .measured("drained_bytes", of(&drained, "used_bytes"))
        .measured("peak_bytes", peak.map(|bytes| bytes as f64))
        .measured("start_s", of(&start, "s"))
        .measured("check_s", of(&check, "s"))
        .measured("keys", of(&check, "keys"))
        .measured("backup_bytes", of(&copied, "bytes"))
        .measured("backup_start_s", of(&backup_start, "s"))
        .measured("backup_check_s", of(&backup_check, "s"))
        .measured("backup_keys", of(&backup_check, "keys")))
}

/// What is not as it must be fails the part.
fn measured(part: Part, data: &Path) -> Result<Value, Failure> {
    PartProcess::of_room(part, data, |_| {})?.answer()
}
