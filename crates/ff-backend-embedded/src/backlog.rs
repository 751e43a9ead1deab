//! How much may be under way in a shard: calls that wait for their turn, and calls that were run
//! and wait for the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a call takes besides its arguments: its place in queues, what it leaves for the journal.
const CALL_BYTES: usize = 1024;

/// The bytes of all calls that are under way in a shard.
#[derive(Debug)]
pub(crate) struct Backlog {
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// A call's part of the backlog, until it is dropped.
#[derive(Debug)]
pub(crate) struct BacklogPermit {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Backlog {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max }
    }

    /// Makes room for a call with so many bytes of arguments. None if there is no room now; a call
    /// that is alone always has room.
    pub(crate) fn enter(self: &Arc<Self>, arguments: usize) -> Option<BacklogPermit> {
        let bytes = arguments + CALL_BYTES;
        let permit = BacklogPermit { backlog: Arc::clone(self), bytes };
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        (before == 0 || before + bytes <= self.bytes_max).then_some(permit)
    }
}

impl Drop for BacklogPermit {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
