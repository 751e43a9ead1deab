//! Known weaknesses of libraries like ours, each as the behaviour we want instead: indexes, grants
//! and starvation.

use ff_conformance::record::{key_of, listed_in, record, score};
use ff_conformance::{Deployment, GRANT_MS, Held, HostKind, LANE, LEASE_MS, conformance, instance};
use ff_core::contracts::TickRequest;
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::{AttemptLifecycle, PublicState};
use ff_core::types::ExecutionId;
use ff_script::calls::create::CreateExecutionReply;
use ff_script::calls::lease::{BudgetsReached, RenewLeaseReply};
use ff_script::value::Value;

use super::cancel::outside;
use super::claim::{granted, lost};
use super::lease::revoke;

async fn cancel(d: &Deployment, id: ExecutionId) {
    d.call(outside(id, "operator_override")).await;
}

async fn claim_some(d: &Deployment, count: usize) -> Vec<Held> {
    for _ in 0..count {
        d.create_one().await;
    }
    d.claimed(d.claim_call(LANE, count)).await
}

conformance! {
    async fn w21_a_revoked_execution_is_found_by_every_claim(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(revoke(&held, "")).await;
        assert_eq!(listed_in(&d.dump().await, held.id), ["q:default:tests:work"]);
        assert_eq!(d.claim(LANE).await.id, held.id);
    }

    async fn w22_a_revocation_ends_the_attempt(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(3).await;
        d.call(revoke(&held, "")).await;
        let attempts = d.attempts(held.id).await;
        assert_eq!(attempts[0].state, AttemptLifecycle::InterruptedReclaimed);
        assert_eq!(attempts[0].ended_at, Some(d.now()));
    }

    async fn w23_lapsed_executions_do_not_hide_later_lapses(d: &Deployment) {
        d.host().watch(false);
        assert_eq!(claim_some(d, 60).await.len(), 60);
        d.advance(LEASE_MS).await;
        assert_eq!(d.tick().await.lapsed, 60);
        let mut call = d.claim_call("later", 1);
        call.lease_ttl_ms = 10;
        let later = d.create().lane("later").send().await;
        d.claimed(call).await;
        d.advance(10).await;
        let report = d.backend.tick(d.home(), TickRequest::once(1)).await.expect("a tick");
        assert_eq!(report.lapsed, 1, "even the smallest tick finds the new one");
        assert_eq!(d.describe(later).await.public_state(), PublicState::Active);
        assert_eq!(listed_in(&d.dump().await, later), ["q:later:tests:work"]);
    }

    async fn w24_a_grant_does_not_block_the_queue(d: &Deployment) {
        let first = d.create_one().await;
        let second = d.create_one().await;
        d.call(d.claim_grant_call(first)).await;
        assert_eq!(d.claim(LANE).await.id, second);
        d.advance(GRANT_MS).await;
        assert_eq!(d.tick().await.granted_back, 1);
        assert_eq!(d.claim(LANE).await.id, first);
    }

    /// Planted where indexes can be reached: on Valkey.
    async fn w24_stale_entries_are_removed_from_the_queue(d: &Deployment) {
        let key = format!("{}:q:{LANE}:tests:work", d.home().key());
        let ended = d.create_and_claim().await;
        d.call(ended.complete(b"")).await;
        let id = d.create_one().await;
        let stale = [d.new_uuid().to_string(), ended.id.uuid().to_string()];
        for member in &stale {
            let words: [&[u8]; 4] = [b"ZADD", key.as_bytes(), b"1", member.as_bytes()];
            if d.host().exec(d.home(), &words).await.is_none() {
                return;
            }
        }
        assert_eq!(d.claim(LANE).await.id, id);
        let queue = d.dump().await;
        assert!(!queue.contains_key(key.as_bytes()), "nothing is left in the queue");
    }

    /// Planted where indexes can be reached: on Valkey.
    async fn w24_any_number_of_stale_entries_is_got_past(d: &Deployment) {
        d.host().watch(false);
        let key = format!("{}:q:{LANE}:tests:work", d.home().key());
        let id = d.create_one().await;
        for _ in 0..limits::CLAIM_SCAN_MAX + 50 {
            let member = d.new_uuid().to_string();
            let words: [&[u8]; 4] = [b"ZADD", key.as_bytes(), b"1", member.as_bytes()];
            if d.host().exec(d.home(), &words).await.is_none() {
                return;
            }
        }
        let mut granted = false;
        for _ in 0..4 {
            let grant = d.new_uuid().to_string();
            let args: [&[u8]; 7] = [LANE.as_bytes(), b"w", b"w-1", b"", b"9", b"0",
                grant.as_bytes()];
            let answer = d.raw("ff_grant_next", &args).await;
            granted |= answer.word == "OK" && answer.text(0) == id.to_string();
        }
        assert!(granted, "a few calls get past all of them");
    }

    async fn w25_grants_are_bound_to_kind_process_and_state(d: &Deployment) {
        let id = d.create_one().await;
        let call = granted(d, id).await;
        let mut other = call.clone();
        other.worker_instance_id = instance("worker-2");
        assert_eq!(d.refused(other).await, Code::InvalidClaimGrant);
        cancel(d, id).await;
        assert!(!record(&d.dump().await, id).contains_key("gi"), "no end leaves a grant");
        assert_eq!(d.refused(call).await, Code::ExecutionNotLeaseable);
        let (held, reclaim) = lost(d).await;
        d.advance(GRANT_MS).await;
        assert_eq!(d.refused(reclaim).await, Code::ClaimGrantExpired);
        d.tick().await;
        assert!(!record(&d.dump().await, held.id).contains_key("gi"));
    }

    async fn w27_a_renewal_never_shortens_and_is_bounded(d: &Deployment) {
        let held = d.create_and_claim().await;
        let lease_expires_at = d.now().plus_millis(LEASE_MS);
        let lease_epoch = held.lease_epoch;
        let reply = d.call(held.renew(1)).await;
        let budgets_reached = BudgetsReached::default();
        let renewed =
            RenewLeaseReply::Renewed { lease_expires_at, lease_epoch, budgets_reached };
        assert_eq!(reply, renewed);
        let longest = limits::LEASE_TTL_MS_MAX;
        assert_eq!(d.refused(held.renew(longest + 1)).await, Code::InvalidInput);
        d.call(held.renew(longest)).await;
        let dump = d.dump().await;
        assert_eq!(score(&dump, "leases", held.id), Some(d.now().get() + longest));
        assert_eq!(record(&dump, held.id)["le"], (d.now().get() + longest).to_string());
    }

    async fn w28_nothing_expires_by_itself(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.renew(LEASE_MS)).await;
        let id = d.create().idempotency("k", "x").tags(r#"{"a.b":"c"}"#).payload(&[1; 500])
            .send().await;
        d.call(d.claim_grant_call(id)).await;
        if d.kind() == HostKind::Embedded {
            let commands = ff_backend_embedded::COMMANDS;
            assert!(!commands.iter().any(|name| name.contains("EXPIRE")), "{commands:?}");
        }
        for key in d.dump().await.keys() {
            if let Some(ttl) = d.host().exec(d.home(), &[b"PTTL", key]).await {
                assert_eq!(ttl, Value::Int(-1), "{}", key.escape_ascii());
            }
        }
    }

    async fn w35_a_repeated_creation_is_recognised_and_another_refused(d: &Deployment) {
        let key = "ff.noop.";
        let first = d.create().idempotency(key, "digest").send().await;
        let reply = d.create().idempotency(key, "digest").reply().await;
        let public_state = PublicState::Waiting;
        let duplicate = CreateExecutionReply::Duplicate { execution_id: first, public_state };
        assert_eq!(reply, Ok(duplicate));
        let other = d.create().idempotency(key, "other").reply().await;
        let code = other.err().and_then(|error| error.code());
        assert_eq!(code, Some(Code::IdempotencyConflict));
        let held = d.claim(LANE).await;
        d.call(held.complete(b"")).await;
        d.advance(limits::DEDUP_MS_DEFAULT - 1).await;
        let reply = d.create().idempotency(key, "digest").reply().await;
        let public_state = PublicState::Completed;
        let duplicate = CreateExecutionReply::Duplicate { execution_id: first, public_state };
        assert_eq!(reply, Ok(duplicate), "without a window it is remembered for a day");
    }

    async fn w46_age_can_outweigh_priority(d: &Deployment) {
        let policy = r#"{"ageing_ms":1000}"#;
        let old = d.create().policy(policy).priority(1).send().await;
        d.advance(1500).await;
        let younger = d.create().policy(policy).priority(2).send().await;
        let urgent = d.create().policy(policy).priority(9).send().await;
        for id in [urgent, old, younger] {
            assert_eq!(d.claim(LANE).await.id, id);
        }
    }

    async fn w46_without_ageing_a_priority_is_strict(d: &Deployment) {
        let old = d.create().priority(1).send().await;
        d.advance(1_000_000_000).await;
        let urgent = d.create().priority(2).send().await;
        assert_eq!(d.claim(LANE).await.id, urgent);
        assert_eq!(d.claim(LANE).await.id, old);
    }

    async fn w48_an_end_leaves_every_index(d: &Deployment) {
        let deadline = 1_000_000;
        let new = || d.create().deadline_in(deadline);
        let waiting = new().lane("w").send().await;
        let delayed = new().delayed_by(10).send().await;
        let reserved = new().lane("g").send().await;
        d.call(d.claim_grant_call(reserved)).await;
        let running = new().send().await;
        d.claim(LANE).await;
        let paused = new().send().await;
        let held = d.claim(LANE).await;
        d.call(held.delay(d.now().plus_millis(10))).await;
        let revoked = new().send().await;
        let held = d.claim(LANE).await;
        d.call(revoke(&held, "")).await;
        for id in [waiting, delayed, reserved, running, paused, revoked] {
            cancel(d, id).await;
            assert_eq!(listed_in(&d.dump().await, id), ["ended:cancelled"]);
        }
        assert!(!d.dump().await.contains_key(&key_of(waiting, ":tags")));
    }
}
