//! Facts that every partition knows: from one revision to the next, and never back.

use ff_conformance::gates::Limits;
use ff_conformance::{Deployment, conformance, lane};
use ff_core::error::Code;
use ff_core::limits;
use ff_script::calls::fact::{
    ConfirmFacts, ConfirmFactsReply, InstallFacts, InstallFactsReply, ReadFacts, ReadFactsReply,
};
use ff_script::calls::kind::{Pinning, RegisterKind, SetKind};
use ff_script::calls::lane::{SetLane, SetLaneReply};
use ff_script::wire::Rest;

use super::scenario::encode;

/// Prepares a function and gives its arguments.
pub(crate) async fn prepare(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    let fresh = d.new_uuid().as_u128() & 0xffff_ffff;
    let revision = revision_of(d).await;
    match name {
        "ff_set_lane" => encode(&SetLane { paused: Some(true), ..unset(&format!("l{fresh}")) }),
        "ff_register_kind" => encode(&RegisterKind {
            kind: format!("k{fresh}").parse().expect("a kind"),
            policy_json: r#"{"max_replay_count":3}"#.to_owned(),
            worker_instance_id: ff_conformance::instance("w-1"),
            started_ms_ago: 1,
        }),
        "ff_set_kind" => encode(&SetKind {
            kind: Some(format!("k{fresh}").parse().expect("a kind")),
            policy_json: r#"{"max_replay_count":3}"#.to_owned(),
            pinning: Pinning::Pin,
        }),
        "ff_read_facts" => encode(&ReadFacts { whole: true }),
        "ff_confirm_facts" => {
            d.call(step(revision, revision + 1, &[("lane:a", &fresh.to_string())])).await;
            encode(&ConfirmFacts { revision: revision + 1 })
        }
        _ => encode(&step(revision, revision + 1, &[("lane:a", r#"{"paused_at":1}"#)])),
    }
}

/// A change of nothing.
pub(crate) fn unset(name: &str) -> SetLane {
    SetLane {
        lane: lane(name),
        paused: None,
        waiting_max: None,
        order: None,
        fair_by: None,
        weights_json: String::new(),
        claim_weight: None,
    }
}

fn flat(facts: &[(&str, &str)]) -> Rest<String> {
    Rest(facts.iter().flat_map(|(name, value)| [name.to_string(), value.to_string()]).collect())
}

fn step(expected: u64, revision: u64, facts: &[(&str, &str)]) -> InstallFacts {
    InstallFacts { expected, revision, whole: false, facts: flat(facts) }
}

fn whole(expected: u64, revision: u64, facts: &[(&str, &str)]) -> InstallFacts {
    InstallFacts { whole: true, ..step(expected, revision, facts) }
}

async fn revision_of(d: &Deployment) -> u64 {
    let ReadFactsReply::Facts { revision, facts, .. } = d.call(ReadFacts { whole: false }).await;
    assert!(facts.0.is_empty(), "they were not asked for");
    revision
}

/// The facts of a partition, and their revision.
async fn known(d: &Deployment) -> (u64, Vec<String>) {
    let ReadFactsReply::Facts { revision, facts, .. } = d.call(ReadFacts { whole: true }).await;
    (revision, facts.0)
}

conformance! {
    async fn a_partition_goes_from_one_revision_to_the_next(d: &Deployment) {
        assert_eq!(known(d).await, (0, Vec::new()));
        let first = step(0, 7, &[("lane:a", "{}"), ("kind:b", "{}")]);
        assert_eq!(d.call(first).await, InstallFactsReply::Installed {});
        assert_eq!(known(d).await, (7, ["kind:b", "{}", "lane:a", "{}"].map(String::from).into()));
        assert_eq!(d.call(step(7, 8, &[("kind:b", "")])).await, InstallFactsReply::Installed {});
        assert_eq!(known(d).await, (8, ["lane:a", "{}"].map(String::from).into()));
    }

    async fn what_comes_late_or_twice_has_no_effect(d: &Deployment) {
        d.call(step(0, 7, &[("lane:a", "{}")])).await;
        let before = d.dump().await;
        let again = d.call(step(0, 7, &[("lane:a", "{}")])).await;
        assert_eq!(again, InstallFactsReply::Known {});
        let (code, details) = d.refusal(step(0, 5, &[("lane:a", "")])).await;
        assert_eq!((code, details), (Code::FactsDiffer, vec!["7".to_owned()]));
        assert_eq!(d.refused(whole(6, 9, &[])).await, Code::FactsDiffer);
        assert_eq!(d.dump().await, before);
    }

    async fn the_whole_takes_the_place_of_all_that_was_known(d: &Deployment) {
        d.call(step(0, 7, &[("lane:a", "{}"), ("lane:b", "{}")])).await;
        d.call(whole(7, 9, &[("lane:b", "{}"), ("lane:c", "{}")])).await;
        let facts = ["lane:b", "{}", "lane:c", "{}"].map(String::from);
        assert_eq!(known(d).await, (9, facts.into()));
    }

    async fn malformed_facts_are_refused(d: &Deployment) {
        for name in ["", "lane", "revision", "Lane:a", "lane:\n"] {
            assert_eq!(d.refused(step(0, 1, &[(name, "{}")])).await, Code::InvalidInput, "{name}");
        }
        let odd = InstallFacts { facts: Rest(vec!["lane:a".to_owned()]), ..step(0, 1, &[]) };
        assert_eq!(d.refused(odd).await, Code::InvalidInput);
    }

    async fn a_revision_is_confirmed_while_it_is_the_latest(d: &Deployment) {
        d.call(step(0, 7, &[])).await;
        let confirm = || ConfirmFacts { revision: 7 };
        assert_eq!(d.call(confirm()).await, ConfirmFactsReply::Confirmed {});
        assert_eq!(d.call(confirm()).await, ConfirmFactsReply::Known {});
        let ReadFactsReply::Facts { installed, .. } = d.call(ReadFacts { whole: false }).await;
        assert_eq!(installed, 7);
        d.call(step(7, 8, &[])).await;
        assert_eq!(d.refused(confirm()).await, Code::FactsDiffer);
    }

    async fn a_change_has_a_revision_of_its_own_whatever_the_clock_says(d: &Deployment) {
        let pause = |paused| SetLane { paused: Some(paused), ..unset("a") };
        let SetLaneReply::Changed { revision: first, before: 0, .. } = d.call(pause(true)).await
        else { panic!("it was the first") };
        assert_eq!(first, d.now().get(), "it is a time");
        let SetLaneReply::Changed { revision, before, .. } = d.call(pause(false)).await
        else { panic!("it was another") };
        assert_eq!((before, revision), (first, first + 1));
        d.advance(1000).await;
        let SetLaneReply::Changed { revision, .. } = d.call(pause(true)).await
        else { panic!("it was another") };
        assert_eq!(revision, d.now().get());
    }

    async fn there_are_as_many_facts_as_fit_and_not_more(d: &Deployment) {
        d.host().watch(false);
        let names: Vec<String> = (0..limits::FACTS_MAX).map(|n| format!("kind:{n}")).collect();
        let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "{}")).collect();
        d.call(whole(0, 7, &all)).await;
        let pause = |name| SetLane { paused: Some(true), ..unset(name) };
        assert_eq!(d.refused(pause("a")).await, Code::FactsLimitExceeded);
        let quota = Limits::at_once(1).note(d.new_policy_id());
        assert_eq!(d.refused(quota).await, Code::FactsLimitExceeded);
        let policy_json = r#"{"max_replay_count":3}"#.to_owned();
        let kind = |name: &str| name.parse().expect("a kind");
        let set = |name| SetKind {
            kind: Some(kind(name)), policy_json: policy_json.clone(), pinning: Pinning::Keep };
        assert_eq!(d.refused(set("more")).await, Code::FactsLimitExceeded);
        let register = RegisterKind {
            kind: kind("more"), policy_json: policy_json.clone(),
            worker_instance_id: ff_conformance::instance("w-1"), started_ms_ago: 0 };
        assert_eq!(d.refused(register).await, Code::FactsLimitExceeded);
        d.call(set("0")).await;
        d.call(step(revision_of(d).await, d.now().get() + 9, &[("kind:1", "")])).await;
        d.call(pause("a")).await;
    }
}
