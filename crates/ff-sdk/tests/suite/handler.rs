//! What a handler may return, and what it may do besides returning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use ff_sdk::{
    AwaitError, Context, ExecutionKind, ExecutionSnapshot, Kind, Namespace, PublicState,
    ReplayExecution, RetryPolicy, TaskError, TaskResult,
};

use super::runtime::Running;
use crate::site::{LANE, LONG, Site, eventually};

const PARSE: Kind<String, u32> = Kind::new("parse");
const READ: Kind<(), String> = Kind::new("read");
const SAY: Kind<String, ()> = Kind::new("say");
const DOUBLE: Kind<u32, u32> = Kind::new("double").retries(2).backoff("1ms", "1ms").timeout("30s");
const TOTAL: Kind<Vec<u32>, u32> = Kind::new("total");

async fn submit<I: serde::Serialize, O>(
    site: &Site,
    kind: &Kind<I, O>,
    input: I,
) -> ff_sdk::ExecutionId {
    site.client.submit(kind, &input).lane(LANE).await.expect("submitted").execution_id()
}

async fn end(site: &Site, id: ff_sdk::ExecutionId) -> ExecutionSnapshot {
    let _ = site.client.await_result_raw(&id, LONG).await;
    site.describe(&id).await
}

/// Category and reason of how an execution failed.
async fn failure(site: &Site, id: ff_sdk::ExecutionId) -> (String, String) {
    let failure = end(site, id).await.failure.expect("it failed");
    (failure.category, failure.reason)
}

fn told(category: &str, reason: &str) -> (String, String) {
    (category.to_owned(), reason.to_owned())
}

pub(crate) async fn its_errors_may_have_any_type(site: Site) {
    async fn parse(_: Context, text: String) -> anyhow::Result<u32> {
        text.parse().with_context(|| format!("{text:?} is no number"))
    }
    async fn read(_: Context, (): ()) -> std::io::Result<String> {
        std::fs::read_to_string("/there/is/nothing")
    }
    fn say(_: Context, what: String) -> Result<(), String> {
        Err(format!("cannot say {what}"))
    }
    let worker = site.handlers().handle(&PARSE, parse).handle(&READ, read);
    let running = Running::start(worker.handle_blocking(&SAY, say).build().expect("valid"));
    let call = site.client.call(&PARSE, "7".to_owned()).with(|it| it.lane(LANE));
    assert_eq!(call.await.expect("a result"), 7);
    let wrong = submit(&site, &PARSE, "x".to_owned()).await;
    let reason = r#""x" is no number: invalid digit found in string"#;
    assert_eq!(failure(&site, wrong).await, told("transient", reason));
    let missing = submit(&site, &READ, ()).await;
    let reason = "No such file or directory (os error 2)";
    assert_eq!(failure(&site, missing).await, told("transient", reason));
    let silent = submit(&site, &SAY, "boo".to_owned()).await;
    assert_eq!(failure(&site, silent).await, told("transient", "cannot say boo"));
    running.stop().await;
}

pub(crate) async fn it_delays_itself_and_goes_on_in_the_same_attempt(site: Site) {
    async fn wait(context: Context<Arc<AtomicU32>>, number: u32) -> anyhow::Result<u32> {
        if context.state().fetch_add(1, Ordering::Relaxed) == 0 {
            context.delay_for(Duration::from_millis(20)).await;
        }
        Ok(number + context.attempt())
    }
    fn wait_blocking(context: Context<Arc<AtomicU32>>, (): ()) -> TaskResult<String> {
        match context.state().fetch_add(1, Ordering::Relaxed) {
            2 => Err(TaskError::delay_for(Duration::ZERO)),
            _ => Ok("late".to_owned()),
        }
    }
    let runs = Arc::new(AtomicU32::new(0));
    let worker = site.handlers().state(Arc::clone(&runs)).handle(&DOUBLE, wait);
    let worker = worker.handle_blocking(&READ, wait_blocking).build().expect("valid");
    let running = Running::start(worker);
    let delayed = submit(&site, &DOUBLE, 6).await;
    assert_eq!(site.client.await_result_of(&DOUBLE, &delayed, LONG).await.expect("a result"), 7);
    assert_eq!(end(&site, delayed).await.total_attempt_count, 1);
    let late = submit(&site, &READ, ()).await;
    assert_eq!(site.client.await_result_of(&READ, &late, LONG).await.expect("a result"), "late");
    assert_eq!(runs.load(Ordering::Relaxed), 4);
    running.stop().await;
}

