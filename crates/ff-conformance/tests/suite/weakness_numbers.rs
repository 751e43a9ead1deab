//! Known weaknesses of libraries like ours, each as the behaviour we want instead: numbers, and
//! calls that raise midway.

use ff_conformance::record::{key_of, listed_in, record};
use ff_conformance::{Deployment, Held, INSTANCE, LANE, LEASE_MS, WORKER, conformance};
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, TimestampMs};
use ff_script::call::Call;
use ff_script::calls::create::{CreateExecution, CreateExecutionReply};
use ff_script::calls::expire::PromoteDelayed;
use ff_script::calls::fail::FailExecutionReply;

use super::claim::granted;
use super::fence::FENCED;

/// Texts that a lenient parser takes for numbers.
const LENIENT: [&str; 14] = [
    "nan",
    "inf",
    "-inf",
    "1e3",
    "1.5",
    "0x10",
    " 1",
    "1 ",
    "+1",
    "01",
    "-0",
    "9007199254740993",
    "1e309",
    "１",
];

/// Writes into a record around the library. False where nobody can.
async fn plant(d: &Deployment, id: ExecutionId, field: &str, value: Option<&str>) -> bool {
    let key = key_of(id, "");
    let words: Vec<&[u8]> = match value {
        Some(value) => vec![b"HSET", &key, field.as_bytes(), value.as_bytes()],
        None => vec![b"HDEL", &key, field.as_bytes()],
    };
    d.host().exec(id.partition(), &words).await.is_some()
}

fn arguments(call: &CreateExecution) -> Vec<Vec<u8>> {
    call.encode().iter().map(<[u8]>::to_vec).collect()
}

async fn create_with(d: &Deployment, position: usize, text: &str) -> String {
    let mut args = arguments(&d.create().idempotency("k", "x").call());
    args[position] = text.as_bytes().to_vec();
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    d.raw("ff_create_execution", &args).await.word
}

/// Calls a holder's function with one own argument replaced.
async fn fenced_with(
    d: &Deployment,
    held: &Held,
    name: &str,
    position: usize,
    text: &str,
) -> String {
    let own = FENCED.iter().find(|(known, _)| *known == name).expect("a fenced function").1;
    let mut args: Vec<String> = held.fence().into_iter().collect();
    args.extend(own.iter().map(|text| (*text).to_owned()));
    text.clone_into(&mut args[4 + position]);
    let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
    d.raw(name, &args).await.word
}

/// A running attempt with every kind of number in its record.
async fn claim_limited(d: &Deployment) -> Held {
    let policy = r#"{"timeout_policy":{"attempt_timeout_ms":60000,"execution_deadline_ms":900000},
        "retry_policy":{},"retention_ms":5,"ageing_ms":5,"max_replay_count":5}"#;
    d.create().lane("limited").policy(policy).priority(1).send().await;
    d.claim("limited").await
}

