//! What is suspended.

use ff_core::contracts::SuspendedExecutionEntry;

use crate::call::functions;
use crate::wire::List;

functions! {
    /// Lists what is suspended in a partition, longest first, from a cursor.
    read ff_list_suspended(ListSuspended { cursor: String, limit: u32 })
    -> ListSuspendedReply {
        "OK" => Page {
            suspended: List<SuspendedExecutionEntry>,
            next_cursor: Option<String>,
        },
    }
    refuses [];
}