pub(crate) async fn a_delay_that_is_refused_fails_the_attempt(site: Site) {
    async fn wait(context: Context, _: u32) -> anyhow::Result<u32> {
        context.delay_for(Duration::MAX).await
    }
    let running = Running::start(site.handlers().handle(&DOUBLE, wait).build().expect("valid"));
    let id = submit(&site, &DOUBLE, 1).await;
    let (category, reason) = failure(&site, id).await;
    assert_eq!(category, "invalid_delay", "{reason}");
    assert!(reason.starts_with("the delay was refused: "), "{reason}");
    running.stop().await;
}

pub(crate) async fn it_cancels_its_execution(site: Site) {
    async fn say(context: Context, what: String) -> anyhow::Result<()> {
        context.cancel(&format!("nobody wants {what}")).await
    }
    let running = Running::start(site.handlers().handle(&SAY, say).build().expect("valid"));
    let id = submit(&site, &SAY, "boo".to_owned()).await;
    let ended = site.client.await_result_of(&SAY, &id, LONG).await;
    let Err(AwaitError::Cancelled(cancel)) = ended else { panic!("{ended:?}") };
    assert_eq!((&*cancel.reason, &*cancel.cancelled_by), ("nobody wants boo", "lease_holder"));
    running.stop().await;
}

pub(crate) async fn it_fails_for_good_whatever_its_errors_are(site: Site) {
    async fn double(context: Context, _: u32) -> anyhow::Result<u32> {
        let error = TaskError::fail("too large").with_category("bad_number");
        context.fail(error).await
    }
    let running = Running::start(site.handlers().handle(&DOUBLE, double).build().expect("valid"));
    let id = submit(&site, &DOUBLE, 1).await;
    assert_eq!(failure(&site, id).await, told("bad_number", "too large"));
    assert_eq!(site.client.attempts(&id).await.expect("listed").len(), 1, "it is not retried");
    running.stop().await;
}

pub(crate) async fn it_submits_executions_in_its_own_namespace(site: Site) {
    async fn total(context: Context, numbers: Vec<u32>) -> anyhow::Result<u32> {
        let mut sum = 0;
        for number in numbers {
            let key = format!("{number} of {}", context.execution_id().uuid());
            let doubling = context.submit(&DOUBLE, &number).lane(LANE).idempotency_key(key);
            let id = doubling.await?.execution_id();
            let client = context.client();
            let snapshot = client.describe(&id).await?.context("it is there")?;
            anyhow::ensure!(snapshot.namespace == *context.namespace(), "{snapshot:?}");
            sum += client.await_result_of(&DOUBLE, &id, LONG).await?;
        }
        Ok(sum)
    }
    let worker = site.handlers().concurrency(2).handle(&TOTAL, total);
    let worker = worker.handle(&DOUBLE, async |_, number| -> TaskResult<_> { Ok(2 * number) });
    let running = Running::start(worker.build().expect("valid"));
    let client = site.client.clone().with_namespace(Namespace::new("sums"));
    let sum = client.call(&TOTAL, vec![1, 2, 3]).with(|it| it.lane(LANE)).timeout(LONG);
    assert_eq!(sum.await.expect("a result"), 12);
    running.stop().await;
}

/// Fails until the third attempt.
async fn flaky(context: Context, number: u32) -> anyhow::Result<u32> {
    anyhow::ensure!(context.attempt() > 2, "not yet");
    Ok(2 * number)
}

/// Has its numbers doubled by children, whose policy is that of their kind.
async fn total(context: Context, numbers: Vec<u32>) -> anyhow::Result<u32> {
    let tasks = numbers.iter().map(|number| {
        let mut task = DOUBLE.task(number.to_string(), number)?;
        task.execution.lane = Some(LANE.parse()?);
        anyhow::Ok(task)
    });
    context.add_children(tasks.collect::<Result<Vec<_>, _>>()?).await?;
    if context.has_open_children() {
        context.wait_children().await;
    }
    let mut sum = 0;
    for child in context.children() {
        sum += child.result_of(&DOUBLE).await?;
    }
    Ok(sum)
}

