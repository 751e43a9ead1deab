//! Claiming from a lane's queue.

use ff_conformance::record::{events_of, listed_in, record, score};
use ff_conformance::{
    Deployment, INSTANCE, LANE, LEASE_MS, WORKER, capabilities, conformance, instance, lane,
};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::{AttemptType, PublicState};
use ff_core::types::ExecutionKind;
use ff_script::calls::claim::AttemptKind;
use ff_script::calls::claim_next::{ClaimNextReply, RecallClaims, RecallClaimsReply};
use ff_script::calls::worker::{ListNeeds, ListNeedsReply};
use ff_script::host::Topic;
use ff_script::wire::{Joined, Rest};

fn requiring(tokens: &str) -> String {
    format!(r#"{{"routing_requirements":{{"required_capabilities":[{tokens}]}}}}"#)
}

fn kinds(names: &[&str]) -> Joined<ExecutionKind> {
    let kind = |name: &&str| ExecutionKind::try_new(*name).expect("a valid name");
    Joined(names.iter().map(kind).collect())
}

async fn lane_is_empty(d: &Deployment) -> bool {
    d.try_claim(LANE).await.is_none()
}

conformance! {
    async fn a_claim_tells_all_that_a_worker_needs(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":400,"execution_deadline_ms":900}}"#;
        let id = d.create().namespace("shop").kind("render").priority(3).policy(policy)
            .payload(b"input").tags(r#"{"a.b":"c"}"#).send().await;
        let created_at = d.now();
        d.advance(100).await;
        let row = d.claim(LANE).await.row;
        assert_eq!(row.execution_id, id);
        assert_eq!(row.attempt_id.as_uuid(), row.lease_id.as_uuid());
        assert_eq!((row.lease_epoch.get(), row.attempt_index.get()), (1, 0));
        assert_eq!(row.lease_expires_at, d.now().plus_millis(LEASE_MS));
        assert_eq!(row.attempt_kind, AttemptKind::New(AttemptType::Initial));
        assert_eq!((row.lane.as_str(), row.kind.as_str()), (LANE, "render"));
        assert_eq!((row.namespace.as_str(), row.priority), ("shop", 3));
        assert_eq!(row.created_at, created_at);
        assert_eq!(row.attempt_timeout_at, Some(d.now().plus_millis(400)));
        assert_eq!(row.deadline_at, Some(created_at.plus_millis(900)));
        assert_eq!(row.payload, b"input");
        assert_eq!(row.tags.get("a.b").map(String::as_str), Some("c"));
    }

    async fn a_claimed_execution_is_listed_by_its_next_time_alone(d: &Deployment) {
        let mut due = d.listen(Topic::Due).await;
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":400}}"#;
        let id = d.create().policy(policy).send().await;
        d.claim(LANE).await;
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, id), ["leases"]);
        assert_eq!(score(&dump, "leases", id), Some(d.now().get() + 400));
        assert_eq!(due.next().await, d.now().plus_millis(400).to_string());
        assert_eq!(events_of(&dump, id), ["created", "claimed 0 initial"]);
        let described = d.describe(id).await;
        assert_eq!(described.public_state(), PublicState::Active);
        assert_eq!(described.started_at, Some(d.now()));
        let lease = described.current_lease.expect("a lease is held");
        assert_eq!(lease.worker_id.as_str(), WORKER);
        assert_eq!(lease.worker_instance_id.as_str(), INSTANCE);
        assert_eq!(lease.expires_at, d.now().plus_millis(LEASE_MS));
    }

    async fn an_empty_lane_gives_nothing(d: &Deployment) {
        d.create().lane("other").send().await;
        let before = d.dump().await;
        assert!(lane_is_empty(d).await);
        assert_eq!(d.dump().await, before);
    }

    async fn the_oldest_comes_first_and_equals_come_by_id(d: &Deployment) {
        let mut ids = Vec::new();
        for round in 0..3 {
            d.advance(round).await;
            ids.push(d.create_one().await);
            ids.push(d.create_one().await);
        }
        let held = d.claimed(d.claim_call(LANE, 6)).await;
        assert_eq!(held.iter().map(|held| held.id).collect::<Vec<_>>(), ids);
    }

    async fn at_most_as_many_as_lease_ids_are_claimed(d: &Deployment) {
        for _ in 0..5 {
            d.create_one().await;
        }
        let call = d.claim_call(LANE, 3);
        let wanted = call.lease_ids.0.clone();
        let held = d.claimed(call).await;
        assert_eq!(held.iter().map(|held| held.lease_id).collect::<Vec<_>>(), wanted);
        assert_eq!(d.claimed(d.claim_call(LANE, 3)).await.len(), 2);
    }

    async fn nothing_is_claimed_twice(d: &Deployment) {
        for _ in 0..4 {
            d.create_one().await;
        }
        let mut seen = std::collections::BTreeSet::new();
        while let Some(held) = d.try_claim(LANE).await {
            assert!(seen.insert(held.id));
        }
        assert_eq!(seen.len(), 4);
    }

    async fn a_repeated_claim_is_recognised_among_many_others(d: &Deployment) {
        d.host().watch(false);
        let others = limits::CLAIM_RECALL_MAX as usize + 1;
        for _ in 0..others + 2 {
            d.create_one().await;
        }
        let mut left = others;
        while left > 0 {
            let count = left.min(limits::CLAIM_COUNT_MAX as usize);
            left -= d.claimed(d.claim_call(LANE, count)).await.len();
        }
        d.advance(1).await;
        let mut call = d.claim_call(LANE, 2);
        let first = d.claimed(call.clone()).await;
        d.advance(1000).await;
        call.retry = true;
        let reply = d.call(call.clone()).await;
        let ClaimNextReply::ClaimedBefore { claims, .. } = reply else { panic!("{reply:?}") };
        let ids = claims.0.iter().map(|row| row.execution_id);
        assert!(ids.eq(first.iter().map(|held| held.id)), "in the order of its lease ids");
    }

    async fn a_worker_gets_only_what_it_is_capable_of(d: &Deployment) {
        let gpu = d.create().policy(&requiring(r#""gpu","cuda""#)).send().await;
        let any = d.create_one().await;
        assert_eq!(d.claim(LANE).await.id, any, "what it cannot take does not block the rest");
        let mut call = d.claim_call(LANE, 1);
        call.capabilities = capabilities(&["gpu"]);
        assert!(d.claimed(call).await.is_empty(), "one of two is not enough");
        let mut call = d.claim_call(LANE, 1);
        call.capabilities = capabilities(&["cuda", "gpu", "more"]);
        assert_eq!(d.claimed(call).await[0].id, gpu);
    }

    async fn what_a_worker_cannot_take_is_passed_over_within_a_bound(d: &Deployment) {
        d.host().watch(false);
        for _ in 0..40 {
            d.create().policy(&requiring(r#""gpu""#)).send().await;
        }
        let last = d.create_one().await;
        assert_eq!(d.claim(LANE).await.id, last);
    }

    async fn a_worker_gets_only_the_kinds_it_names(d: &Deployment) {
        let other = d.create().kind("mail").send().await;
        let first = d.create().kind("resize").send().await;
        let second = d.create().kind("crop").send().await;
        let mut call = d.claim_call(LANE, 3);
        call.kinds = kinds(&["crop", "resize"]);
        let claimed: Vec<_> = d.claimed(call).await.iter().map(|held| held.id).collect();
        assert_eq!(claimed, [first, second]);
        assert_eq!(d.claim(LANE).await.id, other, "naming none means any");
    }

    async fn a_worker_gets_only_what_is_in_the_namespaces_it_names(d: &Deployment) {
        let other = d.create().namespace("other").send().await;
        let own = d.create().namespace("own").send().await;
        let mut call = d.claim_call(LANE, 2);
        call.namespaces = Joined(vec!["own".parse().expect("valid"), "no".parse().expect("valid")]);
        let claimed: Vec<_> = d.claimed(call).await.iter().map(|held| held.id).collect();
        assert_eq!(claimed, [own]);
        assert_eq!(d.claim(LANE).await.id, other, "naming none means any");
    }

    async fn a_named_queue_is_taken_from_and_no_other(d: &Deployment) {
        let render = d.create().namespace("shop").kind("render").policy(&requiring(r#""gpu""#))
            .send().await;
        d.create().namespace("shop").kind("render").priority(9).send().await;
        let mut call = d.claim_call(LANE, 2);
        call.capabilities = capabilities(&["gpu", "more"]);
        call.need = Some("shop:render:gpu".parse().expect("a need"));
        let claimed: Vec<_> = d.claimed(call.clone()).await.iter().map(|held| held.id).collect();
        assert_eq!(claimed, [render]);
        call.capabilities = capabilities(&["more"]);
        let refused = d.backend.call(d.home(), call).await.expect_err("it lacks one");
        assert_eq!(refused.to_string(), "capability_mismatch: The worker lacks capabilities that \
            the execution requires. [missing: gpu]");
    }

    async fn a_claim_tells_the_score_of_the_next_one_and_takes_none_behind_a_bound(d: &Deployment) {
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(d.create_one().await);
            d.advance(10).await;
        }
        let first = d.now().get() as i64 - 30;
        let mut call = d.claim_call(LANE, 3);
        call.score_max = Some(first + 9);
        let reply = d.call(call).await;
        let ClaimNextReply::Claimed { claims, next_score } = reply else { panic!("{reply:?}") };
        assert_eq!((claims.0.len(), claims.0[0].execution_id), (1, ids[0]));
        assert_eq!(next_score, Some(first + 10));
        let mut call = d.claim_call(LANE, 1);
        call.score_max = Some(first + 9);
        let reply = d.call(call).await;
        let ClaimNextReply::Claimed { claims, next_score } = reply else { panic!("{reply:?}") };
        assert_eq!((claims.0.len(), next_score), (0, Some(first + 10)), "the next one is behind");
        let reply = d.call(d.claim_call(LANE, 3)).await;
        let ClaimNextReply::Claimed { claims, next_score } = reply else { panic!("{reply:?}") };
        assert_eq!((claims.0.len(), next_score), (2, None));
    }

    async fn the_best_of_all_queues_comes_first(d: &Deployment) {
        let late = d.create().kind("a").send().await;
        d.advance(1).await;
        let first = d.create().kind("b").priority(2).send().await;
        let second = d.create().kind("c").priority(1).policy(&requiring(r#""gpu""#)).send().await;
        let mut call = d.claim_call(LANE, 3);
        call.capabilities = capabilities(&["gpu"]);
        let claimed: Vec<_> = d.claimed(call).await.iter().map(|held| held.id).collect();
        assert_eq!(claimed, [first, second, late]);
    }

    async fn what_was_claimed_is_recalled_and_nothing_new_is_taken(d: &Deployment) {
        for _ in 0..3 {
            d.create_one().await;
        }
        let call = d.claim_call(LANE, 2);
        let recall = RecallClaims {
            worker_instance_id: call.worker_instance_id.clone(),
            lease_ttl_ms: call.lease_ttl_ms,
            lease_ids: call.lease_ids.clone(),
        };
        let RecallClaimsReply::Recalled { claims } = d.call(recall.clone()).await;
        assert!(claims.0.is_empty());
        let held = d.claimed(call).await;
        let RecallClaimsReply::Recalled { claims } = d.call(recall).await;
        let ids: Vec<_> = claims.0.iter().map(|row| row.execution_id).collect();
        assert_eq!(ids, held.iter().map(|held| held.id).collect::<Vec<_>>());
    }

    async fn a_lane_has_a_bounded_number_of_queues(d: &Deployment) {
        d.host().watch(false);
        for number in 0..limits::NEEDS_MAX {
            d.create().kind(&format!("kind-{number}")).send().await;
        }
        let refused = d.create().kind("another").reply().await.expect_err("there are too many");
        assert_eq!(refused.code().map(|code| code.as_str()), Some("too_many_needs"));
        d.create().kind("kind-7").send().await;
        let mut graph = d.graph("a");
        graph.create("a").kind = "another".parse().expect("valid");
        assert_eq!(d.refused(graph.whole()).await, Code::TooManyNeeds);
        d.create().lane("parents").send().await;
        let parent = d.claim("parents").await;
        assert_eq!(d.refused(parent.add_children(&graph)).await, Code::TooManyNeeds);
        d.create().lane("other").kind("another").send().await;
        // What is claimed makes room when somebody looks.
        d.claim(LANE).await;
        let ListNeedsReply::Needs { needs, lanes_listed } =
            d.call(ListNeeds { lanes: Rest(vec![lane(LANE), lane("other")]) }).await;
        assert_eq!((needs.0.len() as u64, lanes_listed), (limits::NEEDS_MAX - 1, 1));
        d.create().kind("another").send().await;
    }

    async fn a_listing_tells_each_queue_with_its_head_and_its_length(d: &Deployment) {
        d.create().kind("mail").send().await;
        d.create().kind("mail").priority(1).send().await;
        d.create().kind("mail").namespace("shop").policy(&requiring(r#""b","a""#)).send().await;
        let lanes = vec![lane("empty"), lane(LANE)];
        let heads = d.backend.list_needs(d.home(), lanes).await.expect("listed");
        let told: Vec<_> = heads.iter().map(|head| format!(
            "{} {} {} {}", head.lane, head.need, head.score - d.now().get() as i64, head.waiting)).collect();
        assert_eq!(told, [
            format!("{LANE} shop:mail:a,b 0 1"),
            format!("{LANE} tests:mail -1000000000000 2"),
        ]);
    }

    async fn a_push_names_the_queue_its_head_and_how_many_joined_it(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        d.create().kind("mail").priority(1).send().await;
        let score = d.now().get() as i64 - 1_000_000_000_000;
        assert_eq!(ready.next().await, format!("1:{score}:{LANE}:tests:mail"));
    }

    async fn malformed_kinds_are_refused(d: &Deployment) {
        let lease = d.new_uuid().to_string();
        let many = "k:".repeat(limits::KINDS_MAX as usize) + "k";
        for text in [":", "a:", "a::b", "a b :c", "{a}", many.as_str()] {
            let args: [&[u8]; 11] = [LANE.as_bytes(), b"w", b"w-1", b"", b"1000", b"0", b"", b"",
                text.as_bytes(), b"", lease.as_bytes()];
            let answer = d.raw("ff_claim_next", &args).await;
            assert_eq!(answer.code(), "invalid_input", "{text:?}");
            assert!(answer.text(0).starts_with("kinds must be"), "{}", answer.text(0));
        }
    }

    async fn malformed_capabilities_are_refused_by_their_rule(d: &Deployment) {
        let lease = d.new_uuid().to_string();
        for (text, rule) in [
            ("a,,b", "worker:empty_token"),
            (",", "worker:empty_token"),
            ("a b", "worker:control_or_whitespace"),
            ("a\u{1}", "worker:control_or_whitespace"),
            (&"a,".repeat(300), "worker:too_many_tokens"),
        ] {
            let args: [&[u8]; 11] = [LANE.as_bytes(), b"w", b"w-1", text.as_bytes(), b"1000", b"0",
                b"", b"", b"", b"", lease.as_bytes()];
            let answer = d.raw("ff_claim_next", &args).await;
            assert_eq!((answer.code(), answer.text(0).as_str()), ("invalid_capabilities", rule));
        }
    }

    async fn a_lost_reply_to_a_claim_is_answered_again(d: &Deployment) {
        for _ in 0..3 {
            d.create_one().await;
        }
        let mut call = d.claim_call(LANE, 2);
        let first = d.call(call.clone()).await;
        let ClaimNextReply::Claimed { claims, .. } = first else { panic!("{first:?}") };
        d.advance(LEASE_MS - 1).await;
        call.retry = true;
        let again = d.call(call.clone()).await;
        let ClaimNextReply::ClaimedBefore { claims: before, .. } = again else {
            panic!("{again:?}")
        };
        assert_eq!(before.0, claims.0);
        d.advance(1).await;
        d.tick().await;
        let ClaimNextReply::Claimed { claims, .. } = d.call(call).await else {
            panic!("leases that ran out are not answered again");
        };
        assert_eq!(claims.0.len(), 2);
    }

    async fn a_repetition_of_a_claim_that_never_arrived_is_a_claim(d: &Deployment) {
        let id = d.create_one().await;
        let mut call = d.claim_call(LANE, 1);
        call.retry = true;
        assert_eq!(d.claimed(call).await[0].id, id);
    }

    async fn a_repetition_finds_no_leases_of_another_worker(d: &Deployment) {
        d.create_one().await;
        let mut call = d.claim_call(LANE, 1);
        d.claimed(call.clone()).await;
        call.retry = true;
        call.worker_instance_id = instance("another-1");
        assert!(d.claimed(call).await.is_empty());
    }

    async fn an_execution_past_its_deadline_is_left_to_the_tick(d: &Deployment) {
        let id = d.create().deadline_in(100).send().await;
        d.advance(100).await;
        assert!(lane_is_empty(d).await);
        assert_eq!(d.tick().await.expired, 1);
        assert_eq!(d.describe(id).await.public_state(), PublicState::Expired);
    }

    async fn a_reserved_execution_is_not_claimed_by_others(d: &Deployment) {
        let id = d.create_one().await;
        d.call(d.claim_grant_call(id)).await;
        assert!(lane_is_empty(d).await);
    }

    async fn a_lost_execution_is_claimed_as_a_new_attempt(d: &Deployment) {
        let old = d.create_and_claim().await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        let new = d.claim(LANE).await;
        assert_eq!(new.id, old.id);
        assert_eq!(new.row.attempt_kind, AttemptKind::New(AttemptType::Reclaim));
        assert_eq!((new.lease_epoch.get(), new.row.attempt_index.get()), (2, 1));
        let described = d.describe(new.id).await;
        assert_eq!((described.reclaim_count, described.total_attempt_count), (1, 2));
        let attempts = d.attempts(new.id).await;
        assert_eq!(attempts.len(), 2);
        assert_eq!(attempts[1].cause.as_deref(), Some("lease_expired"));
    }

    async fn a_paused_attempt_goes_on_under_a_new_lease(d: &Deployment) {
        let old = d.create_and_claim().await;
        d.call(old.delay(d.now())).await;
        let new = d.claim(LANE).await;
        assert_eq!(new.row.attempt_kind, AttemptKind::Resumed);
        assert_eq!(new.attempt_id, old.attempt_id);
        assert_ne!(new.lease_id, old.lease_id);
        assert_eq!((new.lease_epoch.get(), new.row.attempt_index.get()), (2, 0));
        assert_eq!(d.attempts(new.id).await.len(), 1);
    }

    async fn only_one_partition_is_claimed_from(d: &Deployment) {
        let elsewhere = d.create().on(d.partitions[1]).send().await;
        assert!(lane_is_empty(d).await);
        let held = d.claimed_on(d.partitions[1], d.claim_call(LANE, 1)).await;
        assert_eq!(held[0].id, elsewhere);
        assert_eq!(record(&d.dump().await, elsewhere)["st"], "running");
    }
}
