//! Quotas: how many may begin within a window, and how many may run at a time.

use ff_conformance::gates::{Limits, check};
use ff_conformance::record::{member_score, record};
use ff_conformance::{Deployment, Held, LEASE_MS, conformance};
use ff_core::contracts::TickRequest;
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::state::{BlockingReason, EligibilityState, PublicState};
use ff_core::types::{ExecutionId, QuotaPolicyId, TimestampMs};
use ff_script::calls::quota::{
    CheckAdmissionAndRecordReply as Checked, CreateQuotaPolicyReply, DeleteQuotaPolicy,
    DeleteQuotaPolicyReply, DescribeQuotaPolicy, DescribeQuotaPolicyReply, ForgetAdmission,
    ListQuotaHolders, ListQuotaHoldersReply, NoteQuotaPolicyReply, ReleaseAdmission,
    ReleaseAdmissionReply, UpdateQuotaPolicy, UpdateQuotaPolicyReply,
};
use ff_script::wire::Rest;

use super::between::revoke;

/// The release of a lease.
pub(crate) fn release(policy: QuotaPolicyId, key: &str, held: &Held) -> ReleaseAdmission {
    release_of(policy, key, held.id, held.lease_epoch.get(), true)
}

fn release_of(
    policy: QuotaPolicyId,
    key: &str,
    id: ExecutionId,
    epoch: u64,
    used: bool,
) -> ReleaseAdmission {
    let used = u8::from(used).to_string();
    let items = vec![policy.to_string(), key.to_owned(), id.to_string(), epoch.to_string(), used];
    ReleaseAdmission { items: Rest(items) }
}

/// How many places of a key are held.
pub(crate) async fn running(d: &Deployment, policy: QuotaPolicyId, key: &str) -> u64 {
    let call = DescribeQuotaPolicy { quota_policy_id: policy, quota_key: key.to_owned() };
    let DescribeQuotaPolicyReply::Described { running, .. } = d.call(call).await;
    running
}

pub(crate) async fn holders(d: &Deployment, policy: QuotaPolicyId, key: &str) -> Vec<ExecutionId> {
    let (quota_policy_id, quota_key) = (policy, key.to_owned());
    let call = ListQuotaHolders { quota_policy_id, quota_key, limit: 1000 };
    let ListQuotaHoldersReply::Holders { holders, .. } = d.call(call).await;
    holders.into_iter().map(|(id, _)| id).collect()
}

async fn public_state(d: &Deployment, id: ExecutionId) -> PublicState {
    d.describe(id).await.public_state
}

fn update(limits: Limits, id: QuotaPolicyId) -> UpdateQuotaPolicy {
    let create = limits.create(id);
    UpdateQuotaPolicy {
        quota_policy_id: id,
        window_seconds: create.window_seconds,
        max_requests_per_window: create.max_requests_per_window,
        max_concurrent: create.max_concurrent,
        jitter_ms: create.jitter_ms,
    }
}

/// A lease of an execution under a policy, which was not asked for yet.
async fn claimed(d: &Deployment, policy: QuotaPolicyId) -> Held {
    let id = d.create_under(policy, "k").send().await;
    let held = d.claim(ff_conformance::LANE).await;
    assert_eq!(held.id, id);
    held
}

const RATE_EXCEEDED: fn(u64, TimestampMs) -> Checked =
    |retry_after_ms, opens_at| Checked::RateExceeded { retry_after_ms, opens_at };

