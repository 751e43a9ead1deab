//! Submitting, waiting, listing.

use std::time::{Duration, Instant};

use ff_sdk::{
    AwaitError, ExecutionRef, ExecutionSummary, FlowFabricWorker, ListFilter, PublicState,
    SdkError, TimestampMs,
};

use crate::site::{LANE, LONG, Site, claim, worker_config};

pub(crate) async fn a_result_is_pushed_to_whoever_waits(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let waiting = (site.client.clone(), id);
    let waiting = tokio::spawn(async move {
        let (client, id) = waiting;
        let answer: Result<String, AwaitError> = client.await_result(&id, LONG).await;
        (answer, Instant::now())
    });
    // Two who wait for the same are both told.
    let (second, completed) = tokio::join!(site.client.await_result::<String>(&id, LONG), async {
        task.complete(Some(b"\"done\"".to_vec())).await.expect("completed");
        Instant::now()
    });
    let (first, told) = waiting.await.expect("no panic");
    assert_eq!(
        (first.expect("a result"), second.expect("a result")),
        ("done".into(), "done".into())
    );
    let late = told.saturating_duration_since(completed);
    assert!(late < Duration::from_secs(4), "told by a push, not after {late:?}");
}

pub(crate) async fn a_wait_ends_with_its_time(site: Site) {
    let id = site.submit("x").await;
    let before = Instant::now();
    let waited = site.client.await_result_raw(&id, Duration::from_millis(200)).await;
    assert!(matches!(waited, Err(AwaitError::TimedOut)), "{waited:?}");
    assert!(before.elapsed() >= Duration::from_millis(200));
    assert_eq!(site.state(&id).await, PublicState::Waiting);
}

pub(crate) async fn the_end_of_an_execution_is_told_as_it_was(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    claim(&worker).await.fail("no such account", "permanent").await.expect("reported");
    match site.client.await_result_raw(&id, LONG).await {
        Err(AwaitError::Failed(failure)) => {
            assert_eq!(
                (failure.category.as_str(), failure.reason.as_str()),
                ("permanent", "no such account")
            );
        }
        other => panic!("it failed: {other:?}"),
    }
    let id = site.submit("x").await;
    site.client.cancel(&id, "changed my mind").await.expect("cancelled");
    match site.client.await_result_raw(&id, LONG).await {
        Err(AwaitError::Cancelled(cancel)) => assert_eq!(cancel.reason, "changed my mind"),
        other => panic!("it was cancelled: {other:?}"),
    }
    let submission =
        site.client.submit_raw("test", "x").lane(LANE).deadline(Duration::from_millis(50));
    let id = submission.await.expect("submitted").execution_id();
    let ended = site.client.await_result_raw(&id, LONG).await;
    assert!(matches!(ended, Err(AwaitError::Expired)), "{ended:?}");
    let unknown = ff_sdk::ExecutionId::parse("{fp:1}:550e8400-e29b-41d4-a716-446655440000");
    let unknown = site.client.await_result_raw(&unknown.expect("an id"), LONG).await;
    assert!(matches!(unknown, Err(AwaitError::NotFound)), "{unknown:?}");
    let bare: ff_sdk::ExecutionRef = "550e8400-e29b-41d4-a716-446655440000".parse().expect("bare");
    let unknown = site.client.await_result_raw(bare, LONG).await.expect_err("unknown");
    assert!(matches!(unknown, AwaitError::NotFound), "{unknown:?}");
    assert!(unknown.to_string().contains("{fp:N}:<uuid>"), "{unknown}");
}

