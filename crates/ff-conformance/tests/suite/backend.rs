//! The engine's API over the library, and what it makes of replies that get lost.

use ff_conformance::record::{events_of, log, record};
use ff_conformance::{
    Deployment, INSTANCE, LANE, LEASE_MS, WORKER, capabilities, conformance, instance, lane, worker,
};
use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Handle, HandleKind};
use ff_core::bytes::Base64;
use ff_core::contracts::{
    CancelExecution, ChangePriority, ClaimRequest, CreateExecution, Created, GrantRequest,
    GrantedNext, Heartbeat, LaneQuery, LeaseRequest, NextGrant, NextGrantRequest, PriorityChange,
    ReplayExecution, RevokeLease, RevokeOutcome, SetTags, Tags, TakeFrom, WorkerRegistration,
};
use ff_core::engine_backend::PartitionBackend;
use ff_core::engine_backend::roles::*;
use ff_core::error::{Code, EngineError};
use ff_core::policy::ExecutionPolicy;
use ff_core::state::PublicState;
use ff_core::types::{
    ExecutionId, ExecutionKind, GrantId, LeaseId, Moment, Namespace, TimestampMs, WorkerSession,
};

/// As many replies in a row may get lost; with one more the caller hears of it.
const LOSSES_MAX: u32 = 3;

