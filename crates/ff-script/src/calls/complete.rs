//! Ending in success, with the next execution or without.

use ff_core::state::PublicState;

use super::claim::ClaimRow;
use crate::call::{Call as _, functions};
use crate::value::Value;
use crate::wire::{List, Rest, Rows};

functions! {
    /// Ends the running attempt and its execution in success, with a result.
    write ff_complete_execution(CompleteExecution { held, result: Vec<u8> })
    -> CompleteExecutionReply {
        "OK" => Completed { public_state: PublicState },
        "DUPLICATE" => CompletedBefore { public_state: PublicState },
    }
    refuses held [];

    /// Ends several executions of one partition in success; each gets an answer of its own.
    write ff_complete_executions(CompleteExecutions { width: u64, items: Rest<Vec<u8>> })
    -> CompleteExecutionsReply { "OK" => Answers { answers: List<Value> } }
    refuses [];

    /// Ends an execution in success, and claims the next one for the same worker: of the queue that
    /// is named, or of those of the lane that this end put something into.
    write ff_complete_and_claim_next(CompleteAndClaimNext {
        held and next,
        result: Vec<u8>,
    })
    -> CompleteAndClaimNextReply {
        "OK" => CompletedAndClaimed {
            public_state: PublicState,
            claims: Rows<ClaimRow>,
            next_score: Option<i64>,
        },
        "DUPLICATE" => CompletedAndClaimedBefore {
            public_state: PublicState,
            claims: Rows<ClaimRow>,
            next_score: Option<i64>,
        },
    }
    refuses held [InvalidCapabilities, CapabilityMismatch];
}

impl CompleteExecutions {
    /// These completions, which must be of one partition.
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a CompleteExecution>) -> Self {
        let items = calls
            .into_iter()
            .flat_map(|call| call.encode().iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        let width = CompleteExecution::CONTRACT.args.len() as u64;
        Self { width, items: Rest(items.collect()) }
    }
}
