//! Reads a whole journal back, file by file, and tells torn tails from damage.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::layout::{Layout, base_name};
use super::manifest::Manifest;
use super::record::LINE_MAX;
use super::scan::{Opening, Scanner, Unit};
use super::slice::{Section, Table};
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
    /// Where that was kept when it was cut off.
    pub kept: Option<PathBuf>,
    /// Zeros at the end of the last file: room that was reserved and never used.
    pub unused: u64,
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
    pub(crate) salt: u64,
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
    salt: u64,
    torn: Option<TornTail>,
    unused: u64,
}

/// What a file holds that may or may not be the journal's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// It was made for the journal, and never appended to.
    Nothing,
    /// It was made for the journal, and appended to.
    Something,
    /// It begins as no file of the journal does.
    NotOurs,
}

/// Takes a journal as it is read.
pub(crate) trait Sink {
    /// A file begins.
    fn file(&mut self, path: &Path);
    /// A transaction of that file, which is this part of it and which the scanner has just read.
    fn transaction(&mut self, part: Range<u64>, scanner: &Scanner) -> Result<(), String>;
    /// The slices of that file, which nobody has read yet.
    fn sections(&mut self, sections: Vec<Section>) -> Result<(), StoreError>;
}

/// Reads the files of a manifest in order.
pub(crate) fn load(
    layout: &Layout,
    manifest: &Manifest,
    sink: &mut dyn Sink,
) -> Result<Loaded, StoreError> {
    let mut report = RecoveryReport::default();
    let (mut sequence, base_bytes) = load_base(layout, manifest, sink, &mut report)?;
    for (index, number) in manifest.increments.iter().enumerate() {
        let path = layout.increment(*number);
        let end = load_increment(&path, sequence, sink, &mut report)?;
        sequence = end.sequence;
        let later = &manifest.increments[index + 1..];
        if end.sealed.is_none() && hold_nothing(layout, later)? {
            report.torn = end.torn;
            report.unused = end.unused;
            let tail = Tail { number: *number, offset: end.offset, salt: end.salt };
            return Ok(Loaded { report, tail, sequence, base_bytes });
        }
        require_sealed(&path, &end)?;
    }
    let reason = "the last file that is listed is complete, and the one that follows is missing";
    Err(StoreError::damaged(&layout.manifest(), 0, reason))
}

/// As [`load`], but every file must be complete: none of them is appended to any more.
pub(crate) fn load_sealed(
    layout: &Layout,
    manifest: &Manifest,
    sink: &mut dyn Sink,
) -> Result<(), StoreError> {
    let mut report = RecoveryReport::default();
    let (mut sequence, _) = load_base(layout, manifest, sink, &mut report)?;
    for number in &manifest.increments {
        let path = layout.increment(*number);
        let end = load_increment(&path, sequence, sink, &mut report)?;
        sequence = require_sealed(&path, &end)?;
    }
    Ok(())
}

/// Answers the last transaction that the rewritten journal accounts for, and its length.
fn load_base(
    layout: &Layout,
    manifest: &Manifest,
    sink: &mut dyn Sink,
    report: &mut RecoveryReport,
) -> Result<(u64, u64), StoreError> {
    let Some(number) = manifest.base else { return Ok((0, 0)) };
    let path = layout.file(&base_name(number));
    let (covers, length) = match Table::read(&path, open(&path)?.salt)? {
        Some(table) => load_sections(&path, table, sink)?,
        None => {
            let end = read_file(&path, 0, sink, &mut RecoveryReport::default())?;
            (require_sealed(&path, &end)?, end.offset)
        }
    };
    report.files = 1;
    report.bytes = length;
    Ok((covers, length))
}

fn load_sections(path: &Path, table: Table, sink: &mut dyn Sink) -> Result<(u64, u64), StoreError> {
    sink.file(path);
    sink.sections(table.sections)?;
    Ok((table.covers, table.length))
}

fn load_increment(
    path: &Path,
    after: u64,
    sink: &mut dyn Sink,
    report: &mut RecoveryReport,
) -> Result<FileEnd, StoreError> {
    let end = read_file(path, after, sink, report)?;
    report.files += 1;
    report.bytes += end.offset;
    if end.sealed.is_some_and(|sealed| sealed != end.sequence) {
        return Err(StoreError::damaged(path, end.offset, "the last transactions are missing"));
    }
    Ok(end)
}

