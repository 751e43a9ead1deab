//! Counters of what a store did.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::Memory;

/// What a store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that were run.
    pub calls: u64,
    /// Calls that changed something and were appended to the journal.
    pub transactions: u64,
    /// Bytes that were appended to the journal.
    pub journal_bytes: u64,
    /// How often the journal was synced.
    pub journal_syncs: u64,
    /// How often the journal was rewritten.
    pub compactions: u64,
    /// How often a rewrite failed and was put off.
    pub compactions_failed: u64,
    /// Bytes of memory that keys and values take.
    pub memory_used: u64,
    /// How many they may take, if there is a limit.
    pub memory_limit: Option<u64>,
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: AtomicU64,
    pub(crate) transactions: AtomicU64,
    pub(crate) journal_bytes: AtomicU64,
    pub(crate) journal_syncs: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compactions_failed: AtomicU64,
}

/// Adds to a counter that nothing else depends on.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn read(&self, memory: &Memory) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            calls: read(&self.calls),
            transactions: read(&self.transactions),
            journal_bytes: read(&self.journal_bytes),
            journal_syncs: read(&self.journal_syncs),
            compactions: read(&self.compactions),
            compactions_failed: read(&self.compactions_failed),
            memory_used: memory.used(),
            memory_limit: memory.limit().as_bytes(),
        }
    }
}
