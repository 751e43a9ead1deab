//! `flowfabric store`: copy the store of a server, or look into a data directory that no server is
//! running on.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ff_backend_embedded::import::Import;
use ff_backend_embedded::store::{self, RecoveryReport, Slices, StoreError};
use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_script::audit::{self, Report};
use ff_script::dump::Dump;
use ff_script::library::Library;

use crate::failure::{EXIT_CODES, Failure};
use crate::progress_bar::{self, ProgressBar};
use crate::remote::{Remote, block_on};

/// What can be done with a data directory.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Verify every checksum and every invariant. Changes nothing.
    #[command(after_help = EXIT_CODES)]
    Check {
        /// The data directory.
        dir: PathBuf,
    },
    /// Copy the store of a running server, which makes the copy on its own machine.
    #[command(after_help = EXIT_CODES)]
    Backup {
        /// What the copy is called.
        name: String,
    },
    /// Make a data directory of what a Valkey holds, which no server may be running on.
    #[command(after_help = EXIT_CODES)]
    Import {
        /// The Valkey, as in valkey://user:pass@host:port.
        from: String,
        /// The data directory, in which no store may be.
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
        /// Also the keys that sign tokens and approval links: without them, those that are out are
        /// worth nothing where the export is loaded.
        #[arg(long)]
        secrets: bool,
    },
}

pub(crate) fn run(remote: &Remote, json: bool, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Backup { name } => backup(remote, name, json),
        Command::Import { from, dir } => import(from, dir, json),
        Command::Check { dir } => check(dir, json),
        Command::Export { dir, output, slots, secrets } => {
            let slots = slots.clone().unwrap_or(0..=SLOT_LAST);
            export(dir, output.as_deref(), Part { slots, secrets: *secrets }, json)
        }
    }
}

fn backup(remote: &Remote, name: &str, json: bool) -> Result<(), Failure> {
    let made = block_on(async {
        // Says what to do if no server is there, or wants a token.
        remote.connect().await?;
        Ok(remote.admin()?.backup(name).await?)
    })?;
    if json {
        say!("{}", serde_json::to_string(&made)?);
    } else {
        let (directory, transactions) = (&made.directory, made.transactions);
        say!("{directory}: {transactions} transactions, {} MB", made.bytes >> 20);
    }
    Ok(())
}

fn import(from: &str, dir: &Path, json: bool) -> Result<(), Failure> {
    let config =
        ValkeyConfig::parse(from).map_err(|error| Failure::not_understood(error.to_string()))?;
    let mut import = Import::begin(dir).map_err(explain)?;
    let copied = block_on(async {
        // Nobody listens to anything here: one partition is as good as all.
        let host = ValkeyHost::connect(config.with_flow_partitions(1), Library::current()).await?;
        let mut take = |some: Dump| {
            let mut kept = some.iter().filter(|(key, _)| !audit::is_mark(key));
            let added = kept.try_for_each(|(key, value)| import.add(key, value));
            added.map_err(|error| {
                BackendError::new(BackendErrorKind::Resource, Retry::Never, error.to_string())
            })
        };
        Ok(host.read_all(&mut take).await?)
    });
    if let Err(failure) = copied {
        import.give_up().map_err(explain)?;
        return Err(failure);
    }
    let keys = import.finish().map_err(explain)?;
    if json {
        say!("{}", serde_json::json!({ "keys": keys }));
    } else {
        say!("{}: {keys} keys", dir.display());
    }
    Ok(())
}

fn check(dir: &Path, json: bool) -> Result<(), Failure> {
    let reading = Reading::begin(dir);
    let slices = progress_bar::during(
        ProgressBar::new("reading", reading.total, json),
        || Slices::open(dir),
        || reading.progress(),
    )
    .map_err(explain)?;
    let report = audit(&slices, json).map_err(explain)?;
    if json {
        say!("{}", as_json(slices.recovery(), &report));
    } else {
        print_text(dir, slices.recovery(), &report);
    }
    if report.violations.is_empty() {
        return Ok(());
    }
    let count = report.violations.len();
    Err(Failure::damaged(format!("{count} invariants are broken in {}", dir.display())))
}

fn audit(slices: &Slices, json: bool) -> Result<Report, StoreError> {
    let config = audit::partition_config(&slices.first()?);
    let done = AtomicU64::new(0);
    let look = |slice: Dump| {
        let report = audit::audit(&slice, &config);
        done.fetch_add(1, Ordering::Relaxed);
        report
    };
    let reports = progress_bar::during(
        ProgressBar::new("checking", slices.len() as u64, json),
        || slices.for_each(look),
        || (done.load(Ordering::Relaxed), String::new()),
    )?;
    let mut all = Report::default();
    reports.into_iter().for_each(|report| all.add(report));
    Ok(all)
}

