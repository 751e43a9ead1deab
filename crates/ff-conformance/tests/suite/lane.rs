//! Lanes that are paused, limited and shared.

use ff_conformance::record::{member_score, record};
use ff_conformance::{Deployment, LANE, conformance};
use ff_core::error::Code;
use ff_core::state::{BlockingReason, EligibilityState, PublicState};
use ff_core::types::{AttemptId, ExecutionId, LeaseId};
use ff_script::calls::change::ChangePriority;
use ff_script::calls::claim::{ClaimExecution, ClaimResumedExecution, ReclaimExecution};
use ff_script::calls::create::CreateExecutionReply;
use ff_script::calls::fact::{InstallFacts, ReadFacts, ReadFactsReply};
use ff_script::calls::grant::{GrantNext, GrantNextReply};
use ff_script::calls::lane::{SetLane, SetLaneReply};
use ff_script::host::Topic;
use ff_script::wire::{Joined, Rest};

use super::between::revoke;
use super::cancel::outside;
use super::fact::unset;

fn pause(paused: bool) -> SetLane {
    SetLane { paused: Some(paused), ..unset(LANE) }
}

fn fair(by: Option<&str>, weights: &str) -> SetLane {
    SetLane {
        order: Some("fair".to_owned()),
        fair_by: by.map(str::to_owned),
        weights_json: weights.to_owned(),
        ..unset(LANE)
    }
}

/// What is known of a lane after a change.
async fn set(d: &Deployment, change: SetLane) -> String {
    match d.call(change).await {
        SetLaneReply::Changed { value, .. } | SetLaneReply::Known { value, .. } => value,
    }
}

/// The namespaces of what is claimed next, in order.
async fn served(d: &Deployment, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(d.claim(LANE).await.row.namespace.to_string());
    }
    names
}

async fn submit(d: &Deployment, namespace: &str, count: usize) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(d.create().namespace(namespace).send().await);
    }
    ids
}

/// The rank of an execution; the audit compares it with its score in the queue.
async fn rank_of(d: &Deployment, id: ExecutionId) -> Option<String> {
    record(&d.dump().await, id).remove("fq")
}

fn grant_next(d: &Deployment) -> GrantNext {
    let call = d.claim_call(LANE, 1);
    GrantNext {
        lane: call.lane,
        worker_id: call.worker_id,
        worker_instance_id: call.worker_instance_id,
        capabilities: call.capabilities,
        grant_ttl_ms: 1000,
        retry: false,
        grant_id: ff_core::types::GrantId::from_uuid(d.new_uuid()),
        need: None,
        score_max: None,
        namespaces: Joined(Vec::new()),
    }
}

