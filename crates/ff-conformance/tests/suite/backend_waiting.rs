//! Waiting through the engine's API: what it makes of replies that get lost, and of partitions that
//! have no key yet.

use std::sync::Arc;

use ff_conformance::{
    Deployment, INSTANCE, LANE, LEASE_MS, SECRET, WORKER, conformance, instance, lane, rotation,
    worker,
};
use ff_core::backend::Handle;
use ff_core::capability::CapabilitySet;
use ff_core::contracts::{
    ClaimRequest, Condition, CreateWaitpoint, DeliverSignal, ListSuspended, ResumeExecution,
    ResumedBy, RotateWaitpointSecretRequest, Signal, SignalOutcome, SuspendOutcome, SuspendRequest,
};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::state::PublicState;
use ff_core::types::{LeaseId, WaitpointId, WaitpointToken};
use ff_script::backend::rotate_waitpoint_hmac_secret_all_partitions;

/// As many replies in a row may get lost.
const LOSSES_MAX: u32 = 3;

async fn claim(d: &Deployment) -> ff_core::contracts::Claimed {
    let request = ClaimRequest {
        kinds: Vec::new(),
        lane: lane(LANE),
        worker_id: worker(WORKER),
        worker_instance_id: instance(INSTANCE),
        capabilities: CapabilitySet::default(),
        namespaces: Vec::new(),
        from: Default::default(),
        lease_ttl_ms: LEASE_MS,
        lease_ids: vec![LeaseId::from_uuid(d.new_uuid())],
        retry: false,
    };
    let claimed = d.backend.claim_next(d.home(), request).await;
    claimed.expect("the claim is well-formed").claimed.pop().expect("something waits")
}

async fn handle(d: &Deployment) -> Handle {
    d.create_one().await;
    claim(d).await.handle
}

fn signal(name: &str, token: &WaitpointToken) -> Signal {
    Signal {
        signal_name: name.to_owned(),
        payload: Some(vec![0, 255]),
        waitpoint_token: token.clone(),
        ..Signal::default()
    }
}

async fn suspended(d: &Deployment, handle: &Handle) -> (WaitpointId, WaitpointToken) {
    let outcome = d.backend.suspend(handle, SuspendRequest::new(Condition::any(["go"]))).await;
    match outcome.expect("it can be suspended") {
        SuspendOutcome::Suspended { waitpoint_id, waitpoint_token, .. } => {
            (waitpoint_id, waitpoint_token)
        }
        other => panic!("{other:?}"),
    }
}