fn new(d: &Deployment, id: ExecutionId) -> CreateExecution {
    CreateExecution {
        namespace: Some(Namespace::try_new("tests").expect("a valid name")),
        lane: Some(lane(LANE)),
        policy: Some(
            ExecutionPolicy::from_json(br#"{"retry_policy":{}}"#).expect("a valid policy"),
        ),
        ..CreateExecution::new(ExecutionKind::try_new("work").expect("a valid name"))
            .with_id(id)
            .with_payload(d.now().to_string().into_bytes())
    }
}

/// One that gets its id from the store.
fn without_id(d: &Deployment) -> CreateExecution {
    CreateExecution { execution_id: None, ..new(d, d.new_id()) }
}

fn request(d: &Deployment) -> ClaimRequest {
    ClaimRequest {
        kinds: Vec::new(),
        lane: lane(LANE),
        worker_id: worker(WORKER),
        worker_instance_id: instance(INSTANCE),
        capabilities: capabilities(&[]),
        namespaces: Vec::new(),
        from: Default::default(),
        lease_ttl_ms: LEASE_MS,
        lease_ids: vec![LeaseId::from_uuid(d.new_uuid())],
        retry: false,
    }
}

fn grant_request(d: &Deployment) -> GrantRequest {
    GrantRequest {
        grant_id: Some(GrantId::from_uuid(d.new_uuid())),
        reclaim: false,
        worker_id: worker(WORKER),
        worker_instance_id: instance(INSTANCE),
        capabilities: capabilities(&[]),
        grant_ttl_ms: 5000,
    }
}

fn lease(d: &Deployment) -> LeaseRequest {
    LeaseRequest { lease_id: LeaseId::from_uuid(d.new_uuid()), lease_ttl_ms: LEASE_MS }
}

/// Creates an execution and claims it, with no reply lost.
async fn held(d: &Deployment) -> Handle {
    let id = d.new_id();
    d.backend.create(new(d, id)).await.expect("created");
    let mut claimed = d.backend.claim_next(d.home(), request(d)).await.expect("claimed").claimed;
    let handle = claimed.pop().expect("something to claim").handle;
    assert_eq!(handle.execution_id, id);
    handle
}

/// Lets replies get lost before a call.
fn lossy(d: &Deployment, losses: u32) -> &impl PartitionBackend {
    d.host().lose_replies(losses);
    &d.backend
}

/// The events of the first partition, without those of creating and claiming.
async fn outcomes(d: &Deployment) -> Vec<String> {
    let events = log(&d.dump().await, d.home()).into_iter().map(|entry| entry.event);
    events.filter(|event| event != "created" && event != "claimed").collect()
}

conformance! {
    async fn a_submission_whose_answers_got_lost_is_answered_as_new(d: &Deployment) {
        let key = || Some("key".parse().expect("a valid key"));
        for losses in 1..=LOSSES_MAX {
            let first = new(d, d.new_id());
            let created = lossy(d, losses).create(first.clone()).await.expect("created");
            assert!(created.is_new(), "{created:?}");
            d.advance(60_000).await;
            let keyed = CreateExecution { idempotency_key: key(), ..without_id(d) };
            let many = vec![new(d, d.new_id()), keyed, first];
            let answers = lossy(d, losses).create_many(many).await;
            let new: Vec<bool> =
                answers.iter().map(|answer| answer.as_ref().is_ok_and(Created::is_new)).collect();
            assert_eq!(new, [true, losses == 1, false], "{answers:?}");
        }
    }

    async fn a_life_has_one_of_everything_although_replies_get_lost(d: &Deployment) {
        for losses in 1..=LOSSES_MAX {
            let id = d.new_id();
            let created = lossy(d, losses).create(new(d, id)).await.expect("created");
            assert_eq!(created.execution_id(), id);
            let claimed = lossy(d, losses).claim_next(d.home(), request(d)).await;
            let claimed = claimed.expect("claimed").claimed.pop().expect("something to claim");
            assert_eq!((claimed.handle.execution_id, claimed.handle.kind), (id, HandleKind::Fresh));
            lossy(d, losses).renew(&claimed.handle).await.expect("renewed");
            let progress = lossy(d, losses).progress(&claimed.handle, Some(5), None).await;
            progress.expect("recorded");
            let done = lossy(d, losses).complete(&claimed.handle, Some(b"done".to_vec())).await;
            done.expect("completed");
            assert_eq!(d.host().replies_to_lose(), 0);
            assert_eq!(events_of(&d.dump().await, id),
                ["created", "claimed 0 initial", "ended 0 success:completed:tests"]);
            let result = d.backend.read_result(id).await.expect("it can be read");
            assert_eq!(result.as_deref(), Some(b"done".as_slice()));
        }
    }

    async fn a_pause_from_now_counts_by_the_stores_clock(d: &Deployment) {
        let id = d.new_id();
        let later = CreateExecution { delay_ms: Some(700), ..new(d, id) };
        d.backend.create(later).await.expect("created");
        assert_eq!(d.describe(id).await.delay_until, Some(d.now().plus_millis(700)));
        let handle = held(d).await;
        d.advance(20).await;
        d.backend.delay(&handle, Moment::After(300)).await.expect("delayed");
        let until = d.describe(handle.execution_id).await.delay_until;
        assert_eq!(until, Some(d.now().plus_millis(300)));
    }

    async fn every_way_to_end_an_attempt_has_one_effect_although_replies_get_lost(d: &Deployment) {
        for losses in 1..=LOSSES_MAX {
            let handle = held(d).await;
            let reason = FailureReason::new("no");
            let failed = lossy(d, losses).fail(&handle, reason, FailureClass::Transient).await;
            let delay_until = d.now().plus_millis(1000);
            assert_eq!(failed, Ok(FailOutcome::RetryScheduled { delay_until }));
            let handle = held(d).await;
            let reason = FailureReason::new("no");
            let failed = lossy(d, losses).fail(&handle, reason, FailureClass::Permanent).await;
            assert_eq!(failed, Ok(FailOutcome::TerminalFailed));
            let handle = held(d).await;
            lossy(d, losses).cancel(&handle, "enough").await.expect("cancelled");
            let handle = held(d).await;
            let until = d.now().plus_millis(600_000);
            lossy(d, losses).delay(&handle, until.into()).await.expect("delayed");
            assert_eq!(d.describe(handle.execution_id).await.delay_until, Some(until));
            let handle = held(d).await;
            lossy(d, losses).wait_children(&handle).await.expect("set aside");
            let resumed = d.claim(LANE).await;
            d.call(resumed.complete(b"")).await;
        }
        let once = ["retry_scheduled", "ended", "ended", "delayed", "waiting_children", "ended"];
        assert_eq!(outcomes(d).await, once.repeat(LOSSES_MAX as usize));
    }

    async fn every_intervention_has_one_effect_although_replies_get_lost(d: &Deployment) {
        for losses in 1..=LOSSES_MAX {
            let handle = held(d).await;
            let id = handle.execution_id;
            let revoked = lossy(d, losses).revoke_lease(id, RevokeLease::default()).await;
            assert_eq!(revoked, Ok(RevokeOutcome::AlreadyRevoked), "done by the first send");
            let seven = ChangePriority { priority: 7, request_id: None };
            let changed = lossy(d, losses).change_priority(id, seven).await;
            assert_eq!(changed, Ok(PriorityChange { old: 7, new: 7 }), "done by the first send");
            let tags = Tags::from([("a.b".to_owned(), "c".to_owned())]);
            let tags = SetTags { tags, request_id: None };
            lossy(d, losses).set_tags(id, tags).await.expect("tagged");
            let cancel = CancelExecution::default();
            lossy(d, losses).cancel_execution(id, cancel).await.expect("cancelled");
            let described = d.describe(id).await;
            assert_eq!((described.priority, described.tags.len()), (7, 1));
            assert_eq!(described.public_state(), PublicState::Cancelled);
        }
    }

    async fn a_replay_has_one_effect_although_replies_get_lost(d: &Deployment) {
        for losses in 1..=LOSSES_MAX {
            let handle = held(d).await;
            d.backend.complete(&handle, None).await.expect("completed");
            let id = handle.execution_id;
            let replayed = lossy(d, losses).replay(id, ReplayExecution::default()).await;
            assert_eq!(replayed.map(|now| now.public_state), Ok(PublicState::Waiting));
            assert_eq!(d.describe(id).await.replay_count, 1);
            d.call(d.claim(LANE).await.complete(b"")).await;
        }
    }

    async fn grants_and_their_claims_have_one_effect_although_replies_get_lost(d: &Deployment) {
        for losses in 1..=LOSSES_MAX {
            let id = d.create_one().await;
            let grant = lossy(d, losses).issue_claim_grant(id, grant_request(d)).await;
            let grant = grant.expect("granted");
            let claimed = lossy(d, losses).claim_from_grant(&grant, lease(d)).await;
            let handle = claimed.expect("claimed").handle;
            d.backend.wait_children(&handle).await.expect("set aside");
            let next = lossy(d, losses).grant_next(d.home(), worker(WORKER), next_grant(),
                TakeFrom::default()).await.expect("answers").grant;
            let Some(NextGrant::Resume(grant)) = next else { panic!("{next:?}") };
            let claimed = lossy(d, losses).claim_resumed(&grant, lease(d)).await.expect("claimed");
            assert_eq!(claimed.handle.kind, HandleKind::Resumed);
            d.backend.revoke_lease(id, RevokeLease::default()).await.expect("revoked");
            let grant = lossy(d, losses).issue_reclaim_grant(id, grant_request(d)).await;
            let grant = grant.expect("granted");
            let claimed = lossy(d, losses).claim_from_reclaim_grant(&grant, lease(d)).await;
            let claimed = claimed.expect("claimed");
            assert_eq!(claimed.handle.kind, HandleKind::Reclaimed);
            d.backend.complete(&claimed.handle, None).await.expect("completed");
            assert_eq!(d.attempts(id).await.len(), 2);
        }
        let from = TakeFrom::default();
        let next = d.backend.grant_next(d.home(), worker(WORKER), next_grant(), from).await;
        assert_eq!(next, Ok(GrantedNext { grant: None, next_score: None }));
    }

    async fn one_loss_too_many_is_told_and_can_be_retried(d: &Deployment) {
        // The lane is known by then: making it known is a call of its own.
        held(d).await;
        let id = d.new_id();
        let error = lossy(d, LOSSES_MAX + 1).create(new(d, id)).await.expect_err("not answered");
        assert!(error.is_retryable(), "{error}");
        assert_eq!(d.host().replies_to_lose(), 0);
        let created = d.backend.create(new(d, id)).await.expect("answered");
        assert_eq!(created, Created::Duplicate {
            execution_id: id,
            public_state: PublicState::Waiting,
        });
    }

    async fn many_are_created_on_many_partitions_and_each_has_its_answer(d: &Deployment) {
        let mut wanted = Vec::new();
        for number in 0..10 {
            let uuid = d.new_uuid();
            let mut one = new(d, ExecutionId::from_parts(d.partitions[number % 4], uuid));
            if number == 3 {
                one.priority = Some(9001);
            }
            wanted.push(one);
        }
        wanted.push(wanted[0].clone());
        let answers = d.backend.create_many(wanted.clone()).await;
        assert_eq!(answers.len(), 11);
        for (number, (answer, one)) in answers.iter().zip(&wanted).enumerate() {
            match (number, answer) {
                (3, Err(EngineError::InvalidArgument { field, .. })) => {
                    assert_eq!(field, "priority");
                }
                (10, Ok(Created::Duplicate { execution_id, .. })) => {
                    assert_eq!(Some((*execution_id).into()), wanted[0].execution_id);
                }
                (_, Ok(Created::Created { execution_id, .. })) => {
                    assert_eq!(Some((*execution_id).into()), one.execution_id);
                }
                other => panic!("{other:?}"),
            }
        }
        let last = answers[9].as_ref().expect("created").execution_id();
        let payload = d.backend.read_payload(last).await.expect("read");
        assert_eq!(payload.map(Base64), wanted[9].payload_base64);
    }

    async fn an_id_of_no_partition_of_the_deployment_is_refused(d: &Deployment) {
        let far = ff_core::partition::Partition::flow(60_001);
        let id = ExecutionId::from_parts(far, d.new_uuid());
        let error = d.backend.create(new(d, id)).await.expect_err("there is no such partition");
        assert_eq!(error.code(), Some(Code::PartitionMismatch));
        let error = d.backend.describe_execution(id).await.expect_err("no such partition");
        assert_eq!(error.code(), Some(Code::PartitionMismatch));
    }

    async fn the_lane_of_a_new_execution_becomes_known(d: &Deployment) {
        let name = format!("lane-of-{}", d.home().index);
        let mut one = new(d, d.new_id());
        one.lane = Some(lane(&name));
        d.backend.create(one).await.expect("created");
        let mut after = None;
        let mut found = false;
        loop {
            let query = LaneQuery { cursor: after, limit: Some(50), partition: Some(0) };
            let page = d.backend.list_lanes(query).await.expect("lanes can be listed");
            found |= page.lanes.iter().any(|depth| depth.lane.as_str() == name);
            match page.next_cursor {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert!(found);
    }

    async fn an_idempotent_submission_has_one_execution_although_replies_get_lost(d: &Deployment) {
        let key = ff_core::types::IdempotencyKey::try_new("order-1").expect("a valid key");
        let mut one = without_id(d);
        one.idempotency_key = Some(key);
        let first = lossy(d, 2).create(one.clone()).await.expect("created").execution_id();
        let again = d.backend.create(one.clone()).await.expect("recognised");
        assert_eq!((again.execution_id(), again.is_new()), (first, false));
        one = one.with_payload(b"another");
        let error = d.backend.create(one).await.expect_err("another content");
        assert_eq!(error.code(), Some(Code::IdempotencyConflict));
    }

    async fn a_worker_is_registered_heard_of_and_listed(d: &Deployment) {
        // All partitions are asked, also those of others.
        d.host().watch(false);
        let name = d.own_instance("process");
        let session = WorkerSession::from_uuid(d.new_uuid());
        let registration = WorkerRegistration {
            session: Some(session),
            lanes: vec![lane("a"), lane("b")],
            kinds: vec!["k".parse().expect("a valid name")],
            capabilities: capabilities(&["gpu"]),
            running: Some(0),
            capacity: Some(2),
            ..WorkerRegistration::new(worker(WORKER), name.clone(), 60_000)
        };
        let until = lossy(d, 1).register_worker(registration).await.expect("registered").expires_at;
        let (process, heartbeat) = (name, Heartbeat { session, ttl_ms: 90_000, running: Some(2) });
        let later = lossy(d, 1).heartbeat_worker(process.clone(), heartbeat).await;
        let heard = later.expect("heard");
        assert!(heard.at_capacity);
        let later = heard.expires_at;
        assert_eq!(later, until.plus_millis(30_000));
        let workers = d.backend.list_workers().await.expect("listed").workers;
        let ours = workers.iter().find(|one| one.worker_instance_id == process).expect("listed");
        assert_eq!((ours.lanes.len(), ours.capabilities.csv().as_str()), (2, "gpu"));
        assert_eq!(ours.expires_at, later);
        assert_eq!((ours.kinds.len(), ours.running, ours.capacity), (1, Some(2), Some(2)));
    }

    async fn a_handle_of_a_claim_works_for_every_call(d: &Deployment) {
        let handle = held(d).await;
        let renewal = d.backend.renew(&handle).await.expect("renewed");
        assert_eq!(renewal.expires_at, d.now().plus_millis(LEASE_MS));
        d.backend.progress(&handle, None, Some("half".to_owned())).await.expect("recorded");
        assert_eq!(record(&d.dump().await, handle.execution_id)["pm"], "half");
        let until = TimestampMs::new(d.now().get() + 5);
        d.backend.delay(&handle, until.into()).await.expect("delayed");
        let error = d.backend.renew(&handle).await.expect_err("given back");
        assert_eq!(error.code(), Some(Code::ExecutionNotActive));
    }
}

fn next_grant() -> NextGrantRequest {
    NextGrantRequest {
        lane: lane(LANE),
        worker_instance_id: instance(INSTANCE),
        capabilities: capabilities(&[]),
        grant_ttl_ms: 5000,
    }
}
