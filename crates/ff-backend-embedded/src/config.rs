//! How an embedded store is set up.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ff_core::clock::Clock;

use crate::clock::SystemClock;
use crate::memory::MemoryLimit;

/// More shards than this only cost memory: one does tens of thousands of transitions a second.
const SHARDS_MAX: usize = 4;
const MIB: u64 = 1 << 20;
/// A hundred thousand small calls, or thirty with the largest payload.
const BACKLOG_BYTES_MAX: usize = 256 << 20;

/// How an embedded store is set up.
#[derive(Clone)]
pub struct EmbeddedConfig {
    /// How many shards there are, each with a thread, a keyspace and a Lua machine of its own.
    /// May differ from one opening of a directory to the next.
    pub shards: usize,
    /// Where the store's time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where the data is kept.
    pub storage: Storage,
    /// Where copies of the store are made: `backups` in its directory, if nothing is said.
    pub backup_directory: Option<PathBuf>,
    /// When the journal is rewritten.
    pub compaction: CompactionConfig,
    /// How long to wait before a disk that was found full is asked for room again.
    pub full_disk_retry: Duration,
    /// How much memory keys and values may take. What adds work is refused beyond that.
    pub memory_limit: MemoryLimit,
    /// Bytes of the calls that a shard may have under way, each counted with its arguments and a
    /// kilobyte. What is more is refused at once.
    pub backlog_bytes_max: usize,
    /// When a function is taken for one that never ends.
    pub watchdog: WatchdogConfig,
    /// How long closing waits for what is under way, and for the disk.
    pub close_within: Duration,
    /// How long data stays unsynced with [`SyncMode::Off`]; no call waits for it.
    pub background_sync: Duration,
}

impl EmbeddedConfig {
    /// A store that is gone when it is closed.
    pub fn in_memory() -> Self {
        Self {
            shards: default_shards(),
            clock: Arc::new(SystemClock),
            storage: Storage::Memory,
            backup_directory: None,
            compaction: CompactionConfig::default(),
            full_disk_retry: Duration::from_secs(1),
            memory_limit: MemoryLimit::of_this_machine(),
            backlog_bytes_max: BACKLOG_BYTES_MAX,
            watchdog: WatchdogConfig::default(),
            close_within: Duration::from_secs(30),
            background_sync: Duration::from_secs(10),
        }
    }

    /// A store in a directory, which answers a call after it is on the disk.
    pub fn in_directory(path: impl Into<PathBuf>) -> Self {
        let storage = Storage::Directory { path: path.into(), sync: SyncMode::Always };
        Self { storage, ..Self::in_memory() }
    }
}

impl EmbeddedConfig {
    /// Where copies are made, if there is anything to copy.
    pub(crate) fn backups(&self) -> Option<PathBuf> {
        let Storage::Directory { path, .. } = &self.storage else { return None };
        Some(self.backup_directory.clone().unwrap_or_else(|| path.join("backups")))
    }
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        Self::in_memory()
    }
}

impl fmt::Debug for EmbeddedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedConfig")
            .field("shards", &self.shards)
            .field("storage", &self.storage)
            .field("backup_directory", &self.backup_directory)
            .field("compaction", &self.compaction)
            .field("full_disk_retry", &self.full_disk_retry)
            .field("memory_limit", &self.memory_limit)
            .field("backlog_bytes_max", &self.backlog_bytes_max)
            .field("watchdog", &self.watchdog)
            .field("close_within", &self.close_within)
            .field("background_sync", &self.background_sync)
            .finish_non_exhaustive()
    }
}

fn default_shards() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(SHARDS_MAX))
}

/// Where the data is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Nowhere: it is gone when the store is closed.
    Memory,
    /// In a directory that Valkey can start from as it is.
    Directory {
        /// The directory. It is made if it does not exist.
        path: PathBuf,
        /// When a call counts as done.
        sync: SyncMode,
    },
}

/// When a call counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// After its effects were synced to the disk. Many calls share one sync.
    #[default]
    Always,
    /// After its effects were handed to the operating system, which is told to sync once a second.
    EverySec,
    /// After its effects were handed to the operating system, which syncs when it likes. Every few
    /// seconds it is told to by a thread that no call waits for.
    Off,
}

impl SyncMode {
    const ALL: [Self; 3] = [Self::Always, Self::EverySec, Self::Off];

    const fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySec => "everysec",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for SyncMode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|mode| mode.word() == word);
        known.ok_or_else(|| format!("sync is always, everysec or off, not {word:?}"))
    }
}

/// When the journal is rewritten to hold only what is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionConfig {
    /// Never while fewer bytes than this were appended.
    pub min_bytes: u64,
    /// Only when as many times the size of the last rewrite was appended.
    pub growth: u64,
    /// As much of a rewrite is written and synced at once.
    pub piece_bytes: usize,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self { min_bytes: 64 * MIB, growth: 2, piece_bytes: MIB as usize }
    }
}

/// When a function is taken for one that never ends. Calls take well under a millisecond; one that
/// was not finished after seconds is in a loop, holds up its shard, and cannot be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// It is reported in the log after this time.
    pub report_after: Duration,
    /// The process is aborted after this time. Nothing acknowledged is lost by that, and whoever
    /// started the process can start it again. `Duration::MAX` is never.
    pub end_after: Duration,
}

impl Default for WatchdogConfig {
    fn default() -> Self {
        Self { report_after: Duration::from_secs(10), end_after: Duration::from_secs(60) }
    }
}
