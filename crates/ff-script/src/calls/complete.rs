//! Ending in success.

use ff_core::state::PublicState;

use crate::call::functions;

functions! {
    /// Ends the running attempt and its execution in success, with a result.
    write ff_complete_execution(CompleteExecution { held, result: Vec<u8> })
    -> CompleteExecutionReply {
        "OK" => Completed { public_state: PublicState },
        "DUPLICATE" => CompletedBefore { public_state: PublicState },
    }
    refuses held [];
}
