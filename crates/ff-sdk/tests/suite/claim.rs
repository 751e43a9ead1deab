//! Taking work: by push, within the worker's room, and through grants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{ClaimGrant, GrantRequest, WorkRequest};
use ff_core::types::GrantId;
use ff_script::ids::{IdSource, SystemIds};
use ff_sdk::{
    Context, ExecutionId, FlowFabricWorker, HandleKind, LaneId, SdkError, TaskResult, WorkerConfig,
};
use tokio::time::timeout;

use crate::site::{LANE, LEASE_TTL_MS, LONG, Site, claim, eventually, worker_config};

fn lane() -> LaneId {
    LANE.parse().expect("valid")
}

fn grant_request(worker: &FlowFabricWorker) -> GrantRequest {
    GrantRequest {
        grant_id: Some(GrantId::from_uuid(SystemIds.random())),
        reclaim: false,
        worker_id: worker.config().worker_id.clone(),
        worker_instance_id: worker.config().worker_instance_id.clone(),
        capabilities: CapabilitySet::default(),
        grant_ttl_ms: 20_000,
    }
}

async fn grant(worker: &FlowFabricWorker, id: ExecutionId) -> ClaimGrant {
    let request = grant_request(worker);
    worker.backend().issue_claim_grant(id, request).await.expect("granted")
}

pub(crate) async fn a_waiting_claim_is_woken_by_a_submission(site: Site) {
    let worker = Arc::new(site.worker("w-1", 1).await);
    let waiting = Arc::clone(&worker);
    let claiming = tokio::spawn(async move { waiting.claim(LONG).await });
    eventually("the claim's wait", || async { worker.capacity() == 0 }).await;
    let before = Instant::now();
    let id = site.submit("x").await;
    let task = claiming.await.expect("no panic").expect("answers").expect("woken");
    assert!(
        before.elapsed() < Duration::from_secs(5),
        "by a push, not after {:?}",
        before.elapsed()
    );
    assert_eq!(*task.execution_id(), id);
    task.complete(None).await.expect("completed");
}

async fn worker_in(site: &Site, instance: &str, namespace: &str) -> FlowFabricWorker {
    let namespace = namespace.parse().expect("valid");
    let config = WorkerConfig { namespace, ..worker_config(instance, 1) };
    FlowFabricWorker::connect_to(config, &site.connection).await.expect("connects")
}

/// `*` stands for all of them.
pub(crate) async fn a_worker_claims_only_in_its_namespace(site: Site) {
    let shop = site.client.clone().with_namespace("shop".parse().expect("valid"));
    let other = site.submit("other").await;
    let own = shop.submit_raw("test", "own").lane(LANE).await.expect("submitted").execution_id();
    let one = worker_in(&site, "w-shop", "shop").await;
    let task = claim(&one).await;
    assert_eq!(*task.execution_id(), own);
    task.complete(None).await.expect("completed");
    assert!(one.claim_next().await.expect("answers").is_none());
    let listed = site.client.workers().await.expect("listed");
    let listed = listed.iter().find(|it| it.worker_instance_id.as_str() == "w-shop");
    assert_eq!(listed.expect("it is there").namespaces, ["shop".parse().expect("valid")]);
    let any = worker_in(&site, "w-any", "*").await;
    let task = claim(&any).await;
    assert_eq!(*task.execution_id(), other);
    task.complete(None).await.expect("completed");
    any.client().submit_raw("test", "x").lane(LANE).await.expect("submitted");
    assert_eq!(claim(&any).await.namespace().as_str(), "default");
}

/// Without any it takes from all.
pub(crate) async fn handlers_run_in_the_namespaces_that_are_named(site: Site) {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let builder = site.handlers().state(tell).namespace("a").namespace("b");
    let worker = builder.on_raw("test", async |context: Context<_>, _| -> TaskResult<Vec<u8>> {
        let _ = context.state().send(context.namespace().to_string());
        Ok(Vec::new())
    });
    let worker = worker.build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    for namespace in ["c", "b", "a"] {
        let client = site.client.clone().with_namespace(namespace.parse().expect("valid"));
        client.submit_raw("test", "x").lane(LANE).await.expect("submitted");
    }
    let mut ran = vec![told.recv().await, told.recv().await];
    ran.sort_unstable();
    assert_eq!(ran, [Some("a".to_owned()), Some("b".to_owned())]);
    stop.shutdown();
    running.await.expect("no panic").expect("stops");
    assert!(told.try_recv().is_err(), "nothing of c");
}

pub(crate) async fn a_worker_without_room_claims_nothing(site: Site) {
    let worker = site.worker("w-1", 1).await;
    for _ in 0..3 {
        site.submit("x").await;
    }
    let task = claim(&worker).await;
    assert_eq!(worker.capacity(), 0);
    assert!(worker.claim_next().await.expect("answers").is_none());
    assert!(worker.claim(Duration::from_millis(20)).await.expect("answers").is_none());
    let other = site.worker("w-2", 1).await;
    let held = claim(&other).await;
    let id = *held.execution_id();
    let unused = ClaimGrant {
        grant_id: GrantId::from_uuid(SystemIds.random()),
        execution_id: id,
        worker_id: worker.config().worker_id.clone(),
        worker_instance_id: worker.config().worker_instance_id.clone(),
        expires_at: Default::default(),
    };
    let refused = worker.claim_from_grant(lane(), unused).await.expect_err("no room");
    assert!(matches!(refused, SdkError::WorkerAtCapacity), "{refused}");
    assert!(refused.is_retryable());
    let waiting = worker.claim(LONG);
    let (next, ()) = tokio::join!(waiting, async { task.complete(None).await.expect("completed") });
    next.expect("answers").expect("room again").complete(None).await.expect("completed");
    held.complete(None).await.expect("completed");
}

