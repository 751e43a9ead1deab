//! Room in the journal that is promised to calls before they run, so that what ran can always be
//! written: nobody may ever be told of what a restart would undo.
//!
//! The journal's thread reserves room in its file, ahead of what it writes. A call that may write
//! takes its share before it runs, and gives back what it did not use; if there is too little, it
//! waits until more was reserved, or is refused. Reads take nothing, so they go on.

use std::sync::atomic::{AtomicI64, Ordering};

/// What a call may write beyond its arguments. The largest are ticks and claims, which rewrite up
/// to a thousand records.
pub(crate) const CALL_ROOM: u64 = 4 << 20;
/// More is reserved when less than this is left, so that calls need not wait.
pub(crate) const ROOM_LOW: u64 = 2 * CALL_ROOM;
/// As much is then there.
pub(crate) const ROOM_HIGH: u64 = 4 * CALL_ROOM;
/// What the journal's thread keeps for the lines that it writes itself.
pub(crate) const LINES_ROOM: u64 = 64 << 10;

/// Bytes that were reserved and are not promised to anybody.
#[derive(Debug, Default)]
pub(crate) struct Room(AtomicI64);

impl Room {
    /// How much there is; none if a call wrote more than was promised to it.
    pub(crate) fn left(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Acquire)).unwrap_or(0)
    }

    /// Promises as many bytes. False if there are not enough.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let enough = |left: i64| left.checked_sub_unsigned(bytes).filter(|rest| *rest >= 0);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, enough).is_ok()
    }

    /// As many bytes were reserved.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes as i64, Ordering::AcqRel);
    }

    /// A call that was promised so many bytes used so many.
    pub(crate) fn settle(&self, promised: u64, used: u64) {
        self.0.fetch_add(promised as i64 - used as i64, Ordering::AcqRel);
    }
}

/// What a call with so many bytes of arguments may write: its arguments once, and what it adds.
pub(crate) fn needed(argument_bytes: usize) -> u64 {
    argument_bytes as u64 + CALL_ROOM
}
