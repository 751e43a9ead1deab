//! Reads a whole journal back, file by file, and tells torn tails from damage.

use std::path::{Path, PathBuf};

use super::layout::{Layout, base_name, increment_name};
use super::manifest::Manifest;
use super::replay::Replay;
use super::scan::{Opening, Scanner, Unit};
use crate::error::StoreError;

/// What was found when a journal was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Files that were read.
    pub files: u64,
    /// Whole transactions since the last rewrite.
    pub transactions: u64,
    /// Keys afterwards.
    pub keys: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What the end of the last file held that was never known to be on the disk, if anything.
    pub torn: Option<TornTail>,
}

/// The end of a file that was being written when the process or the machine went down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file.
    pub file: PathBuf,
    /// Where the whole transactions end.
    pub offset: u64,
    /// How many bytes follow.
    pub bytes: u64,
    /// What is wrong with them.
    pub reason: &'static str,
}

/// The file that is appended to from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) number: u64,
    /// Where to go on; what follows is cut.
    pub(crate) offset: u64,
    /// `None` if the file lacks even its first line.
    pub(crate) salt: Option<u64>,
}

/// A journal that was read.
pub(crate) struct Loaded {
    pub(crate) report: RecoveryReport,
    pub(crate) tail: Tail,
    /// The last transaction.
    pub(crate) sequence: u64,
    pub(crate) base_bytes: u64,
}

/// How reading one file ended.
struct FileEnd {
    /// The last transaction that was read.
    sequence: u64,
    /// The last transaction that the file accounts for, if it is complete.
    sealed: Option<u64>,
    /// Where whole units end, the sealing line not counted.
    offset: u64,
    salt: Option<u64>,
    torn: Option<TornTail>,
}

/// Reads the files of a manifest in order, repeating what they hold.
pub(crate) fn load(
    layout: &Layout,
    manifest: &Manifest,
    replay: &mut Replay,
) -> Result<Loaded, StoreError> {
    let mut report = RecoveryReport::default();
    let mut sequence = 0;
    let mut base_bytes = 0;
    if let Some(number) = manifest.base {
        let path = layout.file(&base_name(number));
        let end = read_file(&path, 0, replay, &mut RecoveryReport::default())?;
        sequence = require_sealed(&path, &end)?;
        base_bytes = end.offset;
        report.files = 1;
        report.bytes = end.offset;
    }
    let mut tail = None;
    for (index, number) in manifest.increments.iter().enumerate() {
        let path = layout.file(&increment_name(*number));
        let end = read_file(&path, sequence, replay, &mut report)?;
        report.files += 1;
        report.bytes += end.offset;
        if end.sealed.is_some_and(|sealed| sealed != end.sequence) {
            return Err(StoreError::damaged(
                &path,
                end.offset,
                "the last transactions are missing",
            ));
        }
        sequence = end.sequence;
        let found = Tail { number: *number, offset: end.offset, salt: end.salt };
        let is_last = manifest.increments[index + 1..]
            .iter()
            .map(|later| layout.file(&increment_name(*later)))
            .try_fold(true, |empty, later| Ok(empty && holds_nothing(&later)?))?;
        if is_last {
            report.torn = end.torn;
            tail = Some(found);
            break;
        }
        require_sealed(&path, &end)?;
    }
    report.keys = replay.keys();
    let tail = tail.expect("a manifest lists a file to append to");
    Ok(Loaded { report, tail, sequence, base_bytes })
}

/// A file that others follow must be complete. Answers the last transaction it accounts for.
fn require_sealed(path: &Path, end: &FileEnd) -> Result<u64, StoreError> {
    if let Some(torn) = &end.torn {
        return Err(StoreError::damaged(path, torn.offset, torn.reason));
    }
    let missing = || StoreError::damaged(path, end.offset, "the end of the file is missing");
    end.sealed.ok_or_else(missing)
}

/// True for a file that was made but never appended to.
pub(crate) fn holds_nothing(path: &Path) -> Result<bool, StoreError> {
    match Scanner::open(path).map_err(StoreError::io(path))? {
        Opening::Good(mut scanner) => match scanner.next().map_err(StoreError::io(path))? {
            Unit::Foreign => Err(appended_by_valkey(path)),
            unit => Ok(unit == Unit::End),
        },
        Opening::Unfinished => Ok(true),
        Opening::Damaged => Ok(false),
    }
}

fn read_file(
    path: &Path,
    after: u64,
    replay: &mut Replay,
    report: &mut RecoveryReport,
) -> Result<FileEnd, StoreError> {
    let size = std::fs::metadata(path).map_err(StoreError::io(path))?.len();
    let mut end = FileEnd { sequence: after, offset: 0, salt: None, sealed: None, torn: None };
    let mut scanner = match Scanner::open(path).map_err(StoreError::io(path))? {
        Opening::Good(scanner) => scanner,
        Opening::Unfinished => {
            end.torn = torn(path, 0, size, "the file ends within its first line");
            return Ok(end);
        }
        Opening::Damaged => {
            return Err(StoreError::damaged(path, 0, "the first line is not ours or was changed"));
        }
    };
    end.salt = Some(scanner.salt);
    loop {
        end.offset = scanner.offset;
        match scanner.next().map_err(StoreError::io(path))? {
            Unit::Transaction(number) if number == end.sequence + 1 => {
                scanner
                    .commands(|command| replay.apply(command))
                    .map_err(|reason| StoreError::damaged(path, end.offset, reason))?;
                end.sequence = number;
                report.transactions += 1;
            }
            Unit::Transaction(number) => {
                let reason =
                    format!("transaction {number} follows {}: some are missing", end.sequence);
                return Err(StoreError::damaged(path, end.offset, reason));
            }
            Unit::Synced(_) => {}
            Unit::Sealed(number) => {
                end.sealed = Some(number);
                return after_seal(path, &mut scanner, end);
            }
            Unit::End => return Ok(end),
            Unit::Foreign => return Err(appended_by_valkey(path)),
            Unit::Damage(reason) => {
                if scanner.was_synced(end.sequence + 1).map_err(StoreError::io(path))? {
                    return Err(StoreError::damaged(path, end.offset, reason));
                }
                end.torn = torn(path, end.offset, size, reason);
                return Ok(end);
            }
        }
    }
}

fn appended_by_valkey(path: &Path) -> StoreError {
    StoreError::foreign(path, "Valkey has appended to this file; export from Valkey instead")
}

fn after_seal(path: &Path, scanner: &mut Scanner, end: FileEnd) -> Result<FileEnd, StoreError> {
    match scanner.next().map_err(StoreError::io(path))? {
        Unit::End => Ok(end),
        _ => Err(StoreError::damaged(path, scanner.offset, "something follows the end")),
    }
}

fn torn(path: &Path, offset: u64, size: u64, reason: &'static str) -> Option<TornTail> {
    let bytes = size - offset;
    (bytes > 0).then(|| TornTail { file: path.to_owned(), offset, bytes, reason })
}
