//! Flows: made, joined, sealed, tagged and cancelled, and what becomes of them.

use ff_conformance::record::record;
use ff_conformance::{Deployment, Flow, LANE, conformance, joining};
use ff_core::contracts::CancelFlowPolicy;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, FlowId, GrantId};
use ff_script::calls::claim::{ClaimResumedExecution, ReclaimExecution};
use ff_script::calls::flow::{
    AddExecutionToFlowReply, CreateFlow, CreateFlowReply, SealFlow, SealFlowReply, SetFlowTags,
    SetFlowTagsReply,
};
use ff_script::calls::flow_cancel::CancelFlowReply;
use ff_script::calls::flow_reads::{DescribeFlowReply, ListMembers, ListMembersReply};
use ff_script::wire::Rest;

/// More members than one step of a walk goes over.
pub(crate) fn fillers() -> String {
    let names: Vec<String> = (0..limits::WALK_BATCH).map(|number| format!("f{number}")).collect();
    names.join(", ")
}

/// A flow that does not exist.
pub(crate) fn nowhere(d: &Deployment) -> Flow {
    Flow { id: FlowId::from_uuid(d.new_uuid()), ids: [("x".to_owned(), d.new_id())].into() }
}

/// Sets a field of a flow's record around the library.
async fn plant(d: &Deployment, flow: &Flow, field: &str, value: &str) {
    let key = format!("{}:f:{}", d.home().key(), flow.id);
    let words: [&[u8]; 4] = [b"HSET", key.as_bytes(), field.as_bytes(), value.as_bytes()];
    d.host().exec(d.home(), &words).await.expect("every store has the command");
}

/// What a partition holds besides its log.
pub(crate) async fn left(d: &Deployment) -> Vec<String> {
    let dump = d.dump().await;
    let keys = dump.keys().map(|key| String::from_utf8_lossy(key).into_owned());
    keys.filter(|key| !key.ends_with(":log") && !key.ends_with(":trimmed")).collect()
}

async fn cancelled_by(d: &Deployment, id: ExecutionId) -> (String, String) {
    let stored = record(&d.dump().await, id);
    (stored["cb"].clone(), stored["cr"].clone())
}

fn tagged(flow: &Flow, words: &[&str]) -> SetFlowTags {
    let pairs = Rest(words.iter().map(|word| (*word).to_owned()).collect());
    SetFlowTags { flow_id: flow.id, pairs }
}

