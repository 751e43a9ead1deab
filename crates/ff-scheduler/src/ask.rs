//! Asking a partition. A caller may go away while the store answers: the call then goes on without
//! it, and what it found is handed back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ff_core::contracts::{ClaimRequest, Claimed, payload_bytes};
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::types::LeaseId;

use crate::hand_back::{Claims, OneUnderWay, UnderWay, go_on};
use crate::lane::{Candidate, Lane};

/// A partition that is being asked. Unless it answers, it stays a candidate of its lane.
pub(crate) struct Asked {
    lane: Arc<Lane>,
    candidate: Candidate,
    answered: bool,
    _one: OneUnderWay,
}

impl Asked {
    pub(crate) fn new(lane: &Arc<Lane>, candidate: Candidate, under_way: &UnderWay) -> Self {
        Self { lane: Arc::clone(lane), candidate, answered: false, _one: under_way.one() }
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
            self.lane.was_generous(self.candidate, found);
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

/// A claim from one partition. Once begun it runs to its end, whoever waits for it.
pub(crate) struct Ask {
    call: Option<Answer<'static, Found>>,
    begun: bool,
}

impl Ask {
    pub(crate) fn new(
        backend: &Arc<dyn EngineBackend>,
        under_way: &UnderWay,
        mut asked: Asked,
        request: ClaimRequest,
    ) -> Self {
        let (backend, under_way) = (Arc::clone(backend), under_way.clone());
        let call = Box::pin(async move {
            let asked_for = request.lease_ids.len();
            let mut ids = request.lease_ids.clone();
            let claimed = backend.claim_next(asked.candidate.partition, request).await?;
            let ended_early = payload_bytes(&claimed) >= limits::CLAIM_BYTES_MAX;
            asked.saw(&claimed);
            asked.found(claimed.len(), if ended_early { claimed.len() } else { asked_for });
            ids.retain(|id| claimed.iter().all(|one| one.handle.fence.lease_id != *id));
            Ok((Claims::new(backend, under_way, claimed), ids))
        });
        Self { call: Some(call), begun: false }
    }
}

impl Future for Ask {
    type Output = Result<Found, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.begun = true;
        let Some(call) = &mut self.call else { return Poll::Pending };
        let answer = call.as_mut().poll(context);
        if answer.is_ready() {
            self.call = None;
        }
        answer
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        if let Some(call) = self.call.take().filter(|_| self.begun) {
            go_on(async { drop(call.await) });
        }
    }
}

/// The answers to several claims that are made at the same time.
pub(crate) async fn all(mut asks: Vec<Ask>) -> Vec<Result<Found, EngineError>> {
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
