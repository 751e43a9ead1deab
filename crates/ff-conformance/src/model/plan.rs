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

impl Plan {
    /// Is the plan of a seed mostly about flows?
    pub fn is_about_flows(seed: u64) -> bool {
        seed.is_multiple_of(2)
    }

    /// The plan of a seed. Every other one is mostly about flows.
    pub fn random(seed: u64, steps: usize) -> Self {
        let mut dice = Dice::new(seed);
        let flows = Self::is_about_flows(seed);
        let step = |place| {
            let first = if flows { FIRST_OF_FLOWS } else { &CREATED_FIRST };
            let op = match first.get(place) {
                Some(op) => *op,
                None if flows && dice.chance(65) => one_of(FLOW_WEIGHTS, &mut dice),
                None => one_of(WEIGHTS, &mut dice),
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
        let plan = Plan::random(7, 3000);
        assert_eq!(plan, Plan::random(7, 3000));
        assert_ne!(plan, Plan::random(8, 3000));
        let occurs = |op: &Op| plan.steps.iter().any(|step| step.op == *op);
        assert!(WEIGHTS.iter().all(|(op, _)| occurs(op)));
    }

    #[test]
    fn leaving_steps_out_leaves_the_others_as_they_are() {
        let plan = Plan::random(7, 10);
        let shorter = plan.without(2..5);
        assert_eq!(shorter.steps[..2], plan.steps[..2]);
        assert_eq!(shorter.steps[2..], plan.steps[5..]);
    }
}
