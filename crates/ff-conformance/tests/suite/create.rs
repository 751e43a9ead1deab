//! Creating executions.

use ff_conformance::record::{events_of, hash, key_of, listed_in, record, score};
use ff_conformance::{Deployment, LANE, conformance};
use ff_core::engine_backend::roles::*;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::TimestampMs;
use ff_script::call::Call;
use ff_script::calls::create::{
    CreateExecution, CreateExecutionReply, CreateExecutions, CreateExecutionsReply,
};
use ff_script::host::Topic;
use ff_script::value::Value;

fn refusal(reply: Result<CreateExecutionReply, EngineError>) -> (Code, String) {
    match reply {
        Err(EngineError::Refused { code, details }) => (code, details.concat()),
        other => panic!("must be refused, and gave {other:?}"),
    }
}

/// Sends several creations in one call; gives their answers as `1 OK` or `0 code`.
async fn create_together(d: &Deployment, calls: &[CreateExecution]) -> Vec<String> {
    answers(d, CreateExecutions::of(calls)).await
}

async fn answers(d: &Deployment, call: CreateExecutions) -> Vec<String> {
    let CreateExecutionsReply::Answers { answers } = d.call(call).await;
    let word = |answer: Value| match answer {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(done), Value::Bytes(word), ..] => {
                format!("{done} {}", String::from_utf8_lossy(word))
            }
            other => panic!("an answer begins with a number and a word, not {other:?}"),
        },
        other => panic!("an answer is a list, not {other:?}"),
    };
    answers.0.into_iter().map(word).collect()
}