pub(crate) async fn an_execution_is_called_by_its_uuid(site: Site) {
    let worker = site.worker("w-1", 1).await;
    for number in 0..20 {
        let submission = site.client.submit_raw("test", "x").lane(LANE);
        let id = submission.idempotency_key(format!("order-{number}")).await;
        let id = id.expect("submitted").execution_id();
        let name = site.connection.shortest(id);
        assert_eq!(name, ExecutionRef::Bare(id.uuid()));
        assert_eq!(site.connection.resolve(name).expect("an id"), id);
        let found = site.client.describe(name).await.expect("answers").expect("found");
        assert_eq!(found.execution_id, id);
        claim(&worker).await.complete(None).await.expect("completed");
        site.client.await_result_raw(id.uuid(), LONG).await.expect("completed");
        let again = site.client.submit_raw("test", "x").lane(LANE).execution_id(name).await;
        assert_eq!(again.expect("recognised").execution_id(), id);
    }
    let unknown: ExecutionRef = "550e8400-e29b-41d4-a716-446655440000".parse().expect("a UUID");
    assert!(worker.describe_execution(unknown).await.expect("answers").is_none());
    let error = site.client.cancel(unknown, "").await.expect_err("it is not there").to_string();
    assert!(error.contains("needs its whole id, {fp:N}:<uuid>"), "{error}");
}

pub(crate) async fn a_result_of_another_shape_is_told_apart(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    claim(&worker).await.complete(Some(b"\"text\"".to_vec())).await.expect("completed");
    let number = site.client.await_result::<u64>(&id, LONG).await;
    assert!(matches!(number, Err(AwaitError::Decode(_))), "{number:?}");
    let text: String = site.client.await_result(&id, LONG).await.expect("a text");
    assert_eq!(text, "text");
    let id = site.submit("x").await;
    claim(&worker).await.complete(None).await.expect("completed");
    let () = site.client.await_result(&id, LONG).await.expect("nothing reads as null");
}

pub(crate) async fn the_same_key_is_the_same_execution(site: Site) {
    let order =
        |input: &str| site.client.submit("order", input).lane(LANE).idempotency_key("order-17");
    let first = order("shoes").await.expect("submitted");
    assert!(first.is_new());
    let second = order("shoes").await.expect("recognised");
    assert_eq!((second.is_new(), second.execution_id()), (false, first.execution_id()));
    let elsewhere = order("shoes").namespace("other").await.expect("another namespace");
    assert!(elsewhere.is_new());
    let conflict = order("boots").await.expect_err("another request under the same key");
    assert!(conflict.to_string().contains("idempotency_conflict"), "{conflict}");
}

pub(crate) async fn bytes_of_any_kind_survive(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let large: Vec<u8> =
        (0..1_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for payload in [Vec::new(), vec![0], b"\r\n$-1\r\n".to_vec(), vec![255; 300], large] {
        let id = site.submit(payload.clone()).await;
        let task = claim(&worker).await;
        assert_eq!(task.input_payload(), payload);
        task.complete(Some(payload.clone())).await.expect("completed");
        let result = site.client.await_result_raw(&id, LONG).await.expect("a result");
        assert_eq!(result, payload);
        let stored = site.connection.engine().read_payload(id).await.expect("readable");
        assert_eq!(stored, Some(payload));
    }
}

pub(crate) async fn many_are_submitted_with_few_calls_and_each_on_its_own(site: Site) {
    let submissions = (0..300u32).map(|number| {
        let lane = if number == 7 { "no:lane" } else { LANE };
        site.client.submit("count", &number).lane(lane)
    });
    let answers = site.client.submit_many(submissions).await;
    assert_eq!(answers.len(), 300);
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_ok(), number != 7, "{number}: {answer:?}");
    }
    let mut patient = worker_config("w-1", 256);
    patient.lease_ttl_ms = 60_000;
    let worker = FlowFabricWorker::connect_to(patient, &site.connection).await.expect("connects");
    let mut inputs = Vec::new();
    while inputs.len() < 299 {
        for task in worker.claim_many(256, LONG).await.expect("answers") {
            inputs.push(
                String::from_utf8_lossy(task.input_payload()).parse::<u32>().expect("a number"),
            );
            task.complete(None).await.expect("completed");
        }
    }
    inputs.sort_unstable();
    assert_eq!(inputs, (0..300).filter(|number| *number != 7).collect::<Vec<_>>());
}

