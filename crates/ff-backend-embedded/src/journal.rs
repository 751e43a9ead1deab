//! The durable journal: its records, its files, the thread that writes it, recovery and compaction.
//!
//! A data directory is laid out as Valkey lays out its own append-only files, so that Valkey starts
//! from it as it is:
//!
//! ```text
//! <data>/flowfabric.lock
//! <data>/appendonlydir/appendonly.aof.manifest       lists the files below, in order
//! <data>/appendonlydir/appendonly.aof.<n>.base.aof   what was there when it was last rewritten
//! <data>/appendonlydir/appendonly.aof.<n>.incr.aof   what happened since; the last one grows
//! ```

pub(crate) mod commit;
pub(crate) mod compaction;
pub(crate) mod disk;
pub(crate) mod layout;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod manifest;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod start;
pub(crate) mod writer;
