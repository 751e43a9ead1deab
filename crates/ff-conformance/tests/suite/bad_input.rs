//! Every argument of every function, replaced by what nobody should send: refused with a declared
//! code or stored exactly, and never an error inside the library. (The harness fails a test whose
//! reply is not declared, or whose refusal changed a key.)

use std::collections::BTreeSet;

use ff_conformance::{Case, Deployment, Running};
use ff_core::types::ExecutionId;
use ff_script::calls;
use ff_script::dump::{Dump, Stored};
use libtest_mimic::Trial;

use super::scenario::prepare;

const MIB: usize = 1 << 20;

/// Arguments that are kept as they are, whatever their bytes.
const KEPT: [&str; 9] = [
    "details",
    "creator",
    "payload",
    "result",
    "failure_reason",
    "failure_detail",
    "progress_message",
    "reason",
    "content_digest",
];

fn attacks(d: &Deployment, original: &[u8]) -> Vec<Vec<u8>> {
    let words = [
        "",
        "nan",
        "inf",
        "-inf",
        "1e309",
        "-0",
        "+1",
        " 1",
        "1 ",
        "01",
        "0x10",
        "1.5",
        "9007199254740993",
        "-1",
        "18446744073709551616",
        "\0",
        "a\0b",
        "{",
        "}",
        ":",
        "*",
        "\r\n",
        "a{b}:c*",
        "é",
        "-",
        "$",
        "(",
        "[",
        "%s%n",
        "../..",
        "null",
        "{}",
        "[]",
        "\"",
        "OK",
    ];
    let mut values: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    values.push((0..40u8).map(|n| n.wrapping_mul(151).wrapping_add(7)).collect());
    values.push((0..=255).rev().take(40).collect());
    let uuid = d.new_uuid();
    for partition in [d.partitions[1], d.home()] {
        values.push(ExecutionId::from_parts(partition, uuid).to_string().into_bytes());
        values.push(format!("{partition}:{}", ":*{}\r\n".repeat(6)).into_bytes());
        values.push(format!("{partition}:{}", uuid.to_string().to_uppercase()).into_bytes());
    }
    values.push(uuid.to_string().to_uppercase().into_bytes());
    values.push(uuid.to_string().into_bytes());
    values.push([original, b" "].concat());
    values.push([original, b"\0"].concat());
    values.push([b" ", original].concat());
    values.push(vec![b'a'; MIB]);
    values
}

/// What was accepted stays, and slows down every comparison; after this many a new store is used.
const ACCEPTED_MAX: usize = 5;

/// Replaces each argument by each attack, one at a time.
async fn attack(d: &Deployment, name: &str) {
    let args = prepare_unwatched(d, name).await;
    for (position, original) in args.iter().enumerate() {
        let mut values = attacks(d, original).into_iter();
        while values.len() > 0 {
            let d = renew(d).await;
            attack_with(&d, name, position, &mut values).await;
            d.finish().await;
        }
    }
}

/// An empty store in place of this one.
async fn renew(d: &Deployment) -> Deployment {
    d.clear().await;
    Deployment::start_on(d.kind(), d.partitions).await
}

/// Attacks one argument until enough was accepted, or nothing is left to try.
async fn attack_with(
    d: &Deployment,
    name: &str,
    position: usize,
    values: &mut impl Iterator<Item = Vec<u8>>,
) {
    let mut args = prepare_unwatched(d, name).await;
    let mut accepted = 0;
    while accepted < ACCEPTED_MAX {
        let Some(value) = values.next() else { return };
        if attempt(d, name, &args, position, value).await {
            accepted += 1;
            args = prepare_unwatched(d, name).await;
        }
    }
}

/// Only the attacks are compared with the state before them.
async fn prepare_unwatched(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    d.host().watch(false);
    let args = prepare(d, name).await;
    d.host().watch(true);
    args
}

/// Makes one call; true if it may have changed something.
async fn attempt(
    d: &Deployment,
    name: &str,
    args: &[Vec<u8>],
    position: usize,
    value: Vec<u8>,
) -> bool {
    let mut changed = args.to_vec();
    changed[position] = value;
    let sent: Vec<&[u8]> = changed.iter().map(Vec::as_slice).collect();
    let answer = d.raw(name, &sent).await;
    let contract = calls::contracts().find(|contract| contract.name == name);
    let contract = contract.expect("a function of ours");
    let argument = contract.args[position.min(contract.args.len() - 1)];
    if answer.word == "OK" && KEPT.contains(&argument) {
        assert_kept(&d.dump().await, &changed[position], name, argument);
    }
    answer.word == "OK" && !contract.read_only
}

