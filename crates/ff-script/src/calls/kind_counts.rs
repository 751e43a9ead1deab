//! Counting executions by kind.

use ff_core::types::LaneId;

use crate::call::functions;
use crate::value::Value;
use crate::wire::{List, Rest};

functions! {
    /// Counts the executions of a partition by kind and state, by looking at some of them. `lanes`
    /// are the lanes whose queues may hold some.
    read ff_count_kinds(CountKinds { look_at: u32, lanes: Rest<LaneId> })
    -> CountKindsReply {
        "OK" => Counts { counts: List<Value>, exact: bool },
    }
    refuses [];
}
