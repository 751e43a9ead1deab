//! The durable journal: its records, its files, the thread that writes it, recovery and compaction.
//!
//! A data directory is laid out as Valkey lays out its own append-only files, so that Valkey starts
//! from it as it is:
//!
//! ```text
//! <data>/flowfabric.lock                             held while a store is open
//! <data>/flowfabric.store                            says that a store is here, and its size
//! <data>/appendonlydir/appendonly.aof.manifest       lists the files below, in order
//! <data>/appendonlydir/appendonly.aof.<n>.base.aof   what was there when it was last rewritten
//! <data>/appendonlydir/appendonly.aof.<n>.incr.aof   what happened since; the last one grows
//! ```
//!
//! What a call does can always be written: room for it is reserved in the last file before the call
//! runs ([`room`]).

pub(crate) mod backup;
pub(crate) mod commit;
pub(crate) mod compaction;
pub(crate) mod disk;
pub(crate) mod layout;
pub(crate) mod leftover;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod manifest;
pub(crate) mod marker;
pub(crate) mod pace;
pub(crate) mod real_disk;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod room;
pub(crate) mod scan;
pub(crate) mod shards;
pub(crate) mod slice;
pub(crate) mod snapshot;
pub(crate) mod start;
pub(crate) mod survey;
pub(crate) mod writer;
