//! Asking a partition for work.

use std::sync::Arc;

use ff_core::contracts::{ClaimRequest, Claimed, payload_bytes};
use ff_core::engine_backend::PartitionBackend;
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::types::LeaseId;
use ff_script::in_flight::{InFlight, InFlightGuard};

use crate::hand_back::{Claims, Detached};
use crate::lane::{Candidate, Lane};

/// A partition that is being asked. Unless it answers, it stays a candidate of its lane.
pub(crate) struct Asked {
    lane: Arc<Lane>,
    candidate: Candidate,
    answered: bool,
    _guard: InFlightGuard,
}

impl Asked {
    pub(crate) fn new(lane: &Arc<Lane>, candidate: Candidate, in_flight: &InFlight) -> Self {
        Self { lane: Arc::clone(lane), candidate, answered: false, _guard: in_flight.begin() }
    }

    /// How large the payloads are that it had.
    fn saw(&self, claimed: &[Claimed]) {
        let largest = claimed.iter().map(|one| one.payload.len() as u64).max();
        largest.into_iter().for_each(|bytes| self.lane.saw_payload(bytes));
    }

    /// It had so many of those it was asked for.
    pub(crate) fn found(&mut self, found: usize, asked_for: usize) {
        self.answered = true;
        if found >= asked_for {
            self.lane.had_all(self.candidate, found);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.answered {
            self.lane.keep(self.candidate);
        }
    }
}

/// What a partition had, and the lease ids that it did not need.
pub(crate) type Found = (Claims, Vec<LeaseId>);

/// A claim from one partition.
pub(crate) fn ask(
    backend: &Arc<dyn PartitionBackend>,
    in_flight: &InFlight,
    mut asked: Asked,
    request: ClaimRequest,
) -> Detached<Found> {
    let (backend, in_flight) = (Arc::clone(backend), in_flight.clone());
    Detached::new(async move {
        let asked_for = request.lease_ids.len();
        let mut ids = request.lease_ids.clone();
        let claimed = backend.claim_next(asked.candidate.partition, request).await?;
        let ended_early = payload_bytes(&claimed) >= limits::CLAIM_BYTES_MAX;
        asked.saw(&claimed);
        asked.found(claimed.len(), if ended_early { claimed.len() } else { asked_for });
        ids.retain(|id| claimed.iter().all(|one| one.handle.fence.lease_id != *id));
        Ok((Claims::new(backend, in_flight, claimed), ids))
    })
}

/// The answers to several claims that are made at the same time.
pub(crate) async fn all(mut asks: Vec<Detached<Found>>) -> Vec<Result<Found, EngineError>> {
    let Some(own) = asks.pop() else { return Vec::new() };
    let others: Vec<_> = asks.into_iter().map(tokio::spawn).collect();
    let mut answers = vec![own.await];
    for other in others {
        answers.push(other.await.unwrap_or_else(|stopped| {
            Err(EngineError::Unavailable { op: "claim" }.in_context(stopped.to_string()))
        }));
    }
    answers
}
