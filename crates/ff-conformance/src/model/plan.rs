//! Plans: sequences of steps that follow from a seed.

use super::dice::Dice;

/// Declares what can be tried and how often: `Op weight`.
macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $weight:literal;)*) => {
        /// What one step tries.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op {
            $($(#[$doc])* $op,)*
        }

        const WEIGHTS: &[(Op, u64)] = &[$((Op::$op, $weight),)*];
    };
}

ops! {
    /// Creates an execution.
    Create 7;
    /// Creates a few at once.
    CreateMany 2;
    /// Claims from a lane's queue.
    ClaimNext 16;
    /// Reserves an execution.
    Grant 8;
    /// Reserves the best of a lane.
    GrantNext 4;
    /// Uses a reservation.
    UseGrant 12;
    /// Extends a lease.
    Renew 5;
    /// Reports progress.
    Progress 3;
    /// Writes output.
    Append 10;
    /// Reads output.
    ReadOutput 2;
    /// Ends in success.
    Complete 7;
    /// Ends an attempt as failed.
    Fail 10;
    /// Cancels, as the holder.
    CancelHeld 2;
    /// Cancels, as an operator.
    Cancel 3;
    /// Gives a lease back for a while.
    Delay 5;
    /// Gives a lease back until the children are done.
    WaitForChildren 5;
    /// Gives a lease back until signals come.
    Suspend 9;
    /// Opens a waitpoint before that.
    OpenWaitpoint 6;
    /// Closes it again.
    CloseWaitpoint 1;
    /// Reads the signals that ended a wait.
    ReadSignals 1;
    /// Signals a waitpoint.
    Signal 14;
    /// Ends a wait, as an operator.
    Resume 2;
    /// Ends a wait that lasted too long.
    ExpireSuspension 2;
    /// Reads what waits.
    Waits 3;
    /// Replaces the key of tokens.
    Rotate 1;
    /// Takes a lease away.
    Revoke 4;
    /// Ends a lease that ran out.
    MarkExpired 3;
    /// Ends what ran out of time.
    Expire 3;
    /// Makes what was delayed claimable.
    Promote 3;
    /// Changes a priority.
    Priority 3;
    /// Keeps an execution from being claimed.
    Hold 3;
    /// Lets it be claimed again.
    LetGo 4;
    /// Sets tags.
    Tag 2;
    /// Runs something again that is over.
    Replay 5;
    /// Does what is due.
    Tick 8;
    /// Makes a worker process known.
    Register 2;
    /// Extends that.
    Heartbeat 1;
    /// Takes a worker process off the list.
    Unregister 1;
    /// Hands back the leases of a worker process.
    Release 2;
    /// Reads who is there and what waits.
    ListWorkers 1;
    /// Reads one execution.
    Describe 2;
    /// Reads a page of executions.
    List 2;
    /// Reads the log.
    Events 1;
    /// Submits a graph, or the first part of one.
    SubmitGraph 2;
    /// Submits another part of a graph.
    GraphPart 1;
    /// Makes an empty flow.
    CreateFlow 1;
    /// Makes an execution a member.
    Join 1;
    /// Lets a member wait for another.
    AddEdge 1;
    /// Makes a flow whole.
    SealFlow 1;
    /// Cancels a flow.
    CancelFlow 1;
    /// Does what nobody needs while nothing goes wrong.
    MendFlow 1;
    /// Reads a flow.
    ReadFlow 1;
    /// Asks a gate for a claim.
    Ask 0;
    /// Undoes a claim.
    Undo 0;
    /// Carries out what a partition owes.
    Carry 0;
    /// Lets somebody pass a closed gate.
    Unblock 0;
    /// Makes, changes or removes a quota policy.
    MakeQuota 0;
    /// Makes a quota policy known.
    NoteQuota 0;
    /// Reads a quota policy.
    ReadQuota 0;
    /// Makes, changes or removes a budget.
    MakeBudget 0;
    /// Reports to a budget, or reserves of it.
    UseBudget 0;
    /// Reads budgets.
    ReadBudget 0;
    /// Lets time pass.
    Advance 10;
    /// Sets the clock back.
    Back 2;
    /// Sends an earlier call again, as a network may.
    Repeat 8;
}

/// One step: what is tried, and the seed of its details. Leaving out other steps changes neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is tried.
    pub op: Op,
    /// The seed of the details.
    pub seed: u64,
}

/// A sequence of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// What a plan is mostly about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Executions that have nothing to do with each other.
    Executions,
    /// Flows and their members.
    Flows,
    /// Executions under quotas and budgets.
    Admission,
}

impl Theme {
    /// The theme of a seed: every other one is about flows, and every fourth about admission.
    pub fn of(seed: u64) -> Self {
        match seed % 4 {
            1 => Self::Executions,
            3 => Self::Admission,
            _ => Self::Flows,
        }
    }

    /// How its plans begin.
    fn first(self) -> &'static [Op] {
        match self {
            Self::Executions => &CREATED_FIRST,
            Self::Flows => FIRST_OF_FLOWS,
            Self::Admission => FIRST_OF_ADMISSION,
        }
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn random(seed: u64, steps: usize) -> Self {
        let mut dice = Dice::new(seed);
        let theme = Theme::of(seed);
        let step = |place| {
            let op = match (theme.first().get(place), theme) {
                (Some(op), _) => *op,
                (None, Theme::Flows) if dice.chance(65) => one_of(FLOW_WEIGHTS, &mut dice),
                (None, Theme::Admission) => one_of(ADMISSION_WEIGHTS, &mut dice),
                (None, _) => one_of(WEIGHTS, &mut dice),
            };
            Step { op, seed: dice.roll() }
        };
        Self { steps: (0..steps).map(step).collect() }
    }