pub(crate) async fn one_claim_takes_as_many_as_there_is_room_for(site: Site) {
    let worker = site.worker("w-1", 5).await;
    for _ in 0..8 {
        site.submit("x").await;
    }
    let first = claim(&worker).await;
    let tasks = worker.claim_many(usize::MAX, LONG).await.expect("answers");
    assert_eq!((tasks.len(), worker.capacity()), (4, 0));
    drop(first);
    for task in tasks {
        task.complete(None).await.expect("completed");
    }
    assert_eq!(worker.claim_many(2, LONG).await.expect("answers").len(), 2);
}

pub(crate) async fn a_claim_that_is_dropped_leaves_nothing_behind(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let waited = timeout(Duration::from_millis(50), worker.claim(LONG)).await;
    assert!(waited.is_err(), "there is no work");
    assert_eq!(worker.capacity(), 1);
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    assert_eq!(*task.execution_id(), id);
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_grant_becomes_a_task(site: Site) {
    let worker = site.worker("w-1", 2).await;
    let id = site.submit("granted").await;
    let grant = grant(&worker, id).await;
    assert!(worker.claim_next().await.expect("answers").is_none(), "it is reserved");
    let task = worker.claim_from_grant(lane(), grant.clone()).await.expect("claimed");
    assert_eq!((*task.execution_id(), task.input_payload()), (id, &b"granted"[..]));
    assert!(task.is_lease_healthy());
    worker.claim_from_grant(lane(), grant).await.expect_err("a grant works once");
    assert_eq!(worker.capacity(), 1);
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_grant_for_another_lane_is_refused_and_the_execution_handed_back(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let grant = grant(&worker, id).await;
    let elsewhere: LaneId = "elsewhere".parse().expect("valid");
    let error = worker.claim_from_grant(elsewhere, grant).await.expect_err("another lane");
    assert!(error.to_string().starts_with("config: claim_from_grant.lane: "), "{error}");
    let before = Instant::now();
    let task = claim(&worker).await;
    assert_eq!(*task.execution_id(), id);
    assert!(before.elapsed() < Duration::from_millis(LEASE_TTL_MS), "not by lapsing");
    task.complete(None).await.expect("completed");
}

pub(crate) async fn an_interrupted_attempt_goes_on_through_a_grant(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let attempt_id = *task.attempt_id();
    task.delay_for(Duration::ZERO).await.expect("put aside");
    let grant = {
        let request = grant_request(&worker);
        let engine = worker.backend();
        eventually("the end of the pause", || async {
            engine.issue_claim_grant(id, request.clone()).await.is_ok()
        })
        .await;
        engine.issue_claim_grant(id, request).await.expect("the same grant again")
    };
    let task = worker.claim_from_grant(lane(), grant).await.expect("claimed");
    assert_eq!((*task.attempt_id(), task.claim_kind()), (attempt_id, HandleKind::Resumed));
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_lapsed_execution_is_taken_over_through_a_reclaim_grant(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let careless = WorkRequest {
        kinds: Vec::new(),
        namespaces: Vec::new(),
        lanes: vec![lane()],
        worker_id: "careless".parse().expect("valid"),
        worker_instance_id: "careless-1".parse().expect("valid"),
        capabilities: CapabilitySet::default(),
        lease_ttl_ms: 50,
        count: 1,
        wait_ms: 0,
        payload_text: false,
        lease_ids: Vec::new(),
        retry: false,
    };
    let work = site.connection.work().await.expect("a work source");
    assert_eq!(work.claim(careless).await.expect("answers").len(), 1);
    let request = grant_request(&worker);
    let engine = worker.backend();
    eventually("the lapse", || async {
        engine.issue_reclaim_grant(id, request.clone()).await.is_ok()
    })
    .await;
    let grant = engine.issue_reclaim_grant(id, request).await.expect("the same grant again");
    let task = worker.claim_from_reclaim_grant(grant.clone()).await.expect("taken over");
    assert_eq!((task.claim_kind(), task.attempt_index().get()), (HandleKind::Reclaimed, 1));
    assert!(worker.claim_from_reclaim_grant(grant).await.is_err());
    task.complete(None).await.expect("completed");
    assert_eq!(site.describe(&id).await.reclaim_count, 1);
}

pub(crate) async fn an_execution_goes_to_a_worker_that_can_do_it(site: Site) {
    let submission = site.client.submit_raw("render", "x").lane(LANE).requires("gpu");
    let id = submission.await.expect("submitted").execution_id();
    let plain = site.worker("plain", 1).await;
    assert!(plain.claim_next().await.expect("answers").is_none());
    let mut config = worker_config("able", 1);
    config.capabilities = vec!["gpu".to_owned(), "avx".to_owned()];
    let able = FlowFabricWorker::connect_to(config, &site.connection).await.expect("connects");
    let task = claim(&able).await;
    assert_eq!(*task.execution_id(), id);
    task.complete(None).await.expect("completed");
}

pub(crate) async fn lanes_are_listed_by_name(site: Site) {
    let worker = site.worker("w-1", 1).await;
    for lane in ["c", "a", "b"] {
        site.client.submit_raw("test", "x").lane(lane).await.expect("submitted");
    }
    let first = worker.list_lanes(None, 2).await.expect("readable");
    let names: Vec<&str> = first.lanes.iter().map(LaneId::as_str).collect();
    assert_eq!(names, ["a", "b"]);
    let rest = worker.list_lanes(first.next_cursor, 2).await.expect("readable");
    assert_eq!(rest.lanes.first().map(LaneId::as_str), Some("c"));
}
