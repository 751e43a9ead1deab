//! Done, but told it failed: every writing function is sent again with the same arguments. The
//! answer is the same or says that it was done before, and there is one effect.

use std::collections::BTreeSet;

use ff_conformance::{Answer, Case, Deployment, Running, dump};
use ff_script::calls;
use ff_script::dump::{Dump, Stored};
use libtest_mimic::Trial;

use super::scenario::prepare;

/// How a function answers its repetition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    /// `DUPLICATE` or `ALREADY_SATISFIED`.
    Recognised,
    /// `OK` with the same values: doing it again changes nothing.
    Same,
    /// `OK` with values that say that nothing was left to do.
    Nothing,
    /// As above, and each call is noted in the log: it is an operator's, and every one is told.
    Noted,
    /// A refusal that says that nothing was left to do.
    Refused,
}

async fn send(d: &Deployment, name: &str, args: &[Vec<u8>]) -> Answer {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    d.raw(name, &args).await
}

/// Sends a call three times, at the same moment and later.
async fn repeat(d: &Deployment, name: &str, again: Again) {
    let args = prepare(d, name).await;
    let first = send(d, name, &args).await;
    assert!(matches!(&*first.word, "OK" | "ADMITTED"), "{first:?}");
    let after = d.dump().await;
    for _ in 0..2 {
        let answer = send(d, name, &args).await;
        check_answer(&first, &answer, again);
        let now = d.dump().await;
        let same =
            if again == Again::Noted { unlogged(&now) == unlogged(&after) } else { now == after };
        assert!(same, "a repetition changed\n{}", dump::difference(&after, &now));
    }
    d.advance(7).await;
    let late = send(d, name, &args).await;
    if matches!(again, Again::Recognised | Again::Refused) {
        check_answer(&first, &late, again);
    } else {
        assert_eq!(late.word, "OK", "{late:?}");
    }
}

fn check_answer(first: &Answer, answer: &Answer, again: Again) {
    match again {
        Again::Recognised => {
            const RECOGNISED: [&str; 4] =
                ["DUPLICATE", "ALREADY_SATISFIED", "ALREADY_ADMITTED", "ALREADY_APPLIED"];
            let recognised = RECOGNISED.contains(&&*answer.word);
            assert!(recognised, "{answer:?}");
        }
        Again::Same => assert_eq!(answer, first),
        Again::Refused => {
            const CODES: [&str; 3] =
                ["not_blocked_by_deps", "execution_not_eligible", "stale_lease"];
            assert!(CODES.contains(&answer.code()), "{answer:?}");
        }
        Again::Nothing | Again::Noted => assert_eq!(answer.word, "OK", "{answer:?}"),
    }
}

/// A dump without its logs.
fn unlogged(dump: &Dump) -> Dump {
    let logs = |stored: &Stored| matches!(stored, Stored::Stream(_));
    dump.iter().filter(|(_, stored)| !logs(stored)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

macro_rules! functions {
    ($($name:ident $again:ident)*) => {
        const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

        /// One test for each function.
        pub(crate) const CASES: &[Case] = &[$({
            fn start(d: &Deployment) -> Running<'_> {
                Box::pin(repeat(d, stringify!($name), Again::$again))
            }
            let name = concat!(stringify!($name), "_can_be_repeated");
            Case { file: module_path!(), name, run: start }
        }),*];
    };
}

functions! {
    ff_open_deployment Nothing
    ff_upgrade_lane Nothing
    ff_finish_upgrade Nothing
    ff_list_needs Nothing
    ff_register_lane Recognised
    ff_forget_lane Recognised
    ff_install_facts Recognised
    ff_confirm_facts Recognised
    ff_set_lane Recognised
    ff_register_kind Recognised
    ff_set_kind Recognised
    ff_create_execution Recognised
    ff_create_executions Nothing
    ff_claim_next Recognised
    ff_grant_next Recognised
    ff_issue_claim_grant Recognised
    ff_issue_reclaim_grant Recognised
    ff_claim_execution Recognised
    ff_claim_resumed_execution Recognised
    ff_reclaim_execution Recognised
    ff_renew_lease Same
    ff_revoke_lease Recognised
    ff_mark_lease_expired_if_due Recognised
    ff_update_progress Same
    ff_append_frame Recognised
    ff_complete_execution Recognised
    ff_fail_execution Recognised
    ff_complete_executions Nothing
    ff_complete_and_claim_next Recognised
    ff_complete_executions_and_claim_next Nothing
    ff_fail_and_claim_next Recognised
    ff_cancel_execution Recognised
    ff_delay_execution Recognised
    ff_move_to_waiting_children Recognised
    ff_suspend_execution Recognised
    ff_resume_execution Recognised
    ff_expire_suspension Recognised
    ff_create_pending_waitpoint Recognised
    ff_close_waitpoint Recognised
    ff_deliver_signal Recognised
    ff_buffer_signal_for_pending_waitpoint Recognised
    ff_record_decision Recognised
    ff_rotate_waitpoint_hmac_secret Recognised
    ff_rotate_link_secret Recognised
    ff_expire_execution Recognised
    ff_promote_delayed Recognised
    ff_replay_execution Recognised
    ff_change_priority Recognised
    ff_set_execution_tags Recognised
    ff_hold_execution Recognised
    ff_release_execution Recognised
    ff_create_flow Recognised
    ff_add_execution_to_flow Recognised
    ff_seal_flow Recognised
    ff_set_flow_tags Same
    ff_cancel_flow Recognised
    ff_ack_cancel_member Same
    ff_retry_stuck_members Same
    ff_stage_dependency_edge Recognised
    ff_add_dependency Recognised
    ff_apply_dependency_to_child Recognised
    ff_resolve_dependency Recognised
    ff_promote_blocked_to_eligible Refused
    ff_add_children Recognised
    ff_submit_graph Recognised
    ff_tick Nothing
    ff_register_worker Same
    ff_heartbeat_worker Same
    ff_unregister_worker Recognised
    ff_release_worker_leases Nothing
    ff_hand_back_leases Nothing
    ff_mark_shard Nothing
    ff_note_budget Recognised
    ff_attach_budget Recognised
    ff_create_budget Recognised
    ff_update_budget Nothing
    ff_delete_budget Recognised
    ff_reset_budget Recognised
    ff_raise_budget Recognised
    ff_report_usage_and_check Recognised
    ff_reserve_usage Recognised
    ff_check_budget_and_reserve Recognised
    ff_release_budget Recognised
    ff_forget_usage Nothing
    ff_note_budgets_reached Nothing
    ff_stop_for_budget Refused
    ff_pause_for_budget Recognised
    ff_block_execution_for_admission Recognised
    ff_unblock_execution Refused
    ff_open_gate Nothing
    ff_await_gates Nothing
    ff_settle_openings Recognised
    ff_create_quota_policy Recognised
    ff_update_quota_policy Recognised
    ff_delete_quota_policy Recognised
    ff_note_quota_policy Recognised
    ff_check_admission_and_record Recognised
    ff_release_admission Recognised
    ff_forget_admission Nothing
}

/// A writing function that nobody repeats fails the run.
pub(crate) fn trial() -> Trial {
    Trial::test("repeats::every_writing_function_is_repeated", || {
        let known: BTreeSet<&str> = FUNCTIONS.iter().copied().collect();
        let declared = calls::contracts().filter(|contract| !contract.read_only);
        let declared: BTreeSet<&str> = declared.map(|contract| contract.name).collect();
        assert_eq!(declared, known);
        Ok(())
    })
}
