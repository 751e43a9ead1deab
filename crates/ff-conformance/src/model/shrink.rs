//! Makes a failing plan short: drops steps while it still fails.

use super::plan::Plan;

/// The shortest plan that was found to fail. `fails` plays a plan; larger pieces are tried first,
/// and single steps until none can be dropped.
pub fn shrink(plan: &Plan, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut plan = plan.clone();
    let mut piece = plan.steps.len();
    while piece > 0 {
        let before = plan.steps.len();
        plan = without_pieces(plan, piece, &mut fails);
        if piece > 1 || plan.steps.len() == before {
            piece /= 2;
        }
    }
    plan
}

/// Goes through a plan once and drops every piece of this size that it can fail without.
fn without_pieces(mut plan: Plan, piece: usize, fails: &mut impl FnMut(&Plan) -> bool) -> Plan {
    let mut from = 0;
    while from < plan.steps.len() {
        let shorter = plan.without(from..(from + piece).min(plan.steps.len()));
        if fails(&shorter) {
            plan = shorter;
        } else {
            from += piece;
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::super::plan::Op;
    use super::*;

    #[test]
    fn only_the_steps_that_matter_are_left() {
        let plan = Plan::random(3, 600);
        let wanted = [Op::Create, Op::Fail, Op::Replay];
        let fails = |plan: &Plan| {
            let mut wanted = wanted.iter().peekable();
            for step in &plan.steps {
                if wanted.peek().is_some_and(|op| **op == step.op) {
                    wanted.next();
                }
            }
            wanted.peek().is_none()
        };
        assert!(fails(&plan));
        let ops: Vec<Op> = shrink(&plan, fails).steps.iter().map(|step| step.op).collect();
        assert_eq!(ops, wanted);
    }
}
