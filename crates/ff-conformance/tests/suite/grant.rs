//! Reserving one execution for one worker.

use ff_conformance::record::{events_of, listed_in, record, score};
use ff_conformance::{
    Deployment, GRANT_MS, Held, INSTANCE, LANE, LEASE_MS, WORKER, capabilities, conformance,
    instance, lane, worker,
};
use ff_core::error::Code;
use ff_core::types::{ExecutionId, GrantId, TimestampMs};
use ff_script::calls::cancel::CancelExecution;
use ff_script::calls::grant::{GrantNext, GrantNextReply, IssueClaimGrantReply};
use ff_script::host::Topic;
use ff_script::wire::Joined;

use super::cancel::outside;

const CAPABLE: &str = r#"{"routing_requirements":{"required_capabilities":["b","a","c"]}}"#;

/// An execution whose lease ran out.
async fn lapsed(d: &Deployment) -> Held {
    let held = d.create_and_claim().await;
    d.advance(LEASE_MS).await;
    assert_eq!(d.tick().await.lapsed, 1);
    held
}

fn next(d: &Deployment) -> GrantNext {
    GrantNext {
        lane: lane(LANE),
        worker_id: worker(WORKER),
        worker_instance_id: instance(INSTANCE),
        capabilities: capabilities(&[]),
        grant_ttl_ms: GRANT_MS,
        retry: false,
        grant_id: GrantId::from_uuid(d.new_uuid()),
        need: None,
        score_max: None,
        namespaces: Joined(Vec::new()),
    }
}

/// What is granted next, and what for.
async fn granted_next(d: &Deployment, call: GrantNext) -> (ExecutionId, String) {
    match d.call(call).await {
        GrantNextReply::Granted { execution_id, kind, .. }
        | GrantNextReply::GrantedBefore { execution_id, kind, .. } => {
            (execution_id, kind.to_string())
        }
        GrantNextReply::Nothing { .. } => panic!("there is nothing to grant"),
    }
}

fn cancel(id: ExecutionId) -> CancelExecution {
    outside(id, "operator_override")
}

fn granted(execution_id: ExecutionId, grant_id: GrantId, at: TimestampMs) -> IssueClaimGrantReply {
    IssueClaimGrantReply::Granted { execution_id, grant_id, grant_expires_at: at }
}

