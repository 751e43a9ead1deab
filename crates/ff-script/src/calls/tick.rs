//! What is due.

use ff_core::types::TimestampMs;

use crate::call::functions;
use crate::wire::Rest;

functions! {
    /// Executes what is due in a partition and tells when it is next needed.
    write ff_tick(Tick {
        items_max: u32,
        log_length_max: Option<u64>,
        next_look_ms: Option<u64>,
        announce: bool,
        settled: Rest<Vec<u8>>,
    })
    -> TickReply {
        "OK" => Ticked {
            now: TimestampMs,
            next_due_at: Option<TimestampMs>,
            late_ms: u64,
            promoted: u32,
            lapsed: u32,
            timed_out: u32,
            expired: u32,
            ungranted: u32,
            purged: u32,
            forgotten: u32,
            corrected: u32,
            suspensions: u32,
            waitpoints: u32,
            flows: u32,
            edges: u32,
            owing: u32,
            gates: u32,
            owed: Vec<(Vec<u8>, String)>,
        },
    }
    refuses [];
}

impl Tick {
    /// A tick by somebody who does not come back, and keeps the log as long as it may be.
    pub const fn once(items_max: u32) -> Self {
        Self {
            items_max,
            log_length_max: None,
            next_look_ms: None,
            announce: false,
            settled: Rest(Vec::new()),
        }
    }
}
