//! Rewrites the journal in the background, so that it holds only what is still there.
//!
//! 1. A new file to append to is made and listed in the manifest.
//! 2. The journal's thread seals the old file and goes on in the new one, with a sync that it does
//!    anyway. Calls are never held up.
//! 3. The sealed files are looked through once, to see where each slice of them is. Then one slice
//!    after the other is read into a keyspace of our own, which is written to a new base and
//!    dropped: no second copy of everything is needed, and no shard knows of it.
//! 4. The manifest is swapped, and what it no longer lists is removed.
//!
//! Whatever happens in between, the manifest lists files that give the whole state. Files that it
//! does not list are removed, at once if a rewrite fails, or when the store is opened. A rewrite
//! that would leave the disk nearly full is not begun, and one that proves to is given up.
//!
//! The same thread copies the store, and runs syncs that no call waits for.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::backup::BackupReport;
use super::commit::{NextFile, Shared};
use super::disk::{Disk, LaterSync};
use super::layout::{Layout, base_name};
use super::leftover;
use super::manifest::Manifest;
use super::pace::Pace;
use super::room::ROOM_HIGH;
use super::snapshot::BaseWriter;
use super::start;
use super::survey::Survey;
use crate::error::{BackupError, StoreError};
use crate::memory::Memory;
use crate::stats::{self, Counters};

/// How often a compaction that waits looks whether the store is being closed.
const TIME_LIMIT: Duration = Duration::from_millis(100);
/// What a rewrite leaves free on the disk, for the journal and for everybody else.
const KEPT_FREE: u64 = 2 * ROOM_HIGH;

/// More files than this are rewritten, even if they are small.
const FILES_MAX: usize = 16;

/// What the thread is asked to do.
pub(crate) enum Request {
    /// Rewrite the journal.
    Compact,
    /// Rewrite the journal, whatever its size, and tell how it went.
    CompactNow(oneshot::Sender<Result<(), StoreError>>),
    /// Copy the store to this directory.
    Backup {
        /// Where the copy is made.
        directory: PathBuf,
        /// Told how it went.
        reply: oneshot::Sender<Result<BackupReport, BackupError>>,
    },
    /// Run this sync, which covers everything up to this transaction.
    Sync {
        /// The sync.
        sync: LaterSync,
        /// The last transaction that was written before.
        sequence: u64,
    },
}

