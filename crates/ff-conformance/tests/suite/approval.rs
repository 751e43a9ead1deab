//! Approvals: what is asked, decisions that stand, and the keys of links.

use ff_conformance::{Deployment, Held, LANE, Suspended, conformance};
use ff_core::contracts::{Approval, ApprovalChoice, ApprovalRequest, Condition, TimeoutBehavior};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::{Approver, SignalId, TimestampMs, WaitpointId};
use ff_script::calls::approval::{
    ListApprovals, ListApprovalsReply, ReadApproval, ReadApprovalReply, RecordDecision,
    RecordDecisionReply,
};
use ff_script::calls::secret::{
    ReadLinkSecrets, ReadLinkSecretsReply, RotateLinkSecret, RotateWaitpointHmacSecret,
    RotateWaitpointHmacSecretReply, SecretHex,
};

use super::scenario::encode;

/// A state in which a function of this file has something to do, and the arguments to do it.
pub(crate) async fn prepare(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    match name {
        "ff_rotate_link_secret" => return encode(&rotation("a", 1, 1000)),
        "ff_read_link_secrets" => return encode(&ReadLinkSecrets {}),
        _ => {}
    }
    let it = ask(d, &votes(2)).await;
    let (execution_id, waitpoint_id) = (it.on.execution_id, it.on.waitpoint_id);
    match name {
        "ff_record_decision" => encode(&decision(d, &it, "ann", "approved")),
        "ff_read_approval" => encode(&ReadApproval { execution_id, waitpoint_id }),
        _ => encode(&ListApprovals { execution_id }),
    }
}

fn approver(name: &str) -> Approver {
    Approver::new(name)
}

/// So many approvers must approve, and one who rejects is enough.
fn votes(count: u32) -> Condition {
    let of = |name: &str| (vec![name.to_owned()], Some("approver".to_owned()));
    let (approved, source_type) = of("approved");
    let (rejected, also) = of("rejected");
    Condition::AnyOf {
        conditions: vec![
            Condition::Count { count, signals: approved, distinct_sources: true, source_type },
            Condition::Any { signals: rejected, source_type: also },
        ],
    }
}

fn asked() -> ApprovalRequest {
    ApprovalRequest {
        question: "Ship <it>?".to_owned(),
        subject: "Überall".to_owned(),
        choices: vec![ApprovalChoice::new("approved", "Yes"), ApprovalChoice::new("rejected", "")],
        approvers: vec![approver("ann"), approver("bob")],
    }
}

async fn ask(d: &Deployment, condition: &Condition) -> Suspended {
    let lane = format!("lane-{}", d.new_uuid());
    d.create().lane(&lane).send().await;
    let held = d.claim(&lane).await;
    let mut call = d.suspension(&held, condition);
    call.approval = asked().to_json().expect("text");
    call.requested_by = "ci".to_owned();
    d.suspend_by(&held, call).await
}

async fn resumed(d: &Deployment, it: &Suspended) -> Held {
    let held = d.claim(it.held.row.lane.as_str()).await;
    assert_eq!((held.id, held.attempt_id), (it.held.id, it.held.attempt_id));
    held
}

fn decision(d: &Deployment, it: &Suspended, by: &str, signal_name: &str) -> RecordDecision {
    RecordDecision {
        execution_id: it.on.execution_id,
        waitpoint_id: it.on.waitpoint_id,
        signal_id: SignalId::from_uuid(d.new_uuid()),
        approver: approver(by),
        signal_name: signal_name.to_owned(),
    }
}

async fn decide(d: &Deployment, it: &Suspended, by: &str, signal_name: &str) -> String {
    match d.call(decision(d, it, by, signal_name)).await {
        RecordDecisionReply::Recorded { decided_at, effect } => {
            assert_eq!(decided_at, d.now());
            effect
        }
        other => panic!("it is the first, and the reply was {other:?}"),
    }
}

async fn read(d: &Deployment, it: &Suspended) -> Approval {
    let call = ReadApproval { execution_id: it.on.execution_id, waitpoint_id: it.on.waitpoint_id };
    let ReadApprovalReply::Found { approval } = d.call(call).await;
    approval
}

fn decided(approval: &Approval) -> Vec<(&str, &str, TimestampMs)> {
    let rows = approval.decisions.iter();
    rows.map(|one| (one.approver.as_str(), one.signal.as_str(), one.decided_at)).collect()
}

fn rotation(kid: &str, byte: u8, grace_ms: u64) -> RotateLinkSecret {
    let new_secret_hex = SecretHex(format!("{byte:02x}").repeat(32));
    let new_kid = kid.to_owned();
    RotateLinkSecret(RotateWaitpointHmacSecret {
        new_kid,
        new_secret_hex,
        grace_ms,
        only_first: false,
    })
}

async fn link_keys(d: &Deployment) -> (Option<String>, Vec<(String, Vec<u8>)>) {
    let ReadLinkSecretsReply::Keys { now, current_kid, keys } = d.call(ReadLinkSecrets {}).await;
    assert_eq!(now, d.now());
    (current_kid, keys.0.into_iter().map(|key| (key.kid, key.secret)).collect())
}

