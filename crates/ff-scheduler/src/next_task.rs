//! Ending a task and taking the next one in the same call: from the partition of the task, if what
//! it has comes before what is known elsewhere, or if the end itself makes something claimable
//! there.

use std::sync::Arc;

use ff_core::backend::Handle;
use ff_core::contracts::{ClaimRequest, Finished, NextTask, TakeFrom, TaskEnd};
use ff_core::error::EngineError;
use ff_core::types::{LaneId, LeaseId};
use ff_script::in_flight::{InFlight, InFlightGuard};

use crate::ask::Asked;
use crate::hand_back::{Claims, Detached};
use crate::worker::Ability;
use crate::{Shared, completing};

/// A task that ended, with the next one on its way to the caller.
pub(crate) struct Ended {
    pub(crate) finished: Finished,
    pub(crate) claims: Claims,
    /// It is under way until the caller has it.
    pub(crate) _guard: Option<InFlightGuard>,
}

impl Ended {
    pub(crate) fn until(self, guard: InFlightGuard) -> Self {
        Self { _guard: Some(guard), ..self }
    }
}

impl Shared {
    /// Ends a task. The caller may go away at any time: the task ends, and the next one is handed
    /// back.
    pub(crate) async fn finish(
        self: &Arc<Self>,
        handle: &Handle,
        end: TaskEnd,
        next: NextTask,
    ) -> Result<Finished, EngineError> {
        end.validate()?;
        next.validate()?;
        let lease_id = next.lease_id.unwrap_or_else(|| LeaseId::from_uuid(self.ids.random()));
        let named = self.named.begin(lease_id, &self.in_flight).await;
        let in_flight = named.in_flight.clone();
        let ended = match end {
            TaskEnd::Complete(result) if completing::is_small(&result) => {
                self.complete_with_others(handle, result, next, lease_id, in_flight).await?
            }
            end => self.end_and_ask(handle, end, &next, lease_id, in_flight).await?,
        };
        let Ended { finished, claims, .. } = ended;
        Ok(Finished { next: claims.keep().pop(), ..finished })
    }

    pub(crate) fn end_and_ask(
        self: &Arc<Self>,
        handle: &Handle,
        end: TaskEnd,
        next: &NextTask,
        lease_id: LeaseId,
        in_flight: InFlight,
    ) -> Detached<Ended> {
        let (asked, request) = self.ask_after(handle, next, vec![lease_id], &in_flight);
        let (backend, handle) = (Arc::clone(&self.backend), handle.clone());
        let guard = in_flight.begin();
        Detached::new(async move {
            let _guard = guard;
            let mut found = backend.finish(&handle, end, request).await?;
            let taken = found.finished.next.take();
            if let Some(asked) = asked.filter(|_| !found.is_repetition) {
                let bytes = taken.as_ref().map(|one| one.payload.len() as u64);
                asked.answered(bytes, found.next_score);
            }
            let claims = Claims::new(backend, in_flight, taken.into_iter().collect());
            Ok(Ended { finished: found.finished, claims, _guard: None })
        })
    }

    /// Which queue of the task's partition to ask, if one has what comes next. What the end makes
    /// claimable in the lane is taken only if it comes before what is known elsewhere.
    pub(crate) fn ask_after(
        self: &Arc<Self>,
        handle: &Handle,
        next: &NextTask,
        lease_ids: Vec<LeaseId>,
        in_flight: &InFlight,
    ) -> (Option<Asked>, ClaimRequest) {
        let ability = Ability::new(next.capabilities.clone(), &next.kinds, &next.namespaces);
        let lanes: Arc<[LaneId]> = next.lanes_after(handle).into();
        let partition = handle.execution_id.partition().index;
        let choice = self.board().choose_in(partition, &lanes, &ability, lease_ids.len());
        let from = TakeFrom { need: None, score_max: choice.score_max };
        let lane = choice.lane.unwrap_or_else(|| lane_of_ends(&lanes, handle));
        match choice.ask.map(|ask| Asked::new(self, ask, in_flight)) {
            Some(asked) => {
                let request = next.claim_after(handle, lane, asked.from(), lease_ids);
                (Some(asked), request)
            }
            None => (None, next.claim_after(handle, lane, from, lease_ids)),
        }
    }
}

/// Where what an end makes claimable most probably is: in the task's own lane, if its worker still
/// takes from that.
fn lane_of_ends(lanes: &[LaneId], handle: &Handle) -> LaneId {
    let own = lanes.iter().find(|lane| **lane == handle.lane);
    own.or(lanes.first()).unwrap_or(&handle.lane).clone()
}
