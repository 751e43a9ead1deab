//! Done, answer lost, and somebody else moved the execution on before the call is sent again: the
//! repetition is told the truth and changes nothing.

use std::collections::BTreeSet;

use ff_conformance::{
    Answer, Case, Deployment, LANE, Running, Waiting, conformance, dump, instance, lane, worker,
};
use ff_core::contracts::ListFilter;
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, GrantId, RequestId};
use ff_script::calls;
use ff_script::calls::cancel::{CancelExecution, CancelExecutionReply};
use ff_script::calls::change::{ChangePriority, SetExecutionTags};
use ff_script::calls::create::CreateExecutionReply;
use ff_script::calls::deployment::RegisterLane;
use ff_script::calls::fail::FailExecutionReply;
use ff_script::calls::grant::{IssueClaimGrant, IssueReclaimGrant};
use ff_script::calls::lease::{RevokeLease, RevokeLeaseReply};
use ff_script::calls::waitpoint::{ListPendingWaitpoints, ListPendingWaitpointsReply};
use ff_script::calls::worker::RegisterWorker;
use ff_script::wire::Rest;
use libtest_mimic::Trial;

use super::cancel::outside;
use super::hold::{hold, let_go};
use super::replay::replay;
use super::scenario::{prepare, registration};

/// What somebody else does between a call and its repetition.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Another worker takes the execution, from its holder if need be.
    Take,
    /// It is signalled, and another worker takes it.
    SignalAndTake,
    /// It is replayed, and another worker takes it.
    ReplayAndTake,
    /// Another worker takes it and completes it.
    Finish,
    /// It is cancelled.
    Cancel,
    /// The grant runs out, and another worker gets one.
    GrantToOther,
    /// Its priority is changed once more.
    Reprioritise,
    /// An operator holds it.
    Hold,
    /// The operator lets it go.
    LetGo,
    /// Its tags are changed once more.
    Retag,
    /// Another lane comes into use.
    AddLane,
    /// Another process registers.
    AddWorker,
    /// A new process registers under the same instance id.
    ReplaceWorker,
}

async fn step(d: &Deployment, step: Step, args: &[Vec<u8>]) {
    match step {
        Step::Take => drop(take(d, newest(d).await).await),
        Step::SignalAndTake => {
            let execution_id = newest(d).await;
            let open = d.call(ListPendingWaitpoints { execution_id }).await;
            let ListPendingWaitpointsReply::Waitpoints { waitpoints } = open;
            let one = &waitpoints.0[0];
            let (key, token) = (one.waitpoint_key.clone(), one.waitpoint_token.clone());
            let on = Waiting { execution_id, waitpoint_id: one.waitpoint_id, key, token };
            d.deliver(&on, "go").await;
            take(d, execution_id).await;
        }
        Step::ReplayAndTake => {
            d.call(replay(newest(d).await)).await;
            take(d, newest(d).await).await;
        }
        Step::Finish => {
            let held = take(d, newest(d).await).await;
            d.call(held.complete(b"by another")).await;
        }
        Step::Cancel => drop(d.call(outside(newest(d).await, "operator_override")).await),
        Step::GrantToOther => grant_to_other(d, newest(d).await).await,
        Step::Reprioritise => {
            let execution_id = newest(d).await;
            d.call(ChangePriority { execution_id, priority: 7, request_id: None }).await;
        }
        Step::Hold => {
            let execution_id = newest(d).await;
            d.call(hold(execution_id)).await;
        }
        Step::LetGo => {
            let execution_id = newest(d).await;
            d.call(let_go(execution_id)).await;
        }
        Step::Retag => {
            let tags = Rest(vec!["a.b".to_owned(), "by another".to_owned()]);
            let execution_id = newest(d).await;
            d.call(SetExecutionTags { execution_id, request_id: None, tags }).await;
        }
        Step::AddLane => {
            d.call(RegisterLane { lane: lane("added") }).await;
        }
        Step::AddWorker => {
            let other = RegisterWorker { worker_instance_id: instance("other"), ..registration(d) };
            d.call(other).await;
        }
        Step::ReplaceWorker => {
            let same = instance(str::from_utf8(&args[0]).expect("a name"));
            d.call(RegisterWorker { worker_instance_id: same, ..registration(d) }).await;
        }
    }
}

