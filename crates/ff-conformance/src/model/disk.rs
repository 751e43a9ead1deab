//! A store on a disk that crashes between calls: it is opened anew from a copy of what its
//! directory held at a moment, in the middle of a rewrite more often than not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ff_backend_embedded::{CompactionConfig, EmbeddedConfig, EmbeddedHost, Storage, SyncMode};
use ff_core::clock::Clock;
use ff_script::library::Library;
use tempfile::TempDir;

use crate::clock::ManualClock;
use crate::deployment::START_MS;

/// Few enough that a plan of some dozen calls rewrites its journal several times.
const COMPACTION: CompactionConfig =
    CompactionConfig { min_bytes: 6000, growth: 1, piece_bytes: 1 };

/// Copies that are tried while the files change under them.
const TRIES: usize = 100;

/// A store that crashes.
pub struct OnDisk {
    library: Library,
    sync: SyncMode,
    pub(super) clock: Arc<ManualClock>,
    open: Mutex<Open>,
    /// Rewrites of the stores that have crashed.
    compactions: AtomicU64,
}

struct Open {
    host: Arc<EmbeddedHost>,
    directory: TempDir,
}

impl OnDisk {
    /// A new store in a directory of its own.
    pub fn new(library: &Library, sync: SyncMode) -> Self {
        let clock = Arc::new(ManualClock::at(START_MS));
        let directory = TempDir::new().expect("a directory can be made");
        let host = open(library, sync, &clock, directory.path());
        Self {
            library: library.clone(),
            sync,
            clock,
            open: Mutex::new(Open { host, directory }),
            compactions: AtomicU64::new(0),
        }
    }

    /// The store as it is open now.
    pub fn host(&self) -> Arc<EmbeddedHost> {
        Arc::clone(&self.lock().host)
    }

    pub(super) fn compactions(&self) -> u64 {
        self.compactions.load(Ordering::SeqCst) + self.host().stats().compactions
    }

    /// Leaves the store as it is and goes on with what a crash would leave of it.
    pub async fn crash(&self) {
        let image = image(self.lock().directory.path());
        let host = open(&self.library, self.sync, &self.clock, image.path());
        let left = std::mem::replace(&mut *self.lock(), Open { host, directory: image });
        self.compactions.fetch_add(left.host.stats().compactions, Ordering::SeqCst);
        left.host.close().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(
    library: &Library,
    sync: SyncMode,
    clock: &Arc<ManualClock>,
    path: &Path,
) -> Arc<EmbeddedHost> {
    let config = EmbeddedConfig {
        shards: 2,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        storage: Storage::Directory { path: path.to_owned(), sync },
        compaction: COMPACTION,
        ..EmbeddedConfig::in_memory()
    };
    Arc::new(EmbeddedHost::open(config, library).unwrap_or_else(|error| panic!("{error}")))
}

/// A copy of the directory as it was at one moment. No call is under way, so only a rewrite changes
/// files, and what it changes counts from the moment at which the manifest lists it: a copy between
/// two looks at the same manifest is what a crash in between could have left.
fn image(directory: &Path) -> TempDir {
    for _ in 0..TRIES {
        let image = TempDir::new().expect("a directory can be made");
        if copy_unless_changed(directory, image.path()).is_ok_and(|unchanged| unchanged) {
            return image;
        }
    }
    panic!("the journal is rewritten faster than it can be copied");
}

/// Fails, or answers false, if files came or went meanwhile.
fn copy_unless_changed(from: &Path, to: &Path) -> io::Result<bool> {
    let before = manifests(from)?;
    copy(from, to)?;
    Ok(manifests(from)? == before)
}

/// Everything that lists files, by its path.
fn manifests(directory: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory.join("appendonlydir"))? {
        let path = entry?.path();
        if path.to_string_lossy().contains("manifest") {
            found.push((path.clone(), fs::read(&path)?));
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
