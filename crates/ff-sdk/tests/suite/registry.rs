//! The registry of workers.

use ff_core::contracts::{WorkRequest, WorkerRecord, WorkerRegistration};
use ff_sdk::{FlowFabricWorker, SdkError, WorkerStatus};

use crate::site::{LANE, LONG, Site, eventually, worker_config};

async fn listed(site: &Site, instance: &str) -> Option<WorkerRecord> {
    let workers = site.connection.engine().list_workers().await.expect("readable");
    workers.workers.into_iter().find(|worker| worker.worker_instance_id.as_str() == instance)
}

pub(crate) async fn a_worker_is_listed_while_it_is_connected(site: Site) {
    let mut config = worker_config("w-1", 1);
    config.capabilities = vec!["gpu".to_owned()];
    let lanes = config.lanes.clone();
    let worker = FlowFabricWorker::connect_to(config, &site.connection).await.expect("connects");
    let record = listed(&site, "w-1").await.expect("listed");
    assert_eq!((record.lanes, record.capabilities.csv().as_str()), (lanes, "gpu"));
    assert_eq!((record.running, record.capacity), (Some(0), Some(1)));
    assert_eq!(worker.status(), WorkerStatus::Running);
    worker.shutdown(LONG).await.expect("leaves");
    assert_eq!(worker.status(), WorkerStatus::Stopped);
    assert_eq!(listed(&site, "w-1").await, None);
}

pub(crate) async fn a_registration_is_kept_alive(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let first = listed(&site, "w-1").await.expect("listed");
    eventually("a heartbeat", || async {
        listed(&site, "w-1").await.expect("still listed").expires_at > first.expires_at
    })
    .await;
    worker.shutdown(LONG).await.expect("leaves");
}

pub(crate) async fn a_second_live_process_with_the_same_instance_is_refused(site: Site) {
    let first = site.worker("w-1", 1).await;
    let second = FlowFabricWorker::connect_to(worker_config("w-1", 1), &site.connection).await;
    match second.expect_err("in use") {
        SdkError::Config { context, field, .. } => {
            assert_eq!(context, "worker_connect");
            assert_eq!(field.as_deref(), Some("worker_instance_id"));
        }
        other => panic!("must name the field: {other}"),
    }
    first.shutdown(LONG).await.expect("leaves");
    let second = site.worker("w-1", 1).await;
    assert_eq!(second.status(), WorkerStatus::Running);
}

/// A process of this machine that has ended.
fn dead_process() -> String {
    let mut child = std::process::Command::new("true").spawn().expect("there is a true");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
    let space = std::fs::read_link("/proc/self/ns/pid").expect("Linux");
    let space: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    let process = format!("{}:{space}:{}:1", boot.trim(), child.id());
    child.wait().expect("it ends");
    process
}

pub(crate) async fn a_worker_that_is_started_again_does_not_wait(site: Site) {
    let config = worker_config("w-1", 1);
    let id = site.client.submit("k", &1).lane(LANE).await.expect("submitted").execution_id();
    let (worker_id, instance) = (config.worker_id.clone(), config.worker_instance_id.clone());
    let mut died = WorkerRegistration::new(worker_id.clone(), instance.clone(), 600_000);
    died.process = Some(dead_process());
    site.connection.engine().register_worker(died).await.expect("registered");
    let request = WorkRequest::new(worker_id, instance, config.lanes.clone(), 600_000);
    let work = site.connection.work().await.expect("a source of work");
    let taken = work.claim(request).await.expect("claims");
    assert_eq!(taken.len(), 1);
    let worker = FlowFabricWorker::connect_to(config, &site.connection).await.expect("at once");
    let task = worker.claim_next().await.expect("claims").expect("it was handed back at once");
    assert_eq!(task.execution_id(), &id);
    task.complete(None).await.expect("completes");
    worker.shutdown(LONG).await.expect("leaves");
}

pub(crate) async fn wrong_settings_leave_no_registration_behind(site: Site) {
    let mut config = worker_config("w-1", 1);
    config.capabilities = vec!["a,b".to_owned()];
    let refused = FlowFabricWorker::connect_to(config, &site.connection).await;
    let error = refused.expect_err("a comma").to_string();
    assert!(error.starts_with("config: worker_config.capabilities: "), "{error}");
    assert_eq!(listed(&site, "w-1").await, None);
}
