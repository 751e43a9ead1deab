//! Defaults of kinds and of the deployment: merged field by field, told by workers, pinned by
//! operators.

use ff_conformance::record::record;
use ff_conformance::{Deployment, LANE, conformance, instance};
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_script::calls::create::CreateExecutionReply;
use ff_script::calls::fact::{InstallFacts, ReadFacts, ReadFactsReply};
use ff_script::calls::kind::{RegisterKind, RegisterKindReply, SetKind, SetKindReply};
use ff_script::wire::Rest;

const KIND: &str = "charge";

fn told(policy: &str, by: &str, started_ms_ago: u64) -> RegisterKind {
    RegisterKind {
        kind: KIND.parse().expect("a kind"),
        policy_json: policy.to_owned(),
        worker_instance_id: instance(by),
        started_ms_ago,
    }
}

fn set(kind: Option<&str>, policy: &str, pinned: Option<bool>) -> SetKind {
    let kind = kind.map(|kind| kind.parse().expect("a kind"));
    SetKind { kind, policy_json: policy.to_owned(), pinning: pinned.into() }
}

/// Why what a worker tells was not taken; nothing if it was.
async fn kept(d: &Deployment, call: RegisterKind) -> Option<String> {
    match d.call(call).await {
        RegisterKindReply::Changed { .. } => None,
        RegisterKindReply::Kept { why, .. } => Some(why),
    }
}

/// Fields of an execution's record that its policy fixed.
async fn fixed(d: &Deployment, policy: &str, fields: &[&str]) -> Vec<Option<String>> {
    let id = d.create().kind(KIND).policy(policy).send().await;
    let mut record = record(&d.dump().await, id);
    fields.iter().map(|field| record.remove(*field)).collect()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| (!text.is_empty()).then(|| (*text).to_owned())).collect()
}

