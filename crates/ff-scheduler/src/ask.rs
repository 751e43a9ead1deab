//! Asking a queue of a partition for work.

use std::sync::Arc;

use ff_core::contracts::{ClaimRequest, TakeFrom, WorkRequest};
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::types::LeaseId;
use ff_script::in_flight::{InFlight, InFlightGuard};

use crate::Shared;
use crate::board::Ask;
use crate::hand_back::{Claims, Detached};

/// A queue that is being asked. Unless it answers, what is known of it stays known.
pub(crate) struct Asked {
    shared: Arc<Shared>,
    ask: Ask,
    answered: bool,
    _guard: InFlightGuard,
}

impl Asked {
    pub(crate) fn new(shared: &Arc<Shared>, ask: Ask, in_flight: &InFlight) -> Self {
        Self { shared: Arc::clone(shared), ask, answered: false, _guard: in_flight.begin() }
    }

    /// It gave something, with payloads up to so many bytes, or nothing, and told what is left.
    pub(crate) fn answered(mut self, largest: Option<u64>, next_score: Option<i64>) -> Ask {
        self.answered = true;
        self.shared.board().answered(&self.ask, largest, next_score);
        self.ask.clone()
    }

    pub(crate) fn partition(&self) -> Partition {
        Partition::flow(self.ask.partition)
    }

    pub(crate) fn from(&self) -> TakeFrom {
        TakeFrom { need: Some((*self.ask.need).clone()), score_max: self.ask.score_max }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.board().failed(&self.ask);
        }
    }
}

/// What a queue gave.
pub(crate) struct Found {
    pub(crate) claims: Claims,
    /// The lease ids that it did not need.
    pub(crate) unused: Vec<LeaseId>,
    /// It gave nothing although it could: what it has is about to be taken out by a tick.
    pub(crate) holds_back: bool,
}

/// A claim from one queue.
pub(crate) fn ask(
    asked: Asked,
    in_flight: &InFlight,
    request: &WorkRequest,
    lease_ids: Vec<LeaseId>,
) -> Detached<Found> {
    let request = claim_request(request, &asked, lease_ids);
    let (backend, in_flight) = (Arc::clone(&asked.shared.backend), in_flight.clone());
    Detached::new(async move {
        let mut unused = request.lease_ids.clone();
        let found = backend.claim_next(asked.partition(), request).await?;
        let largest = found.claimed.iter().map(|one| one.payload.len() as u64).max();
        let ask = asked.answered(largest, found.next_score);
        let holds_back = found.claimed.is_empty() && ask.reaches(found.next_score);
        unused.retain(|id| found.claimed.iter().all(|one| one.handle.fence.lease_id != *id));
        Ok(Found { claims: Claims::new(backend, in_flight, found.claimed), unused, holds_back })
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

fn claim_request(request: &WorkRequest, asked: &Asked, lease_ids: Vec<LeaseId>) -> ClaimRequest {
    ClaimRequest {
        lane: asked.ask.lane.clone(),
        from: asked.from(),
        kinds: Vec::new(),
        namespaces: Vec::new(),
        ..ClaimRequest::of(request, lease_ids)
    }
}