conformance! {
    /// Whether or not the client chose the id: what is no older than the call was made by it.
    async fn a_creation_that_is_sent_again_finds_what_it_created_itself_and_says_so(
        d: &Deployment
    ) {
        let id = d.new_id();
        let again = |ms| d.create().id(id).idempotency("key", "digest").sent_ms_ago(ms);
        d.create().id(id).idempotency("key", "digest").send().await;
        d.claim(LANE).await;
        d.advance(50).await;
        let state = PublicState::Active;
        let itself = Ok(CreateExecutionReply::Created { execution_id: id, public_state: state });
        assert_eq!(again(50).reply().await, itself);
        let known = Ok(CreateExecutionReply::Duplicate { execution_id: id, public_state: state });
        assert_eq!(again(49).reply().await, known, "it was there before the call was sent");
        let elsewhere = again(50).id(d.new_id()).reply().await;
        assert_eq!(elsewhere, known, "under the key, another id meets what it did not make");
        assert_eq!(d.create().id(id).reply().await, known);
    }

    async fn a_new_execution_waits_in_its_lane(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let id = d.create().lane("gpu").send().await;
        assert_eq!(ready.lane().await, "gpu");
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, id), ["q:gpu:tests:work"]);
        assert_eq!(score(&dump, "q:gpu:tests:work", id), Some(d.now().get()));
        assert_eq!(score(&dump, "all", id), Some(d.now().get()));
        assert_eq!(events_of(&dump, id), ["created"]);
        assert_eq!(d.describe(id).await.public_state(), PublicState::Waiting);
    }

    async fn everything_given_can_be_read_again(d: &Deployment) {
        let policy = r#"{"retention_ms":5,
            "routing_requirements":{"required_capabilities":["b","a","b"]}}"#;
        let tags = r#"{"team.owner":"ops","cost.centre":17,"is.urgent":true,
            "big.number":9007199254740991}"#;
        let id = d.create().namespace("shop").lane("gpu").kind("render").priority(7)
            .creator("alice").correlation_id("order 7").policy(policy).payload(b"input").tags(tags)
            .deadline_in(90_000).send().await;
        let described = d.describe(id).await;
        assert_eq!(described.namespace.as_str(), "shop");
        assert_eq!(described.lane.as_str(), "gpu");
        assert_eq!(described.kind.as_str(), "render");
        assert_eq!((described.priority, described.creator.as_str()), (7, "alice"));
        assert_eq!(described.correlation_id, "order 7");
        assert_eq!(described.created_at, d.now());
        assert_eq!((described.last_transition_at, described.last_mutation_at), (d.now(), d.now()));
        assert_eq!(described.deadline_at, Some(d.now().plus_millis(90_000)));
        assert_eq!(described.policy_json.as_deref(), Some(policy));
        assert_eq!(described.required_capabilities.csv(), "a,b");
        let tags: Vec<(&str, &str)> =
            described.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(tags, [("big.number", "9007199254740991"), ("cost.centre", "17"),
            ("is.urgent", "true"), ("team.owner", "ops")]);
        let payload = d.backend.read_payload(id).await.expect("the payload can be read");
        assert_eq!(payload.as_deref(), Some(b"input".as_slice()));
        assert_eq!(listed_in(&d.dump().await, id), ["due", "q:gpu:shop:render:a,b"]);
    }

    async fn a_delayed_execution_waits_for_its_time(d: &Deployment) {
        let mut due = d.listen(Topic::Due).await;
        let id = d.create().delayed_by(1000).send().await;
        let at = d.now().plus_millis(1000);
        assert_eq!(due.next().await, at.to_string());
        let described = d.describe(id).await;
        assert_eq!(described.public_state(), PublicState::Delayed);
        assert_eq!(described.delay_until, Some(at));
        assert_eq!(described.blocking_detail, Some(format!("delayed until {at}")));
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, id), ["due"]);
        assert_eq!(score(&dump, "due", id), Some(at.get()));
        assert_eq!(events_of(&dump, id), ["created delayed"]);
        assert!(d.try_claim(LANE).await.is_none());
    }

    async fn a_timer_beyond_the_next_sweep_is_not_announced(d: &Deployment) {
        let mut due = d.listen(Topic::Due).await;
        d.create().delayed_by(limits::TICK_SWEEP_MS).send().await;
        d.create().delayed_by(limits::TICK_SWEEP_MS - 1).send().await;
        let first = d.now().plus_millis(limits::TICK_SWEEP_MS - 1);
        assert_eq!(due.next().await, first.to_string());
    }

    async fn a_time_can_be_given_relative_to_the_stores_clock(d: &Deployment) {
        let mut call = d.create().call().encode().iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        call[8] = b"+250".to_vec();
        call[9] = b"+9000".to_vec();
        let args: Vec<&[u8]> = call.iter().map(Vec::as_slice).collect();
        let answer = d.raw("ff_create_execution", &args).await;
        assert_eq!((answer.word.as_str(), answer.text(1).as_str()), ("OK", "delayed"));
        let id = answer.text(0).parse().expect("an id");
        let described = d.describe(id).await;
        assert_eq!(described.delay_until, Some(d.now().plus_millis(250)));
        assert_eq!(described.deadline_at, Some(d.now().plus_millis(9000)));
    }

    async fn the_earlier_of_two_deadlines_counts(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"execution_deadline_ms":500}}"#;
        for (given, expected) in [(400, 400), (600, 500)] {
            let id = d.create().policy(policy).deadline_in(given).send().await;
            let expected = Some(d.now().plus_millis(expected));
            assert_eq!(d.describe(id).await.deadline_at, expected);
        }
        let id = d.create().policy(policy).send().await;
        assert_eq!(d.describe(id).await.deadline_at, Some(d.now().plus_millis(500)));
    }

    async fn the_same_id_is_the_same_execution(d: &Deployment) {
        let id = d.create_one().await;
        d.claim(LANE).await;
        let reply = d.create().id(id).lane("other").payload(b"other").reply().await;
        let public_state = PublicState::Active;
        assert_eq!(reply, Ok(CreateExecutionReply::Duplicate { execution_id: id, public_state }));
    }

    async fn one_idempotency_key_makes_one_execution(d: &Deployment) {
        let first = d.create().idempotency("order-1", "digest").send().await;
        let reply = d.create().idempotency("order-1", "digest").reply().await;
        let public_state = PublicState::Waiting;
        let duplicate = CreateExecutionReply::Duplicate { execution_id: first, public_state };
        assert_eq!(reply, Ok(duplicate));
        let other = d.create().namespace("else").idempotency("order-1", "digest").send().await;
        assert_ne!(first, other, "a key counts within its namespace");
        let dump = d.dump().await;
        let until = d.now().get() + limits::DEDUP_MS_DEFAULT;
        let remembered = hash(&dump, format!("{}:idem", d.home().key()).as_bytes());
        assert_eq!(remembered["tests:order-1"], format!("{until}:{}:digest", first.uuid()));
        assert_eq!(listed_in(&dump, first), ["q:default:tests:work"], "a key needs no timer of its own");
    }

    async fn another_content_under_the_same_key_is_a_conflict(d: &Deployment) {
        let first = d.create().idempotency("order-1", "digest").send().await;
        let (code, details) = refusal(d.create().idempotency("order-1", "other").reply().await);
        assert_eq!((code, details), (Code::IdempotencyConflict, first.to_string()));
    }

    async fn a_key_is_remembered_as_long_as_said(d: &Deployment) {
        let policy = r#"{"dedup_window_ms":500}"#;
        d.create().idempotency("by-policy", "x").policy(policy).send().await;
        d.create().idempotency("by-call", "x").policy(policy).dedup_ms(300).send().await;
        d.advance(299).await;
        assert!(matches!(d.create().idempotency("by-call", "x").reply().await,
            Ok(CreateExecutionReply::Duplicate { .. })));
        d.advance(1).await;
        d.create().idempotency("by-call", "x").send().await;
        d.advance(199).await;
        assert!(matches!(d.create().idempotency("by-policy", "x").reply().await,
            Ok(CreateExecutionReply::Duplicate { .. })));
        d.advance(1).await;
        d.create().idempotency("by-policy", "x").send().await;
    }

    async fn an_execution_is_kept_as_long_as_its_key(d: &Deployment) {
        let policy = r#"{"retention_ms":0}"#;
        let new = || d.create().idempotency("k", "x").policy(policy).dedup_ms(1000);
        let first = new().send().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        assert_eq!(d.describe(first).await.purge_at, Some(d.now().plus_millis(1000)));
        d.advance(999).await;
        assert_eq!(d.tick().await.purged, 0);
        let (execution_id, public_state) = (first, PublicState::Completed);
        let duplicate = CreateExecutionReply::Duplicate { execution_id, public_state };
        assert_eq!(new().reply().await, Ok(duplicate), "its work is not done twice");
        d.advance(1).await;
        assert_eq!(d.tick().await.purged, 1);
        assert!(hash(&d.dump().await, format!("{}:idem", d.home().key()).as_bytes()).is_empty());
        assert_ne!(new().send().await, first);
    }

    async fn a_priority_puts_an_execution_ahead_of_older_ones(d: &Deployment) {
        let old = d.create_one().await;
        d.advance(1000).await;
        let urgent = d.create().priority(1).send().await;
        assert_eq!(d.claim(LANE).await.id, urgent);
        assert_eq!(d.claim(LANE).await.id, old);
        let stored = record(&d.dump().await, old);
        assert!(!stored.contains_key("pr"), "no priority costs no field");
    }

    async fn several_executions_are_created_in_one_call(d: &Deployment) {
        let known = d.create_one().await;
        let calls = [
            d.create().payload(b"one").call(),
            d.create().id(known).call(),
            d.create().policy("[]").call(),
            d.create().idempotency("k", "x").call(),
            d.create().idempotency("k", "x").call(),
            d.create().idempotency("k", "y").call(),
            d.create().tags(r#"{"Bad":1}"#).call(),
        ];
        assert_eq!(create_together(d, &calls).await, ["1 OK", "1 DUPLICATE",
            "0 invalid_policy_json", "1 OK", "1 DUPLICATE", "0 idempotency_conflict",
            "0 invalid_tag_key"]);
        assert_eq!(d.describe(calls[0].execution_id).await.public_state(), PublicState::Waiting);
        assert_eq!(d.try_describe(calls[2].execution_id).await, None);
    }

    async fn items_come_in_whole_groups(d: &Deployment) {
        let call = CreateExecutions::of([&d.create().call()]).encode();
        let mut args: Vec<&[u8]> = call.iter().collect();
        args.push(b"one too many");
        let answer = d.raw("ff_create_executions", &args).await;
        assert_eq!(answer.code(), "invalid_input");
        let groups = format!("groups of {}, at most", call.len() - 1);
        assert!(answer.text(0).contains(&groups), "{answer:?}");
    }

    async fn items_of_an_older_caller_have_fewer_arguments(d: &Deployment) {
        let calls = [d.create().payload(b"one").call(), d.create().payload(b"two").call()];
        let short = |call: &CreateExecution| {
            call.encode().iter().take(8).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let items: Vec<Vec<u8>> = calls.iter().flat_map(short).collect();
        let args: Vec<&[u8]> =
            std::iter::once(b"8".as_slice()).chain(items.iter().map(Vec::as_slice)).collect();
        assert!(d.raw("ff_create_executions", &args).await.done);
        for call in &calls {
            assert_eq!(d.backend.read_payload(call.execution_id).await.expect("a read").expect("there"), call.payload);
        }
    }

    async fn an_argument_that_this_version_does_not_know_is_refused(d: &Deployment) {
        let mut call = CreateExecutions::of([&d.create().call()]);
        call.width += 1;
        call.items.0.push(b"from a newer caller".to_vec());
        assert_eq!(answers(d, call).await, ["0 invalid_input"]);
    }

    async fn a_broken_policy_says_where_it_is_broken(d: &Deployment) {
        let backoff = |inner: &str| {
            format!(r#"{{"retry_policy":{{"backoff":{{"type":"exponential",{inner}}}}}}}"#)
        };
        let table = [
            ("{".to_owned(), "malformed: "),
            ("[]".to_owned(), "policy:not_object"),
            ("null".to_owned(), "policy:not_object"),
            ("5".to_owned(), "policy:not_object"),
            (r#"{"x":1}"#.to_owned(), "x: unknown field"),
            (r#"{"retry_policy":[]}"#.to_owned(), "retry_policy:not_object"),
            (r#"{"retry_policy":{"max_retries":1.5}}"#.to_owned(), "retry_policy.max_retries: "),
            (r#"{"retry_policy":{"max_retries":1001}}"#.to_owned(), "retry_policy.max_retries: "),
            (r#"{"retry_policy":{"max_retries":1e2}}"#.to_owned(), "malformed: "),
            (r#"{"retry_policy":{"backoff":{"type":"magic"}}}"#.to_owned(),
                "retry_policy.backoff.type: must be"),
            (backoff(r#""multiplier":0.5"#), "retry_policy.backoff.multiplier: must be from 1"),
            (backoff(r#""multiplier":1.0005"#), "retry_policy.backoff.multiplier: must be from 1"),
            (backoff(r#""jitter":1"#), "retry_policy.backoff.jitter: must be true or false"),
            (backoff(r#""initial_delay_ms":10,"max_delay_ms":5"#),
                "retry_policy.backoff.initial_delay_ms: must be at most max_delay_ms"),
            (r#"{"retry_policy":{"retryable_categories":["a,b"]}}"#.to_owned(),
                "retry_policy.retryable_categories: entries must be"),
            (r#"{"timeout_policy":{"attempt_timeout_ms":0}}"#.to_owned(),
                "timeout_policy.attempt_timeout_ms: must be"),
            (r#"{"retention_ms":-1}"#.to_owned(), "retention_ms: must be"),
            (r#"{"retention_ms":1,"retention_ms":2}"#.to_owned(), "malformed: the same name twice"),
        ];
        for (policy, begins) in table {
            let (code, text) = refusal(d.create().policy(&policy).reply().await);
            assert_eq!(code, Code::InvalidPolicyJson, "{policy}");
            assert!(text.starts_with(begins), "{policy}: {text}");
        }
    }

    async fn broken_requirements_are_named_by_their_rule(d: &Deployment) {
        let table = [
            (r#"{"a":1}"#, "required:not_array"),
            ("null", "required:not_array"),
            (r#""gpu""#, "required:not_array"),
            ("[1]", "required:non_string_token"),
            ("[null]", "required:non_string_token"),
            (r#"[""]"#, "required:empty_token"),
            (r#"["a,b"]"#, "required:comma_in_token"),
            (r#"["a b"]"#, "required:control_or_whitespace"),
            (r#"["a\u0001"]"#, "required:control_or_whitespace"),
        ];
        for (list, rule) in table {
            let policy =
                format!(r#"{{"routing_requirements":{{"required_capabilities":{list}}}}}"#);
            let refused = refusal(d.create().policy(&policy).reply().await);
            assert_eq!(refused, (Code::InvalidCapabilities, rule.to_owned()), "{list}");
        }
    }

    async fn long_values_have_keys_of_their_own(d: &Deployment) {
        let policy = format!(r#"{{"retention_ms":1{}}}"#, " ".repeat(300));
        let id = d.create().payload(&[7; 300]).policy(&policy).tags(r#"{"a.b":"c"}"#).send().await;
        let dump = d.dump().await;
        for suffix in [":payload", ":policy", ":tags"] {
            assert!(dump.contains_key(&key_of(id, suffix)), "{suffix}");
        }
        assert_eq!(record(&dump, id)["in2"], "@");
        assert_eq!(d.describe(id).await.policy_json, Some(policy));
    }

    async fn a_time_before_now_is_no_delay(d: &Deployment) {
        for at in [0, 1, d.now().get() - 1, d.now().get()] {
            let id = d.create().delay_until(TimestampMs::new(at)).send().await;
            assert_eq!(d.describe(id).await.public_state(), PublicState::Waiting, "{at}");
            assert_eq!(d.claim(LANE).await.id, id);
        }
    }
}