conformance! {
    async fn what_is_unsaid_is_taken_from_the_kind_then_from_the_deployment(d: &Deployment) {
        let fields = ["mp", "mc", "re"];
        assert_eq!(fixed(d, "", &fields).await, some(&["", "", ""]));
        let defaults = r#"{"max_replay_count":1,"max_reclaim_count":1,"retention_ms":1}"#;
        d.call(set(None, defaults, Some(false))).await;
        assert_eq!(fixed(d, "", &fields).await, some(&["1", "1", "1"]));
        let of_kind = r#"{"max_replay_count":2,"max_reclaim_count":2}"#;
        d.call(set(Some(KIND), of_kind, None)).await;
        assert_eq!(fixed(d, "", &fields).await, some(&["2", "2", "1"]));
        let said = r#"{"max_replay_count":3}"#;
        assert_eq!(fixed(d, said, &fields).await, some(&["3", "2", "1"]));
    }

    async fn retries_are_merged_field_by_field(d: &Deployment) {
        let all = r#"{"retry_policy":{"backoff":{"type":"fixed","delay_ms":7}}}"#;
        d.call(set(None, all, Some(false))).await;
        assert_eq!(fixed(d, "", &["rr"]).await, some(&["3:fixed:7:60000:2000:0:"]));
        let of_kind = r#"{"retry_policy":{"max_retries":5,"retryable_categories":["x"]}}"#;
        d.call(set(Some(KIND), of_kind, None)).await;
        assert_eq!(fixed(d, "", &["rr"]).await, some(&["5:fixed:7:60000:2000:0:x"]));
        let said = r#"{"retry_policy":{"max_retries":0}}"#;
        assert_eq!(fixed(d, said, &["rr"]).await, some(&["0:fixed:7:60000:2000:0:x"]));
    }

    async fn output_and_routing_are_merged_too(d: &Deployment) {
        let of_kind = r#"{"stream_policy":{"retention_maxlen":5},
            "routing_requirements":{"required_capabilities":["gpu"]}}"#;
        d.call(set(Some(KIND), of_kind, None)).await;
        let found = fixed(d, "", &["sr", "ca"]).await;
        assert_eq!(found, some(&["durable:5:16777216:", "gpu"]));
        let said = r#"{"stream_policy":{"durability_mode":"best_effort"},
            "routing_requirements":{"required_capabilities":[]}}"#;
        assert_eq!(fixed(d, said, &["sr", "ca"]).await, some(&["best_effort:5:1048576:", ""]));
    }

    async fn a_handler_that_wants_a_retry_gets_one_although_the_submission_says_nothing(
        d: &Deployment
    ) {
        d.call(told(r#"{"retry_policy":{"max_retries":1}}"#, "w-1", 0)).await;
        let id = d.create().kind(KIND).send().await;
        d.call(d.claim(LANE).await.fail("no", "x")).await;
        assert_eq!(d.describe(id).await.public_state(), PublicState::Delayed);
    }

    async fn defaults_hold_for_what_is_created_afterwards(d: &Deployment) {
        let id = d.create().kind(KIND).send().await;
        d.call(told(r#"{"max_replay_count":2}"#, "w-1", 0)).await;
        assert_eq!(record(&d.dump().await, id).get("mp"), None);
    }

    async fn the_same_submission_is_the_same_whatever_its_kind_says(d: &Deployment) {
        let submit = || d.create().kind(KIND).idempotency("key", "digest").call();
        d.call(submit()).await;
        d.call(told(r#"{"max_replay_count":2}"#, "w-1", 0)).await;
        assert!(matches!(d.call(submit()).await, CreateExecutionReply::Duplicate { .. }));
    }

    async fn of_workers_that_differ_the_one_that_started_last_wins(d: &Deployment) {
        d.advance(10_000).await;
        let (old, new) = (r#"{"max_replay_count":1}"#, r#"{"max_replay_count":2}"#);
        assert_eq!(kept(d, told(old, "w-1", 5000)).await, None);
        let before = d.dump().await;
        assert_eq!(kept(d, told(old, "w-2", 0)).await.as_deref(), Some("equal"));
        assert_eq!(d.dump().await, before, "equal ones write nothing");
        assert_eq!(kept(d, told(new, "w-3", 6000)).await.as_deref(), Some("newer"));
        assert_eq!(kept(d, told(new, "w-3", 4000)).await, None);
        assert_eq!(fixed(d, "", &["mp"]).await, some(&["2"]));
    }

    async fn what_is_pinned_stays_until_it_is_freed(d: &Deployment) {
        let (one, two) = (r#"{"max_replay_count":1}"#, r#"{"max_replay_count":2}"#);
        d.call(set(Some(KIND), one, None)).await;
        assert_eq!(kept(d, told(two, "w-1", 0)).await.as_deref(), Some("pinned"));
        d.call(set(Some(KIND), "", Some(false))).await;
        assert_eq!(kept(d, told(two, "w-1", 0)).await, None);
        d.call(set(Some(KIND), "", Some(true))).await;
        assert_eq!(kept(d, told(one, "w-2", 0)).await.as_deref(), Some("pinned"));
        assert!(matches!(d.call(set(Some(KIND), "", Some(true))).await,
            SetKindReply::Known { .. }));
        d.call(set(Some(KIND), "{}", Some(false))).await;
        let ReadFactsReply::Facts { facts, .. } = d.call(ReadFacts { whole: true }).await;
        assert!(facts.0.is_empty(), "{facts:?}");
    }

    async fn a_worker_without_defaults_takes_back_what_an_older_one_told(d: &Deployment) {
        assert_eq!(kept(d, told("", "w-1", 0)).await.as_deref(), Some("equal"), "none, as before");
        d.call(told(r#"{"max_replay_count":1}"#, "w-1", 0)).await;
        d.advance(10).await;
        assert_eq!(kept(d, told("{}", "w-2", 0)).await, None);
        assert_eq!(fixed(d, "", &["mp"]).await, some(&[""]));
    }

    async fn a_policy_that_no_submission_could_have_is_nobodys_default(d: &Deployment) {
        for policy in ["[", r#"{"retries":1}"#, r#"{"max_replay_count":-1}"#] {
            let code = d.refused(told(policy, "w-1", 0)).await;
            assert_eq!(code, Code::InvalidPolicyJson, "{policy}");
            let code = d.refused(set(Some(KIND), policy, None)).await;
            assert_eq!(code, Code::InvalidPolicyJson, "{policy}");
        }
        let capabilities = r#"{"routing_requirements":{"required_capabilities":["a b"]}}"#;
        assert_eq!(d.refused(told(capabilities, "w-1", 0)).await, Code::InvalidCapabilities);
        let code = d.refused(set(None, capabilities, None)).await;
        assert_eq!(code, Code::InvalidCapabilities);
    }

    async fn damaged_defaults_say_nothing(d: &Deployment) {
        let facts = ["kind:charge", r#"{"policy":{"x":1}}"#, "kind:", "["];
        let facts = Rest(facts.map(String::from).into());
        d.call(InstallFacts { expected: 0, revision: 1, whole: false, facts }).await;
        assert_eq!(fixed(d, "", &["mp", "rr"]).await, some(&["", ""]));
    }
}
