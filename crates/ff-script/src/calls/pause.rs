//! Giving a lease back while the attempt goes on later.

use ff_core::state::PublicState;
use ff_core::types::{Moment, TimestampMs};

use crate::call::functions;

functions! {
    /// Gives the lease back; the same attempt goes on at the given time.
    write ff_delay_execution(DelayExecution { held, delay_until: Moment })
    -> DelayExecutionReply {
        "OK" => Delayed { delay_until: TimestampMs },
        "DUPLICATE" => DelayedBefore { delay_until: TimestampMs },
    }
    refuses held [];

    /// Gives the lease back until the execution's children are done; at once if none is open.
    write ff_move_to_waiting_children(MoveToWaitingChildren { held })
    -> MoveToWaitingChildrenReply {
        "OK" => Moved { public_state: PublicState },
        "DUPLICATE" => MovedBefore { public_state: PublicState },
    }
    refuses held [];
}