    /// The plan without some of its steps.
    pub fn without(&self, gone: std::ops::Range<usize>) -> Self {
        let (head, tail) = (&self.steps[..gone.start], &self.steps[gone.end..]);
        Self { steps: [head, tail].concat() }
    }
}

/// Without executions there is little to do.
const CREATED_FIRST: [Op; 5] = [Op::Create; 5];

const FIRST_OF_FLOWS: &[Op] = &[
    Op::SubmitGraph,
    Op::CreateFlow,
    Op::Create,
    Op::Create,
    Op::CreateMany,
    Op::CreateMany,
    Op::Join,
    Op::Join,
    Op::Join,
    Op::AddEdge,
    Op::AddEdge,
];

const FIRST_OF_ADMISSION: &[Op] = &[
    Op::MakeQuota,
    Op::MakeBudget,
    Op::MakeBudget,
    Op::NoteQuota,
    Op::NoteQuota,
    Op::NoteQuota,
    Op::NoteQuota,
    Op::NoteQuota,
    Op::Create,
    Op::Create,
    Op::Create,
    Op::CreateMany,
    Op::CreateMany,
];

/// What admission is about.
const ADMISSION_WEIGHTS: &[(Op, u64)] = &[
    (Op::MakeQuota, 2),
    (Op::NoteQuota, 2),
    (Op::ReadQuota, 1),
    (Op::MakeBudget, 4),
    (Op::UseBudget, 16),
    (Op::ReadBudget, 1),
    (Op::Ask, 40),
    (Op::Undo, 12),
    (Op::Carry, 40),
    (Op::Unblock, 2),
    (Op::Create, 6),
    (Op::CreateMany, 3),
    (Op::ClaimNext, 24),
    (Op::Grant, 4),
    (Op::GrantNext, 2),
    (Op::UseGrant, 5),
    (Op::Renew, 2),
    (Op::Append, 1),
    (Op::Complete, 8),
    (Op::Fail, 6),
    (Op::CancelHeld, 1),
    (Op::Cancel, 2),
    (Op::Delay, 3),
    (Op::WaitForChildren, 1),
    (Op::Suspend, 4),
    (Op::Signal, 1),
    (Op::Resume, 2),
    (Op::Revoke, 2),
    (Op::MarkExpired, 2),
    (Op::Expire, 1),
    (Op::Promote, 2),
    (Op::Priority, 2),
    (Op::Hold, 2),
    (Op::LetGo, 3),
    (Op::Replay, 2),
    (Op::Release, 1),
    (Op::Describe, 2),
    (Op::List, 1),
    (Op::Tick, 30),
    (Op::Advance, 9),
    (Op::Back, 1),
    (Op::Repeat, 5),
];

/// What flows are about.
const FLOW_WEIGHTS: &[(Op, u64)] = &[
    (Op::SubmitGraph, 4),
    (Op::GraphPart, 5),
    (Op::CreateFlow, 1),
    (Op::Create, 3),
    (Op::Join, 8),
    (Op::AddEdge, 12),
    (Op::SealFlow, 3),
    (Op::CancelFlow, 3),
    (Op::MendFlow, 5),
    (Op::ReadFlow, 3),
    (Op::ClaimNext, 24),
    (Op::Grant, 2),
    (Op::UseGrant, 3),
    (Op::Complete, 18),
    (Op::Fail, 14),
    (Op::Cancel, 3),
    (Op::Replay, 9),
    (Op::Hold, 3),
    (Op::LetGo, 3),
    (Op::Tick, 14),
    (Op::Advance, 8),
    (Op::Expire, 2),
    (Op::Promote, 2),
    (Op::Repeat, 4),
];

fn one_of(weights: &[(Op, u64)], dice: &mut Dice) -> Op {
    let total = weights.iter().map(|(_, weight)| weight).sum();
    let mut left = dice.below(total);
    for (op, weight) in weights {
        if left < *weight {
            return *op;
        }
        left -= weight;
    }
    Op::Tick
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_plan_and_every_op_occurs() {
        let plan = Plan::random(5, 3000);
        assert_eq!(plan, Plan::random(5, 3000));
        assert_ne!(plan, Plan::random(8, 3000));
        let occurs = |op: &Op| plan.steps.iter().any(|step| step.op == *op);
        assert!(WEIGHTS.iter().all(|(op, weight)| *weight == 0 || occurs(op)));
        let plan = Plan::random(7, 3000);
        let occurs = |op: &Op| plan.steps.iter().any(|step| step.op == *op);
        assert!(ADMISSION_WEIGHTS.iter().all(|(op, _)| occurs(op)));
    }

    #[test]
    fn leaving_steps_out_leaves_the_others_as_they_are() {
        let plan = Plan::random(7, 10);
        let shorter = plan.without(2..5);
        assert_eq!(shorter.steps[..2], plan.steps[..2]);
        assert_eq!(shorter.steps[2..], plan.steps[5..]);
    }
}
