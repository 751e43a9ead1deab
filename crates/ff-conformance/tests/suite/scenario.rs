//! For every function, a state in which it has something to do, and the arguments to do it.

use ff_conformance::{
    Deployment, Held, INSTANCE, LANE, LEASE_MS, SECRET, WORKER, Waiting, capabilities, instance,
    lane, rotation, worker,
};
use ff_core::contracts::{ClaimRequest, Condition, TimeoutBehavior};
use ff_core::limits;
use ff_core::types::{
    AttemptId, AttemptIndex, ExecutionId, GrantId, LeaseId, RequestId, WorkerSession,
};
use ff_script::call::Call;
use ff_script::calls::cancel::CancelExecution;
use ff_script::calls::change::{ChangePriority, SetExecutionTags};
use ff_script::calls::claim::{ClaimExecution, ClaimResumedExecution, ReclaimExecution};
use ff_script::calls::claim_next::RecallClaims;
use ff_script::calls::complete::{CompleteExecutions, CompleteExecutionsAndClaimNext};
use ff_script::calls::create::CreateExecutions;
use ff_script::calls::deployment::{
    FinishUpgrade, ForgetLane, ListLanes, OpenDeployment, RegisterLane, UpgradeLane,
};
use ff_script::calls::describe::{DescribeExecution, ListAttempts, ReadPayload, ReadResult};
use ff_script::calls::events::ReadEvents;
use ff_script::calls::expire::{ExpireExecution, PromoteDelayed};
use ff_script::calls::explain::{CountAhead, ExplainExecution};
use ff_script::calls::grant::{GrantNext, IssueClaimGrant, IssueReclaimGrant};
use ff_script::calls::hold::{HoldExecution, ListHeld, ReleaseExecution};
use ff_script::calls::kind_counts::CountKinds;
use ff_script::calls::lease::{MarkLeaseExpired, RevokeLease};
use ff_script::calls::library::{CheckRights, Version};
use ff_script::calls::list::{CountExecutions, ListExecutions};
use ff_script::calls::mark::MarkShard;
use ff_script::calls::secret::ListWaitpointHmacKids;
use ff_script::calls::signal::DeliverSignal;
use ff_script::calls::stream::ReadAttemptStream;
use ff_script::calls::suspend::ExpireSuspension;
use ff_script::calls::tick::Tick;
use ff_script::calls::waitpoint::ListPendingWaitpoints;
use ff_script::calls::waits::ListSuspended;
use ff_script::calls::worker::{
    HandBackLeases, HeartbeatWorker, LaneDepths, ListNeeds, ListWorkers, RegisterWorker,
    ReleaseWorkerLeases, UnregisterWorker,
};
use ff_script::wire::{Joined, Rest};

use super::approval;
use super::fact;
use super::hold::{hold, let_go};
use super::replay::replay;
use super::{scenario_budgets, scenario_flows, scenario_gates};

/// Retries and limits, so that every timer of an execution can be reached.
const POLICY: &str = r#"{"retry_policy":{"max_retries":9,"backoff":{"type":"fixed","delay_ms":500}},
    "timeout_policy":{"attempt_timeout_ms":20000}}"#;

/// The arguments of a call, as they travel.
pub(crate) fn encode(call: &impl Call) -> Vec<Vec<u8>> {
    call.encode().iter().map(<[u8]>::to_vec).collect()
}

/// A lane that nothing else uses.
pub(crate) fn fresh_lane(d: &Deployment) -> String {
    format!("lane-{}", d.new_uuid().as_u128() & 0xffff_ffff)
}

async fn waiting(d: &Deployment) -> (ExecutionId, String) {
    let name = fresh_lane(d);
    (d.create().lane(&name).policy(POLICY).payload(b"input").send().await, name)
}

async fn held(d: &Deployment) -> Held {
    let (_, name) = waiting(d).await;
    d.claim(&name).await
}

async fn lost(d: &Deployment) -> Held {
    let held = held(d).await;
    let revoke = RevokeLease {
        execution_id: held.id,
        expected_lease_id: None,
        reason: String::new(),
        request_id: None,
    };
    d.call(revoke).await;
    held
}