pub(crate) async fn a_delayed_submission_is_not_claimed_before_its_time(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let before = Instant::now();
    let delay = Duration::from_millis(400);
    let created = site.client.submit_raw("test", "x").lane(LANE).delay(delay).await;
    assert_eq!(created.expect("submitted").public_state(), PublicState::Delayed);
    assert!(worker.claim_next().await.expect("answers").is_none());
    claim(&worker).await.complete(None).await.expect("completed");
    assert!(before.elapsed() >= Duration::from_millis(350), "after {:?}", before.elapsed());
}

pub(crate) async fn executions_are_listed_by_what_they_are(site: Site) {
    for number in 0..25u32 {
        let kind = if number % 5 == 0 { "fifth" } else { "other" };
        site.client.submit(kind, &number).lane(LANE).await.expect("submitted");
    }
    let list = |filter| site.client.list(filter).all();
    let all: Vec<ExecutionSummary> = list(ListFilter::default()).await.expect("readable");
    assert_eq!(all.len(), 25);
    let fifth = ListFilter { kind: "fifth".parse().ok(), ..ListFilter::default() };
    assert_eq!(list(fifth).await.expect("readable").len(), 5);
    let ended = ListFilter { state: Some(PublicState::Completed), ..ListFilter::default() };
    assert!(list(ended).await.expect("readable").is_empty());
}

pub(crate) async fn a_wrong_submission_is_refused_by_the_field_s_name(site: Site) {
    let submit = || site.client.submit("test", "x").lane(LANE);
    let table = [
        (site.client.submit("a:b", "x").await, "kind "),
        (submit().lane("").await, "lane must not be empty"),
        (submit().namespace("{x}").await, "namespace "),
        (submit().idempotency_key("").await, "idempotency_key "),
        (submit().requires("a b").await, "required_capabilities "),
        (submit().priority(9001).await, "priority must be from 0 to 9000, got 9001"),
        (submit().tag("untidy", "x").await, "invalid_tag_key: "),
        (submit().delay_until(TimestampMs(0)).await, "delay_until must be from 1"),
        (submit().attempt_timeout(Duration::ZERO).await, "invalid_policy_json: "),
        (site.client.submit_raw("test", vec![0; (8 << 20) + 1]).await, "payload_too_large: "),
    ];
    for (answer, expected) in table {
        let error: SdkError = answer.expect_err(expected);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let keys_must_be_text = std::collections::BTreeMap::from([(vec![1u8], 1u8)]);
    let error = site.client.submit("test", &keys_must_be_text).await.expect_err("no JSON");
    assert!(error.to_string().starts_with("input "), "{error}");
    assert!(site.client.list(ListFilter::default()).all().await.expect("readable").is_empty());
}

pub(crate) async fn a_wait_for_ever_lasts_until_there_is_a_result(site: Site) {
    let worker = site.worker("w-1", 1).await;
    let client = site.client.clone();
    let submission = client.submit_raw("test", "x").lane(LANE);
    let submission = submission.attempt_timeout(Duration::MAX).deadline(Duration::MAX);
    let id = submission.await.expect("submitted").execution_id();
    let waiting = tokio::spawn(async move { client.await_result_raw(&id, Duration::MAX).await });
    let task = worker.claim(Duration::MAX).await.expect("answers").expect("there is work");
    let limits = (task.claimed().attempt_timeout_at, task.claimed().deadline_at);
    assert_eq!(limits, (None, None), "no limit at all");
    task.complete(Some(b"done".to_vec())).await.expect("completed");
    assert_eq!(waiting.await.expect("no panic").expect("a result"), b"done");
    worker.shutdown(Duration::MAX).await.expect("leaves");
}
