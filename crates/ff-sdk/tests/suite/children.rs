//! Children: handlers that fan out, wait, and go on with the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ff_core::contracts::RevokeLease;
use ff_sdk::{
    Code, Context, CreateExecution, EngineError, ExecutionKind, FlowState, GraphDependency,
    GraphTask, HandleKind, PublicState, SdkError, TaskError,
};

use crate::site::{LANE, LONG, Site, claim};

/// More than a claim brings.
const LARGE: usize = 100 << 10;

/// A child with a JSON input.
fn child(name: impl Into<String>, kind: &str, input: impl serde::Serialize) -> GraphTask {
    let mut execution = CreateExecution::new(ExecutionKind::new(kind));
    execution.payload_text = Some(serde_json::to_string(&input).expect("plain"));
    GraphTask::new(name, execution)
}

fn after(name: &str, up: &str) -> GraphTask {
    let mut task = child(name, "square", 1);
    task.after = vec![GraphDependency::on_success(up)];
    task
}

async fn square(_: Context, number: u64) -> Result<u64, TaskError> {
    Ok(number * number)
}

/// Adds a child of a kind for each number, and adds up what they give.
async fn sum_of(context: Context, kind: &str, numbers: &[u64]) -> Result<u64, TaskError> {
    let tasks = numbers.iter().map(|number| child(format!("of {number}"), kind, number));
    context.add_children(tasks).await?;
    if context.has_open_children() {
        return Err(TaskError::wait_children());
    }
    let mut sum = 0;
    for child in context.children() {
        sum += child.result::<u64>().await?;
    }
    Ok(sum)
}

fn code(error: &SdkError) -> Option<Code> {
    error.engine().and_then(EngineError::code)
}

pub(crate) async fn a_handler_fans_out_waits_and_sums_the_results(site: Site) {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let worker = site
        .handlers()
        .on("total", move |context: Context, numbers: Vec<u64>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { sum_of(context, "square", &numbers).await }
        })
        .on("square", square)
        .build()
        .expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let numbers: Vec<u64> = (1..=200).collect();
    let id = site.client.submit("total", &numbers).lane(LANE).await.expect("submitted");
    let id = id.execution_id();
    let sum: u64 = site.client.await_result(&id, LONG).await.expect("a result");
    assert_eq!(sum, numbers.iter().map(|number| number * number).sum::<u64>());
    assert_eq!(runs.load(Ordering::Relaxed), 2, "it was put aside once");
    assert_eq!(site.describe(&id).await.total_attempt_count, 1);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn children_may_have_children(site: Site) {
    async fn fibonacci(context: Context, number: u64) -> Result<u64, TaskError> {
        if number < 2 {
            return Ok(number);
        }
        sum_of(context, "fibonacci", &[number - 1, number - 2]).await
    }
    let worker = site.handlers().on("fibonacci", fibonacci).build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let id = site.client.submit("fibonacci", &6).lane(LANE).await.expect("submitted");
    let number: u64 = site.client.await_result(&id.execution_id(), LONG).await.expect("a result");
    assert_eq!(number, 8);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn a_worker_that_is_lost_after_it_added_children_changes_nothing(site: Site) {
    let worker = site.worker("w-1", 3).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let tasks = || vec![child("a", "square", 2), child("b", "square", 3)];
    let added = task.add_children(tasks()).await.expect("added");
    assert!(added.children.iter().all(|child| child.added));
    let engine = site.connection.engine();
    engine.revoke_lease(id, RevokeLease::default()).await.expect("revoked");
    task.lost().await;
    drop(task);

    let mut taken = vec![claim(&worker).await, claim(&worker).await, claim(&worker).await];
    let place = taken.iter().position(|task| *task.execution_id() == id).expect("it came back");
    let again = taken.remove(place);
    assert_eq!(again.claim_kind(), HandleKind::Reclaimed);
    assert_eq!(again.children().len(), 2);
    let repeated = again.add_children(tasks()).await.expect("recognised");
    assert_eq!(repeated.flow_id, added.flow_id);
    assert!(repeated.children.iter().all(|child| !child.added));
    let attempt = *again.attempt_id();
    again.move_to_waiting_children().await.expect("put aside");
    assert_eq!(site.state(&id).await, PublicState::WaitingChildren);
    for task in taken {
        task.complete(Some(b"done".to_vec())).await.expect("completed");
    }
    let resumed = claim(&worker).await;
    assert_eq!((resumed.execution_id(), *resumed.attempt_id()), (&id, attempt));
    let told: Vec<(&str, bool)> =
        resumed.children().iter().map(|it| (it.name.as_str(), it.is_completed())).collect();
    assert_eq!(told, [("a", true), ("b", true)]);
    resumed.complete(None).await.expect("completed");
    let flow = site.client.await_flow(&added.flow_id, LONG).await.expect("answered");
    assert_eq!(flow.expect("a flow").public_flow_state, FlowState::Completed);
}

pub(crate) async fn a_child_is_told_as_it_ended(site: Site) {
    async fn look(context: Context, (): ()) -> Result<Vec<String>, TaskError> {
        let mut never = child("never", "work", "x");
        never.after = vec![GraphDependency::on_success("bad")];
        let tasks = [child("large", "work", "large"), child("bad", "work", "bad"), never];
        context.add_children(tasks).await?;
        if context.has_open_children() {
            return Err(TaskError::wait_children());
        }
        let mut told = Vec::new();
        for child in context.children() {
            let said = match child.result::<String>().await {
                Ok(text) => text.len().to_string(),
                Err(error) => error.to_string(),
            };
            told.push(format!("{}: {said}", child.name()));
        }
        told.sort();
        Ok(told)
    }
    async fn work(_: Context, what: String) -> Result<String, TaskError> {
        match what.as_str() {
            "bad" => Err(TaskError::fail("no")),
            _ => Ok("x".repeat(LARGE)),
        }
    }
    let worker = site.handlers().on("look", look).on("work", work).build().expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let id = site.client.submit("look", &()).lane(LANE).await.expect("submitted");
    let told: Vec<String> =
        site.client.await_result(&id.execution_id(), LONG).await.expect("a result");
    let large = format!("large: {LARGE}");
    assert_eq!(told, ["bad: child bad is failed", &large, "never: child never is skipped"]);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn children_that_cannot_be_are_refused_with_the_reason(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let refused = async |tasks: Vec<GraphTask>| task.add_children(tasks).await.expect_err("wrong");
    let error = refused(vec![after("a", &id.to_string())]).await;
    assert_eq!(code(&error), Some(Code::CycleDetected), "{error}");
    for nobody in ["nobody", id.uuid().to_string().as_str()] {
        let error = refused(vec![after("a", nobody)]).await;
        assert_eq!(code(&error), Some(Code::ExecutionNotInFlow), "{error}");
        assert!(error.to_string().contains(&format!("no child is called {nobody:?}")), "{error}");
    }
    let error = refused(vec![child("a", "square", 1), child("a", "square", 1)]).await;
    assert!(error.to_string().contains("tasks.a"), "{error}");
    let error = refused(Vec::new()).await;
    assert!(error.to_string().contains("number of tasks"), "{error}");
    task.add_children(vec![child("a", "square", 1)]).await.expect("added");
    let error = refused(vec![child("a", "square", 2)]).await;
    assert_eq!(code(&error), Some(Code::IdempotencyConflict), "{error}");
    task.add_children(vec![after("b", "a")]).await.expect("it waits for an earlier one");
    task.complete(None).await.expect("completed");
}
