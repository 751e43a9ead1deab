//! Children in flows of others: their edges, what ends them, and what would wait for ever.

use ff_conformance::{Deployment, Flow, Held, conformance};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;

/// Is a child of this parent refused that waits for this member?
async fn after(d: &Deployment, parent: &Held, upstream: ExecutionId) -> Option<Code> {
    let mut graph = d.graph("child");
    graph.after(upstream, "-a>", "child");
    let reply = d.try_call(parent.add_children(&graph)).await;
    reply.err().map(|error| error.code().expect("a refusal"))
}

async fn open_child(d: &Deployment, parent: &Held) -> ff_conformance::Graph {
    let graph = d.graph("child");
    d.adopt(parent, &graph).await;
    graph
}

/// A flow of `a` and `b` that fails fast, in which `a` waits for these children.
async fn hurried(d: &Deployment, children: &str) -> Flow {
    let mut graph = d.graph("a, b");
    graph.head.on_failure = Some("fail_fast".to_owned());
    let flow = d.submit(&graph).await;
    let held = d.take(&flow, "a").await;
    let graph = d.graph(children);
    d.adopt(&held, &graph).await;
    d.call(held.wait_for_children()).await;
    flow.with(&graph)
}

conformance! {
    async fn a_sealed_flow_takes_members_from_its_running_ones(d: &Deployment) {
        let flow = d.flow("a -> b").await;
        let held = d.take(&flow, "a").await;
        let graph = d.graph("x -> y");
        assert_eq!(d.adopt(&held, &graph).await, 2);
        let flow = flow.with(&graph);
        assert_eq!(d.states(&flow).await, "a active, b waiting_children, x waiting, \
            y waiting_children");
        d.call(held.complete(b"")).await;
        d.complete(&flow, "b x y").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 4 completed");
    }

    async fn an_open_flow_takes_children_too(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let held = d.take(&flow, "a").await;
        let flow = flow.with(&open_child(d, &held).await);
        d.call(held.wait_for_children()).await;
        d.complete(&flow, "child").await;
        let held = d.resume(flow.id("a")).await;
        d.call(held.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting, 2 completed");
    }

    async fn a_child_waits_for_members_that_are_there(d: &Deployment) {
        let flow = d.flow("a, b").await;
        let held = d.take(&flow, "a").await;
        let mut graph = d.graph("child");
        graph.after(flow.id("b"), "=>", "child");
        assert_eq!(d.adopt(&held, &graph).await, 1);
        let flow = flow.with(&graph);
        assert_eq!(d.states(&flow).await, "a active, b waiting, child waiting_children");
        d.complete(&flow, "b").await;
        let child = d.take(&flow, "child").await;
        assert_eq!(child.row.payload, b"b", "what it passes is the payload");
    }

    async fn an_upstream_that_is_over_decides_at_once(d: &Deployment) {
        let flow = d.flow("a, b, c").await;
        d.complete(&flow, "b").await;
        d.fail(&flow, "c").await;
        let held = d.take(&flow, "a").await;
        let mut graph = d.graph("x, y, z");
        graph.after(flow.id("b"), "=>", "x");
        graph.after(flow.id("c"), "->", "y");
        graph.after(flow.id("c"), "-f>", "z");
        assert_eq!(d.adopt(&held, &graph).await, 3);
        let flow = flow.with(&graph);
        let told = d.states(&flow).await;
        assert!(told.ends_with("x waiting, y skipped, z waiting"), "{told}");
        d.call(held.wait_for_children()).await;
        d.complete(&flow, "x z").await;
        let held = d.resume(flow.id("a")).await;
        assert_eq!(held.told_children(), r#"x completed "x", y skipped, z completed "z""#);
    }

    async fn children_that_are_skipped_as_they_come_leave_their_parent_nothing_to_wait_for(
        d: &Deployment
    ) {
        let flow = d.flow("a, c").await;
        d.fail(&flow, "c").await;
        let held = d.take(&flow, "a").await;
        let mut graph = d.graph("x -> y");
        graph.after(flow.id("c"), "->", "x");
        assert_eq!(d.adopt(&held, &graph).await, 2);
        d.call(held.wait_for_children()).await;
        assert_eq!(d.resume(flow.id("a")).await.told_children(), "x skipped, y skipped");
    }

    async fn a_child_waits_for_an_upstream_that_tells_step_by_step(d: &Deployment) {
        let edges: Vec<String> =
            (0..=2 * limits::EDGES_PER_CALL).map(|number| format!("b -> d{number}")).collect();
        let flow = d.flow(&format!("a, {}", edges.join(", "))).await;
        let held = d.take(&flow, "a").await;
        d.complete(&flow, "b").await;
        let mut graph = d.graph("child");
        graph.after(flow.id("b"), "->", "child");
        d.adopt(&held, &graph).await;
        let flow = flow.with(&graph);
        assert_eq!(d.describe(flow.id("child")).await.public_state(), PublicState::WaitingChildren);
        d.settle().await;
        assert_eq!(d.describe(flow.id("child")).await.public_state(), PublicState::Waiting);
    }

    async fn so_many_as_are_needed_free_a_child(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a -> c*1, b -> c").await;
        d.complete(&flow, "b c a").await;
        assert_eq!(d.flow_state(&flow).await, "running: 1 active, 3 completed");
    }

    async fn a_child_that_would_wait_for_its_parent_is_a_cycle(d: &Deployment) {
        let held = d.create_and_claim().await;
        assert_eq!(after(d, &held, held.id).await, Some(Code::CycleDetected));
        let flow = d.flow("a -> b -> c, e").await;
        let held = d.take(&flow, "a").await;
        for name in ["a", "b", "c"] {
            let refused = after(d, &held, flow.id(name)).await;
            assert_eq!(refused, Some(Code::CycleDetected), "{name}");
        }
        assert_eq!(after(d, &held, flow.id("e")).await, None);
    }

    async fn a_child_that_would_wait_for_what_waits_for_an_ancestor_is_a_cycle(d: &Deployment) {
        let flow = d.flow("a -> b, e").await;
        let held = d.take(&flow, "a").await;
        let flow = flow.with(&open_child(d, &held).await);
        let child = d.take(&flow, "child").await;
        for name in ["a", "b", "child"] {
            let refused = after(d, &child, flow.id(name)).await;
            assert_eq!(refused, Some(Code::CycleDetected), "{name}");
        }
        assert_eq!(after(d, &child, flow.id("e")).await, None, "it has nothing to do with them");
    }

    async fn a_child_may_wait_for_one_that_waits_for_its_sibling(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let held = d.take(&flow, "a").await;
        let flow = flow.with(&open_child(d, &held).await);
        d.connect(&flow, "child", "b").await;
        assert_eq!(after(d, &held, flow.id("b")).await, None);
        assert_eq!(d.refused(d.edge(&flow, "a", "child")).await, Code::CycleDetected);
    }

    async fn an_edge_between_others_that_closes_a_cycle_through_a_parent_is_refused(
        d: &Deployment
    ) {
        let flow = d.open_flow("a b c").await;
        d.connect(&flow, "a", "b").await;
        let held = d.take(&flow, "a").await;
        let mut graph = d.graph("child");
        graph.after(flow.id("c"), "->", "child");
        d.adopt(&held, &graph).await;
        let flow = flow.with(&graph);
        assert_eq!(d.refused(d.edge(&flow, "b", "c")).await, Code::CycleDetected);
        assert_eq!(d.refused(d.edge(&flow, "b", "child")).await, Code::CycleDetected);
        d.connect(&flow, "child", "b").await;
        d.complete(&flow, "c child").await;
        d.call(held.complete(b"")).await;
        d.complete(&flow, "b").await;
        assert_eq!(d.flow_state(&flow).await, "open: 4 completed");
    }

    async fn a_rank_that_would_move_too_many_is_refused(d: &Deployment) {
        let chain: Vec<String> =
            (0..limits::RANK_EDGES_MAX).map(|number| format!("a -> d{number}")).collect();
        let flow = d.flow(&format!("{}, e -> f", chain.join(", "))).await;
        let held = d.take(&flow, "a").await;
        assert_eq!(after(d, &held, flow.id("f")).await, Some(Code::GraphTooLarge));
    }

    async fn an_upstream_that_is_nobody_of_the_flow_is_refused(d: &Deployment) {
        let held = d.create_and_claim().await;
        let other = d.flow("x").await;
        for id in [d.new_id(), d.create_one().await, other.id("x")] {
            assert_eq!(after(d, &held, id).await, Some(Code::ExecutionNotInFlow));
        }
        let mut graph = d.graph("a, b");
        graph.after(graph.flow().id("a"), "->", "b");
        graph.edges[0].downstream = other.id("x");
        let (code, details) = d.refusal(held.add_children(&graph)).await;
        assert_eq!((code, details), (Code::ExecutionNotInFlow, vec![other.id("x").to_string()]));
    }

    async fn a_flow_that_was_cancelled_takes_no_children(d: &Deployment) {
        for policy in ["cancel_pending", "flow_only"] {
            let flow = d.flow("a, b").await;
            let held = d.take(&flow, "a").await;
            d.call(d.cancelling(&flow, policy)).await;
            let refused = d.refused(held.add_children(&d.graph("x"))).await;
            assert_eq!(refused, Code::FlowCancelled, "{policy}");
            d.call(held.complete(b"")).await;
        }
    }

    async fn a_flow_that_is_gone_takes_no_children(d: &Deployment) {
        let flow = d.flow("a").await;
        let held = d.take(&flow, "a").await;
        let key = format!("{}:f:{}", d.home().key(), flow.id);
        let at = d.now().to_string();
        let gone: [&[u8]; 3] = [b"HDEL", key.as_bytes(), b"created_at"];
        let back: [&[u8]; 4] = [b"HSET", key.as_bytes(), b"created_at", at.as_bytes()];
        d.host().exec(d.home(), &gone).await.expect("every store has the command");
        assert_eq!(d.refused(held.add_children(&d.graph("x"))).await, Code::FlowNotFound);
        d.host().exec(d.home(), &back).await.expect("every store has the command");
    }

    async fn cancelling_the_flow_cancels_parents_and_children(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b, c").await;
        d.call(held.wait_for_children()).await;
        d.take(&flow, "a").await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 4 cancelled");
    }

    async fn a_parent_goes_on_when_a_cancel_ended_its_pending_children(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b").await;
        d.call(held.wait_for_children()).await;
        d.complete(&flow, "a").await;
        d.call(d.cancelling(&flow, "cancel_pending")).await;
        d.settle().await;
        let resumed = d.resume(held.id).await;
        assert_eq!(resumed.told_children(), r#"a completed "a", b cancelled"#);
        d.call(resumed.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 1 cancelled, 2 completed");
    }

    async fn the_deadline_of_a_flow_ends_its_children(d: &Deployment) {
        let mut graph = d.graph("a");
        let at = d.now().plus_millis(1000);
        graph.head.deadline_at = Some(at);
        let flow = d.submit(&graph).await;
        let held = d.take(&flow, "a").await;
        open_child(d, &held).await;
        d.call(held.wait_for_children()).await;
        d.set_time(at.get()).await;
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "failed: 2 expired");
    }

    async fn a_failing_child_ends_the_others_of_a_flow_that_fails_fast(d: &Deployment) {
        let flow = hurried(d, "child, other").await;
        d.fail(&flow, "child").await;
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 failed, 3 cancelled");
    }

    async fn a_failing_child_that_is_optional_ends_nobody(d: &Deployment) {
        let flow = hurried(d, "child?, other").await;
        d.fail(&flow, "child").await;
        d.settle().await;
        d.complete(&flow, "b other").await;
        let held = d.resume(flow.id("a")).await;
        assert_eq!(held.told_children(), r#"child failed, other completed "other""#);
        d.call(held.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "completed: 1 failed, 3 completed");
    }

    async fn what_makes_up_for_a_failure_may_have_children(d: &Deployment) {
        let mut graph = d.graph("a -f> undo, b");
        graph.head.on_failure = Some("fail_fast".to_owned());
        let flow = d.submit(&graph).await;
        d.fail(&flow, "a").await;
        d.settle().await;
        let held = d.take(&flow, "undo").await;
        let flow = flow.with(&open_child(d, &held).await);
        d.call(held.wait_for_children()).await;
        d.settle().await;
        d.complete(&flow, "child").await;
        let held = d.resume(flow.id("undo")).await;
        d.call(held.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 cancelled, 1 failed, 2 completed");
    }
}