conformance! {
    async fn a_wait_has_one_of_everything_although_replies_get_lost(d: &Deployment) {
        let handle = handle(d).await;
        // The first call finds no key, the second makes one, the third suspends.
        d.host().lose_replies(LOSSES_MAX);
        let (waitpoint_id, token) = suspended(d, &handle).await;
        assert_eq!(d.host().replies_to_lose(), 0);
        let request = DeliverSignal::to_waitpoint(waitpoint_id, signal("go", &token));
        d.host().lose_replies(LOSSES_MAX);
        let outcome = d.backend.deliver_signal(handle.execution_id, request).await;
        assert!(matches!(outcome, Ok(SignalOutcome::Duplicate { .. })), "{outcome:?}");
        let claimed = claim(d).await;
        let resumption = claimed.resumption.expect("it was suspended");
        assert_eq!((resumption.resumed_by, resumption.signals.len()), (ResumedBy::Signal, 1));
        let read = d.backend.observe_signals(&claimed.handle).await.expect("they can be read");
        assert_eq!(read, resumption.signals);
        assert_eq!(read[0].payload, Some(vec![0, 255]));
    }

    async fn early_signals_are_told_as_such(d: &Deployment) {
        let handle = handle(d).await;
        let (waitpoint_key, expires_in_ms) = ("order".to_owned(), 1000);
        let create = CreateWaitpoint { waitpoint_key, expires_in_ms, waitpoint_id: None };
        let pending = d.backend.create_waitpoint(&handle, create).await.expect("it is opened");
        let request = DeliverSignal::to_key("order", signal("go", pending.hmac_token.token()));
        let outcome = d.backend.deliver_signal(handle.execution_id, request).await;
        assert!(matches!(outcome, Ok(SignalOutcome::Buffered { .. })), "{outcome:?}");
        let mut request = SuspendRequest::new(Condition::any(["go"]));
        request.pending_waitpoint_id = Some(pending.waitpoint_id);
        let outcome = d.backend.suspend(&handle, request).await;
        let Ok(SuspendOutcome::AlreadySatisfied { resumption, .. }) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(resumption.signals[0].signal_name, "go");
        d.backend.complete(&handle, None).await.expect("the lease is kept");
    }

    async fn what_waits_can_be_found_resumed_and_closed(d: &Deployment) {
        let handle = handle(d).await;
        let id = handle.execution_id;
        suspended(d, &handle).await;
        let open = d.backend.pending_waitpoints(id).await.expect("it can be read").waitpoints;
        assert_eq!((open.len(), open[0].required_signal_names.concat()), (1, "go".to_owned()));
        let partition = Some(d.home().index);
        let query = ListSuspended { partition, ..ListSuspended::default() };
        let page = d.backend.list_suspended(query).await.expect("a page");
        assert_eq!((page.entries[0].execution_id, page.next_cursor), (id, None));
        d.host().lose_replies(LOSSES_MAX);
        let resumed = d.backend.resume_execution(id, ResumeExecution::default()).await;
        assert_eq!(resumed.map(|it| it.public_state), Ok(PublicState::Waiting));
        let handle = claim(d).await.handle;
        let create = CreateWaitpoint { waitpoint_key: "k".to_owned(), expires_in_ms: 9,
            waitpoint_id: None };
        let pending = d.backend.create_waitpoint(&handle, create).await.expect("it is opened");
        d.host().lose_replies(LOSSES_MAX);
        d.backend.close_waitpoint(&handle, pending.waitpoint_id, "unused").await.expect("closed");
    }

    async fn nobody_but_the_server_speaks_as_an_approver(d: &Deployment) {
        let handle = handle(d).await;
        let (waitpoint_id, token) = suspended(d, &handle).await;
        let mut request = DeliverSignal::to_waitpoint(waitpoint_id, signal("go", &token));
        request.source_type = "approver".to_owned();
        let refused = d.backend.deliver_signal(handle.execution_id, request.clone()).await;
        let told = refused.expect_err("anybody could say so").to_string();
        assert_eq!(told, "source_type must not be approver or system");
        request.source_type = "worker".to_owned();
        let taken = d.backend.deliver_signal(handle.execution_id, request).await;
        assert!(matches!(taken, Ok(SignalOutcome::TriggeredResume { .. })), "{taken:?}");
    }

    async fn a_place_without_a_key_is_refused_like_a_wrong_token(d: &Deployment) {
        let execution_id = d.new_id();
        let waitpoint_id = WaitpointId::from_uuid(d.new_uuid());
        let token = WaitpointToken::new(format!("k1:{}", "0".repeat(40)));
        let request = DeliverSignal::to_waitpoint(waitpoint_id, signal("go", &token));
        let refused = d.backend.deliver_signal(execution_id, request).await;
        assert_eq!(refused.expect_err("nothing is there").code(), Some(Code::InvalidToken));
    }

    /// In the partitions that no test has: they get the same key as in every other run.
    async fn a_rotation_reaches_all_partitions_and_tells_where_it_does_not(d: &Deployment) {
        d.host().watch(false);
        let config = PartitionConfig { num_flow_partitions: 4, ..PartitionConfig::default() };
        let other = d.backend.call(Partition::flow(2), rotation("new", &SECRET[2..], 0)).await;
        other.expect("it is the first");
        let request = RotateWaitpointSecretRequest {
            new_kid: "new".to_owned(),
            new_secret_hex: SECRET.to_owned(),
            grace_ms: None,
        };
        for _ in 0..2 {
            let host = Arc::clone(d.backend.host());
            let asked = request.clone();
            let done = rotate_waitpoint_hmac_secret_all_partitions(host, &config, asked, 0);
            let done = done.await.expect("it is done in most");
            assert_eq!((done.rotated, done.failed.as_slice()), (3, &[2][..]));
            assert_eq!(done.errors[0].partition, 2);
            assert!(done.errors[0].reason.contains("rotation_conflict"), "{:?}", done.errors);
        }
        let wrong = RotateWaitpointSecretRequest { new_secret_hex: "00".to_owned(), ..request };
        let host = Arc::clone(d.backend.host());
        let refused = rotate_waitpoint_hmac_secret_all_partitions(host, &config, wrong, 0).await;
        assert_eq!(refused.expect_err("nowhere").code(), Some(Code::InvalidSecretHex));
        for index in 0..4 {
            let partition = Partition::flow(index);
            let key = format!("{}:secrets", partition.key());
            d.host().exec(partition, &[b"DEL", key.as_bytes()]).await;
        }
        d.host().watch(true);
    }
}
