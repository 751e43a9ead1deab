//! Copies a store while it runs. The file that is being written is sealed, as before a rewrite;
//! what is sealed never changes, so that copying it takes nothing from anybody. The copy is a data
//! directory like any other: starting on it is restoring it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::compaction::Compaction;
use super::disk::{parent, write_all};
use super::layout::{Layout, base_name, increment_name};
use super::manifest::Manifest;
use super::marker::Marker;
use super::pace::Pace;
use super::room::ROOM_HIGH;
use super::start;
use crate::clock::monotonic;
use crate::error::{BackupError, StoreError};

/// As much is copied and synced at once: the journal's own syncs wait for the disk meanwhile.
const PIECE_BYTES: u64 = 1 << 20;

/// A copy that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// Where it is.
    pub directory: PathBuf,
    /// The last transaction that is in it.
    pub transactions: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

impl Compaction {
    /// Copies what was acknowledged before this was asked for, and perhaps more, to a directory
    /// that is not there yet. What there is of one that fails is removed.
    pub(super) fn backup(&mut self, directory: &Path) -> Result<BackupReport, BackupError> {
        if directory.exists() {
            return Err(BackupError::Exists { directory: directory.to_owned() });
        }
        // The next file needs the room that calls were promised in this one.
        let journal = &self.layout.journal;
        self.require_free(journal, ROOM_HIGH).map_err(StoreError::io(journal))?;
        let sealed = self.manifest.clone();
        let (_, transactions) = self.start_next_file()?;
        let partial = partial(directory);
        let copied = self.copy(&sealed, &partial, transactions).and_then(|bytes| {
            self.disk.rename(&partial, directory).map_err(StoreError::io(directory))?;
            let above = parent(directory);
            self.disk.sync_directory(above).map_err(StoreError::io(above))?;
            Ok(BackupReport { directory: directory.to_owned(), transactions, bytes })
        });
        if copied.is_err() {
            // It may not even have been made.
            let _ = fs::remove_dir_all(&partial);
        }
        Ok(copied?)
    }

    fn copy(&self, sealed: &Manifest, to: &Path, transactions: u64) -> Result<u64, StoreError> {
        let disk = &*self.disk;
        let layout = Layout::new(to);
        start::make_directory(disk, parent(to))?;
        if to.exists() {
            // Left by a process that was killed.
            fs::remove_dir_all(to).map_err(StoreError::io(to))?;
        }
        start::make_directory(disk, &layout.journal)?;
        let bytes = self.copy_files(sealed, &layout)?;
        let mut manifest = sealed.clone();
        let next = sealed.last() + 1;
        let path = layout.increment(next);
        start::create(disk, &path).map_err(StoreError::io(&path))?;
        manifest.increments.push(next);
        manifest.store(&layout, disk).map_err(StoreError::io(&layout.manifest()))?;
        Marker { transactions }.store(&layout, disk)?;
        Ok(bytes)
    }

    fn copy_files(&self, sealed: &Manifest, to: &Layout) -> Result<u64, StoreError> {
        let increments = sealed.increments.iter().map(|number| increment_name(*number));
        let names: Vec<_> = sealed.base.map(base_name).into_iter().chain(increments).collect();
        let length = |name: &String| {
            let path = self.layout.file(name);
            fs::metadata(&path).map(|found| found.len()).map_err(StoreError::io(&path))
        };
        let total = names.iter().map(length).sum::<Result<u64, _>>()?;
        self.require_free(&to.journal, total).map_err(StoreError::io(&to.journal))?;
        for name in names {
            let (from, copy) = (self.layout.file(&name), to.file(&name));
            self.copy_file(&from, &copy).map_err(StoreError::io(&copy))?;
        }
        Ok(total)
    }

    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut source = File::open(from)?;
        let mut copy = self.disk.create(to)?;
        let (mut piece, pace) = (Vec::new(), Pace::giving_way());
        loop {
            self.require_open()?;
            piece.clear();
            (&mut source).take(PIECE_BYTES).read_to_end(&mut piece)?;
            if piece.is_empty() {
                return Ok(());
            }
            let before = monotonic();
            write_all(&mut *copy, &piece)?;
            copy.sync()?;
            pace.synced(before.elapsed());
        }
    }
}

/// What a copy is called until it is whole.
fn partial(directory: &Path) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    directory.with_file_name(name)
}