conformance! {
    async fn what_cannot_be_told_holds_back_nothing_behind_it(d: &Deployment) {
        const STUCK: usize = 300;
        let policy = d.quota(Limits::at_once(1)).await;
        let key = format!("ff:{}:outbox", d.home()).into_bytes();
        d.host().watch(false);
        for number in 0..STUCK {
            let entry = format!("pay:{number}").into_bytes();
            let words: [&[u8]; 4] = [b"ZADD", &key, b"0", &entry];
            d.host().exec(d.home(), &words).await.expect("every store has the command");
        }
        for round in 0..2 {
            d.queue_under(policy, "k", 1).await;
            let held = d.take_one().await.expect("there is room");
            d.call(held.complete(b"")).await;
            // As many ticks as it takes to hand out all that is owed, once each.
            let mut settled = Vec::new();
            for _ in 0..=STUCK / 100 {
                let request = TickRequest { settled, ..TickRequest::once(100) };
                let report = d.backend.tick(d.home(), request).await;
                let owed = report.expect("a tick is never refused").owed;
                settled = d.backend.carry_out(d.home(), owed).await.expect("as far as it can be");
            }
            assert_eq!(running(d, policy, "k").await, 0, "in round {round}");
            d.advance(ff_core::limits::OWED_CARRIED_MS).await;
        }
        let words: [&[u8]; 2] = [b"DEL", &key];
        d.host().exec(d.home(), &words).await.expect("every store has the command");
        d.host().watch(true);
    }

    async fn a_policy_is_made_once_and_compared_afterwards(d: &Deployment) {
        let (id, limits) = (d.new_policy_id(), Limits::at_once(3));
        let created = CreateQuotaPolicyReply::Created { quota_policy_id: id };
        assert_eq!(d.call(limits.create(id)).await, created);
        let known = CreateQuotaPolicyReply::Known { quota_policy_id: id };
        assert_eq!(d.call(limits.create(id)).await, known);
        let other = Limits::at_once(4).create(id);
        assert_eq!(d.refused(other).await, Code::QuotaAttachConflict);
    }

    async fn limits_that_are_none_are_refused_with_the_reason(d: &Deployment) {
        let id = d.new_policy_id();
        let none = Limits::default();
        let lone_window = Limits { window_seconds: Some(1), ..Limits::at_once(1) };
        let lone_rate = Limits { rate: Some(1), ..none };
        for (limits, text) in [
            (none, "one of max_requests_per_window and max_concurrent is needed"),
            (lone_window, "window_seconds needs max_requests_per_window"),
            (lone_rate, "max_requests_per_window needs window_seconds"),
        ] {
            let (code, details) = d.refusal(limits.create(id)).await;
            assert_eq!((code, details), (Code::InvalidQuotaSpec, vec![text.to_owned()]));
        }
        for zero in [Limits::at_once(0), Limits::within(0, 1), Limits::within(1, 0)] {
            assert_eq!(d.refused(zero.create(id)).await, Code::InvalidInput);
        }
        d.call(Limits::at_once(1).create(id)).await;
        assert_eq!(d.refused(update(none, id)).await, Code::InvalidQuotaSpec);
        let unknown = d.new_policy_id();
        let call = update(Limits::at_once(1), unknown);
        assert_eq!(d.refused(call).await, Code::QuotaPolicyNotFound);
    }

    async fn a_policy_is_changed_and_removed(d: &Deployment) {
        let id = d.quota(Limits::at_once(3)).await;
        let updated = UpdateQuotaPolicyReply::Updated { quota_policy_id: id };
        let limits = Limits { jitter_ms: Some(5), ..Limits::within(60, 9) };
        assert_eq!(d.call(update(limits, id)).await, updated);
        let known = UpdateQuotaPolicyReply::Known { quota_policy_id: id };
        assert_eq!(d.call(update(limits, id)).await, known);
        let call = DescribeQuotaPolicy { quota_policy_id: id, quota_key: String::new() };
        let DescribeQuotaPolicyReply::Described { policy, .. } = d.call(call.clone()).await;
        assert_eq!((policy.window_seconds, policy.max_concurrent), (Some(60), None));
        assert_eq!((policy.max_requests_per_window, policy.jitter_ms), (Some(9), Some(5)));
        let delete = DeleteQuotaPolicy { quota_policy_id: id };
        assert_eq!(d.call(delete.clone()).await, DeleteQuotaPolicyReply::Deleted {});
        assert_eq!(d.call(delete).await, DeleteQuotaPolicyReply::Gone {});
        assert_eq!(d.refused(call).await, Code::QuotaPolicyNotFound);
        d.carry_out().await;
    }

    async fn a_policy_that_nobody_knows_is_refused_at_creation(d: &Deployment) {
        let id = d.new_policy_id();
        let create = d.create_under(id, "k").call();
        assert_eq!(d.refused(create).await, Code::QuotaPolicyNotFound);
        let note = Limits::at_once(1).note(id);
        let noted = d.call(note.clone()).await;
        assert!(matches!(noted, NoteQuotaPolicyReply::Changed { .. }));
        assert!(matches!(d.call(note).await, NoteQuotaPolicyReply::Known { .. }));
        d.create_under(id, "k").send().await;
        d.call(Limits::default().note(id)).await;
        let create = d.create_under(id, "k").call();
        assert_eq!(d.refused(create).await, Code::QuotaPolicyNotFound);
    }

    async fn a_key_is_a_text_or_the_value_of_a_tag(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let by_tag = format!(r#"{{"quota":{{"policy_id":"{id}","key_tag":"team.name"}}}}"#);
        let tagged = d.create().policy(&by_tag).tags(r#"{"team.name":"red"}"#).send().await;
        assert_eq!(record(&d.dump().await, tagged)["qk"], "red");
        let plain = d.create().policy(&format!(r#"{{"quota":{{"policy_id":"{id}"}}}}"#));
        let plain = plain.send().await;
        let stored = record(&d.dump().await, plain);
        assert_eq!((stored.get("qi"), stored.get("qk")), (Some(&id.to_string()), None));
        let long = format!(r#"{{"team.name":"{}"}}"#, "x".repeat(65));
        for tags in ["", r#"{"team.other":"red"}"#, long.as_str()] {
            let call = d.create().policy(&by_tag).tags(tags).call();
            assert_eq!(d.refused(call).await, Code::InvalidPolicyJson);
        }
        for quota in [
            r#"{"quota":{}}"#.to_owned(),
            r#"{"quota":{"policy_id":"x"}}"#.to_owned(),
            format!(r#"{{"quota":{{"policy_id":"{id}","key":"a","key_tag":"team.name"}}}}"#),
            format!(r#"{{"quota":{{"policy_id":"{id}","key":7}}}}"#),
            format!(r#"{{"quota":{{"policy_id":"{id}","key":"{}"}}}}"#, "x".repeat(65)),
        ] {
            let call = d.create().policy(&quota).call();
            assert_eq!(d.refused(call).await, Code::InvalidPolicyJson, "{quota}");
        }
    }

    async fn no_more_run_than_the_limit_and_the_next_ones_follow_in_order(d: &Deployment) {
        let id = d.quota(Limits::at_once(2)).await;
        let ids = d.queue_under(id, "k", 5).await;
        let (one, two) = (d.take_one().await.expect("free"), d.take_one().await.expect("free"));
        assert_eq!([one.id, two.id], ids[..2]);
        assert!(d.take_one().await.is_none(), "two run");
        assert_eq!(holders(d, id, "k").await, ids[..2]);
        assert_eq!(public_state(d, ids[2]).await, PublicState::RateLimited);
        d.carry_out().await;
        assert!(d.take_one().await.is_none(), "two run still");
        d.call(one.complete(b"")).await;
        d.carry_out().await;
        let three = d.take_one().await.expect("a place is free");
        assert_eq!(three.id, ids[2]);
        assert!(d.take_one().await.is_none(), "two run again");
        d.call(two.complete(b"")).await;
        d.call(three.complete(b"")).await;
        d.carry_out().await;
        let (four, five) = (d.take_one().await.expect("free"), d.take_one().await.expect("free"));
        assert_eq!([four.id, five.id], ids[3..]);
        d.call(four.complete(b"")).await;
        d.call(five.complete(b"")).await;
        d.carry_out().await;
        assert_eq!(running(d, id, "k").await, 0);
        let fresh = d.create_under(id, "k").send().await;
        assert_eq!(public_state(d, fresh).await, PublicState::Waiting, "the gate is open");
    }

    async fn keys_of_a_policy_do_not_share_their_limits(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        d.create_under(id, "a").send().await;
        d.create_under(id, "a").send().await;
        let other = d.create_under(id, "b").send().await;
        assert_eq!(d.take_on(d.home(), 3).await.len(), 2);
        assert_eq!(holders(d, id, "b").await, [other]);
    }

    async fn what_waits_says_why(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let ids = d.queue_under(id, "k", 2).await;
        d.take_on(d.home(), 2).await;
        let state = d.describe(ids[1]).await.state;
        assert_eq!(state.eligibility_state, EligibilityState::BlockedByQuota);
        assert_eq!(state.blocking_reason, BlockingReason::WaitingForQuota);
        assert_eq!(state.public_state, PublicState::RateLimited);
    }

    async fn a_freed_place_goes_to_the_best_of_all_partitions(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let running = d.create_under(id, "k").send().await;
        let held = d.take_one().await.expect("free");
        assert_eq!(held.id, running);
        let mut ids = Vec::new();
        for (partition, priority) in d.partitions.into_iter().zip([1, 3, 2, 4]) {
            let new = d.create_under(id, "k").on(partition).priority(priority);
            ids.push(new.send().await);
            assert!(d.take_on(partition, 1).await.is_empty(), "one runs");
        }
        d.carry_out().await;
        d.call(held.complete(b"")).await;
        d.carry_out().await;
        for partition in [3, 1, 2, 0] {
            for other in 0..4 {
                let taken = d.take_on(d.partitions[other], 1).await;
                assert_eq!(taken.len(), usize::from(other == partition), "of {other}");
                if let Some(taken) = taken.into_iter().next() {
                    assert_eq!(taken.handle.execution_id, ids[partition]);
                    let done = Held::from(taken).complete(b"");
                    d.backend.call(d.partitions[partition], done).await.expect("it runs");
                }
            }
            d.carry_out().await;
        }
        assert_eq!(self::running(d, id, "k").await, 0);
    }

    async fn a_place_that_nobody_takes_is_given_to_the_next(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        d.create_under(id, "k").send().await;
        let held = d.take_one().await.expect("free");
        for partition in [d.partitions[1], d.partitions[2]] {
            d.create_under(id, "k").on(partition).send().await;
            assert!(d.take_on(partition, 1).await.is_empty());
        }
        d.carry_out().await;
        d.call(held.complete(b"")).await;
        d.carry_out().await;
        // Nobody serves the partition that was opened first.
        assert!(d.take_on(d.partitions[2], 1).await.is_empty());
        d.advance(1001).await;
        d.carry_out().await;
        assert_eq!(d.take_on(d.partitions[2], 1).await.len(), 1);
    }

    async fn raising_a_limit_frees_who_waits_at_once(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        d.queue_under(id, "k", 4).await;
        assert_eq!(d.take_on(d.home(), 4).await.len(), 1);
        d.carry_out().await;
        d.call(update(Limits::at_once(3), id)).await;
        d.carry_out().await;
        assert_eq!(d.take_on(d.home(), 4).await.len(), 2);
    }

    async fn removing_a_policy_lifts_its_limits(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        d.queue_under(id, "k", 4).await;
        let held = d.take_on(d.home(), 4).await;
        d.carry_out().await;
        d.call(DeleteQuotaPolicy { quota_policy_id: id }).await;
        d.carry_out().await;
        let more = d.take_on(d.home(), 4).await;
        assert_eq!(more.len(), 3);
        for held in held.into_iter().chain(more) {
            d.call(Held::from(held).complete(b"")).await;
        }
        d.carry_out().await;
        d.advance(ff_core::limits::RETENTION_MS_DEFAULT + 100_000).await;
        d.carry_out().await;
        let dump = d.dump().await;
        let left = dump.keys().filter(|key| key.starts_with(b"ff:{q:"));
        assert_eq!(left.count(), 0, "nothing is left of the policy");
    }

    async fn a_question_from_before_a_removal_is_refused_by_the_next_policy(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let held = claimed(d, id).await;
        d.call(DeleteQuotaPolicy { quota_policy_id: id }).await;
        d.call(release(id, "k", &held)).await;
        d.call(Limits::at_once(1).create(id)).await;
        assert_eq!(d.refused(check(id, "k", &held)).await, Code::StaleLease);
        assert_eq!(running(d, id, "k").await, 0);
    }

    async fn b13_the_quota_of_a_policy_is_attached_at_creation(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let execution = d.create_under(id, "k").send().await;
        let stored = record(&d.dump().await, execution);
        assert_eq!((stored["qi"].as_str(), stored["qk"].as_str()), (id.to_string().as_str(), "k"));
    }

    async fn q1_every_end_of_a_lease_gives_its_place_back(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let retry = r#""retry_policy":{"max_retries":9,"backoff":{"type":"fixed","delay_ms":1}}"#;
        let policy = format!(r#"{{"quota":{{"policy_id":"{id}","key":"k"}},{retry}}}"#);
        let execution = d.create().policy(&policy).send().await;
        for end in 0..7 {
            d.advance(10).await;
            d.carry_out().await;
            let held = d.take_one().await.unwrap_or_else(|| panic!("free before end {end}"));
            assert_eq!((held.id, running(d, id, "k").await), (execution, 1));
            match end {
                0 => {
                    d.call(held.fail("no", "transient")).await;
                }
                1 => {
                    d.call(held.delay(d.now().plus_millis(5))).await;
                }
                2 => {
                    d.call(held.wait_for_children()).await;
                }
                3 => d.advance(LEASE_MS).await,
                4 => {
                    d.call(revoke(execution, None)).await;
                }
                5 => {
                    d.call(held.fail("again", "transient")).await;
                }
                _ => {
                    d.call(held.complete(b"")).await;
                }
            }
            d.carry_out().await;
            assert_eq!(running(d, id, "k").await, 0, "after end {end}");
        }
    }

    async fn q1_a_long_run_keeps_its_place_beyond_the_window(d: &Deployment) {
        let limits = Limits { concurrent: Some(1), ..Limits::within(1, 100) };
        let id = d.quota(limits).await;
        d.queue_under(id, "k", 2).await;
        let held = d.take_one().await.expect("free");
        for _ in 0..5 {
            d.advance(LEASE_MS - 1).await;
            d.call(held.renew(LEASE_MS)).await;
            d.carry_out().await;
            assert!(d.take_one().await.is_none(), "one runs");
        }
    }

    async fn q2_a_release_frees_nobody_else(d: &Deployment) {
        let id = d.quota(Limits::at_once(2)).await;
        let (one, two) = (claimed(d, id).await, claimed(d, id).await);
        assert_eq!(d.call(check(id, "k", &one)).await, Checked::Admitted {});
        let unknown = release(id, "k", &two);
        d.call(unknown).await;
        assert_eq!(holders(d, id, "k").await, [one.id]);
        let released = d.call(release(id, "k", &one)).await;
        assert!(matches!(released, ReleaseAdmissionReply::Released { released: 1, .. }));
        for _ in 0..2 {
            let again = d.call(release(id, "k", &one)).await;
            assert!(matches!(again, ReleaseAdmissionReply::ReleasedBefore { .. }));
        }
    }

    async fn q3_only_the_lease_that_was_admitted_gives_its_place_back(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let old = claimed(d, id).await;
        assert_eq!(d.call(check(id, "k", &old)).await, Checked::Admitted {});
        d.advance(LEASE_MS).await;
        d.tick().await;
        let new = d.claim(ff_conformance::LANE).await;
        assert_eq!(new.id, old.id);
        assert_eq!(d.call(check(id, "k", &new)).await, Checked::Admitted {}, "it takes over");
        d.call(release(id, "k", &old)).await;
        assert_eq!(holders(d, id, "k").await, [new.id]);
        d.call(release(id, "k", &new)).await;
        assert_eq!(running(d, id, "k").await, 0);
    }

    async fn a_question_that_comes_after_the_end_of_its_lease_is_refused(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let held = claimed(d, id).await;
        d.call(release(id, "k", &held)).await;
        assert_eq!(d.refused(check(id, "k", &held)).await, Code::StaleLease);
        let other = claimed(d, id).await;
        d.advance(LEASE_MS).await;
        assert_eq!(d.refused(check(id, "k", &other)).await, Code::LeaseExpired);
    }

    async fn q4_a_claim_that_never_ran_burns_no_rate(d: &Deployment) {
        let id = d.quota(Limits::within(60, 1)).await;
        let (one, two) = (claimed(d, id).await, claimed(d, id).await);
        assert_eq!(d.call(check(id, "k", &one)).await, Checked::Admitted {});
        let opens_at = d.now().plus_millis(60_000);
        assert_eq!(d.call(check(id, "k", &two)).await, RATE_EXCEEDED(60_000, opens_at));
        d.call(release_of(id, "k", one.id, one.lease_epoch.get(), false)).await;
        assert_eq!(d.call(check(id, "k", &two)).await, Checked::Admitted {});
    }

    async fn q5_repeating_the_question_counts_once(d: &Deployment) {
        let id = d.quota(Limits { concurrent: Some(5), ..Limits::within(1, 2) }).await;
        let held = claimed(d, id).await;
        assert_eq!(d.call(check(id, "k", &held)).await, Checked::Admitted {});
        d.advance(5000).await;
        for _ in 0..3 {
            assert_eq!(d.call(check(id, "k", &held)).await, Checked::AlreadyAdmitted {});
        }
        assert_eq!(running(d, id, "k").await, 1);
    }

    async fn q6_limits_are_those_of_the_policy(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let (one, two) = (claimed(d, id).await, claimed(d, id).await);
        assert_eq!(d.call(check(id, "k", &one)).await, Checked::Admitted {});
        assert_eq!(d.call(check(id, "k", &two)).await, Checked::ConcurrencyExceeded {});
        d.call(update(Limits::at_once(2), id)).await;
        assert_eq!(d.call(check(id, "k", &two)).await, Checked::Admitted {});
        let unknown = d.new_policy_id();
        assert_eq!(d.refused(check(unknown, "k", &one)).await, Code::QuotaPolicyNotFound);
    }

    async fn q7_the_window_moves_with_the_clock_of_the_store(d: &Deployment) {
        let id = d.quota(Limits::within(10, 2)).await;
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(claimed(d, id).await);
        }
        let begin = d.now();
        assert_eq!(d.call(check(id, "k", &held[0])).await, Checked::Admitted {});
        d.advance(4000).await;
        assert_eq!(d.call(check(id, "k", &held[1])).await, Checked::Admitted {});
        let opens_at = begin.plus_millis(10_000);
        assert_eq!(d.call(check(id, "k", &held[2])).await, RATE_EXCEEDED(6000, opens_at));
        d.advance(5999).await;
        assert_eq!(d.call(check(id, "k", &held[2])).await, RATE_EXCEEDED(1, opens_at));
        d.advance(1).await;
        assert_eq!(d.call(check(id, "k", &held[2])).await, Checked::Admitted {});
        let opens_at = begin.plus_millis(14_000);
        assert_eq!(d.call(check(id, "k", &held[3])).await, RATE_EXCEEDED(4000, opens_at));
    }

    async fn q8_nothing_is_left_when_all_is_over(d: &Deployment) {
        let id = d.quota(Limits { concurrent: Some(2), ..Limits::within(1, 9) }).await;
        for key in ["a", "b"] {
            d.create_under(id, key).send().await;
        }
        for _ in 0..2 {
            let held = d.take_one().await.expect("nothing limits them");
            d.call(held.complete(b"")).await;
            d.carry_out().await;
        }
        d.advance(ff_core::limits::RETENTION_MS_DEFAULT + 100_000).await;
        d.carry_out().await;
        let quotas = d.quotas().key();
        let dump = d.dump().await;
        let keys: Vec<String> = dump
            .keys()
            .map(|key| String::from_utf8_lossy(key).into_owned())
            .filter(|key| key.starts_with(&quotas))
            .collect();
        assert_eq!(keys, [format!("{quotas}:policy:{id}")], "the policy alone");
    }

    async fn q9_what_the_window_refuses_is_admitted_when_it_opens(d: &Deployment) {
        let id = d.quota(Limits::within(10, 1)).await;
        let ids = d.queue_under(id, "k", 2).await;
        let first = d.take_one().await.expect("free");
        assert_eq!(first.id, ids[0]);
        assert!(d.take_one().await.is_none());
        d.carry_out().await;
        let call = DescribeQuotaPolicy { quota_policy_id: id, quota_key: "k".to_owned() };
        let DescribeQuotaPolicyReply::Described { opens_at, in_window, .. } = d.call(call).await;
        let at = first.row.lease_expires_at.get() - LEASE_MS + 10_000;
        assert_eq!((opens_at, in_window), (Some(TimestampMs::new(at)), 1));
        d.set_time(at - 1).await;
        d.carry_out().await;
        assert!(d.take_one().await.is_none(), "a moment too early");
        d.advance(1).await;
        d.carry_out().await;
        assert_eq!(d.take_one().await.expect("the window has opened").id, ids[1]);
    }

    async fn a_window_whose_rate_is_gone_needs_no_more_ticks(d: &Deployment) {
        let limits = Limits { concurrent: Some(1), ..Limits::within(3, 2) };
        let id = d.quota(limits).await;
        d.queue_under(id, "k", 1).await;
        d.take_one().await.expect("free");
        d.call(update(Limits::at_once(2), id)).await;
        d.advance(4000).await;
        d.carry_out().await;
        let report = d.backend.tick(d.quotas(), TickRequest::once(1)).await.expect("it ticks");
        assert_eq!(report.next_due_at, None, "nothing is left to be done");
    }

    async fn who_is_purged_at_once_is_forgotten_only_when_its_release_is_over(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let says = format!(r#""quota":{{"policy_id":"{id}","key":"k"}},"retention_ms":0"#);
        d.create().policy(&format!("{{{says}}}")).send().await;
        let held = d.take_one().await.expect("free");
        d.call(held.complete(b"")).await;
        d.carry_out().await;
        let known = format!("{}:admitted:q:{id}:k", d.quotas().key()).into_bytes();
        assert_eq!(holders(d, id, "k").await, []);
        assert!(d.dump().await.contains_key(&known), "a question may still be on its way");
        d.advance(ff_core::limits::PURGED_REMEMBERED_MS).await;
        d.carry_out().await;
        assert!(!d.dump().await.contains_key(&known));
    }

    async fn jitter_scatters_when_keys_open(d: &Deployment) {
        let id = d.quota(Limits { jitter_ms: Some(5000), ..Limits::within(10, 1) }).await;
        let mut times = std::collections::BTreeSet::new();
        for key in ["a", "b", "c"] {
            d.create_under(id, key).send().await;
            d.create_under(id, key).send().await;
            let held = d.take_on(d.home(), 2).await;
            assert_eq!(held.len(), 1);
            d.carry_out().await;
            let (dump, gate) = (d.dump().await, format!("g:q:{id}:{key}"));
            let at = member_score(&dump, d.quotas(), "due", &gate).expect("it will open");
            let behind = at as u64 - (d.now().get() + 10_000);
            assert!(behind <= 5000, "{behind}");
            times.insert(behind);
        }
        assert_eq!(times.len(), 3, "they do not open at the same time: {times:?}");
    }

    async fn an_execution_that_is_purged_is_forgotten(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let held = claimed(d, id).await;
        d.call(check(id, "k", &held)).await;
        let items = vec![id.to_string(), "k".to_owned(), held.id.to_string()];
        d.call(ForgetAdmission { items: Rest(items) }).await;
        assert_eq!(running(d, id, "k").await, 0);
        d.call(held.complete(b"")).await;
        d.carry_out().await;
    }
}
