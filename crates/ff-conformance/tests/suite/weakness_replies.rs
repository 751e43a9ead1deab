//! Known weaknesses of libraries like ours, each as the behaviour we want instead: replies and
//! publications. The numbers are those of the specification's list.
//!
//! Not here, because their functions do not exist yet: W-16, W-31 to W-34 and W-40 (waitpoints,
//! tokens, conditions and blocking), W-53 and W-56 (flows and lanes). W-59, versions that fight, is
//! tested where libraries are loaded, in the Valkey host.

use ff_conformance::record::{events_of, log};
use ff_conformance::{Deployment, Held, LANE, LEASE_MS, conformance};
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;
use ff_script::calls::claim::{ClaimExecutionReply, ReclaimExecutionReply};
use ff_script::calls::claim_next::ClaimNextReply;
use ff_script::calls::grant::IssueClaimGrantReply;
use ff_script::calls::lease::MarkLeaseExpired;
use ff_script::dump::Stored;
use ff_script::host::Topic;

use super::cancel::outside;
use super::claim::{granted, lost};
use super::lease::revoke;
use super::replay::replay;

const LAST_CHANCE: &str = r#"{"max_reclaim_count":0}"#;

async fn claim_with(d: &Deployment, policy: &str) -> Held {
    d.create().policy(policy).send().await;
    d.claim(LANE).await
}

/// Ends one execution in each possible way; gives their ids in order.
async fn end_in_every_way(d: &Deployment) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    let completed = d.create_and_claim().await;
    d.call(completed.complete(b"")).await;
    let failed = d.create_and_claim().await;
    d.call(failed.fail("no", "x")).await;
    ids.extend([completed.id, failed.id]);
    for source in ["operator_override", "flow_cascade", "system_timeout"] {
        let id = d.create_one().await;
        d.call(outside(id, source)).await;
        ids.push(id);
    }
    let delayed = d.create().delayed_by(1000).send().await;
    d.call(outside(delayed, "operator_override")).await;
    let cancelled = d.create_and_claim().await;
    d.call(cancelled.cancel("")).await;
    let revoked = claim_with(d, LAST_CHANCE).await;
    d.call(revoke(&revoked, "")).await;
    ids.extend([delayed, cancelled.id, revoked.id]);
    for policy in [LAST_CHANCE, r#"{"timeout_policy":{"attempt_timeout_ms":30000}}"#] {
        let lapsed = claim_with(d, policy).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        ids.push(lapsed.id);
    }
    for delay in [0, 1000] {
        let expired = d.create().delayed_by(delay).deadline_in(10).send().await;
        d.advance(10).await;
        d.tick().await;
        ids.push(expired);
    }
    let running = d.create().deadline_in(10).send().await;
    d.claim(LANE).await;
    d.advance(10).await;
    d.tick().await;
    ids.push(running);
    ids
}

conformance! {
    async fn w01_not_active_tells_outcome_epoch_phase_and_attempt(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.delay(d.now().plus_millis(1000))).await;
        let attempt = held.attempt_id.to_string();
        let expected = ["none", "1", "runnable", attempt.as_str()];
        assert_eq!(d.refusal(held.renew(10)).await.1, expected);
        assert_eq!(d.refusal(held.progress("1", "")).await.1, expected);
        assert_eq!(d.refusal(held.complete(b"")).await.1, expected);
        assert_eq!(d.refusal(held.fail("", "")).await.1, expected);
        assert_eq!(d.refusal(held.cancel("")).await.1, expected);
        assert_eq!(d.refusal(revoke(&held, "")).await.1, expected);
    }

    async fn w02_every_end_is_published(d: &Deployment) {
        let mut ended = d.listen(Topic::Ended).await;
        for id in end_in_every_way(d).await {
            assert_eq!(ended.next().await, id.uuid().to_string());
            assert!(d.describe(id).await.completed_at.is_some());
        }
    }

    async fn w14a_a_refused_reclaim_has_not_written(d: &Deployment) {
        let held = claim_with(d, LAST_CHANCE).await;
        d.advance(LEASE_MS).await;
        d.call(MarkLeaseExpired { execution_id: held.id }).await;
        let before = d.dump().await;
        let grant = d.reclaim_grant_call(held.id);
        assert_eq!(d.refused(grant).await, Code::MaxRetriesExhausted);
        assert_eq!(d.dump().await, before);
    }

    async fn w26_claims_and_grants_can_be_repeated(d: &Deployment) {
        let id = d.create_one().await;
        let grant = d.claim_grant_call(id);
        d.call(grant.clone()).await;
        assert!(matches!(d.call(grant).await, IssueClaimGrantReply::Existing { .. }));
        let (_, reclaim) = lost(d).await;
        d.call(reclaim.clone()).await;
        let again = d.call(reclaim).await;
        assert!(matches!(again, ReclaimExecutionReply::ClaimedBefore { .. }));
        let id = d.create_one().await;
        let claim = granted(d, id).await;
        d.call(claim.clone()).await;
        assert!(matches!(d.call(claim).await, ClaimExecutionReply::ClaimedBefore { .. }));
        d.create().lane("other").send().await;
        let mut claim = d.claim_call("other", 1);
        d.call(claim.clone()).await;
        claim.retry = true;
        assert!(matches!(d.call(claim).await, ClaimNextReply::ClaimedBefore { .. }));
    }

    async fn w47_every_event_has_the_same_fields(d: &Deployment) {
        let ids = end_in_every_way(d).await;
        d.call(replay(ids[0])).await;
        let dump = d.dump().await;
        let key = format!("{}:log", d.home().key());
        let Some(Stored::Stream(entries)) = dump.get(key.as_bytes()) else { panic!("no log") };
        for entry in entries {
            let names: Vec<&[u8]> = entry.fields.iter().map(|(name, _)| name.as_slice()).collect();
            assert_eq!(names, [b"e"], "{entry:?}");
        }
        for entry in log(&dump, d.home()) {
            let never_ran = ["created", "ended"].contains(&entry.event.as_str());
            assert!(never_ran || !entry.attempt.is_empty(), "{entry:?}");
        }
    }

    async fn w54_a_lost_lease_stamps_the_transition(d: &Deployment) {
        let revoked = d.create_and_claim().await;
        d.advance(7).await;
        d.call(revoke(&revoked, "")).await;
        assert_eq!(d.describe(revoked.id).await.last_transition_at, d.now());
        let lapsed = d.claim(LANE).await;
        d.advance(LEASE_MS + 5).await;
        d.tick().await;
        assert_eq!(d.describe(lapsed.id).await.last_transition_at, d.now());
    }

    async fn w55_what_nobody_heard_can_be_read_from_the_log(d: &Deployment) {
        let ids = end_in_every_way(d).await;
        let page = d.read_events(None, 1000).await;
        let ended: Vec<ExecutionId> = page
            .events
            .iter()
            .filter(|event| event.kind == "ended")
            .map(|event| event.execution_id)
            .collect();
        assert_eq!(ended, ids);
        let dump = d.dump().await;
        for id in ids {
            let last = events_of(&dump, id).pop().expect("a log");
            let state = d.describe(id).await.public_state();
            let outcome =
                if state == PublicState::Completed { "success" } else { state.as_str() };
            assert!(last.contains(&format!("{outcome}:")) && last.ends_with(":tests"), "{last}");
        }
    }
}
