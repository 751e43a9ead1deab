//! Ending in success, with the next execution or without.

use ff_core::capability::CapabilitySet;
use ff_core::contracts::ClaimRequest;
use ff_core::need::Need;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionKind, LaneId, LeaseId, Namespace};

use super::claim::ClaimRow;
use crate::call::{Call as _, functions};
use crate::value::Value;
use crate::wire::{Joined, List, Rest, Rows};

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

    /// Ends several executions of one partition in success, each with an answer of its own, and
    /// claims the next ones for those who did.
    write ff_complete_executions_and_claim_next(CompleteExecutionsAndClaimNext {
        lane: LaneId,
        capabilities: CapabilitySet,
        lease_ttl_ms: u64,
        need: Option<Need>,
        score_max: Option<i64>,
        kinds: Joined<ExecutionKind>,
        namespaces: Joined<Namespace>,
        width: u64,
        items: Rest<Vec<u8>>,
    })
    -> CompleteExecutionsAndClaimNextReply {
        "OK" => Answers {
            answers: List<Value>,
            claims: Rows<ClaimRow>,
            next_score: Option<i64>,
        },
    }
    refuses [InvalidCapabilities, CapabilityMismatch];
}

/// The arguments of a completion as one item of several.
fn item(call: &CompleteExecution) -> Vec<Vec<u8>> {
    call.encode().iter().map(<[u8]>::to_vec).collect()
}

const WIDTH: u64 = CompleteExecution::CONTRACT.args.len() as u64;

impl CompleteExecutions {
    /// These completions, which must be of one partition.
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a CompleteExecution>) -> Self {
        Self { width: WIDTH, items: Rest(calls.into_iter().flat_map(item).collect()) }
    }
}

impl CompleteExecutionsAndClaimNext {
    /// These completions, which must be of one partition, and what follows: under as many lease
    /// ids, in the same order.
    pub fn of(calls: &[CompleteExecution], next: &ClaimRequest) -> Self {
        let with_next = |(call, lease_id): (&CompleteExecution, &LeaseId)| {
            let mut item = item(call);
            item.push(lease_id.to_string().into_bytes());
            item
        };
        Self {
            lane: next.lane.clone(),
            capabilities: next.capabilities.clone(),
            lease_ttl_ms: next.lease_ttl_ms,
            need: next.from.need.clone(),
            score_max: next.from.score_max,
            kinds: Joined(next.kinds.clone()),
            namespaces: Joined(next.namespaces.clone()),
            width: WIDTH + 1,
            items: Rest(calls.iter().zip(&next.lease_ids).flat_map(with_next).collect()),
        }
    }
}
