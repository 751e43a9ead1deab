//! Marks that tell whether a shard has lost what it acknowledged.

use ff_core::types::TimestampMs;
use uuid::Uuid;

use crate::call::functions;

functions! {
    /// Leaves a mark of a server and tells which one was found and when it was left, 0 if none; a
    /// mark never gets smaller.
    write ff_mark_shard(MarkShard { server: Uuid, mark: u64 })
    -> MarkShardReply {
        "OK" => Marked { found: u64, found_at: TimestampMs, now: TimestampMs }
    }
    refuses [];
}
