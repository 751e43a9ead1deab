//! A disk that can be filled, slowed, broken and unplugged, and is fast when nothing is wrong.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use ff_backend_embedded::{Disk, JournalFile, RealDisk};

/// What is wrong with the disk. Everything can be changed while it is in use.
pub(crate) struct Faults {
    /// Bytes that still fit.
    pub(crate) room: AtomicI64,
    /// Operations that still work; after that, none does.
    pub(crate) operations: AtomicI64,
    /// Writes take one byte at a time.
    pub(crate) short_writes: AtomicBool,
    /// Syncs fail.
    pub(crate) sync_fails: AtomicBool,
    /// Writes panic.
    pub(crate) panics: AtomicBool,
    /// How often a sync was tried.
    pub(crate) syncs: AtomicU64,
    held: Mutex<Held>,
    changed: Condvar,
    lengths: Mutex<BTreeMap<PathBuf, Lengths>>,
}

#[derive(Default)]
struct Held {
    hold: bool,
    waiting: usize,
}

#[derive(Clone, Copy, Default)]
struct Lengths {
    written: u64,
    synced: u64,
}

impl Faults {
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self {
            room: AtomicI64::new(i64::MAX),
            operations: AtomicI64::new(i64::MAX),
            short_writes: AtomicBool::default(),
            sync_fails: AtomicBool::default(),
            panics: AtomicBool::default(),
            syncs: AtomicU64::default(),
            held: Mutex::default(),
            changed: Condvar::default(),
            lengths: Mutex::default(),
        })
    }

    pub(crate) fn disk(self: &Arc<Self>) -> Arc<dyn Disk> {
        Arc::new(FaultyDisk(Arc::clone(self)))
    }

    /// Syncs wait from here on, until they are released.
    pub(crate) fn hold_syncs(&self) {
        self.held.lock().unwrap().hold = true;
    }

    pub(crate) fn release_syncs(&self) {
        self.held.lock().unwrap().hold = false;
        self.changed.notify_all();
    }

    /// Blocks until a sync waits.
    pub(crate) fn wait_for_held_sync(&self) {
        let held = self.held.lock().unwrap();
        drop(self.changed.wait_while(held, |held| held.waiting == 0).unwrap());
    }

    /// What a power cut leaves: files without what was never synced.
    pub(crate) fn cut_power(&self) {
        for (path, lengths) in self.lengths.lock().unwrap().iter() {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(path) {
                file.set_len(lengths.synced).unwrap();
            }
        }
    }

    fn operate(&self) -> io::Result<()> {
        if self.operations.fetch_sub(1, Ordering::SeqCst) > 0 {
            Ok(())
        } else {
            Err(io::Error::other("unplugged"))
        }
    }

    fn note(&self, path: &Path, change: impl FnOnce(&mut Lengths)) {
        change(self.lengths.lock().unwrap().entry(path.to_owned()).or_default());
    }
}

struct FaultyDisk(Arc<Faults>);

struct FaultyFile {
    path: PathBuf,
    file: Box<dyn JournalFile>,
    faults: Arc<Faults>,
}

impl FaultyDisk {
    fn wrap(&self, path: &Path, file: Box<dyn JournalFile>) -> Box<dyn JournalFile> {
        Box::new(FaultyFile { path: path.to_owned(), file, faults: Arc::clone(&self.0) })
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        self.0.operate()?;
        let file = RealDisk.create(path)?;
        self.0.note(path, |lengths| *lengths = Lengths::default());
        Ok(self.wrap(path, file))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        self.0.operate()?;
        let length = std::fs::metadata(path)?.len();
        self.0.note(path, |lengths| *lengths = Lengths { written: length, synced: length });
        Ok(self.wrap(path, RealDisk.append(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.operate()?;
        RealDisk.rename(from, to)?;
        let mut lengths = self.0.lengths.lock().unwrap();
        if let Some(moved) = lengths.remove(from) {
            lengths.insert(to.to_owned(), moved);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.operate()?;
        RealDisk.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        self.0.operate()
    }
}

impl JournalFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!self.faults.panics.load(Ordering::SeqCst), "the disk panics");
        self.faults.operate()?;
        let room = self.faults.room.load(Ordering::SeqCst);
        let short = self.faults.short_writes.load(Ordering::SeqCst);
        let fits = if short { bytes.len().min(1) } else { bytes.len() };
        let fits = fits.min(usize::try_from(room).unwrap_or(0));
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = self.file.write(&bytes[..fits])?;
        self.faults.room.fetch_sub(written as i64, Ordering::SeqCst);
        self.faults.note(&self.path, |lengths| lengths.written += written as u64);
        Ok(written)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.faults.operate()?;
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        let mut held = self.faults.held.lock().unwrap();
        held.waiting += 1;
        self.faults.changed.notify_all();
        held = self.faults.changed.wait_while(held, |held| held.hold).unwrap();
        held.waiting -= 1;
        drop(held);
        if self.faults.sync_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("input/output error"));
        }
        // The real sync is left out: what it is for is played through by `cut_power`.
        self.faults.note(&self.path, |lengths| lengths.synced = lengths.written);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.faults.operate()?;
        self.file.truncate(length)?;
        self.faults.note(&self.path, |lengths| {
            *lengths = Lengths { written: length, synced: lengths.synced.min(length) };
        });
        Ok(())
    }
}