/// The compaction's thread.
pub(crate) struct Compaction {
    pub(crate) layout: Layout,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) manifest: Manifest,
    /// False if storing a manifest failed, so that an older or a newer one than ours may be on the
    /// disk: then nothing may be removed.
    pub(crate) is_stored: bool,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) memory: Arc<Memory>,
    /// As much of a rewrite is written and synced at once.
    pub(crate) piece_bytes: usize,
    /// Set when the store is being closed.
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl Compaction {
    /// Does what it is asked to, until nobody can ask any more.
    pub(crate) fn run(mut self, requests: &mpsc::Receiver<Request>) {
        give_way();
        while let Ok(request) = requests.recv() {
            if self.cancelled.load(Ordering::Relaxed) {
                return;
            }
            match request {
                Request::Sync { sync, sequence } => self.shared.synced(sync().map(|()| sequence)),
                Request::Compact => drop(self.compact_once()),
                Request::CompactNow(reply) => {
                    self.shared.compacting.store(true, Ordering::Release);
                    let _ = reply.send(self.compact_once());
                }
                Request::Backup { directory, reply } => {
                    // Whoever asked may be gone; the copy is there all the same.
                    let _ = reply.send(self.backup(&directory));
                    self.compact_many_files();
                }
            }
        }
    }

    /// Every copy leaves a sealed file, however little is in it.
    fn compact_many_files(&mut self) {
        let many = self.manifest.increments.len() > FILES_MAX;
        if many && !self.shared.compacting.swap(true, Ordering::AcqRel) {
            drop(self.compact_once());
        }
    }

    fn compact_once(&mut self) -> Result<(), StoreError> {
        let outcome = self.compact();
        match &outcome {
            Ok(()) => stats::add(&self.counters.compactions, 1),
            Err(error) => {
                tracing::warn!("the journal could not be rewritten and goes on: {error}");
                stats::add(&self.counters.compactions_failed, 1);
            }
        }
        self.remove_leftovers();
        self.shared.compacting.store(false, Ordering::Release);
        outcome
    }

    fn compact(&mut self) -> Result<(), StoreError> {
        // What keys and values take in memory is about what they take on the disk.
        let guess = self.shared.base_bytes.load(Ordering::Relaxed).max(self.memory.used());
        let journal = &self.layout.journal;
        self.require_free(journal, ROOM_HIGH + guess).map_err(StoreError::io(journal))?;
        let old = self.manifest.clone();
        let (next, covers) = self.start_next_file()?;
        let rewritten = self.shared.sealed_bytes.load(Ordering::Relaxed);
        // The sealed files only: the one that is being written comes after the new base.
        let survey = Survey::of_sealed(&self.layout, &old)?;
        let (number, bytes) = self.write_base(&survey, covers)?;
        self.store(Manifest { base: Some(number), increments: vec![next] })?;
        self.shared.base_bytes.store(bytes, Ordering::Relaxed);
        self.shared.sealed_bytes.fetch_sub(rewritten, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses to fill the disk that this directory is on.
    pub(super) fn require_free(&self, directory: &Path, bytes: u64) -> io::Result<()> {
        let free = self.disk.free_bytes(directory)?;
        if free >= bytes + KEPT_FREE {
            return Ok(());
        }
        let message = format!("{bytes} bytes are needed and {KEPT_FREE} kept, and {free} are free");
        Err(io::Error::new(io::ErrorKind::StorageFull, message))
    }

    /// Makes a file, lists it, and lets the journal's thread go on in it. Answers its number and
    /// the last transaction of the file before.
    pub(super) fn start_next_file(&mut self) -> Result<(u64, u64), StoreError> {
        let number = self.unused_number()?;
        let path = self.layout.increment(number);
        let open = start::create(&*self.disk, &path).map_err(StoreError::io(&path))?;
        let mut manifest = self.manifest.clone();
        manifest.increments.push(number);
        self.store(manifest)?;
        let (sealed, seal) = mpsc::channel();
        self.shared.switch_to(NextFile { open, sealed });
        let covers = self.wait_for(&seal).map_err(StoreError::io(&path))?;
        Ok((number, covers))
    }

    /// A number that no file has: even one that we do not list may be listed on the disk.
    fn unused_number(&self) -> Result<u64, StoreError> {
        let names = self.layout.journal_names()?;
        Ok(names.into_iter().map(|name| name.number() + 1).fold(self.manifest.last() + 1, u64::max))
    }

    /// Waits for the journal's thread, unless that has ended.
    fn wait_for(&self, seal: &mpsc::Receiver<u64>) -> io::Result<u64> {
        loop {
            match seal.recv_timeout(TIME_LIMIT) {
                Ok(sequence) => return Ok(sequence),
                Err(RecvTimeoutError::Timeout) if !self.cancelled.load(Ordering::Relaxed) => {}
                Err(_) => return Err(is_closing()),
            }
        }
    }

    /// Writes what is there as a new base. Answers its number and length.
    fn write_base(&self, survey: &Survey, covers: u64) -> Result<(u64, u64), StoreError> {
        let number = self.unused_number()?;
        let path = self.layout.file(&base_name(number));
        let permission = Box::new(|bytes| self.require_free(&self.layout.journal, bytes));
        let mut base = BaseWriter::create(
            &*self.disk,
            &path,
            self.piece_bytes,
            permission,
            Pace::giving_way(),
        )
        .map_err(StoreError::io(&path))?;
        let mut pace = Pace::giving_way();
        for index in survey.indexes() {
            self.require_open().map_err(StoreError::io(&path))?;
            let slice = survey.read(index, &mut pace)?;
            base.slice(index, &slice).map_err(StoreError::io(&path))?;
        }
        Ok((number, base.finish(covers).map_err(StoreError::io(&path))?))
    }

    /// Gives up what would keep a store from being closed.
    pub(super) fn require_open(&self) -> io::Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(is_closing()) } else { Ok(()) }
    }

    fn store(&mut self, manifest: Manifest) -> Result<(), StoreError> {
        let path = self.layout.manifest();
        self.is_stored = false;
        manifest.store(&self.layout, &*self.disk).map_err(StoreError::io(&path))?;
        self.is_stored = true;
        self.manifest = manifest;
        Ok(())
    }

    /// Removes what the rewrite replaced or, if it failed, what it left.
    fn remove_leftovers(&self) {
        if !self.is_stored {
            return;
        }
        if let Err(error) = leftover::remove(&self.layout, &*self.disk, &self.manifest) {
            // What is left is removed when the store is opened next.
            tracing::warn!("a file that is no longer needed could not be removed: {error}");
        }
    }
}

/// A third of what other threads get where processors are short: nobody waits for a rewrite, and it
/// still comes to its end.
#[cfg(target_os = "linux")]
fn give_way() {
    const NICER: i32 = 5;
    // Linux takes the calling thread alone. If it may not, it goes on as it is.
    let _ = rustix::process::nice(NICER);
}

#[cfg(not(target_os = "linux"))]
fn give_way() {}

fn is_closing() -> io::Error {
    io::Error::other("the store is being closed")
}
