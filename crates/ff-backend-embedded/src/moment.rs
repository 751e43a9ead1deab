//! The time of one call: read once, when first asked for, and the same until the call ends.

use std::sync::Arc;

use ff_core::clock::Clock;

use crate::keyspace::{EntryId, Stream};

/// A clock that stands still during a call.
pub(crate) struct Moment {
    clock: Arc<dyn Clock>,
    frozen_us: Option<u64>,
}

impl Moment {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, frozen_us: None }
    }

    /// Lets time go on: a call begins.
    pub(crate) fn release(&mut self) {
        self.frozen_us = None;
    }

    pub(crate) fn now_us(&mut self) -> u64 {
        *self.frozen_us.get_or_insert_with(|| self.clock.now_us())
    }

    /// The id of an entry that is added now.
    pub(crate) fn next_id(&mut self, stream: Option<&Stream>) -> Option<EntryId> {
        let now_ms = self.now_us() / 1000;
        match stream {
            Some(stream) => stream.next_id(now_ms),
            None => Stream::default().next_id(now_ms),
        }
    }
}