fn print_text(dir: &Path, recovery: &RecoveryReport, report: &Report) {
    say!("{}", dir.display());
    say!("  journal     {} transactions, all checksums right", recovery.transactions);
    if let Some(torn) = &recovery.torn {
        say!("  torn tail   {}; it will be cut when the store is opened", describe(torn));
    }
    say!("  keys        {}", report.keys);
    say!("{report}");
}

fn describe(torn: &store::TornTail) -> String {
    format!("{} bytes of {} from byte {}", torn.bytes, torn.file.display(), torn.offset)
}

fn as_json(recovery: &RecoveryReport, report: &Report) -> serde_json::Value {
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
        "transactions": recovery.transactions,
        "torn_tail": recovery.torn.as_ref().map(describe),
        "keys": report.keys,
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

/// What of a store is exported.
struct Part {
    slots: RangeInclusive<u16>,
    secrets: bool,
}

fn export(dir: &Path, output: Option<&Path>, part: Part, json: bool) -> Result<(), Failure> {
    let read = match output {
        Some(path) => replace(path, |file| write_to(dir, part, file, json))?,
        None if io::stdout().is_terminal() => {
            return Err(
                "the export is not for eyes: redirect it, or name a file with --output".into()
            );
        }
        None => write_to(dir, part, io::stdout(), json)?,
    };
    let (transactions, keys) = (read.transactions, read.keys);
    if json {
        // Standard output may be the export itself.
        eprintln!("{}", serde_json::json!({ "transactions": transactions, "keys": keys }));
    } else {
        eprintln!("exported {}: {transactions} transactions, {keys} keys in all", dir.display());
    }
    Ok(())
}

/// Writes a file beside the one of this name and puts it into its place when it is whole and on the
/// disk: what is there may be somebody's only export. What is no file is written to as it is.
fn replace<T>(path: &Path, write: impl FnOnce(&File) -> Result<T, Failure>) -> Result<T, Failure> {
    let explain = |error: io::Error| Failure::from(format!("{}: {error}", path.display()));
    let there = fs::metadata(path).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return write(&File::options().write(true).open(path).map_err(explain)?);
    }
    let target = if there.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let name = target.file_name().ok_or_else(|| format!("{} is no file", path.display()))?;
    let name = format!("{}.{}.partial", name.to_string_lossy(), std::process::id());
    let beside = target.with_file_name(name);
    let whole = write_whole(&beside, there.as_ref(), write).and_then(|written| {
        fs::rename(&beside, &target)?;
        sync_directory_of(&target)?;
        Ok(written)
    });
    if whole.is_err() {
        // It may not even have been made.
        let _ = fs::remove_file(&beside);
    }
    whole.map_err(|failure| Failure {
        message: format!("{}: {}", path.display(), failure.message),
        ..failure
    })
}

/// Makes a file, readable by whom the one that it will replace is, and syncs it.
fn write_whole<T>(
    path: &Path,
    like: Option<&fs::Metadata>,
    write: impl FnOnce(&File) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let file = File::create(path)?;
    if let Some(like) = like {
        file.set_permissions(like.permissions())?;
    }
    let written = write(&file)?;
    file.sync_all()?;
    Ok(written)
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_to(
    dir: &Path,
    part: Part,
    out: impl Write + Send,
    json: bool,
) -> Result<RecoveryReport, Failure> {
    let mut out = BufWriter::new(out);
    let reading = Reading::begin(dir);
    let read = progress_bar::during(
        ProgressBar::new("exporting", reading.total, json),
        || store::export_slots(dir, part.slots, part.secrets, &mut out),
        || reading.progress(),
    )
    .map_err(explain)?;
    out.flush()?;
    Ok(read)
}

fn explain(error: StoreError) -> Failure {
    match error {
        StoreError::Damaged { .. } => Failure::damaged(error.to_string()),
        error @ StoreError::Locked { .. } => format!("{error}: stop it first").into(),
        error => error.into(),
    }
}

/// How much of a directory was read. The journal is read by one call; the system counts the bytes.
struct Reading {
    total: u64,
    before: u64,
}

impl Reading {
    fn begin(dir: &Path) -> Self {
        Self { total: bytes_in(dir), before: bytes_read().unwrap_or(0) }
    }

    fn progress(&self) -> (u64, String) {
        let done = bytes_read().unwrap_or(0).saturating_sub(self.before).min(self.total);
        (done, format!("{} of {} MB", done >> 20, self.total >> 20))
    }
}

/// The bytes of all files under a directory; what cannot be read counts as nothing.
fn bytes_in(dir: &Path) -> u64 {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_in(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

/// The bytes that this process has read so far, where the system tells.
fn bytes_read() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}
