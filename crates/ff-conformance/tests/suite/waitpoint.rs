//! Waitpoints that are opened before the execution is suspended on them.

use ff_conformance::record::{events_of, member_score};
use ff_conformance::{Deployment, INSTANCE, LANE, LEASE_MS, conformance, instance};
use ff_core::contracts::{Condition, OpenWaitpoint, WaitpointState};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::{ExecutionId, LeaseId, WaitpointId};
use ff_script::calls::suspend::SuspendExecutionReply;
use ff_script::calls::waitpoint::{
    CloseWaitpointReply, CreatePendingWaitpointReply, ListPendingWaitpoints,
    ListPendingWaitpointsReply,
};
use ff_script::calls::worker::ReleaseWorkerLeases;
use ff_script::host::Topic;

const BUFFERED: &str = "buffered_for_pending_waitpoint";

async fn open(d: &Deployment, execution_id: ExecutionId) -> Vec<OpenWaitpoint> {
    let ListPendingWaitpointsReply::Waitpoints { waitpoints } =
        d.call(ListPendingWaitpoints { execution_id }).await;
    waitpoints.0
}

conformance! {
    async fn early_signals_wait_for_the_suspension(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut due = d.listen(Topic::Due).await;
        let on = d.open_waitpoint(&held, "approval", 9000).await;
        due.hears(&d.now().plus_millis(9000).to_string()).await;
        assert_eq!(d.deliver(&on, "a").await, "buffered_for_pending_waitpoint");
        let it = d.suspend_by(&held, d.suspension_on(&held, &on, &Condition::all(["a", "b"]))).await;
        assert_eq!((it.on.waitpoint_id, &it.on.token), (on.waitpoint_id, &on.token));
        let suspension = &d.describe(held.id).await.suspensions[0];
        assert_eq!((suspension.signal_count, suspension.matched_signal_count), (1, 1));
        assert_eq!(d.deliver(&on, "b").await, "resume_condition_satisfied");
        assert_eq!(d.claim_resumed(&held).await.signal_names(), ["a", "b"]);
    }

    async fn enough_early_signals_let_the_holder_go_on(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "approval", 9000).await;
        d.deliver(&on, "other").await;
        d.deliver(&on, "go").await;
        let call = d.suspension_on(&held, &on, &Condition::any(["go"]));
        let reply = d.call(call.clone()).await;
        let SuspendExecutionReply::Satisfied { resume, .. } = &reply else { panic!("{reply:?}") };
        let names = resume.as_ref().map(|resume| resume.signals[0].signal_name.clone());
        assert_eq!(names.as_deref(), Some("go"));
        assert_eq!(d.call(call).await, reply, "a repetition is told the same");
        assert_eq!(d.refused(d.signal(&on, "go")).await, Code::WaitpointClosed);
        assert_eq!(open(d, held.id).await, []);
        d.call(held.renew(LEASE_MS)).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(d.claim(LANE).await.signal_names(), ["go"], "the next attempt knows them too");
        let last = events_of(&d.dump().await, held.id);
        assert!(last.iter().any(|line| line.starts_with("satisfied 0")), "{last:?}");
    }

    async fn a_lost_reply_to_opening_is_answered_again(d: &Deployment) {
        d.install_secret().await;
        let held = d.create_and_claim().await;
        let call = d.opening(&held, "k", 100);
        let CreatePendingWaitpointReply::Opened { waitpoint_id, waitpoint_key, waitpoint_token,
            expires_at } = d.call(call.clone()).await
        else {
            panic!("it is new");
        };
        let before = CreatePendingWaitpointReply::OpenedBefore { waitpoint_id, waitpoint_key,
            waitpoint_token, expires_at };
        assert_eq!(d.call(call.clone()).await, before);
        d.call(held.close_waitpoint(waitpoint_id)).await;
        assert_eq!(d.call(call).await, before);
    }

    async fn a_waitpoint_that_is_not_used_goes_by_itself(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 50).await;
        let member = format!("p:{}", on.waitpoint_id);
        let at = member_score(&d.dump().await, d.home(), "due", &member);
        assert_eq!(at, Some(d.now().plus_millis(50).get() as f64));
        d.advance(49).await;
        assert_eq!(d.tick().await.waitpoints, 0);
        d.deliver(&on, "a").await;
        d.advance(1).await;
        assert_eq!(d.refused(d.signal(&on, "a")).await, Code::WaitpointClosed);
        let late = d.suspension_on(&held, &on, &Condition::any(["a"]));
        assert_eq!(d.refused(late.clone()).await, Code::PendingWaitpointExpired);
        assert_eq!(d.tick().await.waitpoints, 1);
        assert_eq!(d.refused(late).await, Code::WaitpointNotPending);
        assert_eq!(member_score(&d.dump().await, d.home(), "due", &member), None);
        assert_eq!(open(d, held.id).await, []);
        d.open_waitpoint(&held, "k", 50).await;
    }

    async fn a_waitpoint_is_closed_by_its_owner_alone(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 50).await;
        let other = d.create_and_claim().await;
        let code = d.refused(other.close_waitpoint(on.waitpoint_id)).await;
        assert_eq!(code, Code::InvalidWaitpointForExecution);
        let unknown = WaitpointId::from_uuid(d.new_uuid());
        assert_eq!(d.refused(held.close_waitpoint(unknown)).await, Code::WaitpointNotFound);
        assert_eq!(d.call(held.close_waitpoint(on.waitpoint_id)).await,
            CloseWaitpointReply::Closed {});
        let reason = "proactive_close".to_owned();
        assert_eq!(d.call(held.close_waitpoint(on.waitpoint_id)).await,
            CloseWaitpointReply::ClosedBefore { reason });
        assert_eq!(d.refused(d.signal(&on, "a")).await, Code::WaitpointClosed);
    }

    async fn a_waitpoint_is_closed_under_the_live_lease_alone(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 900_000).await;
        let call = held.close_waitpoint(on.waitpoint_id);
        let id = held.id.to_string();
        let waitpoint = on.waitpoint_id.to_string();
        let none: [&[u8]; 5] = [id.as_bytes(), b"", b"", b"", waitpoint.as_bytes()];
        assert_eq!(d.raw("ff_close_waitpoint", &none).await.code(), "fence_required");
        d.call(super::between::revoke(held.id, None)).await;
        assert_eq!(d.refused(call.clone()).await, Code::LeaseRevoked);
        let next = d.claim(LANE).await;
        d.call(next.complete(b"")).await;
        let unknown = next.close_waitpoint(WaitpointId::from_uuid(d.new_uuid()));
        assert_eq!(d.refused(unknown).await, Code::ExecutionNotActive);
    }

    async fn a_waitpoint_belongs_to_one_attempt(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 900_000).await;
        let other = d.create_and_claim().await;
        let foreign = d.suspension_on(&other, &on, &Condition::any(["a"]));
        assert_eq!(d.refused(foreign).await, Code::InvalidWaitpointForExecution);
        d.call(other.complete(b"")).await;
        d.advance(LEASE_MS).await;
        assert_eq!(d.refused(d.signal(&on, "a")).await, Code::TargetNotSignalable);
        d.tick().await;
        assert_eq!(d.refused(d.signal(&on, "a")).await, Code::TargetNotSignalable);
        let next = d.claim(LANE).await;
        assert_eq!(d.refused(d.signal(&on, "a")).await, Code::WaitpointClosed);
        let old = d.suspension_on(&next, &on, &Condition::any(["a"]));
        assert_eq!(d.refused(old).await, Code::InvalidWaitpointForExecution);
        let mut unknown = d.suspension_on(&next, &on, &Condition::any(["a"]));
        unknown.waitpoint_id = WaitpointId::from_uuid(d.new_uuid());
        assert_eq!(d.refused(unknown).await, Code::WaitpointNotFound);
        d.open_waitpoint(&next, "k", 50).await;
    }

    async fn a_key_is_unique_while_its_waitpoint_is_open(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 50).await;
        assert_eq!(d.refused(d.opening(&held, "k", 50)).await, Code::WaitpointAlreadyExists);
        let mut same = d.suspension(&held, &Condition::any(["a"]));
        same.waitpoint_key = Some("k".to_owned());
        assert_eq!(d.refused(same).await, Code::WaitpointAlreadyExists);
        let other = d.create_and_claim().await;
        let mut id = d.opening(&other, "other", 50);
        id.waitpoint_id = on.waitpoint_id;
        assert_eq!(d.refused(id).await, Code::WaitpointAlreadyExists);
        d.open_waitpoint(&other, "k", 50).await;
    }

    async fn only_so_many_waitpoints_are_open_at_once(d: &Deployment) {
        let held = d.create_and_claim().await;
        for number in 0..limits::PENDING_WAITPOINTS_MAX {
            d.open_waitpoint(&held, &format!("k{number}"), 50).await;
        }
        assert_eq!(d.refused(d.opening(&held, "more", 50)).await, Code::WaitpointLimitExceeded);
        d.suspend_held(&held, &Condition::any(["a"])).await;
        assert_eq!(open(d, held.id).await.len() as u64, limits::PENDING_WAITPOINTS_MAX + 1);
    }

    async fn what_is_open_is_listed_with_tokens_that_work(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.open_waitpoint(&held, "early", 50).await;
        let it = d.suspend_held(&held, &Condition::all(["a", "b", "a"])).await;
        let listed = open(d, held.id).await;
        let state = |one: &OpenWaitpoint| (one.waitpoint_key.clone(), one.state);
        let states: Vec<_> = listed.iter().map(state).collect();
        assert_eq!(states, [("early".to_owned(), WaitpointState::Pending),
            (it.on.key.clone(), WaitpointState::Active)]);
        assert_eq!(listed[1].required_signal_names, ["a", "b"]);
        assert_eq!((listed[1].activated_at, listed[1].expires_at), (Some(d.now()), None));
        assert_eq!(listed[1].waitpoint_token, it.on.token);
        let unknown = ListPendingWaitpoints { execution_id: d.new_id() };
        assert_eq!(d.refused(unknown).await, Code::ExecutionNotFound);
        let key = format!("{}:secrets", d.home().key());
        d.host().exec(d.home(), &[b"HSET", key.as_bytes(), b"kid:k1", b"x"]).await;
        let execution_id = held.id;
        let broken = d.refused(ListPendingWaitpoints { execution_id }).await;
        assert_eq!(broken, Code::InvalidSecret);
        d.host().exec(d.home(), &[b"DEL", key.as_bytes()]).await;
        let none = d.refused(ListPendingWaitpoints { execution_id }).await;
        assert_eq!(none, Code::HmacSecretNotInitialized);
    }

    async fn what_ends_closes_what_is_open(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 900_000).await;
        d.call(held.complete(b"")).await;
        assert_eq!(d.refused(d.signal(&on, "a")).await, Code::WaitpointClosed);
        assert_eq!(d.refused(d.opening(&held, "x", 5)).await, Code::ExecutionNotActive);
    }

    async fn an_open_waitpoint_takes_signals_while_its_attempt_is_put_aside(d: &Deployment) {
        let mut held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "later", 900_000).await;
        let other = d.suspend_held(&held, &Condition::any(["go"])).await;
        assert_eq!(d.deliver(&on, "suspended").await, BUFFERED);
        d.deliver(&other.on, "go").await;
        assert_eq!(d.deliver(&on, "resumed").await, BUFFERED);
        held = d.claim_resumed(&held).await;
        d.call(held.delay(d.now().plus_millis(50))).await;
        assert_eq!(d.deliver(&on, "delayed").await, BUFFERED);
        d.advance(50).await;
        d.tick().await;
        held = d.claim_resumed(&held).await;
        d.call(ReleaseWorkerLeases { worker_instance_id: instance(INSTANCE), skip: 0 }).await;
        assert_eq!(d.deliver(&on, "released").await, BUFFERED);
        held = d.claim_resumed(&held).await;
        let all = Condition::all(["suspended", "resumed", "delayed", "released"]);
        let reply = d.call(d.suspension_on(&held, &on, &all)).await;
        assert!(matches!(reply, SuspendExecutionReply::Satisfied { .. }), "{reply:?}");
    }

    async fn a_retry_and_a_deadline_shut_an_open_waitpoint(d: &Deployment) {
        let held = super::stream::held_with(d, "").await;
        let on = d.open_waitpoint(&held, "k", 900_000).await;
        d.call(held.fail("no", "transient")).await;
        assert_eq!(d.refused(d.signal(&on, "a")).await, Code::TargetNotSignalable);
        let next = d.claim(LANE).await;
        d.call(next.complete(b"")).await;
        d.create().deadline_in(100).send().await;
        let held = d.claim(LANE).await;
        let on = d.open_waitpoint(&held, "k", 900_000).await;
        d.suspend_held(&held, &Condition::any(["go"])).await;
        d.advance(99).await;
        assert_eq!(d.deliver(&on, "a").await, BUFFERED);
        d.advance(1).await;
        assert_eq!(d.refused(d.signal(&on, "a")).await, Code::TargetNotSignalable);
    }

    async fn an_opening_is_repeated_under_its_own_lease_alone(d: &Deployment) {
        d.install_secret().await;
        let held = d.create_and_claim().await;
        let mut call = d.opening(&held, "k", 100);
        d.call(call.clone()).await;
        call.lease_id = LeaseId::from_uuid(d.new_uuid());
        assert_eq!(d.refused(call).await, Code::StaleLease);
    }
}
