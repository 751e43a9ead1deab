//! What engines of this kind got wrong about claiming after a resume, each as a test of its own.

use ff_conformance::{
    Deployment, Held, INSTANCE, LANE, LEASE_MS, conformance, instance, lane, worker,
};
use ff_core::contracts::Condition;
use ff_core::error::Code;
use ff_core::types::{GrantId, LeaseId};
use ff_script::calls::claim::{ClaimResumedExecution, ClaimResumedExecutionReply};
use ff_script::calls::grant::IssueClaimGrantReply;

use super::scenario::encode;

/// An execution that was suspended and resumed, and a claim by grant of it.
async fn resumed(d: &Deployment) -> (Held, ClaimResumedExecution) {
    let it = d.suspend(&Condition::any(["go"])).await;
    d.deliver(&it.on, "go").await;
    let grant = d.claim_grant_call(it.held.id);
    let reply = d.call(grant.clone()).await;
    assert!(matches!(reply, IssueClaimGrantReply::Granted { .. }), "{reply:?}");
    let claim = ClaimResumedExecution {
        execution_id: it.held.id,
        worker_id: grant.worker_id,
        worker_instance_id: grant.worker_instance_id,
        lane: Some(lane(LANE)),
        grant_id: grant.grant_id,
        lease_id: LeaseId::from_uuid(d.new_uuid()),
        lease_ttl_ms: LEASE_MS,
    };
    (it.held, claim)
}

conformance! {
    async fn r1_a_grant_counts_only_while_the_execution_can_be_claimed(d: &Deployment) {
        let (_, claim) = resumed(d).await;
        d.call(claim.clone()).await;
        let held = d.suspend(&Condition::any(["go"])).await;
        let suspended = ClaimResumedExecution { execution_id: held.held.id, ..claim };
        assert_eq!(d.refused(suspended).await, Code::ExecutionNotLeaseable);
        let grant = d.claim_grant_call(held.held.id);
        assert_eq!(d.refused(grant).await, Code::ExecutionNotEligible);
    }

    async fn r2_a_grant_is_bound_to_instance_lane_and_id(d: &Deployment) {
        let (_, claim) = resumed(d).await;
        for wrong in [
            ClaimResumedExecution { worker_id: worker("other"), ..claim.clone() },
            ClaimResumedExecution { worker_instance_id: instance("other"), ..claim.clone() },
            ClaimResumedExecution { lane: Some(lane("other")), ..claim.clone() },
            ClaimResumedExecution { grant_id: GrantId::from_uuid(d.new_uuid()), ..claim.clone() },
        ] {
            assert_eq!(d.refused(wrong).await, Code::InvalidClaimGrant);
        }
        d.call(claim).await;
    }

    async fn r3_a_claim_with_a_bad_number_has_claimed_nothing(d: &Deployment) {
        let (held, claim) = resumed(d).await;
        let mut args = encode(&claim);
        for ttl in ["", "0", "x", "1.5", "86400001"] {
            args[6] = ttl.as_bytes().to_vec();
            let sent: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            assert_eq!(d.raw("ff_claim_resumed_execution", &sent).await.code(), "invalid_input");
        }
        assert_eq!(d.describe(held.id).await.current_lease, None);
    }

    async fn r4_a_claim_can_be_repeated(d: &Deployment) {
        let (_, claim) = resumed(d).await;
        let reply = d.call(claim.clone()).await;
        let ClaimResumedExecutionReply::Claimed { claim: first } = reply else {
            panic!("it is the first");
        };
        assert_eq!(first.resume.as_ref().map(|resume| resume.signals.len()), Some(1));
        let again = d.call(claim).await;
        assert_eq!(again, ClaimResumedExecutionReply::ClaimedBefore { claim: first });
    }

    async fn r5_a_lease_ends_although_it_was_never_renewed(d: &Deployment) {
        let (_, claim) = resumed(d).await;
        d.call(claim).await;
        d.advance(LEASE_MS).await;
        assert_eq!(d.tick().await.lapsed, 1);
    }

    async fn r6_the_attempt_is_the_one_that_was_suspended(d: &Deployment) {
        let (held, claim) = resumed(d).await;
        let reply = d.call(claim).await;
        let ClaimResumedExecutionReply::Claimed { claim } = reply else { panic!("{reply:?}") };
        assert_eq!((claim.attempt_id, claim.attempt_index.get()), (held.attempt_id, 0));
        assert_eq!(d.describe(held.id).await.current_lease.map(|it| it.worker_instance_id),
            Some(instance(INSTANCE)));
    }
}