conformance! {
    async fn two_of_three_approve_and_the_worker_learns_who(d: &Deployment) {
        let it = ask(d, &votes(2)).await;
        assert_eq!(decide(d, &it, "ann", "approved").await, "appended_to_waitpoint");
        let first_at = d.now();
        d.advance(7).await;
        assert_eq!(decide(d, &it, "bob", "approved").await, "resume_condition_satisfied");
        let approval = read(d, &it).await;
        assert_eq!(decided(&approval), [
            ("ann", "approved", first_at), ("bob", "approved", d.now())]);
        let held = resumed(d, &it).await;
        let resume = held.row.resume.clone().expect("it was suspended");
        let senders: Vec<(&str, &str)> = resume.signals.iter()
            .map(|one| (one.source_type.as_str(), one.source_identity.as_str())).collect();
        assert_eq!(senders, [("approver", "ann"), ("approver", "bob")]);
    }

    async fn one_who_rejects_ends_the_wait(d: &Deployment) {
        let it = ask(d, &votes(2)).await;
        decide(d, &it, "ann", "approved").await;
        assert_eq!(decide(d, &it, "bob", "rejected").await, "resume_condition_satisfied");
        assert_eq!(resumed(d, &it).await.signal_names(), ["rejected"]);
    }

    async fn what_is_asked_can_be_read_as_it_was(d: &Deployment) {
        let it = ask(d, &votes(1)).await;
        let approval = read(d, &it).await;
        assert_eq!(approval.request, asked());
        assert_eq!((approval.waitpoint_id, &approval.waitpoint_key), (it.on.waitpoint_id,
            &it.on.key));
        assert!(approval.open && approval.decisions.is_empty());
        assert_eq!((approval.requested_by.as_str(), approval.asked_at), ("ci", d.now()));
        assert_eq!((approval.closes_at, approval.closed_at, approval.close_reason),
            (None, None, None));
        let ListApprovalsReply::Approvals { approvals } =
            d.call(ListApprovals { execution_id: it.held.id }).await;
        assert_eq!(approvals.0, [read(d, &it).await]);
        decide(d, &it, "ann", "approved").await;
        let closed = read(d, &it).await;
        assert_eq!((closed.open, closed.closed_at), (false, Some(d.now())));
        assert_eq!(closed.close_reason.as_deref(), Some("resumed"));
    }

    async fn the_first_decision_of_an_approver_stands(d: &Deployment) {
        let it = ask(d, &votes(2)).await;
        decide(d, &it, "ann", "approved").await;
        let stands = RecordDecisionReply::RecordedBefore {
            signal_name: "approved".to_owned(), decided_at: d.now() };
        d.advance(5).await;
        assert_eq!(d.call(decision(d, &it, "ann", "rejected")).await, stands);
        assert_eq!(d.call(decision(d, &it, "ann", "approved")).await, stands);
        decide(d, &it, "bob", "approved").await;
        // What ended the wait is recognised, too, although nothing is open any more.
        assert_eq!(d.call(decision(d, &it, "ann", "rejected")).await, stands);
        assert_eq!(d.refused(decision(d, &it, "eve", "rejected")).await, Code::WaitpointClosed);
        assert_eq!(read(d, &it).await.decisions.len(), 2);
    }

    async fn a_sender_cannot_take_an_approvers_place(d: &Deployment) {
        let it = ask(d, &votes(1)).await;
        for key in ["ann", "d:ann", "approver:ann"] {
            let mut call = d.signal(&it.on, "approved");
            (call.source_identity, call.idempotency_key) = ("ann".to_owned(), key.to_owned());
            assert_eq!(d.effect(call).await, "no_op", "its source is not an approver");
        }
        assert!(read(d, &it).await.decisions.is_empty());
        assert_eq!(decide(d, &it, "ann", "approved").await, "resume_condition_satisfied");
    }

    async fn what_is_over_takes_no_decision(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut call = d.suspension(&held, &votes(1));
        call.approval = "{}".to_owned();
        (call.timeout_ms, call.timeout_behavior) = (Some(100), Some(TimeoutBehavior::Fail));
        let it = d.suspend_by(&held, call).await;
        assert_eq!(read(d, &it).await.closes_at, Some(d.now().plus_millis(100)));
        d.advance(100).await;
        assert!(!read(d, &it).await.open, "although nobody has carried it out yet");
        assert_eq!(d.refused(decision(d, &it, "ann", "approved")).await, Code::WaitpointClosed);
        d.tick().await;
        assert_eq!(d.refused(decision(d, &it, "ann", "approved")).await, Code::WaitpointClosed);
        assert_eq!(read(d, &it).await.close_reason.as_deref(), Some("timed_out_fail"));
    }

    async fn an_execution_past_its_deadline_takes_no_decision(d: &Deployment) {
        d.create().policy(r#"{"timeout_policy":{"execution_deadline_ms":1000}}"#).send().await;
        let held = d.claim(LANE).await;
        let mut call = d.suspension(&held, &votes(1));
        call.approval = "{}".to_owned();
        let it = d.suspend_by(&held, call).await;
        d.advance(1000).await;
        let code = d.refused(decision(d, &it, "ann", "approved")).await;
        assert_eq!(code, Code::TargetNotSignalable);
    }

    async fn what_was_not_asked_is_not_found(d: &Deployment) {
        let (it, other) = (ask(d, &votes(1)).await, ask(d, &votes(1)).await);
        let plain = d.suspend(&Condition::any(["approved"])).await;
        let foreign = RecordDecision {
            waitpoint_id: other.on.waitpoint_id, ..decision(d, &it, "ann", "approved") };
        let unknown = RecordDecision {
            waitpoint_id: WaitpointId::from_uuid(d.new_uuid()), ..foreign.clone() };
        for call in [foreign, unknown, decision(d, &plain, "ann", "approved")] {
            let (execution_id, waitpoint_id) = (call.execution_id, call.waitpoint_id);
            assert_eq!(d.refused(call).await, Code::WaitpointNotFound);
            let read = ReadApproval { execution_id, waitpoint_id };
            assert_eq!(d.refused(read).await, Code::WaitpointNotFound);
        }
        let nobody = ListApprovals { execution_id: d.new_id() };
        assert_eq!(d.refused(nobody).await, Code::ExecutionNotFound);
        let ListApprovalsReply::Approvals { approvals } =
            d.call(ListApprovals { execution_id: plain.held.id }).await;
        assert!(approvals.0.is_empty());
    }

    async fn so_many_approvers_decide_and_not_more(d: &Deployment) {
        let it = ask(d, &Condition::OperatorOnly).await;
        for number in 0..limits::APPROVERS_MAX {
            assert_eq!(decide(d, &it, &format!("a{number}"), "approved").await, "no_op");
        }
        let one_more = decision(d, &it, "one more", "approved");
        assert_eq!(d.refused(one_more).await, Code::SignalLimitExceeded);
        assert_eq!(read(d, &it).await.decisions.len() as u64, limits::APPROVERS_MAX);
    }

    async fn decisions_count_as_signals_of_the_execution(d: &Deployment) {
        d.create().policy(r#"{"max_signals_per_execution":1}"#).send().await;
        let held = d.claim(LANE).await;
        let mut call = d.suspension(&held, &votes(2));
        call.approval = "{}".to_owned();
        let it = d.suspend_by(&held, call).await;
        decide(d, &it, "ann", "approved").await;
        let second = decision(d, &it, "bob", "approved");
        assert_eq!(d.refused(second).await, Code::SignalLimitExceeded);
    }

    async fn a_link_key_is_made_once_and_replaced_with_grace(d: &Deployment) {
        assert_eq!(link_keys(d).await, (None, Vec::new()));
        let mut first = rotation("a", 1, 0);
        first.0.only_first = true;
        assert_eq!(d.call(first).await, RotateWaitpointHmacSecretReply::Rotated {
            previous_kid: None, current_kid: "a".to_owned(), collected: 0 });
        let mut late = rotation("z", 9, 0);
        late.0.only_first = true;
        let kept = RotateWaitpointHmacSecretReply::RotatedBefore { current_kid: "a".to_owned() };
        assert_eq!(d.call(late).await, kept);
        assert_eq!(d.call(rotation("a", 9, 0)).await, kept, "a repetition brings another secret");
        d.call(rotation("b", 2, 1000)).await;
        let both = vec![("a".to_owned(), vec![1; 32]), ("b".to_owned(), vec![2; 32])];
        assert_eq!(link_keys(d).await, (Some("b".to_owned()), both));
        assert_eq!(d.refused(rotation("a", 1, 0)).await, Code::RotationConflict);
        d.advance(1001).await;
        assert_eq!(link_keys(d).await.1, [("b".to_owned(), vec![2; 32])]);
    }

    async fn many_link_keys_are_accepted_at_once_and_not_more(d: &Deployment) {
        for number in 0..limits::KIDS_MAX {
            d.call(rotation(&format!("k{number}"), 1, 60_000)).await;
        }
        assert_eq!(d.refused(rotation("more", 1, 0)).await, Code::KidLimitExceeded);
        d.advance(60_001).await;
        d.call(rotation("more", 1, 0)).await;
    }

    async fn what_is_no_link_key_is_refused(d: &Deployment) {
        let mut short = rotation("a", 1, 0);
        short.0.new_secret_hex = SecretHex("00".to_owned());
        assert_eq!(d.refused(short).await, Code::InvalidSecretHex);
        assert_eq!(d.refused(rotation("a b", 1, 0)).await, Code::InvalidKid);
        let args: [&[u8]; 3] = [b"a", &b"00".repeat(16), b"-1"];
        assert_eq!(d.raw("ff_rotate_link_secret", &args).await.code(), "invalid_grace_ms");
    }
}