conformance! {
    async fn a_granted_execution_leaves_its_queue_for_a_while(d: &Deployment) {
        let mut due = d.listen(Topic::Due).await;
        let id = d.create_one().await;
        let call = d.claim_grant_call(id);
        let at = d.now().plus_millis(GRANT_MS);
        assert_eq!(d.call(call.clone()).await, granted(id, call.grant_id, at));
        assert_eq!(due.next().await, at.to_string());
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, id), ["due"]);
        assert_eq!(score(&dump, "due", id), Some(at.get()));
        assert_eq!(events_of(&dump, id), ["created", "granted claim"]);
        d.describe(id).await;
    }

    async fn an_unused_grant_returns_the_execution_to_its_queue(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let id = d.create_one().await;
        assert_eq!(ready.lane().await, LANE);
        d.call(d.claim_grant_call(id)).await;
        d.advance(GRANT_MS - 1).await;
        assert_eq!(d.tick().await.total(), 0);
        d.advance(1).await;
        assert_eq!(d.tick().await.granted_back, 1);
        assert_eq!(ready.lane().await, LANE);
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, id), ["q:default:tests:work"]);
        assert_eq!(events_of(&dump, id), ["created", "granted claim", "grant_expired"]);
        assert!(!record(&dump, id).keys().any(|field| field.starts_with('g')));
        assert_eq!(d.claim(LANE).await.id, id);
    }

    async fn the_same_worker_is_told_of_its_grant_again(d: &Deployment) {
        let id = d.create_one().await;
        let first = d.claim_grant_call(id);
        d.call(first.clone()).await;
        d.advance(10).await;
        let again = d.call(d.claim_grant_call(id)).await;
        let grant_expires_at = d.now().plus_millis(GRANT_MS - 10);
        let (execution_id, grant_id) = (id, first.grant_id);
        assert_eq!(again,
            IssueClaimGrantReply::Existing { execution_id, grant_id, grant_expires_at });
    }

    async fn another_worker_or_process_is_refused_while_a_grant_lasts(d: &Deployment) {
        let id = d.create_one().await;
        d.call(d.claim_grant_call(id)).await;
        let mut other = d.claim_grant_call(id);
        other.worker_instance_id = instance("worker-2");
        assert_eq!(d.refused(other).await, Code::GrantAlreadyExists);
        let mut other = d.claim_grant_call(id);
        other.worker_id = worker("another");
        assert_eq!(d.refused(other.clone()).await, Code::GrantAlreadyExists);
        d.advance(GRANT_MS).await;
        let at = d.now().plus_millis(GRANT_MS);
        assert_eq!(d.call(other.clone()).await, granted(id, other.grant_id, at));
    }

    async fn a_worker_without_the_capabilities_is_told_which_it_lacks(d: &Deployment) {
        let id = d.create().policy(CAPABLE).send().await;
        let mut call = d.claim_grant_call(id);
        call.capabilities = capabilities(&["b"]);
        let (code, details) = d.refusal(call.clone()).await;
        assert_eq!((code, details), (Code::CapabilityMismatch, vec!["a,c".to_owned()]));
        call.capabilities = capabilities(&["a", "b", "c"]);
        d.call(call).await;
    }

    async fn malformed_capabilities_are_refused(d: &Deployment) {
        let (waiting, held) = (d.create().lane("other").send().await, lapsed(d).await);
        let grant = d.new_uuid().to_string();
        for (name, id) in [("ff_issue_claim_grant", waiting), ("ff_issue_reclaim_grant", held.id)] {
            let id = id.to_string();
            let args: [&[u8]; 6] = [id.as_bytes(), b"w", b"w-1", b"a b", b"10", grant.as_bytes()];
            let answer = d.raw(name, &args).await;
            assert_eq!(answer.code(), "invalid_capabilities", "{name}");
            assert_eq!(answer.text(0), "worker:control_or_whitespace");
        }
    }

    async fn only_a_waiting_execution_can_be_granted(d: &Deployment) {
        assert_eq!(d.refused(d.claim_grant_call(d.new_id())).await, Code::ExecutionNotFound);
        let delayed = d.create().delayed_by(100).send().await;
        assert_eq!(d.refused(d.claim_grant_call(delayed)).await, Code::ExecutionNotEligible);
        let late = d.create().lane("late").deadline_in(LEASE_MS).send().await;
        let held = d.create_and_claim().await;
        assert_eq!(d.refused(d.claim_grant_call(held.id)).await, Code::ExecutionNotEligible);
        d.advance(LEASE_MS).await;
        assert_eq!(d.refused(d.claim_grant_call(late)).await, Code::ExecutionNotEligible);
        d.tick().await;
        assert_eq!(d.refused(d.claim_grant_call(held.id)).await, Code::ExecutionNotEligible);
        d.call(cancel(held.id)).await;
        assert_eq!(d.refused(d.claim_grant_call(held.id)).await, Code::ExecutionNotEligible);
    }

    async fn a_lost_execution_can_be_granted_for_reclaiming(d: &Deployment) {
        let held = lapsed(d).await;
        let call = d.reclaim_grant_call(held.id);
        let grant_expires_at = d.now().plus_millis(GRANT_MS);
        let grant_id = call.0.grant_id;
        let execution_id = held.id;
        assert_eq!(d.call(call).await,
            IssueClaimGrantReply::Granted { execution_id, grant_id, grant_expires_at });
        assert_eq!(d.call(d.reclaim_grant_call(held.id)).await,
            IssueClaimGrantReply::Existing { execution_id, grant_id, grant_expires_at });
        let mut other = d.reclaim_grant_call(held.id);
        other.0.worker_id = worker("another");
        assert_eq!(d.refused(other).await, Code::GrantAlreadyExists);
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["due"]);
        assert_eq!(events_of(&dump, held.id).last().map(String::as_str), Some("granted 0 reclaim"));
        d.advance(GRANT_MS).await;
        assert_eq!(d.tick().await.granted_back, 1);
        assert_eq!(d.claim(LANE).await.id, held.id);
    }

    async fn only_a_lost_execution_can_be_granted_for_reclaiming(d: &Deployment) {
        assert_eq!(d.refused(d.reclaim_grant_call(d.new_id())).await, Code::ExecutionNotFound);
        let waiting = d.create().lane("other").send().await;
        assert_eq!(d.refused(d.reclaim_grant_call(waiting)).await, Code::ExecutionNotReclaimable);
        let held = d.create_and_claim().await;
        assert_eq!(d.refused(d.reclaim_grant_call(held.id)).await, Code::ExecutionNotReclaimable);
        d.call(held.complete(b"")).await;
        assert_eq!(d.refused(d.reclaim_grant_call(held.id)).await, Code::ExecutionNotReclaimable);
    }

    async fn a_reclaimer_needs_the_capabilities_too(d: &Deployment) {
        let id = d.create().policy(CAPABLE).send().await;
        let mut call = d.claim_call(LANE, 1);
        call.capabilities = capabilities(&["a", "b", "c"]);
        d.claimed(call).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        let (code, details) = d.refusal(d.reclaim_grant_call(id)).await;
        assert_eq!((code, details), (Code::CapabilityMismatch, vec!["a,b,c".to_owned()]));
    }

    async fn the_best_execution_of_a_lane_is_granted(d: &Deployment) {
        let capable = d.create().policy(CAPABLE).priority(9).send().await;
        let second = d.create_one().await;
        let first = d.create().priority(1).send().await;
        for id in [first, second] {
            let (granted, kind) = granted_next(d, next(d)).await;
            assert_eq!((granted, kind.as_str()), (id, "claim"));
        }
        assert_eq!(d.call(next(d)).await, GrantNextReply::Nothing { next_score: None });
        let mut call = next(d);
        call.capabilities = capabilities(&["a", "b", "c"]);
        assert_eq!(granted_next(d, call).await, (capable, "claim".to_owned()));
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, first), ["due"]);
        assert_eq!(events_of(&dump, first), ["created", "granted claim"]);
    }

    async fn a_grant_of_the_best_says_what_it_is_for(d: &Deployment) {
        let held = lapsed(d).await;
        assert_eq!(granted_next(d, next(d)).await, (held.id, "reclaim".to_owned()));
        let paused = d.create_and_claim().await;
        d.call(paused.delay(d.now())).await;
        assert_eq!(granted_next(d, next(d)).await, (paused.id, "resume".to_owned()));
    }

    async fn a_lost_reply_to_grant_next_is_answered_again(d: &Deployment) {
        let first = d.create_one().await;
        d.create_one().await;
        let mut call = next(d);
        let GrantNextReply::Granted { execution_id, grant_id, grant_expires_at, kind, .. } =
            d.call(call.clone()).await
        else {
            panic!("there is something to grant");
        };
        assert_eq!(execution_id, first);
        call.retry = true;
        d.advance(GRANT_MS - 1).await;
        let again = d.call(call.clone()).await;
        assert_eq!(again,
            GrantNextReply::GrantedBefore {
                execution_id, grant_id, grant_expires_at, kind, next_score: None });
        d.advance(1).await;
        d.tick().await;
        assert_eq!(granted_next(d, call).await.0, first, "what ran out is not answered again");
    }

    async fn a_repetition_of_a_grant_that_never_arrived_is_a_grant(d: &Deployment) {
        let id = d.create_one().await;
        let call = GrantNext { retry: true, ..next(d) };
        assert_eq!(granted_next(d, call).await, (id, "claim".to_owned()));
    }

    async fn malformed_capabilities_are_refused_by_grant_next(d: &Deployment) {
        let grant = d.new_uuid().to_string();
        let args: [&[u8]; 7] = [LANE.as_bytes(), b"w", b"w-1", b"a,,b", b"10", b"0",
            grant.as_bytes()];
        let answer = d.raw("ff_grant_next", &args).await;
        assert_eq!((answer.code(), answer.text(0).as_str()),
            ("invalid_capabilities", "worker:empty_token"));
    }

    async fn an_execution_that_lost_too_many_leases_says_so(d: &Deployment) {
        d.create().policy(r#"{"max_reclaim_count":0}"#).send().await;
        let held = d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        assert_eq!(d.tick().await.lapsed, 1);
        assert_eq!(d.refused(d.reclaim_grant_call(held.id)).await, Code::MaxRetriesExhausted);
    }
}
