//! Replays of members: what an end had meant for others is taken back.

use ff_conformance::{Deployment, Flow, conformance};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::PublicState;
use ff_script::calls::flow_reads::DescribeFlowReply;
use ff_script::calls::replay::{ReplayExecution, ReplayExecutionReply};

use super::cancel::outside;

fn replay(flow: &Flow, name: &str) -> ReplayExecution {
    ReplayExecution {
        execution_id: flow.id(name),
        reason: String::new(),
        requested_by: String::new(),
        deadline_at: None,
        expected_replay_count: None,
        request_id: None,
        downstream: false,
    }
}

async fn replayed(d: &Deployment, flow: &Flow, name: &str) -> PublicState {
    match d.call(replay(flow, name)).await {
        ReplayExecutionReply::Replayed { public_state, .. } => public_state,
        other => panic!("it must be new: {other:?}"),
    }
}

conformance! {
    async fn f14_those_who_never_began_because_of_a_failure_wait_again(d: &Deployment) {
        let flow = d.flow("a -> b -> c, a -f> undo").await;
        d.fail(&flow, "a").await;
        d.complete(&flow, "undo").await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 completed, 1 failed, 2 skipped");
        assert_eq!(replayed(d, &flow, "a").await, PublicState::Waiting);
        assert_eq!(
            d.flow_state(&flow).await,
            "open: 1 completed, 1 waiting, 2 waiting_children"
        );
        d.complete(&flow, "a b c").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 4 completed");
    }

    async fn f14_who_began_keeps_what_it_has(d: &Deployment) {
        let flow = d.flow("a -a> b -> c").await;
        d.fail(&flow, "a").await;
        d.complete(&flow, "b").await;
        replayed(d, &flow, "a").await;
        assert_eq!(d.states(&flow).await, "a waiting, b completed, c waiting");
        d.complete(&flow, "a c").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
    }

    async fn f14_who_was_freed_and_did_not_begin_waits_again(d: &Deployment) {
        let flow = d.flow("a -> b").await;
        d.complete(&flow, "a").await;
        replayed(d, &flow, "a").await;
        assert_eq!(d.states(&flow).await, "a waiting, b waiting_children");
        d.fail(&flow, "a").await;
        assert_eq!(d.states(&flow).await, "a failed, b skipped");
    }

    async fn f14_a_replay_is_refused_while_an_upstream_stands_in_its_way(d: &Deployment) {
        let flow = d.flow("a -> b -> c").await;
        d.fail(&flow, "a").await;
        for (name, upstream) in [("b", "a"), ("c", "b")] {
            let (code, details) = d.refusal(replay(&flow, name)).await;
            assert_eq!((code, &*details[0]), (Code::DepsNotSatisfied,
                &*flow.id(upstream).to_string()));
        }
    }

    async fn f14_all_that_ran_behind_it_runs_again_if_that_is_asked_for(d: &Deployment) {
        let flow = d.flow("a => b => c, a => e, x -> e").await;
        d.complete(&flow, "a b c x").await;
        let again = ReplayExecution { downstream: true, ..replay(&flow, "a") };
        d.call(again.clone()).await;
        assert_eq!(d.states(&flow).await,
            "a waiting, b waiting_children, c waiting_children, x completed, e waiting_children");
        let held = d.take(&flow, "a").await;
        d.call(held.complete(b"anew")).await;
        let held = d.take(&flow, "b").await;
        assert_eq!((&*held.row.payload, held.row.inputs.0.len()), (&b"anew"[..], 1));
        assert_eq!(d.describe(flow.id("b")).await.total_attempt_count, 2);
        d.call(held.complete(b"of b")).await;
        assert_eq!(d.take(&flow, "c").await.row.payload, b"of b");
        d.complete(&flow, "e").await;
        assert_eq!(d.states(&flow).await,
            "a completed, b completed, c active, x completed, e completed");
    }

    async fn f14_who_waits_again_is_skipped_if_its_upstream_fails_and_reopened(d: &Deployment) {
        let flow = d.flow("a -> b -> c").await;
        d.complete(&flow, "a b c").await;
        d.call(ReplayExecution { downstream: true, ..replay(&flow, "a") }).await;
        d.fail(&flow, "a").await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 failed, 2 skipped");
        replayed(d, &flow, "a").await;
        assert_eq!(d.states(&flow).await, "a waiting, b waiting_children, c waiting_children");
        d.complete(&flow, "a b c").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
        assert_eq!(d.describe(flow.id("c")).await.total_attempt_count, 2);
    }

    async fn f14_who_ran_waits_for_an_upstream_that_runs_again(d: &Deployment) {
        let mut graph = d.graph("a => b");
        graph.create("b").policy_json =
            r#"{"timeout_policy":{"execution_deadline_ms":1000}}"#.to_owned();
        let flow = d.submit(&graph).await;
        d.complete(&flow, "a").await;
        d.fail(&flow, "b").await;
        replayed(d, &flow, "a").await;
        assert_eq!(replayed(d, &flow, "b").await, PublicState::WaitingChildren);
        d.advance(5000).await;
        d.tick().await;
        let held = d.take(&flow, "a").await;
        d.call(held.complete(b"anew")).await;
        let held = d.take(&flow, "b").await;
        assert_eq!((&*held.row.payload, held.row.inputs.0.len()), (&b"anew"[..], 1));
        d.call(held.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "completed: 2 completed");
    }

    async fn nobody_behind_it_may_have_run_too_often(d: &Deployment) {
        let mut graph = d.graph("a -> b");
        graph.create("b").policy_json = r#"{"max_replay_count":0}"#.to_owned();
        let flow = d.submit(&graph).await;
        d.complete(&flow, "a b").await;
        let again = ReplayExecution { downstream: true, ..replay(&flow, "a") };
        let (code, details) = d.refusal(again).await;
        assert_eq!((code, &*details[0]), (Code::MaxReplaysExhausted,
            &*flow.id("b").to_string()));
        replayed(d, &flow, "a").await;
        assert_eq!(d.states(&flow).await, "a waiting, b completed");
        d.complete(&flow, "a").await;
    }

    async fn f13_a_member_that_was_cancelled_while_it_waited_waits_again(d: &Deployment) {
        let flow = d.flow("a -> b").await;
        d.call(outside(flow.id("b"), "operator_override")).await;
        assert_eq!(replayed(d, &flow, "b").await, PublicState::WaitingChildren);
        d.complete(&flow, "a b").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 2 completed");
    }

    async fn f16_a_replay_counts_the_edges_itself(d: &Deployment) {
        let flow = d.flow("a -> c, b -> c").await;
        d.complete(&flow, "b").await;
        d.fail(&flow, "a").await;
        replayed(d, &flow, "a").await;
        let detail = d.describe(flow.id("c")).await.blocking_detail;
        assert_eq!(detail.as_deref(), Some("1 of 2 upstreams are done"));
        d.complete(&flow, "a c").await;
    }

    async fn what_is_passed_on_is_passed_anew(d: &Deployment) {
        let flow = d.flow("a => b, a => c, e => c").await;
        d.complete(&flow, "a").await;
        replayed(d, &flow, "a").await;
        let held = d.take(&flow, "a").await;
        d.call(held.complete(b"anew")).await;
        d.complete(&flow, "e").await;
        assert_eq!(d.take(&flow, "b").await.row.payload, b"anew");
        let held = d.take(&flow, "c").await;
        let names: Vec<&str> = held.row.inputs.0.iter().map(|input| &*input.name).collect();
        assert_eq!(names, ["a", "e"]);
    }

    async fn a_failure_that_is_tried_again_ends_the_others_no_more(d: &Deployment) {
        let mut graph = d.graph("a -> b, c -> e");
        graph.head.on_failure = Some("fail_fast".to_owned());
        let flow = d.submit(&graph).await;
        d.fail(&flow, "a").await;
        replayed(d, &flow, "a").await;
        d.settle().await;
        assert_eq!(
            d.states(&flow).await,
            "a waiting, b waiting_children, c waiting, e waiting_children"
        );
        d.complete(&flow, "a b c e").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 4 completed");
    }

    async fn nothing_of_a_cancelled_flow_runs_again(d: &Deployment) {
        let flow = d.flow("a -> b").await;
        d.fail(&flow, "a").await;
        d.advance(1).await;
        let other = d.flow("a -> b").await;
        d.call(d.cancelling(&other, "cancel_all")).await;
        assert_eq!(d.refused(replay(&other, "a")).await, Code::FlowCancelled);
        replayed(d, &flow, "a").await;
    }

    async fn nothing_runs_again_after_the_deadline_of_its_flow(d: &Deployment) {
        let mut graph = d.graph("a -> b");
        graph.head.deadline_at = Some(d.now().plus_millis(1000));
        let flow = d.submit(&graph).await;
        d.advance(1000).await;
        d.settle().await;
        assert_eq!(d.refused(replay(&flow, "a")).await, Code::FlowAlreadyTerminal);
    }

    async fn more_edges_than_one_call_follows_are_not_taken_back(d: &Deployment) {
        let count = limits::EDGES_PER_CALL + 1;
        let edges: Vec<String> = (0..count).map(|number| format!("a -> n{number}")).collect();
        let flow = d.flow(&edges.join(", ")).await;
        d.fail(&flow, "a").await;
        d.settle().await;
        assert_eq!(d.refused(replay(&flow, "a")).await, Code::GraphTooLarge);
    }

    async fn who_another_upstream_keeps_from_running_stays_skipped(d: &Deployment) {
        let flow = d.flow("a -> c, b -> c, c -> e").await;
        d.fail(&flow, "a b").await;
        replayed(d, &flow, "a").await;
        assert_eq!(d.states(&flow).await, "a waiting, b failed, c skipped, e skipped");
        replayed(d, &flow, "b").await;
        assert_eq!(
            d.states(&flow).await,
            "a waiting, b waiting, c waiting_children, e waiting_children"
        );
        d.complete(&flow, "a b c e").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 4 completed");
    }

    async fn who_was_ended_with_the_others_runs_again_if_it_could(d: &Deployment) {
        let mut graph = d.graph("a -> z*1, b -> z");
        graph.head.on_failure = Some("fail_fast".to_owned());
        let flow = d.submit(&graph).await;
        d.complete(&flow, "a").await;
        d.fail(&flow, "b").await;
        d.settle().await;
        assert_eq!(d.states(&flow).await, "a completed, b failed, z cancelled");
        replayed(d, &flow, "b").await;
        assert_eq!(d.states(&flow).await, "a completed, b waiting, z waiting");
        d.complete(&flow, "z b").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
    }

    async fn who_waits_again_is_reserved_for_nobody(d: &Deployment) {
        let flow = d.flow("a -> b").await;
        d.complete(&flow, "a").await;
        let grant = d.claim_grant_call(flow.id("b"));
        d.call(grant.clone()).await;
        replayed(d, &flow, "a").await;
        let claim = d.member_claim(grant.execution_id, grant.grant_id);
        assert_eq!(d.refused(claim).await, Code::ExecutionNotLeaseable);
        d.complete(&flow, "a b").await;
    }

    async fn a_replay_frees_nobody_where_the_rest_was_cancelled(d: &Deployment) {
        let flow = d.flow("a -> b, a -a> done").await;
        let held = d.take(&flow, "a").await;
        d.call(d.cancelling(&flow, "cancel_pending")).await;
        d.call(held.fail("boom", "transient")).await;
        assert_eq!(d.refused(replay(&flow, "b")).await, Code::FlowCancelled);
        replayed(d, &flow, "a").await;
        assert_eq!(d.states(&flow).await, "a waiting, b cancelled, done cancelled");
        assert_eq!(d.flow_state(&flow).await, "cancelled: 1 waiting, 2 cancelled");
        d.complete(&flow, "a").await;
        let DescribeFlowReply::Flow { ended_at, .. } = d.described(&flow).await;
        assert_eq!(ended_at, Some(d.now()));
    }

    async fn what_was_told_before_the_rest_was_cancelled_is_taken_back(d: &Deployment) {
        let flow = d.flow("a, c, a -> b, c -> b, c -> e").await;
        d.fail(&flow, "a").await;
        d.call(d.cancelling(&flow, "cancel_pending")).await;
        replayed(d, &flow, "a").await;
        assert_eq!(d.states(&flow).await, "a waiting, c cancelled, b skipped, e cancelled");
        d.complete(&flow, "a").await;
        assert_eq!(d.states(&flow).await, "a completed, c cancelled, b skipped, e cancelled");
    }

    async fn the_time_of_who_waits_again_begins_when_it_is_freed_again(d: &Deployment) {
        let mut graph = d.graph("a -> b, a -> c");
        let given = d.now().plus_millis(9000);
        for name in ["b", "c"] {
            graph.create(name).policy_json =
                r#"{"timeout_policy":{"execution_deadline_ms":1000}}"#.to_owned();
        }
        graph.create("c").deadline_at = Some(given);
        let flow = d.submit(&graph).await;
        let deadlines = async || {
            let of = async |name| d.describe(flow.id(name)).await.deadline_at;
            (of("b").await, of("c").await)
        };
        d.complete(&flow, "a").await;
        let soon = Some(d.now().plus_millis(1000));
        assert_eq!(deadlines().await, (soon, soon));
        replayed(d, &flow, "a").await;
        assert_eq!(deadlines().await, (None, Some(given)));
        d.advance(8500).await;
        d.tick().await;
        d.complete(&flow, "a").await;
        assert_eq!(deadlines().await, (Some(d.now().plus_millis(1000)), Some(given)));
    }

    async fn the_time_of_a_member_that_is_replayed_begins_when_it_is_freed(d: &Deployment) {
        let mut graph = d.graph("a -> b");
        graph.create("b").policy_json =
            r#"{"timeout_policy":{"execution_deadline_ms":1000}}"#.to_owned();
        let flow = d.submit(&graph).await;
        let deadline_at = async || d.describe(flow.id("b")).await.deadline_at;
        d.call(outside(flow.id("b"), "operator_override")).await;
        replayed(d, &flow, "b").await;
        assert_eq!(deadline_at().await, None);
        d.advance(5000).await;
        d.complete(&flow, "a").await;
        assert_eq!(deadline_at().await, Some(d.now().plus_millis(1000)));
        d.call(outside(flow.id("b"), "operator_override")).await;
        d.advance(1).await;
        replayed(d, &flow, "b").await;
        assert_eq!(deadline_at().await, Some(d.now().plus_millis(1000)));
    }

    async fn who_is_replayed_while_others_are_told_of_its_end_tells_them_again(d: &Deployment) {
        let count = limits::EDGES_PER_CALL + 1;
        let edges: Vec<String> = (0..count).map(|number| format!("a => n{number}")).collect();
        let flow = d.flow(&edges.join(", ")).await;
        d.complete(&flow, "a").await;
        replayed(d, &flow, "a").await;
        d.audit().await;
        assert_eq!(d.tick().await.edges, 0);
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting, 129 waiting_children");
        d.complete(&flow, "a").await;
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 completed, 129 waiting");
    }

    async fn what_came_while_a_member_was_cancelled_is_passed_to_its_replay(d: &Deployment) {
        let flow = d.flow("a => b, c => b").await;
        d.complete(&flow, "a").await;
        d.call(outside(flow.id("b"), "operator_override")).await;
        d.complete(&flow, "c").await;
        replayed(d, &flow, "b").await;
        let held = d.take(&flow, "b").await;
        let names: Vec<&str> = held.row.inputs.0.iter().map(|input| &*input.name).collect();
        assert_eq!(names, ["a", "c"]);
    }

    async fn what_made_up_for_a_failure_that_is_tried_again_makes_up_for_no_other(d: &Deployment) {
        let mut graph = d.graph("a -a> z, b");
        graph.head.on_failure = Some("fail_fast".to_owned());
        let flow = d.submit(&graph).await;
        d.fail(&flow, "a").await;
        replayed(d, &flow, "a").await;
        d.complete(&flow, "a").await;
        d.fail(&flow, "b").await;
        d.settle().await;
        assert_eq!(d.states(&flow).await, "a completed, z cancelled, b failed");
    }
}