conformance! {
    /// Planted where records can be reached: on Valkey.
    async fn w03_a_delay_without_its_end_counts_as_due(d: &Deployment) {
        let by_tick = d.create().delayed_by(1000).send().await;
        let by_hand = d.create().delayed_by(900).send().await;
        if !plant(d, by_tick, "du", None).await {
            return;
        }
        plant(d, by_hand, "du", None).await;
        d.call(PromoteDelayed { execution_id: by_hand }).await;
        d.advance(1000).await;
        assert_eq!(d.tick().await.promoted, 1);
        for id in [by_tick, by_hand] {
            assert_eq!(d.describe(id).await.public_state(), PublicState::Waiting);
        }
    }

    async fn w04_only_plain_whole_numbers_are_numbers(d: &Deployment) {
        let held = d.create_and_claim().await;
        let waiting = d.create().lane("waiting").send().await.to_string();
        let uuid = d.new_uuid().to_string();
        for text in LENIENT {
            assert_eq!(create_with(d, 4, text).await, "invalid_input", "priority {text}");
            assert_eq!(create_with(d, 12, text).await, "invalid_input", "dedup_ms {text}");
            let renewed = fenced_with(d, &held, "ff_renew_lease", 0, text).await;
            assert_eq!(renewed, "invalid_input", "lease_ttl_ms {text}");
            let grant: [&[u8]; 6] = [waiting.as_bytes(), b"w", b"w-1", b"", text.as_bytes(),
                uuid.as_bytes()];
            let granted = d.raw("ff_issue_claim_grant", &grant).await;
            assert_eq!(granted.code(), "invalid_input", "grant_ttl_ms {text}");
            let claim: [&[u8]; 9] = [b"waiting", b"w", b"w-1", b"", text.as_bytes(), b"0", b"",
                b"0", uuid.as_bytes()];
            let claimed = d.raw("ff_claim_next", &claim).await;
            assert_eq!(claimed.code(), "invalid_input", "lease_ttl_ms {text}");
            let change: [&[u8]; 2] = [waiting.as_bytes(), text.as_bytes()];
            let changed = d.raw("ff_change_priority", &change).await;
            assert_eq!(changed.code(), "invalid_input", "priority {text}");
        }
    }

    async fn w04_numbers_have_ranges(d: &Deployment) {
        let held = d.create_and_claim().await;
        for text in ["0", "-1", "86400001"] {
            let renewed = fenced_with(d, &held, "ff_renew_lease", 0, text).await;
            assert_eq!(renewed, "invalid_input", "{text}");
        }
        for text in ["-1", "9001"] {
            assert_eq!(create_with(d, 4, text).await, "invalid_input", "{text}");
        }
        for text in ["-1", "253402300800000"] {
            assert_eq!(create_with(d, 8, text).await, "invalid_input", "{text}");
            assert_eq!(create_with(d, 9, text).await, "invalid_input", "{text}");
        }
    }

    async fn w05_a_past_delay_runs_at_once(d: &Deployment) {
        let id = d.create().delay_until(TimestampMs::new(d.now().get() - 5000)).send().await;
        assert_eq!(listed_in(&d.dump().await, id), ["q:default:tests:work"]);
        assert_eq!(d.tick().await.total(), 0);
        assert_eq!(d.claim(LANE).await.id, id);
    }

    async fn w06_a_malformed_claim_does_not_use_up_the_grant(d: &Deployment) {
        let id = d.create_one().await;
        let call = granted(d, id).await;
        let right: Vec<Vec<u8>> = call.encode().iter().map(<[u8]>::to_vec).collect();
        for (position, wrong) in [(5, "x"), (6, "nan"), (7, "not a uuid"), (3, "{lane}")] {
            let mut args = right.clone();
            args[position] = wrong.as_bytes().to_vec();
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            assert_eq!(d.raw("ff_claim_execution", &args).await.code(), "invalid_input");
        }
        d.call(call).await;
        assert_eq!(d.attempts(id).await.len(), 1);
    }

    async fn w07_null_in_a_retry_policy_is_absent(d: &Deployment) {
        for policy in [
            r#"{"retry_policy":{"max_retries":null}}"#,
            r#"{"retry_policy":{"backoff":null}}"#,
            r#"{"retry_policy":{"backoff":{"type":"exponential","multiplier":null}}}"#,
            r#"{"retry_policy":{"backoff":{"type":"exponential","jitter":null}}}"#,
            r#"{"retry_policy":{"retryable_categories":null},"timeout_policy":null}"#,
        ] {
            d.create().policy(policy).send().await;
            let reply = d.call(d.claim(LANE).await.fail("no", "x")).await;
            let delay_until = Some(d.now().plus_millis(1000));
            let result = "retry_scheduled".to_owned();
            assert_eq!(reply, FailExecutionReply::Failed { result, delay_until }, "{policy}");
        }
    }

    async fn w08_a_refused_creation_leaves_nothing(d: &Deployment) {
        let call = d.create().idempotency("k", "x").call();
        let right = arguments(&call);
        for (position, wrong) in [(4, "nan"), (9, "soon"), (12, "1.5"), (12, "99999999999"),
            (10, r#"{"a.b":[]}"#), (6, "{"), (10, r#"{"a.b":"c","A":"d"}"#)] {
            let mut args = right.clone();
            args[position] = wrong.as_bytes().to_vec();
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let answer = d.raw("ff_create_execution", &args).await;
            assert!(!answer.done, "{wrong}: {answer:?}");
            assert!(d.dump().await.is_empty());
        }
        assert!(matches!(d.call(call).await, CreateExecutionReply::Created { .. }));
    }

    async fn w09_a_malformed_delay_keeps_the_lease(d: &Deployment) {
        let held = d.create_and_claim().await;
        for text in ["", "soon", "-5", "1.5", "+", "+-1", "++1", "+253402300800000"] {
            let delayed = fenced_with(d, &held, "ff_delay_execution", 0, text).await;
            assert_eq!(delayed, "invalid_input", "{text:?}");
        }
        d.call(held.complete(b"")).await;
    }

    async fn w10_backoff_is_whole_and_bounded(d: &Deployment) {
        let policy = r#"{"retry_policy":{"max_retries":1000,"backoff":{"type":"exponential",
            "initial_delay_ms":34560000000,"max_delay_ms":34560000000,"multiplier":99.999}}}"#;
        let id = d.create().policy(policy).send().await;
        for _ in 0..3 {
            let FailExecutionReply::Failed { delay_until, .. } =
                d.call(d.claim(LANE).await.fail("no", "x")).await
            else {
                panic!("each failure is reported once");
            };
            let at = delay_until.expect("a retry is left");
            assert_eq!(at, d.now().plus_millis(34_560_000_000));
            assert_eq!(record(&d.dump().await, id)["du"], at.to_string());
            d.set_time(at.get()).await;
            d.tick().await;
        }
    }

    /// Planted where records can be reached: on Valkey.
    async fn w51_damaged_numbers_raise_nowhere(d: &Deployment) {
        d.host().watch(false);
        for garbage in ["", "x", "nan", "-1", "99999999999999999999"] {
            for field in ["ct", "pr", "ag", "dl", "mc", "mp", "re", "ac", "ep", "le", "ta", "rc",
                "rl", "rp", "et", "as", "rr", "at", "dm", "iu", "zz"] {
                let held = claim_limited(d).await;
                if !plant(d, held.id, field, Some(garbage)).await {
                    return;
                }
                exercise(d, held.id).await;
                for (name, own) in FENCED {
                    let held = claim_limited(d).await;
                    plant(d, held.id, field, Some(garbage)).await;
                    let fence = held.fence();
                    let own = own.iter().map(|text| text.as_bytes());
                    let args: Vec<&[u8]> = fence.iter().map(String::as_bytes).chain(own).collect();
                    d.raw(name, &args).await;
                }
                d.host().clear(&d.partitions).await;
                d.set_time(d.now().get()).await;
            }
        }
    }

    /// Planted where records can be reached: on Valkey.
    async fn w51_missing_fields_raise_nowhere(d: &Deployment) {
        d.host().watch(false);
        for field in ["st", "la", "ns", "ki", "ct", "li", "ep", "le", "wo", "wi", "ac", "as"] {
            let held = claim_limited(d).await;
            if !plant(d, held.id, field, None).await {
                return;
            }
            exercise(d, held.id).await;
            for (name, own) in FENCED {
                let held = claim_limited(d).await;
                plant(d, held.id, field, None).await;
                let fence = held.fence();
                let own = own.iter().map(|text| text.as_bytes());
                let args: Vec<&[u8]> = fence.iter().map(String::as_bytes).chain(own).collect();
                d.raw(name, &args).await;
            }
            d.host().clear(&d.partitions).await;
            d.set_time(d.now().get()).await;
        }
    }

    /// Planted where records can be reached: on Valkey.
    async fn w51_a_running_attempt_without_a_lease_end_counts_as_lapsed(d: &Deployment) {
        let held = d.create_and_claim().await;
        if !plant(d, held.id, "le", Some("")).await {
            return;
        }
        d.advance(LEASE_MS).await;
        assert_eq!(d.tick().await.lapsed, 1);
        assert_eq!(d.claim(LANE).await.id, held.id);
    }

    async fn w52_null_as_the_reclaim_limit_is_absent(d: &Deployment) {
        for policy in [r#"{"max_reclaim_count":null}"#,
            r#"{"timeout_policy":{"max_reclaim_count":null}}"#] {
            let id = d.create().policy(policy).send().await;
            d.claim(LANE).await;
            d.advance(LEASE_MS).await;
            assert_eq!(d.tick().await.lapsed, 1);
            let held = d.claim(LANE).await;
            assert_eq!((held.id, held.lease_epoch.get()), (id, 2));
            d.call(held.complete(b"")).await;
        }
    }
}