async fn newest(d: &Deployment) -> ExecutionId {
    let page = d.list_page(&ListFilter::default(), None, 1).await;
    page.expect("a listing").items[0].execution_id
}

/// Another worker claims the execution, once its delay is over; a lease in the way is revoked.
async fn take(d: &Deployment, id: ExecutionId) -> ff_conformance::Held {
    d.advance(5000).await;
    d.tick().await;
    if d.describe(id).await.current_lease.is_some() {
        d.call(revoke(id, None)).await;
    }
    let mut call = d.claim_call(d.describe(id).await.lane.as_str(), 1);
    (call.worker_id, call.worker_instance_id) = (worker("other"), instance("other-1"));
    let held = d.claimed(call).await.pop().expect("it can be claimed");
    assert_eq!(held.id, id, "its lane has nothing else");
    held
}

async fn grant_to_other(d: &Deployment, id: ExecutionId) {
    d.advance(10_000).await;
    d.tick().await;
    let lost = d.describe(id).await.public_state() == PublicState::Active;
    let grant_id = GrantId::from_uuid(d.new_uuid());
    let (worker_id, worker_instance_id) = (worker("other"), instance("other-1"));
    let call = d.claim_grant_call(id);
    let grant = IssueClaimGrant { worker_id, worker_instance_id, grant_id, ..call };
    match lost {
        true => d.call(IssueReclaimGrant(grant)).await,
        false => d.call(grant).await,
    };
}

pub(crate) fn revoke(execution_id: ExecutionId, request_id: Option<RequestId>) -> RevokeLease {
    let (expected_lease_id, reason) = (None, "moved".to_owned());
    RevokeLease { execution_id, expected_lease_id, reason, request_id }
}

async fn send(d: &Deployment, name: &str, args: &[Vec<u8>]) -> Answer {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    d.raw(name, &args).await
}

async fn repeat(d: &Deployment, name: &str, between: Step, expected: &str) {
    let args = prepare(d, name).await;
    let first = send(d, name, &args).await;
    assert!(matches!(&*first.word, "OK" | "ADMITTED"), "{first:?}");
    step(d, between, &args).await;
    let before = d.dump().await;
    let answer = send(d, name, &args).await;
    assert_eq!(answer.word, expected, "{answer:?}");
    let after = d.dump().await;
    assert!(after == before, "the repetition changed\n{}", dump::difference(&before, &after));
}

macro_rules! functions {
    ($($name:ident $step:ident $expected:literal)*) => {
        const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

        /// One test for each function.
        pub(crate) const FUNCTION_CASES: &[Case] = &[$({
            fn start(d: &Deployment) -> Running<'_> {
                Box::pin(repeat(d, stringify!($name), Step::$step, $expected))
            }
            let name = concat!(stringify!($name), "_repeated_after_another_step");
            Case { file: module_path!(), name, run: start }
        }),*];
    };
}

