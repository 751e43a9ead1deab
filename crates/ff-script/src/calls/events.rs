//! The event log of a partition.

use crate::call::functions;
use crate::value::Value;
use crate::wire::List;

functions! {
    /// Reads the event log of a partition from a cursor; `$` is its end, empty its beginning.
    read ff_read_events(ReadEvents { cursor: String, limit: u32 })
    -> ReadEventsReply {
        "OK" => Page { events: List<Value>, next_cursor: Option<String>, truncated: bool },
    }
    refuses [];
}