fn claim_of(d: &Deployment, execution_id: ExecutionId, grant_id: GrantId) -> ClaimExecution {
    ClaimExecution {
        execution_id,
        worker_id: worker(WORKER),
        worker_instance_id: instance(INSTANCE),
        lane: None,
        grant_id,
        lease_id: LeaseId::from_uuid(d.new_uuid()),
        lease_ttl_ms: LEASE_MS,
        attempt_id: AttemptId::from_uuid(d.new_uuid()),
    }
}

async fn granted(d: &Deployment, id: ExecutionId) -> ClaimExecution {
    let grant = d.claim_grant_call(id);
    d.call(grant.clone()).await;
    claim_of(d, id, grant.grant_id)
}

pub(crate) fn registration(d: &Deployment) -> RegisterWorker {
    RegisterWorker {
        worker_id: worker(WORKER),
        worker_instance_id: instance(&fresh_lane(d)),
        session: WorkerSession::from_uuid(d.new_uuid()),
        capabilities: capabilities(&["gpu"]),
        ttl_ms: 1000,
        kinds: Joined(vec!["k".parse().expect("a name")]),
        running: Some(0),
        capacity: Some(1),
        process: "boot:1:7:1".to_owned(),
        replaces: String::new(),
        namespaces: Joined(Vec::new()),
        lanes: Rest(vec![lane("a")]),
    }
}