functions! {
    ff_open_deployment AddLane "OK"
    ff_upgrade_lane AddLane "OK"
    ff_finish_upgrade AddLane "OK"
    ff_list_needs AddLane "OK"
    ff_register_lane AddLane "ALREADY_SATISFIED"
    ff_forget_lane AddLane "ALREADY_SATISFIED"
    ff_install_facts AddLane "ALREADY_SATISFIED"
    ff_confirm_facts AddLane "ALREADY_SATISFIED"
    ff_set_lane AddLane "ALREADY_SATISFIED"
    ff_register_kind AddLane "ALREADY_SATISFIED"
    ff_set_kind AddLane "ALREADY_SATISFIED"
    ff_create_execution Take "DUPLICATE"
    ff_create_executions Take "OK"
    ff_claim_next Take "OK"
    ff_grant_next Cancel "EMPTY"
    ff_issue_claim_grant GrantToOther "grant_already_exists"
    ff_issue_reclaim_grant GrantToOther "grant_already_exists"
    ff_claim_execution Take "lease_conflict"
    ff_claim_resumed_execution Take "lease_conflict"
    ff_reclaim_execution Take "execution_not_reclaimable"
    ff_renew_lease Take "stale_lease"
    ff_revoke_lease Take "ALREADY_SATISFIED"
    ff_mark_lease_expired_if_due Take "ALREADY_SATISFIED"
    ff_update_progress Take "stale_lease"
    ff_append_frame Take "stale_owner_cannot_append"
    ff_complete_execution ReplayAndTake "DUPLICATE"
    ff_fail_execution Take "DUPLICATE"
    ff_complete_executions ReplayAndTake "OK"
    ff_complete_and_claim_next ReplayAndTake "DUPLICATE"
    ff_complete_executions_and_claim_next ReplayAndTake "OK"
    ff_fail_and_claim_next Take "DUPLICATE"
    ff_cancel_execution ReplayAndTake "ALREADY_SATISFIED"
    ff_delay_execution Take "DUPLICATE"
    ff_move_to_waiting_children Take "DUPLICATE"
    ff_suspend_execution SignalAndTake "DUPLICATE"
    ff_resume_execution Take "DUPLICATE"
    ff_expire_suspension Take "ALREADY_SATISFIED"
    ff_create_pending_waitpoint Take "DUPLICATE"
    ff_close_waitpoint Take "ALREADY_SATISFIED"
    ff_deliver_signal Take "DUPLICATE"
    ff_buffer_signal_for_pending_waitpoint Take "DUPLICATE"
    ff_record_decision Cancel "DUPLICATE"
    ff_rotate_waitpoint_hmac_secret AddLane "ALREADY_SATISFIED"
    ff_rotate_link_secret AddLane "ALREADY_SATISFIED"
    ff_expire_execution Take "ALREADY_SATISFIED"
    ff_promote_delayed Take "ALREADY_SATISFIED"
    ff_replay_execution Finish "DUPLICATE"
    ff_change_priority Reprioritise "DUPLICATE"
    ff_set_execution_tags Retag "ALREADY_SATISFIED"
    ff_hold_execution LetGo "ALREADY_SATISFIED"
    ff_release_execution Hold "ALREADY_SATISFIED"
    ff_create_flow AddLane "ALREADY_SATISFIED"
    ff_add_execution_to_flow Cancel "ALREADY_SATISFIED"
    ff_seal_flow Cancel "ALREADY_SATISFIED"
    ff_set_flow_tags AddLane "OK"
    ff_cancel_flow AddLane "ALREADY_SATISFIED"
    ff_ack_cancel_member AddLane "OK"
    ff_retry_stuck_members AddLane "OK"
    ff_stage_dependency_edge Cancel "ALREADY_SATISFIED"
    ff_add_dependency Cancel "ALREADY_SATISFIED"
    ff_apply_dependency_to_child Cancel "ALREADY_SATISFIED"
    ff_resolve_dependency AddLane "ALREADY_SATISFIED"
    ff_promote_blocked_to_eligible Take "not_runnable"
    ff_add_children Cancel "ALREADY_SATISFIED"
    ff_submit_graph Cancel "ALREADY_SATISFIED"
    ff_tick Take "OK"
    ff_register_worker AddWorker "OK"
    ff_heartbeat_worker AddWorker "OK"
    ff_unregister_worker ReplaceWorker "worker_instance_in_use"
    ff_release_worker_leases Take "OK"
    ff_hand_back_leases Take "OK"
    ff_mark_shard AddWorker "OK"
    ff_note_budget AddLane "ALREADY_SATISFIED"
    ff_attach_budget AddLane "ALREADY_SATISFIED"
    ff_create_budget AddLane "ALREADY_SATISFIED"
    ff_update_budget AddLane "OK"
    ff_delete_budget AddLane "ALREADY_SATISFIED"
    ff_reset_budget AddLane "ALREADY_SATISFIED"
    ff_raise_budget AddLane "ALREADY_SATISFIED"
    ff_report_usage_and_check AddLane "ALREADY_APPLIED"
    ff_reserve_usage AddLane "ALREADY_APPLIED"
    ff_check_budget_and_reserve AddLane "ALREADY_ADMITTED"
    ff_release_budget AddLane "ALREADY_SATISFIED"
    ff_forget_usage AddLane "OK"
    ff_note_budgets_reached AddLane "OK"
    ff_stop_for_budget AddLane "stale_lease"
    ff_pause_for_budget AddLane "ALREADY_SATISFIED"
    ff_block_execution_for_admission AddLane "ALREADY_SATISFIED"
    ff_unblock_execution Take "execution_not_eligible"
    ff_open_gate AddLane "OK"
    ff_await_gates AddLane "OK"
    ff_settle_openings AddLane "ALREADY_SATISFIED"
    ff_create_quota_policy AddLane "ALREADY_SATISFIED"
    ff_update_quota_policy AddLane "ALREADY_SATISFIED"
    ff_delete_quota_policy AddLane "ALREADY_SATISFIED"
    ff_note_quota_policy AddLane "ALREADY_SATISFIED"
    ff_check_admission_and_record AddLane "ALREADY_ADMITTED"
    ff_release_admission AddLane "ALREADY_SATISFIED"
    ff_forget_admission AddLane "OK"
}

