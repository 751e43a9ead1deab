//! Leaving in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_sdk::{HandleKind, LeaseLoss, PublicState, SdkError, WorkerStatus};

use crate::site::{LEASE_TTL_MS, LONG, Site, claim, eventually};

pub(crate) async fn a_shutdown_waits_for_the_tasks(site: Site) {
    let worker = Arc::new(site.worker("w-1", 2).await);
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let leaving = Arc::clone(&worker);
    let shutdown = tokio::spawn(async move { leaving.shutdown(LONG).await });
    eventually("draining", || async { worker.status() == WorkerStatus::Draining }).await;
    let refused = worker.claim_next().await.expect_err("no new claims");
    assert!(matches!(refused, SdkError::WorkerStopped { .. }), "{refused}");
    assert!(!refused.is_retryable());
    assert!(!shutdown.is_finished());
    task.complete(None).await.expect("completed");
    let report = shutdown.await.expect("no panic").expect("leaves");
    assert_eq!(report.handed_back, 0);
    assert_eq!(site.state(&id).await, PublicState::Completed);
}

pub(crate) async fn a_shutdown_hands_back_what_is_left_at_the_deadline(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let before = Instant::now();
    let report = worker.shutdown(Duration::ZERO).await.expect("leaves");
    assert_eq!(report.handed_back, 1);
    assert_eq!(task.lost().await, LeaseLoss::HandedBack);
    let other = site.worker("w-2", 1).await;
    let next = claim(&other).await;
    assert!(before.elapsed() < Duration::from_millis(LEASE_TTL_MS), "not by lapsing");
    assert_eq!((*next.execution_id(), next.claim_kind()), (id, HandleKind::Resumed));
    assert!(task.complete(None).await.is_err(), "it is somebody else's now");
    next.complete(None).await.expect("completed");
}

pub(crate) async fn a_waiting_claim_ends_with_the_shutdown(site: Site) {
    let worker = Arc::new(site.worker("w-1", 1).await);
    let waiting = Arc::clone(&worker);
    let claiming = tokio::spawn(async move { waiting.claim(LONG).await });
    eventually("the claim's wait", || async { worker.capacity() == 0 }).await;
    let before = Instant::now();
    worker.shutdown(LONG).await.expect("leaves");
    let ended = claiming.await.expect("no panic").expect_err("stopped");
    assert!(matches!(ended, SdkError::WorkerStopped { .. }), "{ended}");
    assert!(before.elapsed() < LONG / 2, "at once, not after {:?}", before.elapsed());
}

pub(crate) async fn a_second_shutdown_does_nothing(site: Site) {
    let worker = site.worker("w-1", 1).await;
    worker.shutdown(LONG).await.expect("leaves");
    let other = site.worker("w-1", 1).await;
    worker.shutdown(LONG).await.expect("has left");
    assert_eq!(worker.status(), WorkerStatus::Stopped);
    let workers = site.connection.engine().list_workers().await.expect("readable");
    let mut named = workers.workers.iter().filter(|it| it.worker_instance_id.as_str() == "w-1");
    assert!(named.next().is_some(), "the other one stays registered");
    other.shutdown(LONG).await.expect("leaves");
}