/// Prepares the state for a function and gives its arguments. The same call can be prepared again
/// and again on one deployment.
pub(crate) async fn prepare(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    match name {
        "ff_version" => encode(&Version {}),
        "ff_check_rights" => encode(&CheckRights {}),
        "ff_open_deployment" => encode(&OpenDeployment {
            num_flow_partitions: 8,
            num_budget_partitions: 4,
            num_quota_partitions: 2,
            format: limits::STORE_FORMAT,
        }),
        "ff_mark_shard" => encode(&MarkShard { server: d.new_uuid(), mark: 7 }),
        "ff_register_lane" => encode(&RegisterLane { lane: lane(&fresh_lane(d)) }),
        "ff_upgrade_lane" => encode(&UpgradeLane { lane: lane(LANE) }),
        "ff_finish_upgrade" => encode(&FinishUpgrade {}),
        "ff_forget_lane" => {
            let lane = lane(&fresh_lane(d));
            d.call(RegisterLane { lane: lane.clone() }).await;
            d.advance(limits::LANE_KEPT_MS).await;
            encode(&ForgetLane { lane })
        }
        "ff_list_lanes" => encode(&ListLanes {}),
        "ff_install_facts" | "ff_confirm_facts" | "ff_read_facts" | "ff_set_lane"
        | "ff_register_kind" | "ff_set_kind" => fact::prepare(d, name).await,
        "ff_count_executions" => encode(&CountExecutions {}),
        "ff_count_kinds" => {
            d.create_one().await;
            encode(&CountKinds { look_at: 8, lanes: Rest(vec![lane("a")]) })
        }
        "ff_create_execution" | "ff_create_executions" => {
            let new = d.create().lane(&fresh_lane(d)).policy(POLICY).payload(b"input");
            let key = d.new_uuid().to_string();
            let new = new.tags(r#"{"a.b":"c"}"#).idempotency(&key, "digest").dedup_ms(9000);
            match name {
                "ff_create_execution" => encode(&new.call()),
                _ => encode(&CreateExecutions::of([&new.call()])),
            }
        }
        "ff_claim_next"
        | "ff_grant_next"
        | "ff_issue_claim_grant"
        | "ff_issue_reclaim_grant"
        | "ff_claim_execution"
        | "ff_claim_resumed_execution"
        | "ff_reclaim_execution" => prepare_claim(d, name).await,
        "ff_suspend_execution"
        | "ff_resume_execution"
        | "ff_expire_suspension"
        | "ff_read_resume_signals"
        | "ff_create_pending_waitpoint"
        | "ff_close_waitpoint"
        | "ff_list_pending_waitpoints"
        | "ff_list_suspended"
        | "ff_deliver_signal"
        | "ff_buffer_signal_for_pending_waitpoint"
        | "ff_rotate_waitpoint_hmac_secret"
        | "ff_list_waitpoint_hmac_kids" => prepare_wait(d, name).await,
        "ff_register_worker"
        | "ff_heartbeat_worker"
        | "ff_unregister_worker"
        | "ff_list_workers"
        | "ff_release_worker_leases"
        | "ff_list_needs"
        | "ff_recall_claims"
        | "ff_hand_back_leases"
        | "ff_lane_depths" => prepare_worker(d, name).await,
        "ff_describe_execution"
        | "ff_read_payload"
        | "ff_read_result"
        | "ff_list_attempts"
        | "ff_list_executions"
        | "ff_read_attempt_stream"
        | "ff_explain_execution"
        | "ff_count_ahead"
        | "ff_read_events" => prepare_read(d, name).await,
        "ff_record_decision"
        | "ff_read_approval"
        | "ff_list_approvals"
        | "ff_rotate_link_secret"
        | "ff_read_link_secrets" => approval::prepare(d, name).await,
        "ff_create_flow"
        | "ff_add_execution_to_flow"
        | "ff_seal_flow"
        | "ff_set_flow_tags"
        | "ff_cancel_flow"
        | "ff_ack_cancel_member"
        | "ff_read_cancel_receipt"
        | "ff_retry_stuck_members"
        | "ff_stage_dependency_edge"
        | "ff_add_dependency"
        | "ff_apply_dependency_to_child"
        | "ff_resolve_dependency"
        | "ff_evaluate_flow_eligibility"
        | "ff_promote_blocked_to_eligible"
        | "ff_submit_graph"
        | "ff_add_children"
        | "ff_describe_flow"
        | "ff_describe_edge"
        | "ff_list_edges"
        | "ff_list_members"
        | "ff_read_graph"
        | "ff_read_inputs"
        | "ff_list_flows"
        | "ff_read_flow_events" => scenario_flows::prepare(d, name).await,
        "ff_block_execution_for_admission"
        | "ff_unblock_execution"
        | "ff_open_gate"
        | "ff_await_gates"
        | "ff_settle_openings"
        | "ff_create_quota_policy"
        | "ff_update_quota_policy"
        | "ff_delete_quota_policy"
        | "ff_note_quota_policy"
        | "ff_describe_quota_policy"
        | "ff_list_quota_holders"
        | "ff_check_admission_and_record"
        | "ff_release_admission"
        | "ff_forget_admission" => scenario_gates::prepare(d, name).await,
        "ff_promote_delayed"
        | "ff_expire_execution"
        | "ff_mark_lease_expired_if_due"
        | "ff_tick" => prepare_timer(d, name).await,
        _ => prepare_holder(d, name).await,
    }
}

async fn prepare_claim(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    match name {
        "ff_claim_next" => {
            let (_, lane_name) = waiting(d).await;
            let mut call = d.claim_call(&lane_name, 1);
            call.retry = true;
            encode(&call)
        }
        "ff_grant_next" => {
            let (_, lane_name) = waiting(d).await;
            encode(&GrantNext {
                lane: lane(&lane_name),
                worker_id: worker(WORKER),
                worker_instance_id: instance(INSTANCE),
                capabilities: capabilities(&[]),
                grant_ttl_ms: 5000,
                retry: true,
                grant_id: GrantId::from_uuid(d.new_uuid()),
                need: None,
                score_max: None,
                namespaces: Joined(Vec::new()),
            })
        }
        "ff_issue_claim_grant" => {
            let call: IssueClaimGrant = d.claim_grant_call(waiting(d).await.0);
            encode(&call)
        }
        "ff_issue_reclaim_grant" => {
            let call: IssueReclaimGrant = d.reclaim_grant_call(lost(d).await.id);
            encode(&call)
        }
        "ff_claim_execution" => encode(&granted(d, waiting(d).await.0).await),
        "ff_claim_resumed_execution" => {
            let held = held(d).await;
            d.call(held.wait_for_children()).await;
            let claim = granted(d, held.id).await;
            encode(&ClaimResumedExecution {
                execution_id: claim.execution_id,
                worker_id: claim.worker_id,
                worker_instance_id: claim.worker_instance_id,
                lane: None,
                grant_id: claim.grant_id,
                lease_id: claim.lease_id,
                lease_ttl_ms: LEASE_MS,
            })
        }
        _ => {
            let id = lost(d).await.id;
            let grant = d.reclaim_grant_call(id);
            d.call(grant.clone()).await;
            let claim = claim_of(d, id, grant.0.grant_id);
            encode(&ReclaimExecution {
                execution_id: id,
                worker_id: claim.worker_id,
                worker_instance_id: claim.worker_instance_id,
                lane: None,
                grant_id: claim.grant_id,
                lease_id: claim.lease_id,
                lease_ttl_ms: LEASE_MS,
                attempt_id: claim.attempt_id,
            })
        }
    }
}

async fn prepare_wait(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    d.install_secret().await;
    if name == "ff_rotate_waitpoint_hmac_secret" {
        return encode(&rotation(&format!("k-{}", d.new_uuid()), SECRET, 0));
    }
    let (held, go) = (held(d).await, Condition::any(["go"]));
    match name {
        "ff_suspend_execution" => encode(&d.suspension(&held, &go)),
        "ff_read_resume_signals" => encode(&held.read_signals(None, 1000)),
        "ff_create_pending_waitpoint" => encode(&d.opening(&held, "key", 5000)),
        "ff_close_waitpoint" => {
            let on = d.open_waitpoint(&held, "key", 5000).await;
            encode(&held.close_waitpoint(on.waitpoint_id))
        }
        "ff_buffer_signal_for_pending_waitpoint" => {
            let on = d.open_waitpoint(&held, "key", 5000).await;
            encode(&signal(d, &on))
        }
        _ => prepare_suspended(d, name, held).await,
    }
}

async fn prepare_suspended(d: &Deployment, name: &str, held: Held) -> Vec<Vec<u8>> {
    let mut call = d.suspension(&held, &Condition::any(["go"]));
    (call.timeout_ms, call.timeout_behavior) = (Some(900), Some(TimeoutBehavior::AutoResume));
    let it = d.suspend_by(&held, call).await;
    match name {
        "ff_resume_execution" => encode(&d.resumption(held.id)),
        "ff_deliver_signal" => encode(&signal(d, &it.on)),
        "ff_list_pending_waitpoints" => encode(&ListPendingWaitpoints { execution_id: held.id }),
        "ff_list_suspended" => encode(&ListSuspended { cursor: String::new(), limit: 10 }),
        "ff_list_waitpoint_hmac_kids" => encode(&ListWaitpointHmacKids {}),
        _ => {
            d.advance(900).await;
            encode(&ExpireSuspension { execution_id: held.id })
        }
    }
}

/// A signal with everything that one can have.
fn signal(d: &Deployment, on: &Waiting) -> DeliverSignal {
    DeliverSignal {
        payload: b"payload".to_vec(),
        idempotency_key: "once".to_owned(),
        correlation_id: "correlation".to_owned(),
        ..d.signal(on, "go")
    }
}

async fn prepare_holder(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    let held = held(d).await;
    match name {
        "ff_renew_lease" => encode(&held.renew(LEASE_MS)),
        "ff_update_progress" => encode(&held.progress("50", "half")),
        "ff_append_frame" => encode(&held.append(1, &["a", "b"])),
        "ff_complete_execution" => encode(&held.complete(b"result")),
        "ff_fail_execution" => encode(&held.fail("reason", "transient")),
        "ff_complete_executions" => encode(&CompleteExecutions::of([&held.complete(b"result")])),
        "ff_complete_and_claim_next" => encode(&held.complete_and_claim(d, "next")),
        "ff_complete_executions_and_claim_next" => {
            let next = ClaimRequest { lane: lane("next"), ..d.claim_request(1) };
            encode(&CompleteExecutionsAndClaimNext::of(&[held.complete(b"result")], &next))
        }
        "ff_fail_and_claim_next" => encode(&held.fail_and_claim(d, "next")),
        "ff_cancel_execution" => {
            let call: CancelExecution = held.cancel("reason");
            encode(&call)
        }
        "ff_delay_execution" => encode(&held.delay(d.now().plus_millis(5000))),
        "ff_move_to_waiting_children" => encode(&held.wait_for_children()),
        "ff_revoke_lease" => encode(&RevokeLease {
            execution_id: held.id,
            expected_lease_id: Some(held.lease_id),
            reason: "drain".to_owned(),
            request_id: request(d),
        }),
        "ff_replay_execution" => {
            d.call(held.complete(b"")).await;
            let mut call = replay(held.id);
            call.request_id = request(d);
            encode(&call)
        }
        "ff_change_priority" => {
            encode(&ChangePriority { execution_id: held.id, priority: 5, request_id: request(d) })
        }
        "ff_hold_execution" => encode(&HoldExecution { request_id: request(d), ..hold(held.id) }),
        "ff_release_execution" => {
            d.call(hold(held.id)).await;
            encode(&ReleaseExecution { request_id: request(d), ..let_go(held.id) })
        }
        "ff_list_held" => {
            d.call(hold(held.id)).await;
            encode(&ListHeld { cursor: String::new(), limit: 10 })
        }
        "ff_set_execution_tags" => {
            let tags = Rest(vec!["a.b".to_owned(), "c".to_owned()]);
            encode(&SetExecutionTags { execution_id: held.id, request_id: request(d), tags })
        }
        other => match scenario_budgets::prepare(d, other).await {
            Some(args) => args,
            None => panic!("{other} needs a scenario"),
        },
    }
}

/// The id of a change from outside.
fn request(d: &Deployment) -> Option<RequestId> {
    Some(RequestId::from_uuid(d.new_uuid()))
}

async fn prepare_timer(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    match name {
        "ff_promote_delayed" => {
            let execution_id = d.create().delayed_by(10).send().await;
            d.advance(10).await;
            encode(&PromoteDelayed { execution_id })
        }
        "ff_expire_execution" => {
            let execution_id = held(d).await.id;
            d.advance(20_000).await;
            let expire_reason = "attempt_timeout".to_owned();
            encode(&ExpireExecution { execution_id, expire_reason })
        }
        "ff_mark_lease_expired_if_due" => {
            let execution_id = held(d).await.id;
            d.advance(LEASE_MS).await;
            encode(&MarkLeaseExpired { execution_id })
        }
        _ => {
            held(d).await;
            d.create().delayed_by(10).send().await;
            d.advance(LEASE_MS).await;
            encode(&Tick::once(1000))
        }
    }
}

async fn prepare_read(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    let execution_id = held(d).await.id;
    match name {
        "ff_describe_execution" => encode(&DescribeExecution { execution_id }),
        "ff_read_payload" => encode(&ReadPayload { execution_id }),
        "ff_read_result" => encode(&ReadResult { execution_id }),
        "ff_read_attempt_stream" => encode(&ReadAttemptStream {
            execution_id,
            attempt_index: Some(AttemptIndex(0)),
            from_sequence: 0,
            to_sequence: Some(5),
            count_limit: 10,
            bytes_max: Some(1000),
        }),
        "ff_explain_execution" => encode(&ExplainExecution { execution_id }),
        "ff_count_ahead" => encode(&CountAhead {
            lane: lane("a"),
            need: "n:k".parse().expect("a need"),
            score: "7".to_owned(),
        }),
        "ff_list_attempts" => encode(&ListAttempts { execution_id, limit: 10 }),
        "ff_read_events" => encode(&ReadEvents { cursor: "0-0".to_owned(), limit: 10 }),
        _ => encode(&ListExecutions {
            namespace: None,
            lane: None,
            state: None,
            kind: None,
            from_ms: None,
            to_ms: None,
            tag_name: None,
            tag_value: None,
            cursor: String::new(),
            limit: 10,
            lanes: Rest(vec![lane("a")]),
        }),
    }
}

async fn prepare_worker(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    let call = registration(d);
    let (worker_instance_id, session) = (call.worker_instance_id.clone(), call.session);
    match name {
        "ff_register_worker" => encode(&call),
        "ff_heartbeat_worker" => {
            d.call(call).await;
            encode(&HeartbeatWorker { worker_instance_id, session, ttl_ms: 2000, running: Some(1) })
        }
        "ff_unregister_worker" => {
            d.call(call).await;
            encode(&UnregisterWorker { worker_instance_id, session })
        }
        "ff_hand_back_leases" => {
            let execution_ids = Rest(vec![held(d).await.id]);
            encode(&HandBackLeases { worker_instance_id: instance(INSTANCE), execution_ids })
        }
        "ff_release_worker_leases" => {
            held(d).await;
            encode(&ReleaseWorkerLeases { worker_instance_id: instance(INSTANCE), skip: 0 })
        }
        "ff_list_needs" => {
            held(d).await;
            d.create_one().await;
            encode(&ListNeeds { lanes: Rest(vec![lane("empty"), lane(LANE)]) })
        }
        "ff_recall_claims" => {
            let lease_id = held(d).await.lease_id;
            encode(&RecallClaims {
                worker_instance_id: instance(INSTANCE),
                lease_ttl_ms: LEASE_MS,
                lease_ids: Rest(vec![lease_id]),
            })
        }
        "ff_lane_depths" => encode(&LaneDepths { lanes: Rest(vec![lane("a"), lane("b")]) }),
        _ => encode(&ListWorkers {}),
    }
}