/// A writing function that nobody repeats fails the run.
pub(crate) fn trial() -> Trial {
    Trial::test("between::every_writing_function_is_repeated_after_another_step", || {
        let known: BTreeSet<&str> = FUNCTIONS.iter().copied().collect();
        let declared = calls::contracts().filter(|contract| !contract.read_only);
        let declared: BTreeSet<&str> = declared.map(|contract| contract.name).collect();
        assert_eq!(declared, known);
        Ok(())
    })
}

const RETRY_AT_ONCE: &str =
    r#"{"retry_policy":{"max_retries":9,"backoff":{"type":"fixed","delay_ms":0}}}"#;

fn new_request(d: &Deployment) -> Option<RequestId> {
    Some(RequestId::from_uuid(d.new_uuid()))
}

conformance! {
    async fn a_repeated_failure_is_told_the_time_it_was_told_first(d: &Deployment) {
        d.create().policy(RETRY_AT_ONCE).send().await;
        let held = d.claim(LANE).await;
        let FailExecutionReply::Failed { delay_until, .. } = d.call(held.fail("no", "x")).await
        else {
            panic!("it was the first");
        };
        d.advance(3).await;
        d.claim(LANE).await;
        let again = d.call(held.fail("no", "x")).await;
        let result = "retry_scheduled".to_owned();
        assert_eq!(again, FailExecutionReply::FailedBefore { result, delay_until });
    }

    async fn a_final_failure_is_told_as_such_while_the_replay_runs(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.fail("no", "x")).await;
        d.call(replay(held.id)).await;
        for _ in 0..2 {
            let again = d.call(held.fail("no", "x")).await;
            let result = "terminal_failed".to_owned();
            assert_eq!(again, FailExecutionReply::FailedBefore { result, delay_until: None });
            d.try_claim(LANE).await;
        }
    }

    async fn a_revoke_that_names_itself_takes_one_lease(d: &Deployment) {
        let held = d.create_and_claim().await;
        let request = new_request(d);
        d.call(revoke(held.id, request)).await;
        let next = d.claim(LANE).await;
        let again = d.call(revoke(held.id, request)).await;
        let reason = "already_revoked".to_owned();
        assert_eq!(again, RevokeLeaseReply::NotHeld { reason });
        d.call(next.complete(b"")).await;
    }

    async fn a_revoke_of_a_lease_that_lapsed_is_told_so(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(ff_conformance::LEASE_MS).await;
        d.tick().await;
        d.claim(LANE).await;
        let named = RevokeLease { expected_lease_id: Some(held.lease_id), ..revoke(held.id, None) };
        let reason = "already_expired".to_owned();
        assert_eq!(d.call(named).await, RevokeLeaseReply::NotHeld { reason });
    }

    async fn a_cancel_that_names_itself_ends_one_run(d: &Deployment) {
        let id = d.create_one().await;
        let call = CancelExecution { request_id: new_request(d), ..outside(id, "operator_override") };
        d.call(call.clone()).await;
        d.call(replay(id)).await;
        let again = d.call(call).await;
        let reason = "already_cancelled".to_owned();
        assert_eq!(again, CancelExecutionReply::CancelledBefore { reason });
        assert_eq!(d.describe(id).await.public_state(), PublicState::Waiting);
    }

    async fn the_last_three_requests_are_recognised(d: &Deployment) {
        let execution_id = d.create_one().await;
        let call = |priority| ChangePriority { execution_id, priority, request_id: new_request(d) };
        let sent = [call(1), call(2), call(3), call(4)];
        for call in &sent {
            d.call(call.clone()).await;
        }
        for call in &sent[1..] {
            d.call(call.clone()).await;
        }
        assert_eq!(d.describe(execution_id).await.priority, 4);
    }

    async fn a_pause_of_one_kind_is_not_taken_for_another(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.wait_for_children()).await;
        let refused = d.refused(held.delay(d.now().plus_millis(100))).await;
        assert_eq!(refused, Code::ExecutionNotActive);
    }

    async fn a_delay_is_told_as_done_although_the_execution_was_cancelled_since(d: &Deployment) {
        let held = d.create_and_claim().await;
        let call = held.delay(d.now().plus_millis(100));
        d.call(call.clone()).await;
        d.call(outside(held.id, "operator_override")).await;
        let again = d.try_call(call).await;
        assert!(again.is_ok(), "{again:?}");
    }

    async fn what_ended_and_was_purged_at_once_is_told_as_it_was(d: &Deployment) {
        let new = |id| d.create().id(id).policy(r#"{"retention_ms":0}"#);
        let (done, failed, cancelled) = (d.new_id(), d.new_id(), d.new_id());
        for id in [done, failed, cancelled] {
            new(id).send().await;
        }
        let held = d.claimed(d.claim_call(LANE, 2)).await;
        d.call(held[0].complete(b"")).await;
        d.call(held[1].fail("no", "x")).await;
        d.call(outside(cancelled, "operator_override")).await;
        assert_eq!(d.tick().await.purged, 3);
        for (id, public_state) in [(done, PublicState::Completed), (failed, PublicState::Failed),
            (cancelled, PublicState::Cancelled)] {
            let duplicate = CreateExecutionReply::Duplicate { execution_id: id, public_state };
            assert_eq!(new(id).reply().await, Ok(duplicate), "it does not run again");
        }
        d.call(held[0].complete(b"")).await;
        d.call(held[1].fail("no", "x")).await;
        d.call(outside(cancelled, "operator_override")).await;
        assert_eq!(d.refused(held[1].complete(b"")).await, Code::ExecutionNotFound);
        assert_eq!(d.refused(replay(done)).await, Code::ExecutionNotFound);
    }

    async fn a_stale_worker_is_not_told_that_it_completed_what_was_purged(d: &Deployment) {
        d.create().policy(r#"{"retention_ms":0}"#).send().await;
        let stale = d.claim(LANE).await;
        d.call(revoke(stale.id, None)).await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        d.tick().await;
        assert_eq!(d.refused(stale.complete(b"")).await, Code::ExecutionNotFound);
    }
}