/// The bytes must be found in the store as they were sent. (`-` clears a progress message.)
fn assert_kept(dump: &Dump, bytes: &[u8], function: &str, argument: &str) {
    let within = |stored: &[u8]| stored.windows(bytes.len()).any(|window| window == bytes);
    let kept = bytes.is_empty()
        || argument == "progress_message" && bytes == b"-"
        || dump.values().any(|stored| match stored {
            Stored::String(value) => value == bytes,
            Stored::Hash(fields) => fields.values().any(|value| within(value)),
            _ => false,
        });
    assert!(kept, "{function} lost {argument} {:?}", bytes[..bytes.len().min(99)].escape_ascii());
}

macro_rules! functions {
    ($($name:ident)*) => {
        const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

        /// One test for each function.
        pub(crate) const CASES: &[Case] = &[$({
            fn start(d: &Deployment) -> Running<'_> {
                Box::pin(attack(d, stringify!($name)))
            }
            let name = concat!(stringify!($name), "_has_an_answer_to_any_argument");
            Case { file: module_path!(), name, run: start }
        }),*];
    };
}

functions! {
    ff_open_deployment ff_register_lane ff_forget_lane ff_install_facts ff_confirm_facts
    ff_read_facts ff_set_lane
    ff_register_kind ff_set_kind ff_create_execution ff_create_executions ff_claim_next
    ff_grant_next ff_issue_claim_grant ff_issue_reclaim_grant ff_claim_execution
    ff_claim_resumed_execution ff_reclaim_execution ff_renew_lease ff_revoke_lease
    ff_mark_lease_expired_if_due ff_update_progress ff_append_frame ff_read_attempt_stream
    ff_complete_execution ff_complete_executions ff_fail_execution ff_complete_and_claim_next
    ff_fail_and_claim_next ff_complete_executions_and_claim_next
    ff_cancel_execution ff_delay_execution ff_move_to_waiting_children ff_expire_execution
    ff_promote_delayed ff_replay_execution ff_change_priority ff_set_execution_tags
    ff_describe_execution ff_read_payload ff_read_result ff_list_attempts ff_list_executions
    ff_read_events ff_tick ff_register_worker ff_heartbeat_worker ff_unregister_worker
    ff_release_worker_leases ff_lane_depths ff_list_needs ff_recall_claims ff_upgrade_lane
    ff_mark_shard ff_suspend_execution ff_resume_execution
    ff_expire_suspension ff_read_resume_signals ff_create_pending_waitpoint ff_close_waitpoint
    ff_list_pending_waitpoints ff_deliver_signal ff_buffer_signal_for_pending_waitpoint
    ff_rotate_waitpoint_hmac_secret ff_list_suspended ff_record_decision ff_read_approval
    ff_list_approvals ff_rotate_link_secret ff_create_flow ff_add_execution_to_flow ff_seal_flow
    ff_set_flow_tags ff_cancel_flow ff_ack_cancel_member ff_read_cancel_receipt
    ff_retry_stuck_members ff_stage_dependency_edge ff_add_dependency
    ff_apply_dependency_to_child ff_resolve_dependency
    ff_evaluate_flow_eligibility ff_promote_blocked_to_eligible ff_submit_graph ff_add_children
    ff_describe_flow
    ff_describe_edge ff_list_edges ff_list_members ff_read_graph ff_read_inputs
    ff_list_flows ff_read_flow_events ff_count_kinds ff_hold_execution ff_release_execution
    ff_list_held ff_hand_back_leases ff_explain_execution ff_count_ahead
    ff_note_budget ff_attach_budget ff_create_budget ff_update_budget ff_delete_budget
    ff_reset_budget ff_raise_budget ff_describe_budget ff_list_budgets ff_list_budget_usage
    ff_report_usage_and_check ff_reserve_usage ff_check_budget_and_reserve ff_release_budget
    ff_forget_usage ff_stop_for_budget ff_note_budgets_reached ff_pause_for_budget
    ff_block_execution_for_admission ff_unblock_execution ff_open_gate ff_await_gates
    ff_settle_openings ff_create_quota_policy ff_update_quota_policy ff_delete_quota_policy
    ff_note_quota_policy ff_describe_quota_policy ff_list_quota_holders
    ff_check_admission_and_record ff_release_admission ff_forget_admission
}

/// A function that nobody attacks fails the run.
pub(crate) fn trial() -> Trial {
    Trial::test("bad_input::every_function_with_arguments_is_attacked", || {
        let known: BTreeSet<&str> = FUNCTIONS.iter().copied().collect();
        let declared = calls::contracts().filter(|contract| !contract.args.is_empty());
        let declared: BTreeSet<&str> = declared.map(|contract| contract.name).collect();
        assert_eq!(declared, known);
        Ok(())
    })
}
