//! `flowfabric store`: look into a data directory that no server is running on.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use ff_backend_embedded::store::{self, CheckReport};
use ff_core::partition::PartitionConfig;
use ff_script::audit::{self, Report};
use ff_script::dump::{Dump, Stored};

use crate::failure::Failure;

/// What can be done with a data directory.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Verify every checksum and every invariant. Changes nothing.
    Check {
        /// The data directory.
        dir: PathBuf,
    },
    /// Write the content as commands that `valkey-cli --pipe` loads, into a cluster too.
    Export {
        /// The data directory.
        dir: PathBuf,
        /// Write to this file instead of standard output.
        #[arg(long, short)]
        output: Option<PathBuf>,
        /// Only the keys of these cluster slots, as in 0-5460: the part that one node takes.
        #[arg(long, value_name = "FIRST-LAST", value_parser = parse_slots)]
        slots: Option<RangeInclusive<u16>>,
    },
}

pub(crate) fn run(command: &Command, json: bool) -> Result<(), Failure> {
    match command {
        Command::Check { dir } => check(dir, json),
        Command::Export { dir, output, slots } => {
            export(dir, output.as_deref(), slots.clone().unwrap_or(0..=SLOT_LAST))
        }
    }
}

fn check(dir: &Path, json: bool) -> Result<(), Failure> {
    let checked = store::check(dir)?;
    let report = audit::audit(&checked.dump, &partition_config(&checked.dump));
    if json {
        println!("{}", as_json(&checked, &report));
    } else {
        print_text(dir, &checked, &report);
    }
    if report.violations.is_empty() {
        return Ok(());
    }
    let count = report.violations.len();
    Err(Failure::damaged(format!("{count} invariants are broken in {}", dir.display())))
}

/// The counts that the deployment was created with; the default ones if nothing was stored yet.
fn partition_config(dump: &Dump) -> PartitionConfig {
    let default = PartitionConfig::default();
    let Some(Stored::Hash(fields)) = dump.get(b"ff:{fp:0}:deployment".as_slice()) else {
        return default;
    };
    let count = |name: &[u8], default: u16| {
        let text = fields.get(name).and_then(|value| std::str::from_utf8(value).ok());
        text.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    PartitionConfig {
        num_flow_partitions: count(b"flow", default.num_flow_partitions),
        num_budget_partitions: count(b"budget", default.num_budget_partitions),
        num_quota_partitions: count(b"quota", default.num_quota_partitions),
    }
}

fn print_text(dir: &Path, checked: &CheckReport, report: &Report) {
    println!("{}", dir.display());
    println!("  journal     {} transactions, all checksums right", checked.recovery.transactions);
    if let Some(torn) = &checked.recovery.torn {
        println!("  torn tail   {}; it will be cut when the store is opened", describe(torn));
    }
    println!("  keys        {}", checked.dump.len());
    println!("{report}");
}

fn describe(torn: &store::TornTail) -> String {
    format!("{} bytes of {} from byte {}", torn.bytes, torn.file.display(), torn.offset)
}

fn as_json(checked: &CheckReport, report: &Report) -> serde_json::Value {
    let violations: Vec<_> = report
        .violations
        .iter()
        .map(|violation| {
            serde_json::json!({
                "invariant": violation.invariant,
                "key": violation.key,
                "what": violation.what,
            })
        })
        .collect();
    serde_json::json!({
        "transactions": checked.recovery.transactions,
        "torn_tail": checked.recovery.torn.as_ref().map(describe),
        "keys": checked.dump.len(),
        "executions": report.executions,
        "violations": violations,
    })
}

const SLOT_LAST: u16 = 16_383;

fn parse_slots(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let slot = |text: &str| text.parse().ok().filter(|slot| *slot <= SLOT_LAST);
    match (slot(first), slot(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(format!("slots are written FIRST-LAST, from 0 to {SLOT_LAST}")),
    }
}

fn export(dir: &Path, output: Option<&Path>, slots: RangeInclusive<u16>) -> Result<(), Failure> {
    let read = match output {
        Some(path) => write_to(dir, slots, File::create(path)?)?,
        None if io::stdout().is_terminal() => {
            return Err(
                "the export is not for eyes: redirect it, or name a file with --output".into()
            );
        }
        None => write_to(dir, slots, io::stdout().lock())?,
    };
    eprintln!("exported {} transactions of {}", read.transactions, dir.display());
    Ok(())
}

fn write_to(
    dir: &Path,
    slots: RangeInclusive<u16>,
    out: impl Write,
) -> Result<store::RecoveryReport, Failure> {
    let mut out = BufWriter::new(out);
    let read = store::export_slots(dir, slots, &mut out)?;
    out.flush()?;
    Ok(read)
}
