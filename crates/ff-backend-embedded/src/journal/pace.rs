//! How work in the background leaves the processors and the disk to calls.

use std::thread;
use std::time::{Duration, Instant};

use crate::clock::monotonic;

/// As much is worked through before others are let in: some tens of microseconds.
const STEP_BYTES: usize = 16 << 10;
/// Who waited works as many times less before it lets others in again, so that it comes to its end
/// where there is never a processor to spare.
const SHARE: u32 = 8;
/// The longest time that it works then.
const TURN_MAX: Duration = Duration::from_millis(1);
/// The longest time that the disk is left alone after a sync.
const REST_MAX: Duration = Duration::from_millis(20);

/// Whether and when somebody lets others in.
#[derive(Debug)]
pub(crate) struct Pace {
    gives_way: bool,
    /// Worked through since others were let in.
    bytes: usize,
    /// Until when it is its own turn.
    turn: Option<Instant>,
}

impl Pace {
    /// That of somebody whom everybody waits for.
    pub(crate) fn hurried() -> Self {
        Self { gives_way: false, bytes: 0, turn: None }
    }

    /// That of somebody whom nobody waits for.
    pub(crate) fn giving_way() -> Self {
        Self { gives_way: true, ..Self::hurried() }
    }

    /// So much was worked through: lets others in who wait for this processor. The system would let
    /// them wait for some milliseconds, however kindly it was told.
    pub(crate) fn worked(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.gives_way && self.bytes >= STEP_BYTES {
            self.bytes = 0;
            self.let_in();
        }
    }

    fn let_in(&mut self) {
        let before = monotonic();
        if self.turn.is_some_and(|until| before < until) {
            return;
        }
        thread::yield_now();
        let after = monotonic();
        self.turn = Some(after + ((after - before) / SHARE).min(TURN_MAX));
    }

    /// Something was synced, which took as long: leaves the disk to others for as long.
    pub(crate) fn synced(&self, took: Duration) {
        if self.gives_way {
            thread::sleep(took.min(REST_MAX));
        }
    }
}
