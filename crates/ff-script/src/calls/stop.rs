//! What the hard limit of a budget means to those who run.

use ff_core::state::PublicState;
use ff_core::types::{BudgetId, ExecutionId, LeaseEpoch, SuspensionId, WaitpointId};

use crate::call::functions;
use crate::wire::Rest;

functions! {
    /// Ends an execution that runs under a budget whose hard limit is reached.
    write ff_stop_for_budget(StopForBudget {
        execution_id: ExecutionId,
        lease_epoch: LeaseEpoch,
        action: String,
        budget_id: BudgetId,
    })
    -> StopForBudgetReply { "OK" => Stopped { public_state: PublicState } }
    refuses [ExecutionNotFound, StaleLease];

    /// Tells those who run that the hard limit of a budget is reached, or is not any more. `items`
    /// are execution, epoch, budget, order and whether it is reached, one after the other.
    write ff_note_budgets_reached(NoteBudgetsReached { items: Rest<String> })
    -> NoteBudgetsReachedReply { "OK" => Noted { noted: u32 } }
    refuses [];

    /// Suspends the execution that reached a hard limit until people have decided about it.
    write ff_pause_for_budget(PauseForBudget {
        execution_id: ExecutionId,
        lease_epoch: LeaseEpoch,
        budget_id: BudgetId,
        ask: u64,
        suspension_id: SuspensionId,
        waitpoint_id: WaitpointId,
        resume_condition_json: String,
        approval: String,
    })
    -> PauseForBudgetReply { "OK" => Paused {}, "ALREADY_SATISFIED" => PausedBefore {} }
    refuses [ExecutionNotFound, StaleLease];
}