conformance! {
    async fn a_flow_is_created_once(d: &Deployment) {
        let call = d.create_flow();
        let flow_id = call.flow_id;
        assert_eq!(d.call(call.clone()).await, CreateFlowReply::Created { flow_id });
        assert_eq!(d.call(call.clone()).await, CreateFlowReply::CreatedBefore { flow_id });
        let other = CreateFlow { namespace: d.create().namespace("other").call().namespace, ..call };
        assert_eq!(d.refused(other).await, Code::IdempotencyConflict);
        let tags = CreateFlow { tags_json: r#"{"Bad":"x"}"#.to_owned(), ..d.create_flow() };
        assert_eq!(d.refused(tags).await, Code::InvalidTagKey);
    }

    async fn an_execution_joins_one_open_flow_once(d: &Deployment) {
        let (flow, other) = (d.open_flow("a").await, d.open_flow("").await);
        let id = d.create_one().await;
        let added = AddExecutionToFlowReply::Added { execution_id: id, node_count: 2 };
        assert_eq!(d.call(joining(&flow, id, "b")).await, added);
        let before = AddExecutionToFlowReply::AddedBefore { execution_id: id, node_count: 2 };
        assert_eq!(d.call(joining(&flow, id, "b")).await, before);
        let (code, details) = d.refusal(joining(&other, id, "b")).await;
        assert_eq!((code, details), (Code::ExecutionAlreadyInFlow, vec![flow.id.to_string()]));
        assert_eq!(d.refused(joining(&flow, d.new_id(), "c")).await, Code::ExecutionNotFound);
        assert_eq!(d.refused(joining(&nowhere(d), id, "c")).await, Code::FlowNotFound);
        let held = d.create().lane("apart").send().await;
        let done = d.claim("apart").await;
        d.call(done.complete(b"")).await;
        assert_eq!(d.refused(joining(&flow, held, "c")).await, Code::Terminal);
        assert_eq!(d.states(&flow).await, "a waiting, b waiting");
        assert_eq!(d.describe(id).await.flow_id, Some(flow.id));
    }

    async fn a_flow_that_is_closed_takes_no_members(d: &Deployment) {
        let flow = d.open_flow("a").await;
        d.seal(&flow).await;
        let id = d.create_one().await;
        assert_eq!(d.refused(joining(&flow, id, "b")).await, Code::FlowSealed);
        d.complete(&flow, "a").await;
        assert_eq!(d.refused(joining(&flow, id, "b")).await, Code::FlowAlreadyTerminal);
        let flow = d.open_flow("a").await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        assert_eq!(d.refused(joining(&flow, id, "b")).await, Code::FlowCancelled);
    }

    async fn a_flow_has_so_many_members_at_most(d: &Deployment) {
        let flow = d.open_flow("a").await;
        plant(d, &flow, "nodes", &limits::FLOW_MEMBERS_MAX.to_string()).await;
        let id = d.create_one().await;
        assert_eq!(d.refused(joining(&flow, id, "b")).await, Code::GraphTooLarge);
        plant(d, &flow, "nodes", "1").await;
    }

    async fn a_running_execution_may_join_and_is_counted(d: &Deployment) {
        let flow = d.open_flow("").await;
        let held = d.create_and_claim().await;
        d.call(joining(&flow, held.id, "a")).await;
        assert_eq!(d.flow_state(&flow).await, "running: 1 active");
        d.call(held.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 completed");
    }

    async fn an_open_flow_never_ends_by_itself_and_a_sealed_one_with_its_last_member(
        d: &Deployment) {
        let flow = d.open_flow("a b").await;
        d.complete(&flow, "a b").await;
        assert_eq!(d.flow_state(&flow).await, "open: 2 completed");
        let sealed = d.call(SealFlow { flow_id: flow.id }).await;
        assert_eq!(sealed, SealFlowReply::Sealed { node_count: 2 });
        assert_eq!(d.flow_state(&flow).await, "completed: 2 completed");
        let again = d.call(SealFlow { flow_id: flow.id }).await;
        assert_eq!(again, SealFlowReply::SealedBefore { node_count: 2 });
        let flow = d.open_flow("a").await;
        d.seal(&flow).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting");
        d.fail(&flow, "a").await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 failed");
    }

    async fn only_a_flow_that_is_there_and_not_cancelled_is_sealed(d: &Deployment) {
        assert_eq!(d.refused(SealFlow { flow_id: nowhere(d).id }).await, Code::FlowNotFound);
        let flow = d.open_flow("a").await;
        d.call(d.cancelling(&flow, "flow_only")).await;
        assert_eq!(d.refused(SealFlow { flow_id: flow.id }).await, Code::FlowCancelled);
    }

    async fn an_empty_flow_is_over_as_soon_as_it_is_sealed(d: &Deployment) {
        let flow = d.open_flow("").await;
        assert_eq!(d.flow_state(&flow).await, "open: ");
        d.seal(&flow).await;
        assert_eq!(d.flow_state(&flow).await, "completed: ");
    }

    async fn tags_of_a_flow_are_set_and_told(d: &Deployment) {
        let flow = d.open_flow("").await;
        let set = d.call(tagged(&flow, &["team.name", "blue", "a.b", "c"])).await;
        assert_eq!(set, SetFlowTagsReply::Tagged { count: 2 });
        let DescribeFlowReply::Flow { tags, .. } = d.described(&flow).await;
        assert_eq!(tags.get("team.name").map(String::as_str), Some("blue"));
        assert_eq!(d.refused(tagged(&flow, &["Bad", "x"])).await, Code::InvalidTagKey);
        assert_eq!(d.refused(tagged(&flow, &["a.b"])).await, Code::InvalidInput);
        assert_eq!(d.refused(tagged(&flow, &[])).await, Code::InvalidInput);
        assert_eq!(d.refused(tagged(&nowhere(d), &["a.b", "c"])).await, Code::FlowNotFound);
        let many: Vec<String> = (0..63).flat_map(|n| [format!("t.n{n}"), "x".to_owned()]).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(d.refused(tagged(&flow, &many)).await, Code::InvalidInput);
    }

    async fn a_flow_tells_its_state_and_its_counts_at_all_times(d: &Deployment) {
        let flow = d.flow("a -> b, a -> c").await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting, 2 waiting_children");
        let held = d.take(&flow, "a").await;
        assert_eq!(d.flow_state(&flow).await, "running: 1 active, 2 waiting_children");
        d.call(held.delay(d.now().plus_millis(5000))).await;
        assert_eq!(d.flow_state(&flow).await, "blocked: 1 delayed, 2 waiting_children");
        d.advance(5000).await;
        d.tick().await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting, 2 waiting_children");
        let resumed = d.claim(LANE).await;
        d.call(resumed.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 completed, 2 waiting");
        d.complete(&flow, "b").await;
        d.fail(&flow, "c").await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 failed, 2 completed");
        let DescribeFlowReply::Flow { started_at, ended_at, sealed, .. } = d.described(&flow).await;
        assert_eq!((started_at.map(|at| at.get() + 5000), ended_at, sealed),
            (Some(d.now().get()), Some(d.now()), true));
    }

    async fn the_failure_of_an_optional_member_is_not_the_flows(d: &Deployment) {
        let flow = d.flow("a?, b").await;
        d.fail(&flow, "a").await;
        d.complete(&flow, "b").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 1 completed, 1 failed");
    }

    async fn cancel_all_cancels_every_member_and_is_answered_again(d: &Deployment) {
        let flow = d.flow("a -> b, c").await;
        let held = d.take(&flow, "c").await;
        let (policy, member_count) = (CancelFlowPolicy::CancelAll, 3);
        let first = d.call(d.cancelling(&flow, "cancel_all")).await;
        assert_eq!(first, CancelFlowReply::Cancelled { policy, member_count, done: true,
            stuck: 0 });
        let again = d.call(d.cancelling(&flow, "cancel_all")).await;
        assert_eq!(again, CancelFlowReply::CancelledBefore { policy, member_count, done: true,
            stuck: 0 });
        assert_eq!(d.states(&flow).await, "a cancelled, b cancelled, c cancelled");
        assert_eq!(d.flow_state(&flow).await, "cancelled: 3 cancelled");
        let by = ("flow_cascade".to_owned(), "enough".to_owned());
        assert_eq!(cancelled_by(d, flow.id("b")).await, by);
        assert_eq!(d.refused(held.complete(b"")).await, Code::ExecutionNotActive);
    }

    async fn cancel_all_of_many_members_goes_on_by_ticks(d: &Deployment) {
        let flow = d.flow(&format!("{}, x, y", fillers())).await;
        let held = d.take(&flow, "y").await;
        let CancelFlowReply::Cancelled { done, .. } = d.call(d.cancelling(&flow, "cancel_all")).await
        else { panic!("it is the first") };
        assert!(!done);
        let DescribeFlowReply::Flow { public_flow_state, being_cancelled, ended_at, .. } =
            d.described(&flow).await;
        assert_eq!((public_flow_state.as_str(), being_cancelled, ended_at), ("cancelled", true, None));
        assert_eq!(d.describe(flow.id("x")).await.public_state(), PublicState::Waiting);
        assert_eq!(d.refused(d.claim_grant_call(flow.id("x"))).await, Code::FlowCancelled);
        assert!(d.try_claim(LANE).await.is_none(), "a claim gives no member of a cancelled flow");
        assert_eq!(d.describe(flow.id("x")).await.public_state(), PublicState::Cancelled);
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Active);
        assert_eq!(d.tick().await.flows, 1);
        assert_eq!(d.flow_state(&flow).await, "cancelled: 66 cancelled");
        let DescribeFlowReply::Flow { being_cancelled, ended_at, .. } = d.described(&flow).await;
        assert_eq!((being_cancelled, ended_at), (false, Some(d.now())));
    }

    async fn a_member_of_a_cancelled_flow_is_claimed_in_no_way(d: &Deployment) {
        d.install_secret().await;
        let flow = d.flow(&format!("{}, granted, paused, lapsed, lost, waits", fillers())).await;
        let granted = d.claim_grant_call(flow.id("granted"));
        d.call(granted.clone()).await;
        let paused = d.take(&flow, "paused").await;
        d.call(paused.wait_for_children()).await;
        let resume = d.claim_grant_call(paused.id);
        d.call(resume.clone()).await;
        for name in ["lapsed", "lost"] {
            let held = d.take(&flow, name).await;
            d.call(super::between::revoke(held.id, None)).await;
        }
        let reclaim = d.reclaim_grant_call(flow.id("lapsed"));
        d.call(reclaim.clone()).await;
        let waits = d.take(&flow, "waits").await;
        d.suspend_held(&waits, &ff_core::contracts::Condition::any(["go"])).await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        let claim = d.member_claim(granted.execution_id, granted.grant_id);
        assert_eq!(d.refused(claim).await, Code::FlowCancelled);
        assert_eq!(d.refused(resumed(d, paused.id, resume.grant_id)).await, Code::FlowCancelled);
        assert_eq!(d.refused(reclaimed(d, flow.id("lapsed"), reclaim.0.grant_id)).await,
            Code::FlowCancelled);
        assert_eq!(d.refused(d.reclaim_grant_call(flow.id("lost"))).await, Code::FlowCancelled);
        assert_eq!(d.refused(d.resumption(waits.id)).await, Code::FlowCancelled);
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 69 cancelled");
    }

    async fn cancel_pending_lets_what_was_started_run_to_its_end(d: &Deployment) {
        let graph = {
            let mut graph = d.graph("a -> b, c");
            graph.create("a").policy_json = r#"{"retry_policy":{"max_retries":1,
                "backoff":{"type":"fixed","delay_ms":100}}}"#.to_owned();
            graph
        };
        let flow = d.submit(&graph).await;
        let held = d.take(&flow, "a").await;
        d.call(d.cancelling(&flow, "cancel_pending")).await;
        assert_eq!(d.states(&flow).await, "a active, b cancelled, c cancelled");
        d.call(held.fail("again", "transient")).await;
        d.advance(100).await;
        d.tick().await;
        d.complete(&flow, "a").await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 1 completed, 2 cancelled");
        let DescribeFlowReply::Flow { ended_at, .. } = d.described(&flow).await;
        assert_eq!(ended_at, Some(d.now()));
    }

    async fn flow_only_closes_the_flow_and_the_rest_goes_on(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        d.connect(&flow, "a", "b").await;
        d.call(d.cancelling(&flow, "flow_only")).await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 1 waiting, 1 waiting_children");
        assert_eq!(d.refused(d.edge(&flow, "a", "b")).await, Code::FlowCancelled);
        d.complete(&flow, "a b").await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 2 completed");
    }

    async fn a_cancel_is_refused_where_there_is_nothing_to_cancel(d: &Deployment) {
        let flow = d.flow("a").await;
        d.complete(&flow, "a").await;
        assert_eq!(d.refused(d.cancelling(&flow, "cancel_all")).await, Code::FlowAlreadyTerminal);
        assert_eq!(d.refused(d.cancelling(&nowhere(d), "cancel_all")).await, Code::FlowNotFound);
        let id = flow.id.to_string();
        for grace in ["-1", "1.5", "soon"] {
            let args: [&[u8]; 4] = [id.as_bytes(), b"", b"cancel_all", grace.as_bytes()];
            assert_eq!(d.raw("ff_cancel_flow", &args).await.code(), "invalid_grace_ms", "{grace}");
        }
    }

    async fn a_flows_deadline_expires_all_that_is_not_over(d: &Deployment) {
        let mut graph = d.graph("a -> b, c");
        graph.head.deadline_at = Some(d.now().plus_millis(1000));
        let flow = d.submit(&graph).await;
        d.complete(&flow, "c").await;
        d.take(&flow, "a").await;
        d.advance(999).await;
        d.tick().await;
        assert_eq!(d.states(&flow).await, "a active, b waiting_children, c completed");
        d.advance(1).await;
        d.tick().await;
        assert_eq!(d.states(&flow).await, "a expired, b expired, c completed");
        assert_eq!(d.flow_state(&flow).await, "failed: 1 completed, 2 expired");
    }

    async fn a_members_time_begins_when_it_is_freed(d: &Deployment) {
        let mut graph = d.graph("a -> b, c");
        let policy = r#"{"timeout_policy":{"execution_deadline_ms":1000}}"#;
        graph.create("b").policy_json = policy.to_owned();
        graph.create("c").policy_json = policy.to_owned();
        let flow = d.submit(&graph).await;
        d.advance(5000).await;
        d.tick().await;
        assert_eq!(d.states(&flow).await, "a waiting, b waiting_children, c expired");
        d.complete(&flow, "a").await;
        assert_eq!(d.describe(flow.id("b")).await.deadline_at, Some(d.now().plus_millis(1000)));
        d.advance(1000).await;
        d.tick().await;
        assert_eq!(d.describe(flow.id("b")).await.public_state(), PublicState::Expired);
    }

    async fn flows_that_go_in_one_tick_share_what_it_may_go_over(d: &Deployment) {
        let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
        let mut flows = Vec::new();
        for _ in 0..2 {
            let mut graph = d.graph(&names.join(", "));
            graph.head.retention_ms = Some(1000);
            flows.push(d.submit(&graph).await);
        }
        while let Some(held) = d.try_claim(LANE).await {
            d.call(held.complete(b"")).await;
        }
        d.advance(1000).await;
        d.tick().await;
        let left = size(d, &flows[0]).await + size(d, &flows[1]).await;
        assert_eq!(left, 80 - limits::WALK_BATCH as usize);
    }

    async fn a_flow_goes_with_all_that_belongs_to_it_when_its_retention_is_over(d: &Deployment) {
        let mut graph = d.graph(&format!("{}, a => b, b -f> c", fillers()));
        graph.head.retention_ms = Some(1000);
        graph.head.tags_json = r#"{"a.b":"c"}"#.to_owned();
        let flow = d.submit(&graph).await;
        while let Some(held) = d.try_claim(LANE).await {
            d.call(held.complete(&[b'x'; 300])).await;
        }
        assert_eq!(d.flow_state(&flow).await, "completed: 1 skipped, 66 completed");
        d.advance(999).await;
        assert_eq!(d.tick().await.flows, 0);
        d.advance(1).await;
        d.settle().await;
        assert_eq!(d.refused(SealFlow { flow_id: flow.id }).await, Code::FlowNotFound);
        d.audit().await;
        d.advance(limits::PURGED_REMEMBERED_MS).await;
        d.settle().await;
        assert_eq!(left(d).await, Vec::<String>::new());
    }

    async fn nobody_joins_a_flow_whose_members_a_failure_ends(d: &Deployment) {
        let call = CreateFlow { on_failure: Some("fail_fast".to_owned()), ..d.create_flow() };
        let flow = Flow { id: call.flow_id, ids: [("a".to_owned(), d.create_one().await)].into() };
        d.call(call).await;
        d.call(joining(&flow, flow.id("a"), "a")).await;
        d.fail(&flow, "a").await;
        let late = d.create_one().await;
        assert_eq!(d.refused(joining(&flow, late, "b")).await, Code::FlowAlreadyTerminal);
    }

    async fn the_deadline_of_a_flow_that_was_closed_ends_what_goes_on(d: &Deployment) {
        let mut graph = d.graph(&format!("{}, a, b", fillers()));
        graph.head.deadline_at = Some(d.now().plus_millis(1000));
        let flow = d.submit(&graph).await;
        d.call(d.cancelling(&flow, "flow_only")).await;
        d.advance(1000).await;
        d.tick().await;
        assert_eq!(d.refused(d.claim_grant_call(flow.id("b"))).await, Code::FlowCancelled);
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 66 expired");
    }
}

