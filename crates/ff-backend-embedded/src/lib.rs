//! The embedded host: runs the function library inside this process, on LuaJIT over a keyspace in
//! memory, with a durable journal that Valkey can load as it is.

pub mod clock;
pub mod config;
pub mod error;
pub mod host;
pub mod import;
pub mod stats;
pub mod store;

mod backlog;
mod command;
mod effects;
mod journal;
mod keyspace;
mod memory;
mod moment;
mod number;
mod open;
mod reply;
mod session;
mod shard;
mod stop;
mod vm;
mod wake;
mod watchdog;

pub use clock::SystemClock;
pub use command::COMMANDS;
pub use config::{CompactionConfig, EmbeddedConfig, Storage, SyncMode, WatchdogConfig};
pub use error::{BackupError, OpenError, StoreError};
pub use host::EmbeddedHost;
pub use journal::backup::BackupReport;
pub use journal::disk::{Disk, JournalFile, LaterSync, RealDisk};
pub use journal::load::{RecoveryReport, TornTail};
pub use memory::MemoryLimit;
pub use stats::Stats;
