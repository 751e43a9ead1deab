//! Known weaknesses of libraries like ours, each as the behaviour we want instead: validation and
//! operations.

use ff_conformance::{Deployment, Held, LANE, conformance};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_script::call::Call;
use ff_script::calls;

use super::replay::replay;

/// The code that refuses a policy or tags; None if they are accepted.
async fn code_of(d: &Deployment, policy: &str, tags: &str) -> Option<Code> {
    d.create().policy(policy).tags(tags).reply().await.err().and_then(|error| error.code())
}

fn requiring(json: &str) -> String {
    format!(r#"{{"routing_requirements":{{"required_capabilities":{json}}}}}"#)
}

/// Calls a function with one argument replaced by a text of this size; true if it was done.
async fn fits(d: &Deployment, name: &str, args: &[Vec<u8>], position: usize, bytes: u64) -> bool {
    let text = vec![b'a'; bytes as usize];
    let args: Vec<&[u8]> = args
        .iter()
        .enumerate()
        .map(|(at, argument)| if at == position { text.as_slice() } else { argument.as_slice() })
        .collect();
    let answer = d.raw(name, &args).await;
    assert!(answer.done || matches!(&*answer.word, "invalid_input" | "payload_too_large"));
    answer.done
}

fn encode(call: &impl Call) -> Vec<Vec<u8>> {
    call.encode().iter().map(<[u8]>::to_vec).collect()
}

async fn fresh(d: &Deployment) -> Held {
    let id = d.create().priority(9).send().await;
    let held = d.claim(LANE).await;
    assert_eq!(held.id, id);
    held
}

conformance! {
    async fn w29_required_capabilities_fail_closed(d: &Deployment) {
        for wrong in ["{}", r#"{"0":"gpu"}"#, "null", "5", r#""gpu""#, "[1]", r#"["a b"]"#] {
            let code = code_of(d, &requiring(wrong), "").await;
            assert_eq!(code, Some(Code::InvalidCapabilities), "{wrong}");
        }
        let many: Vec<String> = (0..257).map(|n| format!(r#""{n}""#)).collect();
        let many = format!("[{}]", many.join(","));
        assert_eq!(code_of(d, &requiring(&many), "").await, Some(Code::InvalidCapabilities));
        let same = format!("[{}]", vec![r#""gpu""#; 200].join(","));
        let id = d.create().policy(&requiring(&same)).send().await;
        assert_eq!(d.describe(id).await.required_capabilities.csv(), "gpu", "told once");
        assert!(d.try_claim(LANE).await.is_none(), "not any worker matches");
    }

    async fn w30_tags_are_a_flat_object_of_short_texts(d: &Deployment) {
        for wrong in ["[]", "5", r#""x""#, "null", "{", r#"{"a.b":null}"#, r#"{"a.b":{}}"#,
            r#"{"a.b":[]}"#, r#"{"a.b":1.5}"#, r#"{"a.b":9007199254740993}"#, r#"{"a.b":1e5}"#,
            r#"{"a.b":"x","a.b":"y"}"#] {
            assert_eq!(code_of(d, "", wrong).await, Some(Code::InvalidInput), "{wrong}");
        }
        let id = d.create().tags(r#"{"a.b":9007199254740991,"c.d":false,"e.f":-5}"#).send().await;
        let tags = d.describe(id).await.tags;
        let values: Vec<&str> = tags.values().map(String::as_str).collect();
        assert_eq!(values, ["9007199254740991", "false", "-5"]);
        let many: Vec<String> = (0..65).map(|n| format!(r#""n.{n}":"""#)).collect();
        let most = format!("{{{}}}", many[..64].join(","));
        assert_eq!(code_of(d, "", &most).await, None);
        let more = format!("{{{}}}", many.join(","));
        assert_eq!(code_of(d, "", &more).await, Some(Code::InvalidInput));
    }

    async fn w45_every_text_is_bounded(d: &Deployment) {
        d.host().watch(false);
        let reason = limits::REASON_BYTES_MAX;
        let create = || encode(&d.create().call());
        for (position, most) in [(5, limits::CREATOR_BYTES_MAX), (13, 64)] {
            assert!(fits(d, "ff_create_execution", &create(), position, most).await);
            assert!(!fits(d, "ff_create_execution", &create(), position, most + 1).await);
        }
        for (position, most) in [(6, limits::POLICY_BYTES_MAX), (10, limits::TAGS_BYTES_MAX)] {
            assert!(!fits(d, "ff_create_execution", &create(), position, most + 1).await);
        }
        let fail = |held: &Held| encode(&held.fail("", "x"));
        for (position, most) in [(4, reason), (5, limits::CATEGORY_BYTES_MAX),
            (6, limits::FAILURE_DETAIL_BYTES_MAX)] {
            let held = fresh(d).await;
            assert!(!fits(d, "ff_fail_execution", &fail(&held), position, most + 1).await);
            assert!(fits(d, "ff_fail_execution", &fail(&held), position, most).await);
        }
        let held = fresh(d).await;
        let message = limits::PROGRESS_MESSAGE_BYTES_MAX;
        let progress = encode(&held.progress("", ""));
        assert!(!fits(d, "ff_update_progress", &progress, 5, message + 1).await);
        assert!(fits(d, "ff_update_progress", &progress, 5, message).await);
        let cancel = encode(&held.cancel(""));
        assert!(!fits(d, "ff_cancel_execution", &cancel, 4, reason + 1).await);
        assert!(fits(d, "ff_cancel_execution", &cancel, 4, reason).await);
        for (position, most) in [(1, reason), (2, limits::CREATOR_BYTES_MAX)] {
            let again = encode(&replay(held.id));
            assert!(!fits(d, "ff_replay_execution", &again, position, most + 1).await);
            assert!(fits(d, "ff_replay_execution", &again, position, most).await);
            let held = d.claim(LANE).await;
            let revoke = encode(&super::lease::revoke(&held, ""));
            assert!(!fits(d, "ff_revoke_lease", &revoke, 2, reason + 1).await);
            d.call(held.complete(b"")).await;
        }
    }

    async fn w45_an_empty_result_replaces_the_old_one(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(&[7; 900])).await;
        d.call(replay(held.id)).await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        let result = d.backend.read_result(held.id).await.expect("it can be read");
        assert_eq!(result.as_deref(), Some(b"".as_slice()));
    }

    /// The host sends readers as such, and they write nothing: the harness compares every key.
    async fn w49_readers_are_declared_as_readers(d: &Deployment) {
        let readers: Vec<&str> = calls::contracts()
            .filter(|contract| contract.read_only)
            .map(|contract| contract.name)
            .collect();
        for name in ["ff_version", "ff_describe_execution", "ff_read_payload", "ff_read_result",
            "ff_list_attempts", "ff_list_executions", "ff_read_events", "ff_list_lanes"] {
            assert!(readers.contains(&name), "{name}");
        }
        assert_eq!(d.raw("ff_version", &[]).await.word, "OK");
    }
}