/// How many members a flow has; none if it is gone.
async fn size(d: &Deployment, flow: &Flow) -> usize {
    let call = ListMembers { flow_id: flow.id, state: None, from: 0, limit: 1000 };
    match d.try_call(call).await {
        Ok(ListMembersReply::Members { members, .. }) => members.0.len(),
        Err(error) => {
            assert_eq!(error.code(), Some(Code::FlowNotFound));
            0
        }
    }
}

fn resumed(d: &Deployment, id: ExecutionId, grant_id: GrantId) -> ClaimResumedExecution {
    let claim = d.member_claim(id, grant_id);
    ClaimResumedExecution {
        execution_id: id,
        worker_id: claim.worker_id,
        worker_instance_id: claim.worker_instance_id,
        lane: None,
        grant_id,
        lease_id: claim.lease_id,
        lease_ttl_ms: claim.lease_ttl_ms,
    }
}

fn reclaimed(d: &Deployment, id: ExecutionId, grant_id: GrantId) -> ReclaimExecution {
    let claim = d.member_claim(id, grant_id);
    ReclaimExecution {
        execution_id: id,
        worker_id: claim.worker_id,
        worker_instance_id: claim.worker_instance_id,
        lane: None,
        grant_id,
        lease_id: claim.lease_id,
        lease_ttl_ms: claim.lease_ttl_ms,
        attempt_id: claim.attempt_id,
    }
}