/// Calls every function on a damaged execution. None may raise; what they answer is their business.
async fn exercise(d: &Deployment, id: ExecutionId) {
    let (id, uuid) = (id.to_string(), d.new_uuid().to_string());
    let (id, uuid) = (id.as_bytes(), uuid.as_bytes());
    let fence: [&[u8]; 4] = [id, uuid, b"1", uuid];
    let (worker, process) = (WORKER.as_bytes(), INSTANCE.as_bytes());
    for step in [0, 61_000, 3_600_000, 90_000_000] {
        d.advance(step).await;
        for name in [
            "ff_describe_execution",
            "ff_read_result",
            "ff_promote_delayed",
            "ff_mark_lease_expired_if_due",
        ] {
            d.raw(name, &[id]).await;
        }
        d.raw("ff_list_attempts", &[id, b"10"]).await;
        d.raw("ff_list_executions", &[b"", b"", b"", b"", b"", b"", b"", b"", b"", b"10"]).await;
        for (name, own) in FENCED {
            let own = own.iter().map(|text| text.as_bytes());
            let args: Vec<&[u8]> = fence.into_iter().chain(own).collect();
            d.raw(name, &args).await;
        }
        d.raw("ff_expire_execution", &[id, b"attempt_timeout"]).await;
        d.raw("ff_expire_execution", &[id, b"execution_deadline"]).await;
        d.raw("ff_issue_claim_grant", &[id, worker, process, b"", b"1000", uuid]).await;
        d.raw("ff_issue_reclaim_grant", &[id, worker, process, b"", b"1000", uuid]).await;
        d.raw("ff_change_priority", &[id, b"5"]).await;
        d.raw("ff_tick", &[b"100"]).await;
        let claim = [b"limited", worker, process, b"", b"1000", b"1", b"", b"0", uuid];
        d.raw("ff_claim_next", &claim).await;
    }
    d.raw("ff_revoke_lease", &[id, b"", b""]).await;
    d.raw("ff_cancel_execution", &[id, b"", b"", b"", b"", b"operator_override"]).await;
    d.raw("ff_replay_execution", &[id, b"", b"", b"", b""]).await;
}