pub(crate) async fn the_policy_of_a_kind_travels_with_every_submission(site: Site) {
    let worker = site.handlers().concurrency(4).handle(&DOUBLE, flaky).handle(&TOTAL, total);
    let running = Running::start(worker.build().expect("valid"));
    let call = site.client.call(&DOUBLE, 4).with(|it| it.lane(LANE)).timeout(LONG);
    assert_eq!(call.await.expect("a result of the third attempt"), 8);
    let call = site.client.call(&TOTAL, vec![1, 2]).with(|it| it.lane(LANE)).timeout(LONG);
    assert_eq!(call.await.expect("children have the policy, too"), 6);
    let mut flow = ff_sdk::Flow::new("one");
    let double = flow.task("double", &DOUBLE, 5).with(|it| it.lane(LANE));
    let flow = site.client.submit_flow(flow).await.expect("accepted");
    assert_eq!(flow.result(&double).await.expect("a task has it, too"), 10);
    let id = submit(&site, &DOUBLE, 1).await;
    let policy = end(&site, id).await.policy_json.expect("it has a policy");
    let expected = DOUBLE.policy().expect("it was said").to_json().expect("valid");
    assert_eq!(policy, expected);
    running.stop().await;
}

pub(crate) async fn the_policy_of_a_kind_holds_for_who_does_not_know_it(site: Site) {
    let worker = site.handlers().handle(&DOUBLE, flaky).build().expect("valid");
    let running = Running::start(worker);
    let kind = ExecutionKind::new("double");
    let known = async || site.client.describe_kind(&kind).await;
    eventually("the policy", || async { known().await.expect("answers").told_by.is_some() }).await;
    assert_eq!(Some(known().await.expect("answers").policy), DOUBLE.policy());
    let submission = site.client.submit("double", &4).lane(LANE);
    let id = submission.await.expect("submitted").execution_id();
    let result = site.client.await_result_of(&DOUBLE, &id, LONG).await;
    assert_eq!(result.expect("a result of the third attempt"), 8);
    let own = RetryPolicy { max_retries: 0, ..RetryPolicy::default() };
    let submission = site.client.submit("double", &4).lane(LANE).retry(own);
    let once = submission.await.expect("submitted").execution_id();
    assert_eq!(failure(&site, once).await, told("transient", "not yet"));
    assert_eq!(end(&site, once).await.total_attempt_count, 1, "what is said counts");
    running.stop().await;
}

pub(crate) async fn what_failed_is_replayed_and_its_attempts_are_listed(site: Site) {
    async fn double(context: Context, number: u32) -> anyhow::Result<u32> {
        anyhow::ensure!(context.attempt() > 3, "not yet");
        Ok(2 * number)
    }
    let running = Running::start(site.handlers().handle(&DOUBLE, double).build().expect("valid"));
    let id = submit(&site, &DOUBLE, 1).await;
    assert_eq!(failure(&site, id).await, told("transient", "not yet"));
    let request = ReplayExecution {
        reason: "mended".to_owned(),
        requested_by: "ada".to_owned(),
        ..ReplayExecution::default()
    };
    let state = site.client.replay(&id, request.clone()).await.expect("replayed");
    assert_eq!((state.execution_id, state.public_state), (id, PublicState::Waiting));
    assert_eq!(site.client.await_result_of(&DOUBLE, &id, LONG).await.expect("a result"), 2);
    let attempts = site.client.attempts(&id).await.expect("listed");
    let reasons = attempts.iter().map(|attempt| attempt.failure_reason.as_deref());
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        [Some("not yet"), Some("not yet"), Some("not yet"), None]
    );
    assert_eq!(attempts[3].cause.as_deref(), Some("ada mended"));
    let bare: ff_sdk::ExecutionRef = "550e8400-e29b-41d4-a716-446655440000".parse().expect("bare");
    for refused in [
        site.client.attempts(bare).await.expect_err("unknown"),
        site.client.replay(bare, request).await.expect_err("unknown"),
    ] {
        assert!(refused.to_string().contains("{fp:N}:<uuid>"), "{refused}");
    }
    running.stop().await;
}
