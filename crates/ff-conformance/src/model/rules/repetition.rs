//! A call that is sent again at once changes nothing, and is told the same or that it was done.

use super::super::sent::Sent;
use super::super::world::claim_rows;
use super::{Checked, rule};
use crate::answer::Answer;

/// Functions whose repetition is a new call: each writes an event or does the next thing that is
/// due. Claims are not among them, because they say that they are repetitions.
const NEW_EACH_TIME: [&str; 6] = [
    "ff_change_priority",
    "ff_tick",
    "ff_resolve_dependency",
    "ff_await_gates",
    "ff_open_gate",
    "ff_reset_budget",
];

/// Functions that count once under a key, and each time without one.
const COUNTED: [&str; 2] = ["ff_report_usage_and_check", "ff_reserve_usage"];

/// Functions that write the same values again.
const SAME_EACH_TIME: [&str; 11] = [
    "ff_update_budget",
    "ff_forget_admission",
    "ff_list_needs",
    "ff_renew_lease",
    "ff_update_progress",
    "ff_set_execution_tags",
    "ff_register_worker",
    "ff_heartbeat_worker",
    "ff_set_flow_tags",
    "ff_ack_cancel_member",
    "ff_retry_stuck_members",
];

/// Compares a call with its immediate repetition.
pub(in super::super) fn check_repetition(
    sent: &Sent,
    first: &Answer,
    second: &Answer,
    unchanged: bool,
) -> Checked {
    let name = sent.name();
    if first.done && !sent.text("request_id").is_empty() {
        let word = second.word.as_str();
        let recognised = unchanged && matches!(word, "DUPLICATE" | "ALREADY_SATISFIED");
        return rule(recognised, || format!("{name} with a request id gave {word}"));
    }
    let counts_again = COUNTED.contains(&name) && sent.text("dedup_key").is_empty();
    if NEW_EACH_TIME.contains(&name) || counts_again {
        return Ok(());
    }
    // Who got nothing has ended what a flow does not let run, which may have freed others.
    let nothing =
        claim_rows(sent, first).is_empty() && matches!(name, "ff_claim_next" | "ff_grant_next");
    if nothing && !unchanged {
        return Ok(());
    }
    rule(unchanged, || format!("{name} sent again changed something"))?;
    if !first.done
        || matches!(
            first.word.as_str(),
            "EMPTY" | "RATE_EXCEEDED" | "CONCURRENCY_EXCEEDED" | "BUDGET_EXCEEDED"
        )
        || sent.function.read_only
        || SAME_EACH_TIME.contains(&name)
    {
        return rule(first == second, || format!("{name} sent again gave {second:?}"));
    }
    let word = second.word.as_str();
    let expected = match name {
        "ff_claim_next" => return same_claims(sent, first, second),
        "ff_create_executions" | "ff_submit_graph" => second.done,
        "ff_promote_blocked_to_eligible" => word == "not_blocked_by_deps",
        // Without the count it saw, a replay cannot be recognised, but it finds nothing to do.
        "ff_replay_execution" => matches!(word, "DUPLICATE" | "execution_not_terminal"),
        "ff_release_worker_leases" | "ff_hand_back_leases" => second.done,
        "ff_check_admission_and_record" | "ff_check_budget_and_reserve" => {
            word == "ALREADY_ADMITTED"
        }
        _ if COUNTED.contains(&name) => word == "ALREADY_APPLIED",
        // Who was told, or is gone, is found to be so.
        "ff_note_budgets_reached" | "ff_forget_usage" => second.done,
        "ff_unblock_execution" => word == "execution_not_eligible",
        // Without an id of its own it finds nothing to do.
        "ff_resume_execution" => word == "execution_not_suspended",
        // It may have ended what it was about.
        "ff_revoke_lease" => matches!(word, "ALREADY_SATISFIED" | "execution_not_active"),
        _ => matches!(word, "DUPLICATE" | "ALREADY_SATISFIED"),
    };
    rule(expected, || format!("{name} was {} and then {word}", first.word))
}

fn same_claims(sent: &Sent, first: &Answer, second: &Answer) -> Checked {
    let leases = |answer: &Answer| {
        let mut leases: Vec<String> = claim_rows(sent, answer)
            .into_iter()
            .map(|row| format!("{} {} {}", row.execution_id, row.lease_id, row.lease_epoch))
            .collect();
        leases.sort();
        leases
    };
    let (first, second) = (leases(first), leases(second));
    rule(first == second, || format!("a repeated claim gave {second:?} instead of {first:?}"))
}
