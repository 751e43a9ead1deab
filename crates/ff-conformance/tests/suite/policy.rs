//! Policies at the edges of what they may say.

use ff_conformance::record::record;
use ff_conformance::{Deployment, LANE, LEASE_MS, conformance};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::state::PublicState;

/// Why a policy is refused; nothing if it is taken.
async fn refusal(d: &Deployment, policy: &str) -> Option<String> {
    match d.try_call(d.create().policy(policy).call()).await {
        Ok(_) => None,
        Err(EngineError::Refused { code, details }) => {
            assert_eq!(code, Code::InvalidPolicyJson, "{policy}");
            Some(details.concat())
        }
        Err(other) => panic!("{policy}: {other}"),
    }
}

fn retry(field: &str) -> String {
    format!(r#"{{"retry_policy":{{{field}}}}}"#)
}

fn timeout(field: &str) -> String {
    format!(r#"{{"timeout_policy":{{{field}}}}}"#)
}

fn stream(field: &str) -> String {
    format!(r#"{{"stream_policy":{{{field}}}}}"#)
}

fn backoff(field: &str) -> String {
    retry(&format!(r#""backoff":{{"type":"exponential",{field}}}"#))
}

fn categories(list: &[String]) -> String {
    let list: Vec<String> = list.iter().map(|category| format!(r#""{category}""#)).collect();
    retry(&format!(r#""retryable_categories":[{}]"#, list.join(",")))
}

conformance! {
    async fn every_number_has_its_first_and_its_last(d: &Deployment) {
        d.host().watch(false);
        // `@` stands for the number.
        let longest = limits::DELAY_MS_MAX;
        let initial = format!(r#""initial_delay_ms":@,"max_delay_ms":{longest}"#);
        for (name, policy, low, high) in [
            ("max_retries", retry(r#""max_retries":@"#), 0, limits::MAX_RETRIES_MAX),
            ("delay_ms", retry(r#""backoff":{"type":"fixed","delay_ms":@}"#), 0, longest),
            ("initial_delay_ms", backoff(&initial), 0, longest),
            ("max_delay_ms", backoff(r#""initial_delay_ms":0,"max_delay_ms":@"#), 0, longest),
            ("attempt_timeout_ms", timeout(r#""attempt_timeout_ms":@"#), 1, longest),
            ("execution_deadline_ms", timeout(r#""execution_deadline_ms":@"#), 1, longest),
            ("max_reclaim_count", timeout(r#""max_reclaim_count":@"#), 0, limits::MAX_RECLAIMS_MAX),
            ("max_reclaim_count", r#"{"max_reclaim_count":@}"#.to_owned(), 0,
                limits::MAX_RECLAIMS_MAX),
            ("max_replay_count", r#"{"max_replay_count":@}"#.to_owned(), 0,
                limits::MAX_REPLAYS_MAX),
            ("retention_ms", r#"{"retention_ms":@}"#.to_owned(), 0, limits::RETENTION_MS_MAX),
            ("ageing_ms", r#"{"ageing_ms":@}"#.to_owned(), 0, longest),
            ("retention_maxlen", stream(r#""retention_maxlen":@"#), 1, limits::STREAM_FRAMES_MAX),
            ("retention_bytes", stream(r#""retention_bytes":@"#), 1, limits::STREAM_BYTES_MAX),
            ("retention_ttl_ms", stream(r#""retention_ttl_ms":@"#), 0, limits::RETENTION_MS_MAX),
            ("dedup_window_ms", r#"{"dedup_window_ms":@}"#.to_owned(), 1, limits::DEDUP_MS_MAX),
        ] {
            let with = |value: i64| policy.replace('@', &value.to_string());
            for value in [low, high] {
                assert_eq!(refusal(d, &with(value as i64)).await, None, "{name} {value}");
            }
            for value in [low as i64 - 1, high as i64 + 1] {
                let text = refusal(d, &with(value)).await.expect("it is refused");
                let rule = format!("{name}: must be a whole number from {low} to {high}");
                assert!(text.ends_with(&rule), "{name} {value}: {text}");
            }
        }
    }

    async fn a_multiplier_has_three_decimals_from_1_to_100(d: &Deployment) {
        for number in ["1", "1.0", "1.001", "2.999", "99.999", "100"] {
            assert_eq!(refusal(d, &backoff(&format!(r#""multiplier":{number}"#))).await, None);
        }
        for number in ["0", "0.999", "1.0001", "1.9999", "100.001", "101", "-2", "true", "\"2\"",
            "[2]"] {
            let text = refusal(d, &backoff(&format!(r#""multiplier":{number}"#))).await;
            let rule = "retry_policy.backoff.multiplier: must be from 1 to 100 with at most three \
                decimals";
            assert_eq!(text.as_deref(), Some(rule), "{number}");
        }
    }

    async fn categories_are_few_short_words(d: &Deployment) {
        let word = |length: u64| "c".repeat(length as usize);
        let longest = word(limits::CATEGORY_BYTES_MAX);
        let many: Vec<String> =
            (0..=limits::RETRYABLE_CATEGORIES_MAX).map(|n| format!("c{n}")).collect();
        for list in [vec![], vec!["a".to_owned()], vec!["!~".to_owned()], vec![longest],
            many[1..].to_vec()] {
            assert_eq!(refusal(d, &categories(&list)).await, None, "{list:?}");
        }
        let begin = "retry_policy.retryable_categories: ";
        let words = format!("{begin}entries must be words of at most 64 printable characters \
            without , and :");
        let longer = word(limits::CATEGORY_BYTES_MAX + 1);
        for wrong in ["", "a b", "a,b", "a:b", "é", r"\u007f", r"\u0000", &longer] {
            let list = ["good".to_owned(), wrong.to_owned()];
            assert_eq!(refusal(d, &categories(&list)).await.as_ref(), Some(&words), "{wrong}");
        }
        let text = refusal(d, &retry(r#""retryable_categories":[1]"#)).await;
        assert_eq!(text, Some(words));
        assert_eq!(refusal(d, &categories(&many)).await,
            Some(format!("{begin}must have at most 64 entries")));
        for wrong in ["5", "{}", "\"a\""] {
            let text = refusal(d, &retry(&format!(r#""retryable_categories":{wrong}"#))).await;
            assert_eq!(text, Some(format!("{begin}must be a list")), "{wrong}");
        }
    }

    async fn what_is_no_object_and_what_is_unknown_is_named_by_its_path(d: &Deployment) {
        let long = "x".repeat(200);
        for (policy, text) in [
            (r#"[]"#.to_owned(), "policy:not_object".to_owned()),
            (r#""x""#.to_owned(), "policy:not_object".to_owned()),
            (r#"{"timeout_policy":5}"#.to_owned(), "timeout_policy:not_object".to_owned()),
            (r#"{"timeout_policy":[]}"#.to_owned(), "timeout_policy:not_object".to_owned()),
            (r#"{"timeout_policy":{"x":1}}"#.to_owned(), "timeout_policy.x: unknown field".into()),
            (r#"{"x":null}"#.to_owned(), "x: unknown field".to_owned()),
            // Nothing is promised that nobody does.
            (r#"{"routing_requirements":{"preferred_locality":"eu"}}"#.to_owned(),
                "routing_requirements.preferred_locality: unknown field".to_owned()),
            (r#"{"routing_requirements":{"isolation_level":"vm"}}"#.to_owned(),
                "routing_requirements.isolation_level: unknown field".to_owned()),
            (r#"{"retention_ms":-1,"x":1}"#.to_owned(),
                "retention_ms: must be a whole number from 0 to 31622400000".to_owned()),
            (format!(r#"{{"{long}":1}}"#), format!("{}: unknown field", &long[..128])),
            (retry(r#""backoff":{}"#), "retry_policy.backoff.type: must be \"fixed\" or \
                \"exponential\"".to_owned()),
            (retry(r#""backoff":[]"#), "retry_policy.backoff.type: must be \"fixed\" or \
                \"exponential\"".to_owned()),
            (retry(r#""backoff":7"#), "retry_policy.backoff.type: must be \"fixed\" or \
                \"exponential\"".to_owned()),
            (retry(r#""backoff":{"type":"fixed","jitter":true}"#),
                "retry_policy.backoff.jitter: unknown field".to_owned()),
            (backoff(r#""jitter":1"#),
                "retry_policy.backoff.jitter: must be true or false".to_owned()),
            (backoff(r#""initial_delay_ms":60001"#),
                "retry_policy.backoff.initial_delay_ms: must be at most max_delay_ms".to_owned()),
        ] {
            assert_eq!(refusal(d, &policy).await, Some(text), "{policy}");
        }
        let equal = backoff(r#""initial_delay_ms":60000"#);
        assert_eq!(refusal(d, &equal).await, None, "the first delay may be the longest");
    }

    async fn a_stream_policy_is_stored_with_what_it_does_not_say(d: &Deployment) {
        for (policy, rule) in [
            ("", "durable:10000:16777216:"),
            (r#""durability_mode":"durable","retention_bytes":5"#, "durable:10000:5:"),
            (r#""durability_mode":"best_effort""#, "best_effort:100:1048576:"),
            (r#""durability_mode":"summary","retention_ttl_ms":0"#, "summary:100:1048576:0"),
            (r#""retention_maxlen":7,"durability_mode":null"#, "durable:7:16777216:"),
        ] {
            let id = d.create().policy(&stream(policy)).send().await;
            assert_eq!(record(&d.dump().await, id)["sr"], rule, "{policy}");
        }
        let words = "stream_policy.durability_mode: must be \"durable\", \"best_effort\" or \
            \"summary\"";
        for wrong in ["\"lossy\"", "1", "{}", "[]", "true", "\"\""] {
            let text = refusal(d, &stream(&format!(r#""durability_mode":{wrong}"#))).await;
            assert_eq!(text.as_deref(), Some(words), "{wrong}");
        }
        assert_eq!(refusal(d, r#"{"stream_policy":[]}"#).await.as_deref(),
            Some("stream_policy:not_object"));
    }

    async fn of_two_reclaim_limits_the_smaller_holds(d: &Deployment) {
        for policy in [
            r#"{"max_reclaim_count":0,"timeout_policy":{"max_reclaim_count":5}}"#,
            r#"{"timeout_policy":{"max_reclaim_count":0},"max_reclaim_count":5}"#,
            r#"{"max_reclaim_count":5,"timeout_policy":{"max_reclaim_count":0}}"#,
        ] {
            d.create().policy(policy).send().await;
            let held = d.claim(LANE).await;
            d.advance(LEASE_MS).await;
            d.tick().await;
            let state = d.describe(held.id).await.public_state();
            assert_eq!(state, PublicState::Failed, "{policy}");
        }
    }
}
