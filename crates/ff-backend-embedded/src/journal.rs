//! The durable journal: its records, its files, the thread that writes it, recovery and compaction.

pub(crate) mod record;