conformance! {
    async fn a_paused_lane_hands_nothing_out_and_what_runs_goes_on(d: &Deployment) {
        let held = d.create_and_claim().await;
        let waiting = d.create_one().await;
        set(d, pause(true)).await;
        assert!(d.try_claim(LANE).await.is_none());
        assert_eq!(d.call(grant_next(d)).await, GrantNextReply::Nothing { next_score: None });
        d.call(held.renew(5000)).await;
        d.call(held.complete(b"done")).await;
        let shown = d.describe(waiting).await;
        assert_eq!(shown.public_state(), PublicState::Waiting);
        assert_eq!(shown.state.blocking_reason, BlockingReason::PausedByPolicy);
        assert_eq!(shown.state.eligibility_state, EligibilityState::BlockedByLaneState);
        assert_eq!(shown.blocking_detail.as_deref(), Some("the lane default is paused"));
        set(d, pause(false)).await;
        assert_eq!(d.claim(LANE).await.id, waiting);
    }

    async fn a_claim_that_is_asked_for_again_is_answered_although_its_lane_was_paused(
        d: &Deployment
    ) {
        let id = d.create_one().await;
        let mut call = d.claim_call(LANE, 1);
        d.claimed(call.clone()).await;
        set(d, pause(true)).await;
        call.retry = true;
        assert_eq!(d.claimed(call).await[0].id, id);
    }

    async fn nobody_gets_or_uses_a_grant_of_a_paused_lane(d: &Deployment) {
        let paused = d.create_and_claim().await;
        d.call(paused.wait_for_children()).await;
        let (fresh, granted) = (d.create_one().await, d.create_one().await);
        let grant = d.claim_grant_call(granted);
        d.call(grant.clone()).await;
        let resumed = d.claim_grant_call(paused.id);
        d.call(resumed.clone()).await;
        set(d, pause(true)).await;
        assert_eq!(d.refused(d.claim_grant_call(fresh)).await, Code::LanePaused);
        let lease_id = LeaseId::from_uuid(d.new_uuid());
        let attempt_id = AttemptId::from_uuid(d.new_uuid());
        let claim = ClaimExecution {
            execution_id: granted, worker_id: grant.worker_id.clone(),
            worker_instance_id: grant.worker_instance_id.clone(), lane: None,
            grant_id: grant.grant_id, lease_id, lease_ttl_ms: 1000, attempt_id };
        assert_eq!(d.refused(claim.clone()).await, Code::LanePaused);
        let resume = ClaimResumedExecution {
            execution_id: paused.id, worker_id: grant.worker_id.clone(),
            worker_instance_id: grant.worker_instance_id.clone(), lane: None,
            grant_id: resumed.grant_id, lease_id, lease_ttl_ms: 1000 };
        assert_eq!(d.refused(resume).await, Code::LanePaused);
        set(d, pause(false)).await;
        d.call(claim).await;
    }

    async fn nobody_takes_over_in_a_paused_lane(d: &Deployment) {
        let (one, two) = (d.create_and_claim().await, d.create_and_claim().await);
        d.call(revoke(one.id, None)).await;
        d.call(revoke(two.id, None)).await;
        let grant = d.reclaim_grant_call(one.id);
        d.call(grant.clone()).await;
        set(d, pause(true)).await;
        assert_eq!(d.refused(d.reclaim_grant_call(two.id)).await, Code::LanePaused);
        let reclaim = ReclaimExecution {
            execution_id: one.id, worker_id: grant.0.worker_id.clone(),
            worker_instance_id: grant.0.worker_instance_id.clone(), lane: None,
            grant_id: grant.0.grant_id, lease_id: LeaseId::from_uuid(d.new_uuid()),
            lease_ttl_ms: 1000, attempt_id: AttemptId::from_uuid(d.new_uuid()) };
        assert_eq!(d.refused(reclaim).await, Code::LanePaused);
    }

    async fn who_waits_for_a_paused_lane_is_told_that_it_is_resumed(d: &Deployment) {
        d.create_one().await;
        set(d, pause(true)).await;
        let mut listener = d.listen(Topic::Ready).await;
        set(d, pause(false)).await;
        let told = listener.next().await;
        assert!(told.starts_with("1:") && told.contains(":default:"), "{told}");
    }

    async fn a_pause_is_said_once_and_leaves_other_settings_alone(d: &Deployment) {
        let at = d.now().get();
        let limited = SetLane { waiting_max: Some(9), ..unset(LANE) };
        assert!(set(d, limited).await.starts_with(r#"{"waiting_max":9,"#));
        let paused = set(d, pause(true)).await;
        assert!(paused.starts_with(&format!(r#"{{"paused_at":{at},"waiting_max":9"#)), "{paused}");
        d.advance(50).await;
        let before = d.dump().await;
        assert!(matches!(d.call(pause(true)).await, SetLaneReply::Known { .. }));
        assert_eq!(d.dump().await, before);
        let resumed = set(d, pause(false)).await;
        assert!(!resumed.contains("paused") && resumed.contains("waiting_max"), "{resumed}");
        assert_eq!(set(d, SetLane { waiting_max: Some(0), ..unset(LANE) }).await, "");
        let ReadFactsReply::Facts { facts, .. } = d.call(ReadFacts { whole: true }).await;
        assert!(facts.0.is_empty(), "nothing is left of a lane that is as any: {facts:?}");
    }

    async fn a_full_lane_takes_nothing_new_and_answers_what_is_asked_again(d: &Deployment) {
        set(d, SetLane { waiting_max: Some(2), ..unset(LANE) }).await;
        let first = d.create().call();
        d.call(first.clone()).await;
        let again = d.create().idempotency("key", "digest");
        let again = again.call();
        d.call(again.clone()).await;
        assert_eq!(d.refused(d.create().call()).await, Code::LaneFull);
        assert!(matches!(d.call(first).await, CreateExecutionReply::Duplicate { .. }));
        assert!(matches!(d.call(again).await, CreateExecutionReply::Duplicate { .. }));
        d.create().lane("other").send().await;
        d.claim(LANE).await;
        d.create_one().await;
    }

    async fn bad_settings_are_refused(d: &Deployment) {
        for by in ["tenant", "a b", "team."] {
            assert_eq!(d.refused(fair(Some(by), "")).await, Code::InvalidInput, "{by}");
        }
        for weights in ["[]", "1", r#"{"a":0}"#, r#"{"a":1.5}"#, r#"{"a":1001}"#, r#"{"a":"1"}"#] {
            assert_eq!(d.refused(fair(None, weights)).await, Code::InvalidInput, "{weights}");
        }
        let many: Vec<String> = (0..101).map(|n| format!(r#""{n}":1"#)).collect();
        let many = format!("{{{}}}", many.join(","));
        assert_eq!(d.refused(fair(None, &many)).await, Code::InvalidInput);
        let ordered = |by: Option<&str>, weights| SetLane { order: None, ..fair(by, weights) };
        assert_eq!(d.refused(ordered(None, r#"{"a":2}"#)).await, Code::InvalidInput);
        assert_eq!(d.refused(ordered(Some("namespace"), "")).await, Code::InvalidInput);
        for tag in ["team", "Team.Name", "team name", "team.", ".name"] {
            assert_eq!(d.refused(fair(Some(tag), "")).await, Code::InvalidInput, "{tag}");
        }
    }

    async fn a_lane_is_given_a_share_of_the_claims_and_waiters_hear_of_it(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let weigh = |weight| SetLane { claim_weight: Some(weight), ..unset(LANE) };
        assert_eq!(set(d, weigh(3)).await, r#"{"claim_weight":3}"#);
        assert_eq!(ready.next().await, format!("weight:3:{LANE}"));
        assert_eq!(set(d, weigh(1)).await, "", "the share of every lane that nobody has set");
        assert_eq!(ready.next().await, format!("weight:1:{LANE}"));
        for absurd in [0, 1001] {
            assert_eq!(d.refused(weigh(absurd)).await, Code::InvalidInput, "{absurd}");
        }
    }

    async fn who_submits_many_does_not_delay_anothers_one(d: &Deployment) {
        set(d, fair(None, "")).await;
        submit(d, "many", 50).await;
        served(d, 10).await;
        submit(d, "one", 1).await;
        assert_eq!(served(d, 2).await.iter().filter(|name| *name == "one").count(), 1);
    }

    async fn those_who_share_a_lane_are_served_in_turn_each_in_order(d: &Deployment) {
        set(d, fair(None, "")).await;
        let (a, b) = (submit(d, "a", 6).await, submit(d, "b", 3).await);
        let mut ids = Vec::new();
        for _ in 0..9 {
            let held = d.claim(LANE).await;
            ids.push((held.row.namespace.to_string(), held.id));
        }
        let of = |name: &str| -> Vec<ExecutionId> {
            ids.iter().filter(|(by, _)| by == name).map(|(_, id)| *id).collect()
        };
        assert_eq!((of("a"), of("b")), (a, b), "each in the order of submission");
        let first: Vec<&str> = ids[..6].iter().map(|(by, _)| by.as_str()).collect();
        assert_eq!(first.iter().filter(|by| **by == "b").count(), 3, "{first:?}");
    }

    async fn keys_share_by_weight(d: &Deployment) {
        set(d, fair(None, r#"{"b":3}"#)).await;
        submit(d, "a", 40).await;
        submit(d, "b", 40).await;
        let names = served(d, 40).await;
        let share = names.iter().filter(|name| *name == "b").count();
        assert!((29..=31).contains(&share), "{share} of 40: {names:?}");
    }

    async fn a_tag_says_who_shares_and_those_without_are_one(d: &Deployment) {
        set(d, fair(Some("team.name"), "")).await;
        for _ in 0..8 {
            d.create().tags(r#"{"team.name":"x"}"#).send().await;
        }
        let other = d.create().tags(r#"{"team.name":"y"}"#).send().await;
        let without = d.create_one().await;
        let mut first = Vec::new();
        for _ in 0..3 {
            first.push(d.claim(LANE).await.id);
        }
        assert!(first.contains(&other) && first.contains(&without));
    }

    async fn who_was_away_gets_no_more_than_its_share_when_it_returns(d: &Deployment) {
        set(d, fair(None, "")).await;
        submit(d, "a", 30).await;
        served(d, 20).await;
        submit(d, "b", 10).await;
        let names = served(d, 10).await;
        let share = names.iter().filter(|name| *name == "b").count();
        assert!((5..=6).contains(&share), "{names:?}");
    }

    async fn a_rewritten_record_keeps_its_rank(d: &Deployment) {
        set(d, fair(None, "")).await;
        submit(d, "a", 3).await;
        let id = submit(d, "a", 1).await[0];
        let rank = rank_of(d, id).await.expect("a rank");
        d.call(ChangePriority { execution_id: id, priority: 9, request_id: None }).await;
        assert_eq!(rank_of(d, id).await.as_ref(), Some(&rank));
        d.call(d.claim_grant_call(id)).await;
        d.advance(60_000).await;
        d.tick().await;
        assert_eq!(rank_of(d, id).await, Some(rank), "a grant that was not used");
        d.call(outside(id, "operator_override")).await;
    }

    async fn what_waited_before_a_lane_became_fair_comes_first_and_nothing_starves_afterwards(
        d: &Deployment
    ) {
        let before = submit(d, "a", 2).await;
        d.advance(10).await;
        set(d, fair(None, "")).await;
        let fair_one = submit(d, "b", 1).await;
        assert_eq!([d.claim(LANE).await.id, d.claim(LANE).await.id], [before[0], before[1]]);
        set(d, SetLane { order: Some("in_order".to_owned()), ..unset(LANE) }).await;
        d.advance(1000).await;
        let after = submit(d, "b", 1).await;
        d.call(ChangePriority { execution_id: after[0], priority: 0, request_id: None }).await;
        assert_eq!(d.claim(LANE).await.id, fair_one[0]);
        assert_eq!(d.claim(LANE).await.id, after[0]);
    }

    async fn a_record_that_is_rewritten_in_order_again_has_no_rank(d: &Deployment) {
        set(d, fair(None, "")).await;
        let id = submit(d, "a", 1).await[0];
        assert!(record(&d.dump().await, id).contains_key("fq"));
        set(d, SetLane { order: Some("in_order".to_owned()), ..unset(LANE) }).await;
        d.call(ChangePriority { execution_id: id, priority: 3, request_id: None }).await;
        assert!(!record(&d.dump().await, id).contains_key("fq"));
    }

    async fn keys_that_were_served_are_forgotten(d: &Deployment) {
        d.host().watch(false);
        set(d, fair(None, "")).await;
        for n in 0..60 {
            submit(d, &format!("n{n}"), 1).await;
            submit(d, "busy", 1).await;
            served(d, 2).await;
        }
        let key = format!("{}:shares:{LANE}", d.home().key());
        let dump = d.dump().await;
        let Some(ff_script::dump::Stored::SortedSet(shares)) = dump.get(key.as_bytes()) else {
            panic!("nobody was served")
        };
        assert!(shares.len() < 12, "{}", shares.len());
        assert!(member_score(&dump, d.home(), &format!("shares:{LANE}"), "served").is_some());
    }

    async fn a_damaged_setting_counts_as_none(d: &Deployment) {
        let facts = Rest(vec!["lane:default".to_owned(), "[".to_owned()]);
        d.call(InstallFacts { expected: 0, revision: 1, whole: false, facts }).await;
        d.create_and_claim().await;
    }
}