/// Hands the commands of a part of a file to `apply`: whole transactions, and nothing else.
pub(crate) fn read_part(
    path: &Path,
    scanner: &mut Scanner,
    part: Range<u64>,
    mut apply: impl FnMut(&[&[u8]]) -> Result<(), String>,
) -> Result<(), StoreError> {
    let end = part.end;
    scanner.go_to(part).map_err(StoreError::io(path))?;
    loop {
        let offset = scanner.offset;
        let reason = match scanner.next().map_err(StoreError::io(path))? {
            Unit::Transaction(_) => match scanner.commands(&mut apply) {
                Ok(()) => continue,
                Err(reason) => reason,
            },
            Unit::End if offset == end => return Ok(()),
            Unit::Damage(reason) => reason.to_owned(),
            _ => "this part of the file is not whole".to_owned(),
        };
        return Err(StoreError::damaged(path, offset, reason));
    }
}

/// A file that others follow must be complete. Answers the last transaction it accounts for.
fn require_sealed(path: &Path, end: &FileEnd) -> Result<u64, StoreError> {
    if let Some(torn) = &end.torn {
        return Err(StoreError::damaged(path, torn.offset, torn.reason));
    }
    let missing = || StoreError::damaged(path, end.offset, "the end of the file is missing");
    end.sealed.ok_or_else(missing)
}

/// True if none of these listed files was ever appended to.
fn hold_nothing(layout: &Layout, numbers: &[u64]) -> Result<bool, StoreError> {
    numbers.iter().try_fold(true, |nothing, number| {
        let path = layout.increment(*number);
        Ok(nothing && first_unit(&path, &mut open(&path)?)? == Unit::End)
    })
}

/// What is in a file that need not be the journal's.
pub(crate) fn content(path: &Path) -> Result<Content, StoreError> {
    match Scanner::open(path).map_err(StoreError::io(path))? {
        Opening::Good(mut scanner) => match first_unit(path, &mut scanner)? {
            Unit::End => Ok(Content::Nothing),
            _ => Ok(Content::Something),
        },
        Opening::Unfinished => Ok(Content::Nothing),
        Opening::Damaged if is_blank(path)? => Ok(Content::Nothing),
        Opening::Damaged => Ok(Content::NotOurs),
    }
}

/// Is this a file whose length reached the disk before its first line did?
fn is_blank(path: &Path) -> Result<bool, StoreError> {
    let size = std::fs::metadata(path).map_err(StoreError::io(path))?.len();
    if size > LINE_MAX as u64 {
        return Ok(false);
    }
    let bytes = std::fs::read(path).map_err(StoreError::io(path))?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

fn first_unit(path: &Path, scanner: &mut Scanner) -> Result<Unit, StoreError> {
    match scanner.next().map_err(StoreError::io(path))? {
        Unit::Foreign => Err(appended_by_valkey(path)),
        unit => Ok(unit),
    }
}

/// Opens a listed file to read it. Its first line was on the disk before it was listed.
pub(crate) fn open(path: &Path) -> Result<Scanner, StoreError> {
    let reason = match Scanner::open(path).map_err(StoreError::io(path))? {
        Opening::Good(scanner) => return Ok(scanner),
        Opening::Unfinished => "the file ends within its first line",
        Opening::Damaged => "the first line is not ours or was changed",
    };
    Err(StoreError::damaged(path, 0, reason))
}

fn read_file(
    path: &Path,
    after: u64,
    sink: &mut dyn Sink,
    report: &mut RecoveryReport,
) -> Result<FileEnd, StoreError> {
    let size = std::fs::metadata(path).map_err(StoreError::io(path))?.len();
    let mut scanner = open(path)?;
    let salt = scanner.salt;
    sink.file(path);
    let mut end = FileEnd { sequence: after, offset: 0, salt, sealed: None, torn: None, unused: 0 };
    loop {
        end.offset = scanner.offset;
        match scanner.next().map_err(StoreError::io(path))? {
            Unit::Transaction(number) if number == end.sequence + 1 => {
                sink.transaction(end.offset..scanner.offset, &scanner)
                    .map_err(|reason| StoreError::damaged(path, end.offset, reason))?;
                end.sequence = number;
                report.transactions += 1;
            }
            Unit::Transaction(number) => {
                let reason =
                    format!("transaction {number} follows {}: some are missing", end.sequence);
                return Err(StoreError::damaged(path, end.offset, reason));
            }
            Unit::Synced(_) | Unit::Table => {}
            Unit::Sealed(number) => {
                end.sealed = Some(number);
                return after_seal(path, &mut scanner, end);
            }
            Unit::End => {
                end.unused = size - end.offset;
                return Ok(end);
            }
            Unit::Foreign => return Err(appended_by_valkey(path)),
            Unit::Damage(reason) => {
                if scanner.was_synced(end.sequence + 1).map_err(StoreError::io(path))? {
                    return Err(StoreError::damaged(path, end.offset, reason));
                }
                let (file, bytes) = (path.to_owned(), size - end.offset);
                end.torn = Some(TornTail { file, offset: end.offset, bytes, reason });
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
