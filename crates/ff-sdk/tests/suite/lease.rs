//! Leases: kept, watched and lost.

use std::time::Duration;

use ff_core::contracts::RevokeLease;
use ff_sdk::{Code, EngineError, LeaseLoss, PublicState};
use tokio::time::{Instant, timeout};

use crate::site::{LEASE_TTL_MS, LONG, Site, claim, eventually};

pub(crate) async fn a_held_task_stays_healthy_beyond_its_first_lease(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let twice = task.lease_deadline() + Duration::from_millis(LEASE_TTL_MS);
    eventually("two renewals", || async {
        assert!(task.is_lease_healthy(), "{:?}", task.last_renewal_error());
        task.lease_deadline() > twice
    })
    .await;
    assert_eq!(site.describe(&id).await.reclaim_count, 0);
    task.complete(None).await.expect("completed");
    assert_eq!(site.state(&id).await, PublicState::Completed);
}

pub(crate) async fn a_renewal_outside_the_schedule_extends_the_lease(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let expires_at =
        || async { site.describe(&id).await.current_lease.expect("leased").expires_at };
    let (before, first) = (expires_at().await, task.lease_deadline());
    eventually("a later expiry", || async {
        task.renew_lease().await.expect("renewed");
        expires_at().await > before
    })
    .await;
    assert!(task.lease_deadline() > first);
    assert!(task.lease_deadline() <= Instant::now() + Duration::from_millis(LEASE_TTL_MS));
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_revoked_lease_is_noticed_and_nothing_is_sent_any_more(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let engine = site.connection.engine();
    engine.revoke_lease(id, RevokeLease::default()).await.expect("revoked");
    let loss = timeout(LONG, task.lost()).await.expect("noticed");
    let LeaseLoss::Refused(error) = loss else { panic!("the store must have said so: {loss}") };
    assert_eq!(error.code(), Some(Code::LeaseRevoked));
    assert!(!task.is_lease_healthy());
    assert!(task.consecutive_renewal_failures() > 0);
    task.update_progress(1, "late").await.expect_err("refused here");
    task.renew_lease().await.expect_err("refused here");
    let error = task.complete(None).await.expect_err("refused here");
    assert!(error.task.is_none(), "there is nothing to try again with");
    assert_eq!(error.source.engine().and_then(EngineError::code), Some(Code::LeaseExpired));
    assert_eq!(worker.capacity(), 1);
}

pub(crate) async fn a_cancelled_execution_takes_the_lease_with_it(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let lease = task.lease();
    site.client.cancel(&id, "changed my mind").await.expect("cancelled");
    let error = task.complete(Some(b"too late".to_vec())).await.expect_err("cancelled before");
    let code = error.source.engine().and_then(EngineError::code);
    assert!(matches!(code, Some(Code::ExecutionNotActive | Code::LeaseExpired)), "{error}");
    assert!(error.task.is_none());
    assert_eq!(lease.loss().is_some(), code == Some(Code::LeaseExpired));
    assert_eq!(site.state(&id).await, PublicState::Cancelled);
}

pub(crate) async fn the_fence_grows_with_every_lease(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    for epoch in 1..=3 {
        let task = claim(&worker).await;
        assert_eq!(task.fence().lease_epoch.get(), epoch);
        let header = task.fence_header_value();
        let expected = format!("execution=\"{id}\", epoch={epoch}, lease=\"{}\"", task.lease_id());
        assert!(header.starts_with(&expected), "{header}");
    }
}
