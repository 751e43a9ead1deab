//! A disk that can be filled, slowed, broken and unplugged, and is fast when nothing is wrong. It
//! knows what a power cut leaves: of files, what was synced; of directories, what they listed when
//! they were last synced, and any of the changes since.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use ff_backend_embedded::{Disk, JournalFile, LaterSync, RealDisk};

use super::model::{LeftOut, Model, Survivors};

/// More than any test writes, and far from overflowing.
pub(crate) const PLENTY: i64 = i64::MAX / 2;

/// Decides by an operation's name and file whether it fails.
type Verdict = Box<dyn FnMut(&str, &Path) -> Option<io::Error> + Send>;

/// What is wrong with the disk. Everything can be changed while it is in use.
pub(crate) struct Faults {
    /// Bytes that still fit, beyond what is reserved.
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
    verdict: Mutex<Option<Verdict>>,
    held: Mutex<Held>,
    changed: Condvar,
    model: Mutex<Model>,
}

#[derive(Default)]
struct Held {
    hold: bool,
    waiting: usize,
}

impl Faults {
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self {
            room: AtomicI64::new(PLENTY),
            operations: AtomicI64::new(PLENTY),
            short_writes: AtomicBool::default(),
            sync_fails: AtomicBool::default(),
            panics: AtomicBool::default(),
            syncs: AtomicU64::default(),
            verdict: Mutex::default(),
            held: Mutex::default(),
            changed: Condvar::default(),
            model: Mutex::default(),
        })
    }

    pub(crate) fn disk(self: &Arc<Self>) -> Arc<dyn Disk> {
        Arc::new(FaultyDisk(Arc::clone(self)))
    }

    /// From here on, `verdict` is asked before every operation.
    pub(crate) fn fail_when(
        &self,
        verdict: impl FnMut(&str, &Path) -> Option<io::Error> + Send + 'static,
    ) {
        *self.verdict.lock().unwrap() = Some(Box::new(verdict));
    }

    /// Nothing that was asked for by `fail_when` fails any more.
    pub(crate) fn work_again(&self) {
        *self.verdict.lock().unwrap() = None;
        self.operations.store(PLENTY, Ordering::SeqCst);
    }

    /// These syncs of directories do nothing.
    pub(crate) fn leave_out(&self, syncs: LeftOut) {
        self.model().left_out = Some(syncs);
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

    /// A copy of what a power cut would leave of everything below a directory.
    pub(crate) fn after_power_cut(
        &self,
        root: &Path,
        survivors: &mut Survivors,
    ) -> tempfile::TempDir {
        self.model().after_power_cut(root, survivors)
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    fn operate(&self, operation: &str, path: &Path) -> io::Result<()> {
        if self.operations.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Err(io::Error::other("unplugged"));
        }
        let mut verdict = self.verdict.lock().unwrap();
        match verdict.as_mut().and_then(|verdict| verdict(operation, path)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn sync(&self, path: &Path, inode: u64) -> io::Result<()> {
        self.operate("sync", path)?;
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let mut held = self.held.lock().unwrap();
        held.waiting += 1;
        self.changed.notify_all();
        held = self.changed.wait_while(held, |held| held.hold).unwrap();
        held.waiting -= 1;
        drop(held);
        if self.sync_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("input/output error"));
        }
        // The real sync is left out: what it is for is played through by `cut_power`.
        self.model().file(inode).sync();
        Ok(())
    }

    /// Takes as many bytes as are left, at most so many.
    fn take_room(&self, bytes: u64) -> u64 {
        let room = u64::try_from(self.room.load(Ordering::SeqCst)).unwrap_or(0);
        let taken = bytes.min(room);
        self.room.fetch_sub(taken as i64, Ordering::SeqCst);
        taken
    }

    fn give_back(&self, bytes: u64) {
        let more = |room: i64| Some(room.saturating_add(bytes as i64));
        let _ = self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
    }
}

struct FaultyDisk(Arc<Faults>);

struct FaultyFile {
    path: PathBuf,
    inode: u64,
    file: Box<dyn JournalFile>,
    faults: Arc<Faults>,
}

impl FaultyDisk {
    fn wrap(&self, path: &Path, inode: u64, file: Box<dyn JournalFile>) -> Box<dyn JournalFile> {
        Box::new(FaultyFile { path: path.to_owned(), inode, file, faults: Arc::clone(&self.0) })
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        self.0.operate("create", path)?;
        let mut model = self.0.model();
        // Looked at before the change, so that it is known what was there.
        model.look_at_parent(path);
        if path.exists() {
            RealDisk.remove(path)?;
        }
        let file = RealDisk.create(path)?;
        let inode = model.created(path);
        Ok(self.wrap(path, inode, file))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        self.0.operate("append", path)?;
        let inode = self.0.model().opened(path);
        Ok(self.wrap(path, inode, RealDisk.append(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.operate("rename", to)?;
        let mut model = self.0.model();
        model.look_at_parent(to);
        RealDisk.rename(from, to)?;
        model.renamed(from, to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.operate("remove", path)?;
        let mut model = self.0.model();
        model.look_at_parent(path);
        RealDisk.remove(path)?;
        let freed = model.removed(path);
        self.0.give_back(freed);
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.0.operate("create_directory", path)?;
        let mut model = self.0.model();
        model.look_at_parent(path);
        RealDisk.create_directory(path)?;
        model.made_directory(path);
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.0.operate("sync_directory", path)?;
        self.0.model().synced_directory(path);
        Ok(())
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.operate("free_bytes", path)?;
        Ok(u64::try_from(self.0.room.load(Ordering::SeqCst)).unwrap_or(0))
    }
}

impl JournalFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!self.faults.panics.load(Ordering::SeqCst), "the disk panics");
        self.faults.operate("write", &self.path)?;
        let short = self.faults.short_writes.load(Ordering::SeqCst);
        let wanted = if short { bytes.len().min(1) } else { bytes.len() } as u64;
        let reserved = self.faults.model().file(self.inode).unwritten().min(wanted);
        let fits = (reserved + self.faults.take_room(wanted - reserved)) as usize;
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = self.file.write(&bytes[..fits])?;
        self.faults.model().file(self.inode).wrote(written as u64);
        Ok(written)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.faults.sync(&self.path, self.inode)
    }

    fn later_sync(&self) -> io::Result<LaterSync> {
        let (faults, path, inode) = (Arc::clone(&self.faults), self.path.clone(), self.inode);
        Ok(Box::new(move || faults.sync(&path, inode)))
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        self.faults.operate("reserve", &self.path)?;
        let more = length.saturating_sub(self.faults.model().file(self.inode).space());
        let taken = self.faults.take_room(more);
        if taken < more {
            self.faults.give_back(taken);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.faults.model().file(self.inode).reserved(length);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.faults.operate("truncate", &self.path)?;
        self.file.truncate(length)?;
        let freed = self.faults.model().file(self.inode).truncated(length);
        self.faults.give_back(freed);
        Ok(())
    }
}
