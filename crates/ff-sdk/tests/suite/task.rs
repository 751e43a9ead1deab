//! One task, from its claim to its outcome.

use std::time::{Duration, Instant};

use ff_core::backend::{Frame, FrameKind};
use ff_core::contracts::StreamQuery;
use ff_core::state::AttemptLifecycle;
use ff_sdk::{
    Backoff, Code, EngineError, ExecutionPolicy, FailOutcome, HandleKind, PublicState, RetryPolicy,
};

use crate::site::{LANE, LEASE_TTL_MS, LONG, Site, claim};

fn every_byte() -> Vec<u8> {
    (0..=255).collect()
}

fn two_retries() -> ExecutionPolicy {
    let backoff = Backoff::Fixed { delay_ms: 10 };
    let retry = RetryPolicy { max_retries: 2, backoff, ..RetryPolicy::default() };
    ExecutionPolicy { retry_policy: Some(retry), ..ExecutionPolicy::default() }
}

pub(crate) async fn several_are_completed_at_once(site: Site) {
    let worker = site.worker("w-1", 3).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(site.submit("x").await);
    }
    let mut tasks = Vec::new();
    while tasks.len() < 3 {
        tasks.extend(worker.claim_many(3 - tasks.len(), LONG).await.expect("claimed"));
    }
    let ends = tasks.into_iter().map(|task| (task, Some(b"out".to_vec()))).collect();
    let answers = worker.complete_many(ends).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(worker.capacity(), 3, "their room is free again");
    for id in ids {
        let result = site.client.await_result_raw(&id, LONG).await;
        assert_eq!(result.expect("a result"), b"out");
    }
    worker.shutdown(LONG).await.expect("stops");
}

pub(crate) async fn a_completed_execution_has_the_bytes_of_its_result(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit(every_byte()).await;
    let task = claim(&worker).await;
    assert_eq!(task.input_payload(), every_byte());
    let result: Vec<u8> = every_byte().into_iter().rev().collect();
    task.complete(Some(result.clone())).await.expect("completed");
    assert_eq!(site.client.await_result_raw(&id, LONG).await.expect("a result"), result);
    assert_eq!(site.state(&id).await, PublicState::Completed);
}

