//! Completing several tasks of one partition and taking the next ones for their workers, in one
//! call.

use ff_core::backend::Handle;
use ff_core::contracts::{AllFinished, ClaimRequest, Claimed, Completion, Finished, TaskEnded};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::types::LeaseId;

use super::partition::Holder;
use super::{ScriptBackend, held};
use crate::call::{Call as _, open_reply};
use crate::calls::claim::ClaimRow;
use crate::calls::complete::{
    CompleteExecution, CompleteExecutionReply, CompleteExecutionsAndClaimNext,
    CompleteExecutionsAndClaimNextReply,
};
use crate::host::Host;
use crate::value::Value;

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn complete_all_and_claim(
        &self,
        completions: Vec<Completion>,
        next: ClaimRequest,
    ) -> Result<AllFinished, EngineError> {
        next.validate()?;
        let (handles, calls) = self.calls_of(completions)?;
        check_counts(handles.len(), next.lease_ids.len())?;
        let partition = handles[0].execution_id.partition();
        let call = CompleteExecutionsAndClaimNext::of(&calls, &next);
        let CompleteExecutionsAndClaimNextReply::Answers { answers, claims, next_score } =
            self.call(partition, call).await?;
        let claims = self.admit(claims.0).await;
        let mut taken = Taken { lease_ids: &next.lease_ids, ttl_ms: next.lease_ttl_ms, claims };
        let mut all = AllFinished { finished: Vec::new(), next_score, is_repetition: false };
        for (place, answer) in answers.0.into_iter().enumerate() {
            let ended = read(answer).map(|is_repetition| {
                all.is_repetition |= is_repetition;
                Finished { ended: TaskEnded::Completed, next: taken.by(place, &handles[place]) }
            });
            all.finished.push(ended);
        }
        Ok(all)
    }

    /// The holders of these tasks and what each asks for.
    fn calls_of(
        &self,
        completions: Vec<Completion>,
    ) -> Result<(Vec<Handle>, Vec<CompleteExecution>), EngineError> {
        let mut all = (Vec::new(), Vec::new());
        for Completion { handle, result } in completions {
            handle.execution_id.check(&self.config)?;
            let result = result.unwrap_or_default();
            all.1.push(held!(handle, CompleteExecution { result }));
            all.0.push(handle);
        }
        Ok(all)
    }
}

fn check_counts(tasks: usize, lease_ids: usize) -> Result<(), EngineError> {
    if tasks == 0 || tasks > limits::FINISH_BATCH_MAX as usize {
        let most = limits::FINISH_BATCH_MAX;
        return Err(EngineError::invalid("completions", format!("must be 1 to {most}")));
    }
    if lease_ids != tasks {
        return Err(EngineError::invalid("lease_ids", "must be as many as there are tasks"));
    }
    Ok(())
}

/// Whether a task had ended before, by such a call.
fn read(answer: Value) -> Result<bool, EngineError> {
    let (status, values) = open_reply(CompleteExecution::CONTRACT.name, answer)?;
    let reply = CompleteExecution::decode(&status, values)?;
    Ok(matches!(reply, CompleteExecutionReply::CompletedBefore { .. }))
}

/// What was taken for several workers, by the leases that were named.
struct Taken<'a> {
    lease_ids: &'a [LeaseId],
    ttl_ms: u64,
    claims: Vec<ClaimRow>,
}

impl Taken<'_> {
    /// What the holder of the task in this place goes on with.
    fn by(&mut self, place: usize, handle: &Handle) -> Option<Claimed> {
        let lease_id = self.lease_ids[place];
        let at = self.claims.iter().position(|row| row.lease_id == lease_id)?;
        let holder = Holder {
            worker_id: &handle.worker_id,
            worker_instance_id: &handle.worker_instance_id,
            lease_ttl_ms: self.ttl_ms,
        };
        Some(holder.claimed(self.claims.swap_remove(at)))
    }
}
