//! Rewrites the journal in the background, so that it holds only what is still there.
//!
//! 1. A new file to append to is made and listed in the manifest.
//! 2. The journal's thread seals the old file and goes on in the new one, with a sync that it does
//!    anyway. Calls are never held up.
//! 3. The sealed files are read into a keyspace of our own, which is written as a new base.
//! 4. The manifest is swapped, and what it no longer lists is removed.
//!
//! Whatever happens in between, the manifest lists files that give the whole state. Files that it
//! does not list are removed when the store is opened.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::commit::{NextFile, Shared};
use super::disk::{Disk, write_all};
use super::layout::{Layout, base_name, increment_name};
use super::load;
use super::manifest::Manifest;
use super::record::{self, Word};
use super::replay::Replay;
use super::snapshot;
use crate::error::StoreError;
use crate::stats::{self, Counters};

/// How often a compaction that waits looks whether the store is being closed.
const PATIENCE: Duration = Duration::from_millis(100);

/// The compaction's thread.
pub(crate) struct Compaction {
    pub(crate) layout: Layout,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) manifest: Manifest,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    /// Set when the store is being closed.
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl Compaction {
    /// Rewrites whenever it is asked to, until nobody can ask any more.
    pub(crate) fn run(mut self, requests: &mpsc::Receiver<()>) {
        while requests.recv().is_ok() {
            if self.cancelled.load(Ordering::Relaxed) {
                return;
            }
            match self.compact() {
                Ok(()) => stats::add(&self.counters.compactions, 1),
                Err(error) => {
                    tracing::warn!("the journal could not be rewritten and goes on: {error}");
                    stats::add(&self.counters.compactions_failed, 1);
                }
            }
            self.shared.compacting.store(false, Ordering::Release);
        }
    }

    fn compact(&mut self) -> Result<(), StoreError> {
        let old = self.manifest.clone();
        let (next, covers) = self.start_next_file()?;
        let mut replay = Replay::new(1);
        // The sealed files only: the one that is being written comes after the new base.
        load::load(&self.layout, &old, &mut replay)?;
        let number = old.base.map_or(1, |number| number + 1);
        let path = self.layout.file(&base_name(number));
        let keyspaces = replay.into_keyspaces();
        let bytes = snapshot::write_base(&*self.disk, &path, &keyspaces, covers, &self.cancelled)
            .map_err(StoreError::io(&path))?;
        self.store(Manifest { base: Some(number), increments: vec![next] })?;
        self.shared.base_bytes.store(bytes, Ordering::Relaxed);
        self.remove(&old);
        Ok(())
    }

    /// Makes a file, lists it, and lets the journal's thread go on in it. Answers its number and
    /// the last transaction of the file before.
    fn start_next_file(&mut self) -> Result<(u64, u64), StoreError> {
        let number = self.manifest.increments.last().map_or(1, |last| last + 1);
        let path = self.layout.file(&increment_name(number));
        let (sealed, seal) = mpsc::channel();
        let next = make_file(&*self.disk, &path, sealed).map_err(StoreError::io(&path))?;
        let mut manifest = self.manifest.clone();
        manifest.increments.push(number);
        self.store(manifest)?;
        self.shared.switch_to(next);
        let covers = self.wait_for(&seal).map_err(StoreError::io(&path))?;
        Ok((number, covers))
    }

    /// Waits for the journal's thread, unless that has ended.
    fn wait_for(&self, seal: &mpsc::Receiver<u64>) -> io::Result<u64> {
        loop {
            match seal.recv_timeout(PATIENCE) {
                Ok(sequence) => return Ok(sequence),
                Err(RecvTimeoutError::Timeout) if !self.cancelled.load(Ordering::Relaxed) => {}
                Err(_) => return Err(io::Error::other("the store is being closed")),
            }
        }
    }

    fn store(&mut self, manifest: Manifest) -> Result<(), StoreError> {
        let path = self.layout.manifest();
        manifest.store(&self.layout, &*self.disk).map_err(StoreError::io(&path))?;
        self.manifest = manifest;
        Ok(())
    }

    fn remove(&self, old: &Manifest) {
        let base = old.base.map(base_name);
        let increments = old.increments.iter().map(|number| increment_name(*number));
        for name in base.into_iter().chain(increments) {
            // What is left is removed when the store is opened next.
            let _ = self.disk.remove(&self.layout.file(&name));
        }
    }
}

/// Makes an empty journal file that will stay.
fn make_file(
    disk: &dyn Disk,
    path: &std::path::Path,
    sealed: mpsc::Sender<u64>,
) -> io::Result<NextFile> {
    let salt = record::new_salt();
    let mut line = Vec::new();
    record::write_line(&mut line, Word::Version, salt, salt);
    let mut file = disk.create(path)?;
    write_all(&mut *file, &line)?;
    file.sync()?;
    Ok(NextFile { file, salt, length: line.len() as u64, sealed })
}
