//! The workers of the demo: honest ones, and one that is lost.

use std::sync::Arc;
use std::time::Duration;

use ff_core::backend::{FailOutcome, FailureClass, FailureReason, HandleKind};
use ff_core::contracts::{Claimed, WorkRequest};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::types::{WorkerId, WorkerInstanceId};
use ff_scheduler::Scheduler;

use super::Backend;
use super::cast::lane;
use super::story::Story;

const LEASE_TTL_MS: u64 = 800;
const NAP_MS: u64 = 600;

/// Claims one execution and never comes back, as a worker does that is killed with -9.
pub(crate) async fn vanish(scheduler: &Scheduler, story: &Story) -> Result<(), EngineError> {
    for task in scheduler.claim(request("mallory", 1)).await? {
        let title = String::from_utf8_lossy(&task.payload).into_owned();
        story.tell(&format!("mallory took \"{title}\" and was never heard of again"));
    }
    Ok(())
}

/// Works until it is told to stop.
pub(crate) async fn run(
    name: &'static str,
    backend: Arc<Backend>,
    scheduler: Arc<Scheduler>,
    story: Story,
) -> Result<(), EngineError> {
    loop {
        for task in scheduler.claim(request(name, 1)).await? {
            work(name, &backend, &story, &task).await?;
        }
    }
}

fn request(name: &str, count: u32) -> WorkRequest {
    WorkRequest {
        lanes: vec![lane()],
        worker_id: WorkerId::try_new(name).expect("a valid name"),
        worker_instance_id: WorkerInstanceId::try_new(name).expect("a valid name"),
        capabilities: Default::default(),
        lease_ttl_ms: LEASE_TTL_MS,
        count,
        max_wait: Duration::from_secs(30),
    }
}

async fn work(
    name: &str,
    backend: &Backend,
    story: &Story,
    task: &Claimed,
) -> Result<(), EngineError> {
    let title = String::from_utf8_lossy(&task.payload).into_owned();
    let attempt = task.handle.attempt_index.get() + 1;
    tokio::time::sleep(Duration::from_millis(15)).await;
    match task.kind.as_str() {
        "flaky" if attempt < 3 => fail(name, backend, story, task, &title).await,
        "hopeless" => fail(name, backend, story, task, &title).await,
        "nap" if task.handle.kind == HandleKind::Fresh => {
            story.tell(&format!("{name} puts \"{title}\" aside for {NAP_MS} ms"));
            let until = task.lease_expires_at.as_millis() - LEASE_TTL_MS + NAP_MS;
            backend.delay(&task.handle, ff_core::types::TimestampMs::new(until)).await
        }
        _ => {
            backend
                .complete(&task.handle, Some(format!("{title}, by {name}").into_bytes()))
                .await?;
            let rescued = task.handle.kind == HandleKind::Reclaimed;
            let note = if rescued { ", left behind by mallory" } else { "" };
            story.tell(&format!("{name} finished \"{title}\"{note} (attempt {attempt})"));
            Ok(())
        }
    }
}

async fn fail(
    name: &str,
    backend: &Backend,
    story: &Story,
    task: &Claimed,
    title: &str,
) -> Result<(), EngineError> {
    let reason = FailureReason::new("the network hiccuped");
    let outcome = backend.fail(&task.handle, reason, FailureClass::Transient).await?;
    let next = match outcome {
        FailOutcome::RetryScheduled { .. } => "will be tried again",
        FailOutcome::TerminalFailed => "has no retries left and has failed",
    };
    story.tell(&format!("{name} failed \"{title}\"; it {next}"));
    Ok(())
}
