//! Graphs: flows that are submitted whole.

use ff_conformance::{Deployment, LANE, conformance};
use ff_core::contracts::ListFilter;
use ff_core::error::Code;
use ff_core::limits;
use ff_script::calls::flow::SealFlow;
use ff_script::calls::graph::{SubmitGraph, SubmitGraphReply};
use ff_script::wire::Rest;

use super::cancel::outside;
use super::flow::{fillers, left};
use super::replay::replay;

/// How many executions a listing shows.
async fn shown(d: &Deployment) -> usize {
    d.list_page(&ListFilter::default(), None, 100).await.expect("a listing").items.len()
}

conformance! {
    async fn a_graph_that_comes_in_one_call_starts_in_it(d: &Deployment) {
        let graph = d.graph("a -> b -> c, a -> c");
        let (flow_id, node_count) = (graph.flow_id, 3);
        let reply = d.call(graph.whole()).await;
        assert_eq!(reply, SubmitGraphReply::Accepted { flow_id, node_count });
        let again = d.call(graph.whole()).await;
        assert_eq!(again, SubmitGraphReply::AcceptedBefore { flow_id, node_count });
        let flow = graph.flow();
        assert_eq!(d.states(&flow).await, "a waiting, b waiting_children, c waiting_children");
        d.complete(&flow, "a b c").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
        assert_eq!(d.tick().await.flows, 0);
    }

    async fn members_are_held_until_the_graph_is_whole(d: &Deployment) {
        let graph = d.graph("a -> b, a -> c");
        d.call(graph.part(0..2, 0..1, false)).await;
        let flow = graph.flow();
        assert!(d.try_claim(LANE).await.is_none());
        assert_eq!(d.refused(d.claim_grant_call(flow.id("a"))).await, Code::ExecutionNotEligible);
        assert_eq!(shown(d).await, 0);
        d.call(graph.part(2..3, 1..2, false)).await;
        assert!(d.try_claim(LANE).await.is_none());
        d.call(graph.part(3..3, 2..2, true)).await;
        assert_eq!(shown(d).await, 3);
        assert_eq!(d.states(&flow).await, "a waiting, b waiting_children, c waiting_children");
        d.complete(&flow, "a b c").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
    }

    async fn a_flow_that_came_in_parts_can_be_sealed_by_itself(d: &Deployment) {
        let graph = d.graph("a -> b");
        d.call(graph.part(0..2, 0..1, false)).await;
        d.call(SealFlow { flow_id: graph.flow_id }).await;
        assert_eq!(d.states(&graph.flow()).await, "a waiting, b waiting_children");
    }

    async fn a_part_that_is_repeated_adds_nothing(d: &Deployment) {
        let graph = d.graph("a -> b, b -> c");
        for _ in 0..2 {
            d.call(graph.part(0..2, 0..1, false)).await;
        }
        d.call(graph.part(0..3, 0..2, false)).await;
        for _ in 0..2 {
            d.call(graph.part(1..3, 1..2, true)).await;
        }
        let flow = graph.flow();
        assert_eq!(d.states(&flow).await, "a waiting, b waiting_children, c waiting_children");
        d.complete(&flow, "a b c").await;
    }

    async fn members_that_come_with_the_seal_are_released_too(d: &Deployment) {
        let graph = d.graph("a -> b, c");
        d.call(graph.part(0..1, 0..0, false)).await;
        d.call(graph.part(1..3, 0..1, true)).await;
        d.settle().await;
        assert_eq!(d.states(&graph.flow()).await, "a waiting, b waiting_children, c waiting");
    }

    async fn a_large_graph_is_released_step_by_step(d: &Deployment) {
        let graph = d.graph(&format!("{}, a -> b", fillers()));
        for part in [graph.part(0..66, 0..1, false), graph.part(66..66, 1..1, true)] {
            d.call(part).await;
        }
        let flow = graph.flow();
        assert_eq!(d.flow_state(&flow).await, "open: 2 waiting_children, 64 waiting");
        assert_eq!(d.tick().await.flows, 1);
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting_children, 65 waiting");
    }

    async fn who_is_freed_while_others_are_released_is_freed_once(d: &Deployment) {
        let graph = d.graph(&format!("a, {}, a => z", fillers()));
        d.call(graph.part(0..66, 0..1, false)).await;
        d.call(graph.part(66..66, 1..1, true)).await;
        let flow = graph.flow();
        d.complete(&flow, "a").await;
        d.settle().await;
        let held = d.take(&flow, "z").await;
        assert_eq!(held.row.payload, b"a");
    }

    async fn the_same_flow_with_another_content_is_refused(d: &Deployment) {
        let graph = d.graph("a -> b");
        d.call(graph.part(0..1, 0..0, false)).await;
        let other = SubmitGraph { digest: "other".to_owned(), ..graph.whole() };
        assert_eq!(d.refused(other).await, Code::IdempotencyConflict);
        let created = d.create_flow();
        d.call(created.clone()).await;
        let mut taken = d.graph("x");
        taken.head.flow_id = created.flow_id;
        assert_eq!(d.refused(taken.whole()).await, Code::IdempotencyConflict);
    }

    async fn a_member_that_exists_already_is_refused(d: &Deployment) {
        let mut graph = d.graph("a, b");
        graph.create("a").execution_id = d.create_one().await;
        assert_eq!(d.refused(graph.whole()).await, Code::IdempotencyConflict);
        let mut twice = d.graph("a, b");
        let id = twice.create("a").execution_id;
        twice.create("b").execution_id = id;
        assert_eq!(d.refused(twice.whole()).await, Code::IdempotencyConflict);
    }

    async fn an_edge_that_came_in_an_earlier_part_does_not_come_again(d: &Deployment) {
        let mut graph = d.graph("a -> c, b -> c");
        graph.edges.push(graph.edges[1].clone());
        d.call(graph.part(0..3, 0..2, false)).await;
        assert_eq!(d.refused(graph.part(3..3, 2..3, true)).await, Code::DependencyAlreadyExists);
        graph.edges[2] = graph.edges[0].clone();
        assert_eq!(d.refused(graph.part(3..3, 2..3, true)).await, Code::InvalidInput);
        d.call(graph.part(3..3, 2..2, true)).await;
        d.complete(&graph.flow(), "a b c").await;
    }

    async fn a_graph_with_something_wrong_is_refused_whole(d: &Deployment) {
        let graph = d.graph("a -> b");
        let mut back = graph.clone();
        let (upstream, downstream) = (back.edges[0].downstream, back.edges[0].upstream);
        (back.edges[0].upstream, back.edges[0].downstream) = (upstream, downstream);
        assert_eq!(d.refused(back.whole()).await, Code::CycleDetected);
        let mut itself = graph.clone();
        itself.edges[0].upstream = itself.edges[0].downstream;
        assert_eq!(d.refused(itself.whole()).await, Code::SelfReferencingEdge);
        let mut twice = graph.clone();
        twice.edges.push(twice.edges[0].clone());
        assert_eq!(d.refused(twice.whole()).await, Code::DependencyAlreadyExists);
        let mut nothing = graph.clone();
        (nothing.edges[0].pass, nothing.edges[0].kind) = (true, "failure_only".to_owned());
        assert_eq!(d.refused(nothing.whole()).await, Code::InvalidInput);
        for end in 0..2 {
            let mut unknown = graph.clone();
            let id = d.create_one().await;
            let edge = &mut unknown.edges[0];
            *(if end == 0 { &mut edge.upstream } else { &mut edge.downstream }) = id;
            let (code, details) = d.refusal(unknown.whole()).await;
            assert_eq!((code, details), (Code::ExecutionNotInFlow, vec![id.to_string()]));
        }
        let mut policy = graph.clone();
        policy.create("b").policy_json = "{".to_owned();
        assert_eq!(d.refused(policy.whole()).await, Code::InvalidPolicyJson);
        let unknown = d.create_under(d.new_policy_id(), "k").call().policy_json;
        policy.create("b").policy_json = unknown;
        assert_eq!(d.refused(policy.whole()).await, Code::QuotaPolicyNotFound);
        let mut capable = graph.clone();
        capable.create("b").policy_json =
            r#"{"routing_requirements":{"required_capabilities":["a b"]}}"#.to_owned();
        assert_eq!(d.refused(capable.whole()).await, Code::InvalidCapabilities);
        let mut tags = graph.clone();
        tags.create("b").tags_json = r#"{"Bad":"x"}"#.to_owned();
        assert_eq!(d.refused(tags.whole()).await, Code::InvalidTagKey);
        let mut large = graph.clone();
        large.create("b").payload = vec![b'x'; limits::PAYLOAD_BYTES_MAX as usize + 1];
        assert_eq!(d.refused(large.whole()).await, Code::PayloadTooLarge);
        let mut keyed = graph.clone();
        keyed.create("b").idempotency_key = d.create().idempotency("k", "x").call().idempotency_key;
        assert_eq!(d.refused(keyed.whole()).await, Code::InvalidInput);
        let mut throttled = graph.clone();
        throttled.create("b").throttle = d.create().debounced("k", 1, 1).call().throttle;
        assert_eq!(d.refused(throttled.whole()).await, Code::InvalidInput);
        let mut needy = graph.clone();
        needy.node("b").needed = Some(2);
        assert_eq!(d.refused(needy.whole()).await, Code::InvalidInput);
        let cut = SubmitGraph { items: Rest(graph.whole().items.0[1..].to_vec()), ..graph.whole() };
        assert_eq!(d.refused(cut).await, Code::InvalidInput);
    }

    async fn a_graph_has_so_many_members_and_edges_at_most(d: &Deployment) {
        let graph = d.graph("a -> b");
        let many = SubmitGraph { nodes_before: limits::FLOW_MEMBERS_MAX - 1, ..graph.whole() };
        assert_eq!(d.refused(many).await, Code::GraphTooLarge);
        let many = SubmitGraph { edges_before: limits::FLOW_EDGES_MAX, ..graph.whole() };
        assert_eq!(d.refused(many).await, Code::GraphTooLarge);
    }

    async fn a_part_whose_predecessor_is_missing_is_refused(d: &Deployment) {
        let graph = d.graph("a -> b");
        let (code, details) = d.refusal(graph.part(1..2, 0..0, false)).await;
        assert_eq!((code, details), (Code::StaleGraphRevision, vec!["0".to_owned()]));
    }

    async fn a_graph_that_was_given_up_is_removed_after_ten_minutes(d: &Deployment) {
        let mut graph = d.graph(&format!("{}, a -> b", fillers()));
        graph.create("b").payload = vec![b'x'; 300];
        graph.create("b").tags_json = r#"{"a.b":"c"}"#.to_owned();
        graph.create("a").deadline_at = Some(d.now().plus_millis(9_000_000));
        d.call(graph.part(0..66, 0..1, false)).await;
        d.advance(limits::GRAPH_ABANDONED_MS - 1).await;
        d.settle().await;
        assert_eq!(d.states(&graph.flow()).await.split(", ").count(), 66);
        d.advance(1).await;
        d.tick().await;
        d.audit().await;
        d.settle().await;
        assert_eq!(left(d).await, Vec::<String>::new());
        d.call(graph.part(0..66, 0..1, true)).await;
        assert_eq!(d.flow_state(&graph.flow()).await, "open: 1 waiting_children, 65 waiting");
    }

    async fn a_graph_that_is_cancelled_meanwhile_takes_no_more_parts(d: &Deployment) {
        for policy in ["cancel_all", "cancel_pending", "flow_only"] {
            let graph = d.graph("a -> b");
            d.call(graph.part(0..1, 0..0, false)).await;
            let flow = graph.flow();
            d.call(d.cancelling(&flow, policy)).await;
            assert_eq!(d.refused(graph.part(1..2, 0..1, true)).await, Code::FlowCancelled);
            assert_eq!(d.flow_state(&flow).await, "cancelled: 1 cancelled", "{policy}");
        }
    }

    async fn a_failure_ends_the_others_if_the_flow_says_so(d: &Deployment) {
        let mut graph = d.graph("a -> b, c, x?, a -f> undo -> after, c -> e");
        graph.head.on_failure = Some("fail_fast".to_owned());
        let flow = d.submit(&graph).await;
        d.fail(&flow, "x").await;
        let running = d.take(&flow, "c").await;
        d.fail(&flow, "a").await;
        d.settle().await;
        assert_eq!(d.states(&flow).await, "a failed, b skipped, c cancelled, x failed, \
            undo waiting, after waiting_children, e skipped");
        assert_eq!(d.refused(running.complete(b"")).await, Code::ExecutionNotActive);
        d.complete(&flow, "undo after").await;
        assert_eq!(d.flow_state(&flow).await,
            "failed: 1 cancelled, 2 completed, 2 failed, 2 skipped");
    }

    async fn what_makes_up_for_a_failure_is_kept_however_many_there_are(d: &Deployment) {
        let many = limits::EDGES_PER_CALL + 2;
        let names: Vec<String> = (0..many).map(|n| format!("u{n}")).collect();
        let edges: Vec<String> = names.iter().map(|name| format!("a -f> {name}")).collect();
        let mut graph = d.graph(&format!("a, {}, rest", edges.join(", ")));
        graph.head.on_failure = Some("fail_fast".to_owned());
        let flow = d.submit(&graph).await;
        d.fail(&flow, "a").await;
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 cancelled, 1 failed, 130 waiting");
        while let Some(held) = d.try_claim(LANE).await {
            d.call(held.complete(b"")).await;
        }
        assert_eq!(d.flow_state(&flow).await, "failed: 1 cancelled, 1 failed, 130 completed");
    }

    async fn a_failure_while_the_graph_is_released_forgets_nobody(d: &Deployment) {
        let mut graph = d.graph(&format!("a, {}, a -f> undo, z", fillers()));
        graph.head.on_failure = Some("fail_fast".to_owned());
        d.call(graph.part(0..67, 0..1, false)).await;
        d.call(graph.part(67..67, 1..1, true)).await;
        let flow = graph.flow();
        d.fail(&flow, "a").await;
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 failed, 1 waiting, 65 cancelled");
        d.complete(&flow, "undo").await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 completed, 1 failed, 65 cancelled");
    }

    async fn an_upstream_that_is_over_before_its_edge_came_is_told_at_once(d: &Deployment) {
        let graph = d.graph("a -> b, a -f> c, b -a> e");
        d.call(graph.part(0..1, 0..0, false)).await;
        let flow = graph.flow();
        d.call(outside(flow.id("a"), "operator_override")).await;
        d.call(graph.part(1..4, 0..3, true)).await;
        d.settle().await;
        assert_eq!(d.states(&flow).await, "a cancelled, b skipped, c waiting, e waiting");
    }

    async fn an_edge_that_comes_with_the_seal_is_told_of_a_skip_that_follows(d: &Deployment) {
        let graph = d.graph("a -> b -> c");
        d.call(graph.part(0..2, 0..1, false)).await;
        let flow = graph.flow();
        d.call(outside(flow.id("a"), "operator_override")).await;
        d.call(graph.part(2..3, 1..2, true)).await;
        d.settle().await;
        assert_eq!(d.states(&flow).await, "a cancelled, b skipped, c skipped");
    }

    async fn a_member_that_was_cancelled_while_it_was_held_stays_so(d: &Deployment) {
        let graph = d.graph("a -> b, c");
        d.call(graph.part(0..3, 0..0, false)).await;
        let flow = graph.flow();
        for name in ["b", "c"] {
            d.call(outside(flow.id(name), "operator_override")).await;
        }
        d.call(replay(flow.id("c"))).await;
        assert!(d.try_claim(LANE).await.is_none());
        d.call(graph.part(3..3, 0..1, false)).await;
        assert_eq!(d.states(&flow).await, "a waiting_children, b cancelled, c waiting_children");
        d.call(SealFlow { flow_id: flow.id }).await;
        assert_eq!(d.states(&flow).await, "a waiting, b cancelled, c waiting");
        d.complete(&flow, "a c").await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 cancelled, 2 completed");
    }

    async fn what_was_given_up_takes_nothing_while_it_goes_away(d: &Deployment) {
        let graph = d.graph(&format!("{}, a -> b", fillers()));
        d.call(graph.part(0..66, 0..0, false)).await;
        d.advance(limits::GRAPH_ABANDONED_MS).await;
        d.tick().await;
        let flow = graph.flow();
        let again = graph.part(0..66, 0..1, true);
        assert_eq!(d.refused(again.clone()).await, Code::FlowAlreadyTerminal);
        assert_eq!(d.refused(SealFlow { flow_id: flow.id }).await, Code::FlowNotFound);
        assert_eq!(d.refused(d.cancelling(&flow, "cancel_all")).await, Code::FlowNotFound);
        d.settle().await;
        d.call(again).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting_children, 65 waiting");
    }

    async fn a_member_whose_time_comes_while_it_goes_away_leaves_nothing(d: &Deployment) {
        let mut graph = d.graph("a -> b");
        let late = d.now().plus_millis(limits::GRAPH_ABANDONED_MS + 5);
        graph.create("b").deadline_at = Some(late);
        d.call(graph.part(0..2, 0..1, false)).await;
        d.advance(limits::GRAPH_ABANDONED_MS + 10).await;
        d.settle().await;
        d.advance(limits::PURGED_REMEMBERED_MS).await;
        d.settle().await;
        assert_eq!(left(d).await, Vec::<String>::new());
    }

    async fn a_failure_before_the_graph_is_whole_ends_the_others_when_it_is(d: &Deployment) {
        let mut graph = d.graph("a -f> undo -> after, c");
        graph.head.on_failure = Some("fail_fast".to_owned());
        d.call(graph.part(0..4, 0..0, false)).await;
        let flow = graph.flow();
        d.call(outside(flow.id("a"), "operator_override")).await;
        d.settle().await;
        d.call(graph.part(4..4, 0..2, true)).await;
        d.settle().await;
        assert_eq!(
            d.states(&flow).await,
            "a cancelled, undo waiting, after waiting_children, c cancelled"
        );
    }

    async fn who_was_not_released_yet_is_when_the_failure_is_tried_again(d: &Deployment) {
        let mut graph = d.graph(&format!("a, {}, y, z", fillers()));
        graph.head.on_failure = Some("fail_fast".to_owned());
        d.call(graph.part(0..67, 0..0, false)).await;
        d.call(graph.part(67..67, 0..0, true)).await;
        let flow = graph.flow();
        d.fail(&flow, "a").await;
        d.call(replay(flow.id("a"))).await;
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "open: 67 waiting");
    }
}