pub(crate) async fn a_task_knows_everything_about_its_execution(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let submission = site.client.submit_raw("email", "hello").lane(LANE).tag("team.owner", "ann");
    let id = submission.await.expect("submitted").execution_id();
    let task = claim(&worker).await;
    assert_eq!(*task.execution_id(), id);
    assert_eq!(task.execution_kind(), "email");
    assert_eq!(task.lane_id().as_str(), LANE);
    assert_eq!(task.namespace().as_str(), "default");
    assert_eq!(task.tags().get("team.owner").map(String::as_str), Some("ann"));
    assert_eq!((task.attempt_index().get(), task.lease_epoch().get()), (0, 1));
    assert_eq!(task.claim_kind(), HandleKind::Fresh);
    let snapshot = site.describe(&id).await;
    let lease = snapshot.current_lease.expect("leased");
    assert_eq!((lease.lease_id, lease.worker_instance_id.as_str()), (*task.lease_id(), "w-1"));
    assert_eq!(snapshot.current_attempt.expect("running").attempt_id, *task.attempt_id());
    assert!(task.is_lease_healthy());
    assert_eq!(task.consecutive_renewal_failures(), 0);
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_failed_attempt_is_followed_by_another_if_the_policy_says_so(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let submission = site.client.submit_raw("test", "x").lane(LANE).policy(two_retries());
    let id = submission.await.expect("submitted").execution_id();
    for attempt in 0..3 {
        let task = claim(&worker).await;
        assert_eq!(task.attempt_index().get(), attempt);
        let outcome = task.fail("the network hiccuped", "transient").await.expect("reported");
        let again = matches!(outcome, FailOutcome::RetryScheduled { .. });
        assert_eq!(again, attempt < 2, "{outcome:?}");
    }
    let snapshot = site.describe(&id).await;
    assert_eq!((snapshot.public_state(), snapshot.retry_count), (PublicState::Failed, 2));
    assert_eq!(snapshot.failure.expect("a reason").reason, "the network hiccuped");
    let attempts = site.connection.engine().list_attempts(id).await.expect("readable");
    assert!(
        attempts.attempts.iter().all(|attempt| attempt.state == AttemptLifecycle::EndedFailure)
    );
}

pub(crate) async fn a_permanent_failure_ends_the_execution(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let submission = site.client.submit_raw("test", "x").lane(LANE).policy(two_retries());
    let id = submission.await.expect("submitted").execution_id();
    let outcome = claim(&worker).await.fail("no such account", "permanent").await;
    assert_eq!(outcome.expect("reported"), FailOutcome::TerminalFailed);
    assert_eq!(site.state(&id).await, PublicState::Failed);
}

pub(crate) async fn a_category_that_no_policy_could_list_is_refused_and_the_task_comes_back(
    site: Site,
) {
    let worker = site.worker("w-1", 1).await;
    site.submit("x").await;
    let error = claim(&worker).await.fail("why", "two words").await.expect_err("refused");
    assert!(error.to_string().starts_with("failure category "), "{error}");
    let task = error.task.expect("the lease is still held");
    assert!(task.is_lease_healthy());
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_result_that_is_too_large_is_refused_and_the_task_comes_back(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let too_large = vec![b'x'; (8 << 20) + 1];
    let error = claim(&worker).await.complete(Some(too_large)).await.expect_err("refused");
    let code = error.source.engine().and_then(EngineError::code);
    assert_eq!(code, Some(Code::PayloadTooLarge), "{error}");
    let task = error.task.expect("the lease is still held");
    task.fail("the result is too large", "permanent").await.expect("reported");
    assert_eq!(site.state(&id).await, PublicState::Failed);
}

pub(crate) async fn a_delayed_execution_goes_on_with_the_same_attempt(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let attempt_id = *task.attempt_id();
    let before = Instant::now();
    task.delay_for(Duration::from_millis(300)).await.expect("put aside");
    assert_eq!(site.state(&id).await, PublicState::Delayed);
    let task = claim(&worker).await;
    assert!(before.elapsed() >= Duration::from_millis(250), "after {:?}", before.elapsed());
    assert_eq!(task.claim_kind(), HandleKind::Resumed);
    assert_eq!((*task.attempt_id(), task.attempt_index().get()), (attempt_id, 0));
    assert_eq!(task.lease_epoch().get(), 2);
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_worker_can_cancel_its_execution(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    claim(&worker).await.cancel("no longer wanted").await.expect("cancelled");
    let snapshot = site.describe(&id).await;
    assert_eq!(snapshot.public_state(), PublicState::Cancelled);
    let cancel = snapshot.cancel.expect("a reason");
    assert_eq!(
        (cancel.reason.as_str(), cancel.cancelled_by.as_str()),
        ("no longer wanted", "lease_holder")
    );
}

pub(crate) async fn an_execution_without_children_is_back_at_once(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    claim(&worker).await.move_to_waiting_children().await.expect("put aside");
    let task = claim(&worker).await;
    assert_eq!((*task.execution_id(), task.claim_kind()), (id, HandleKind::Resumed));
    task.complete(None).await.expect("completed");
}

pub(crate) async fn progress_is_seen_by_others(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    task.update_progress(40, "reading").await.expect("told");
    let progress = site.describe(&id).await.progress.expect("progress");
    assert_eq!((progress.percent, progress.message.as_deref()), (Some(40), Some("reading")));
    let error = task.update_progress(101, "too far").await.expect_err("refused");
    assert_eq!(error.to_string(), "percent must be at most 100, got 101");
    task.complete(None).await.expect("completed");
}

/// Every backend writes and reads output by the same calls, whatever the bytes.
pub(crate) async fn output_is_written_once_and_read_back(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let engine = site.connection.engine();
    let first = task.claimed().next_frame;
    let frames = || {
        let one = Frame::new(FrameKind::Stdout, "text").with_seq(first);
        vec![one, Frame::new(FrameKind::Blob, every_byte()).with_type("image")]
    };
    for _ in 0..2 {
        let outcome = engine.append_frames(task.handle(), frames()).await.expect("appended");
        assert_eq!(outcome.frame_count, 2);
    }
    let gap = vec![Frame::new(FrameKind::Event, "x").with_seq(first + 3)];
    let refused = engine.append_frames(task.handle(), gap).await.expect_err("a gap");
    assert_eq!(refused.code(), Some(Code::FrameGap));
    task.complete(None).await.expect("completed");
    let read = engine.read_stream(id, StreamQuery::default()).await.expect("read");
    let payloads: Vec<_> = read.frames.iter().map(|frame| frame.payload().into_owned()).collect();
    assert_eq!(payloads, [b"text".to_vec(), every_byte()]);
    assert_eq!(read.frames[1].frame_type(), "image");
    assert!(read.is_closed() && read.execution_ended);
}

pub(crate) async fn a_dropped_task_is_handed_back_at_once(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let attempt_id = *task.attempt_id();
    let before = Instant::now();
    drop(task);
    assert_eq!(worker.capacity(), 1);
    let task = claim(&worker).await;
    assert!(before.elapsed() < Duration::from_millis(LEASE_TTL_MS), "not by lapsing");
    assert_eq!((*task.execution_id(), *task.attempt_id()), (id, attempt_id));
    assert_eq!(task.claim_kind(), HandleKind::Resumed);
    task.complete(None).await.expect("completed");
}
