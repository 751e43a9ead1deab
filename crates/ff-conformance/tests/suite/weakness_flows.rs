//! What engines of this kind got wrong about flows, each as a test of its own.

use ff_conformance::record::{listed_in, record};
use ff_conformance::{Deployment, LANE, conformance, dump, joining};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::ExecutionId;
use ff_script::calls::edge::{PromoteBlockedToEligible, ResolveDependency, StageDependencyEdge};
use ff_script::calls::flow::CreateFlow;
use ff_script::calls::flow_cancel::CancelFlowReply;
use ff_script::calls::flow_reads::DescribeFlowReply;
use ff_script::host::Topic;

use super::edge::applied;
use super::flow::fillers;
use super::replay::replay;

async fn state(d: &Deployment, id: ExecutionId) -> PublicState {
    d.describe(id).await.public_state()
}

/// `a -> b0, a -> b1, …`
fn fan_out(count: u64) -> String {
    (0..count).map(|n| format!("a -> b{n}")).collect::<Vec<_>>().join(", ")
}

/// `a0 -> z, a1 -> z, …`, the many in front.
fn fan_in(count: u64) -> String {
    let names = (0..count).map(|n| format!("a{n}")).collect::<Vec<_>>().join(", ");
    let edges = (0..count).map(|n| format!("a{n} -> z")).collect::<Vec<_>>().join(", ");
    format!("{names}, {edges}")
}

conformance! {
    async fn f1_a_completion_frees_its_dependants_in_the_same_call(d: &Deployment) {
        let flow = d.flow("a -> b, a -> c").await;
        let held = d.take(&flow, "a").await;
        let mut ready = d.listen(Topic::Ready).await;
        d.call(held.complete(b"")).await;
        assert_eq!(d.states(&flow).await, "a completed, b waiting, c waiting");
        assert_eq!(ready.lane().await, LANE);
    }

    async fn f1_more_dependants_than_one_call_tells_are_told_by_the_next_ticks(d: &Deployment) {
        d.host().watch(false);
        let many = 3 * limits::EDGES_PER_CALL - 1;
        let flow = d.flow(&fan_out(many)).await;
        d.complete(&flow, "a").await;
        let free = async || d.flow_state(&flow).await;
        assert_eq!(free().await, "open: 1 completed, 128 waiting, 255 waiting_children");
        d.audit().await;
        let report = d.tick().await;
        assert_eq!((report.edges, report.next_due_at), (1, Some(d.now())));
        assert_eq!(free().await, "open: 1 completed, 127 waiting_children, 256 waiting");
        let report = d.tick().await;
        assert_eq!((report.edges, report.next_due_at), (1, None));
        assert_eq!(free().await, "open: 1 completed, 383 waiting");
    }

    async fn f2_a_skip_reaches_all_who_depend_on_it(d: &Deployment) {
        let flow = d.flow("a -> b -> c -> e, b -a> x, c -a> y").await;
        d.fail(&flow, "a").await;
        assert_eq!(d.states(&flow).await,
            "a failed, b skipped, c skipped, e skipped, x waiting, y waiting");
        assert_eq!(record(&d.dump().await, flow.id("e"))["fr"], "dependency_impossible");
    }

    async fn f2_a_long_chain_of_skips_goes_on_by_ticks(d: &Deployment) {
        d.host().watch(false);
        let names: Vec<String> = (0..2000).map(|n| format!("n{n}")).collect();
        let flow = d.flow(&names.join(" -> ")).await;
        d.fail(&flow, "n0").await;
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 failed, 1999 skipped");
    }

    async fn f2_two_upstreams_that_end_in_one_tick_both_count(d: &Deployment) {
        let mut graph = d.graph("a -> c, b -> c");
        let policy = r#"{"timeout_policy":{"execution_deadline_ms":1000}}"#;
        for name in ["a", "b"] {
            graph.create(name).policy_json = policy.to_owned();
        }
        for edge in &mut graph.edges {
            "failure_only".clone_into(&mut edge.kind);
        }
        let flow = d.submit(&graph).await;
        d.advance(1000).await;
        d.tick().await;
        assert_eq!(d.states(&flow).await, "a expired, b expired, c waiting");
    }

    async fn f3_how_an_upstream_ended_is_read_and_never_told(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let edge_id = d.connect(&flow, "a", "b").await;
        let resolve = ResolveDependency { flow_id: flow.id, edge_id };
        assert_eq!(d.refused(resolve).await, Code::UpstreamNotTerminal);
        assert_eq!(state(d, flow.id("b")).await, PublicState::WaitingChildren);
    }

    async fn f4_a_member_of_a_cancelled_flow_never_runs(d: &Deployment) {
        let mut graph = d.graph(&format!("{}, late", fillers()));
        graph.create("late").delay_until = Some(d.now().plus_millis(100).into());
        let flow = d.submit(&graph).await;
        d.advance(100).await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        let promote = ff_script::calls::expire::PromoteDelayed { execution_id: flow.id("late") };
        d.call(promote).await;
        assert_eq!(state(d, flow.id("late")).await, PublicState::Cancelled);
        assert!(d.try_claim(LANE).await.is_none());
    }

    async fn f5_a_cancel_survives_whoever_asked_for_it(d: &Deployment) {
        d.host().watch(false);
        let text = format!("{}, {}, x", fillers(), fillers().replace('f', "g"));
        let flow = d.flow(&text).await;
        d.host().lose_replies(1);
        let again = d.call(d.cancelling(&flow, "cancel_all")).await;
        let CancelFlowReply::CancelledBefore { member_count, done, .. } = again else {
            panic!("it was cancelled before: {again:?}")
        };
        assert_eq!((member_count, done), (129, false));
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 129 cancelled");
        let again = d.call(d.cancelling(&flow, "cancel_all")).await;
        assert!(matches!(again, CancelFlowReply::CancelledBefore { done: true, .. }), "{again:?}");
    }

    async fn f6_an_edge_counts_from_the_call_that_adds_it(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        d.connect(&flow, "a", "b").await;
        let held = d.claim(LANE).await;
        assert_eq!(held.id, flow.id("a"));
        assert!(d.try_claim(LANE).await.is_none());
    }

    async fn f7_an_edge_to_an_upstream_that_is_over_is_told_at_once(d: &Deployment) {
        let flow = d.open_flow("a f b c e").await;
        d.complete(&flow, "a").await;
        d.fail(&flow, "f").await;
        d.connect(&flow, "a", "b").await;
        assert_eq!(state(d, flow.id("b")).await, PublicState::Waiting);
        d.connect(&flow, "f", "c").await;
        assert_eq!(state(d, flow.id("c")).await, PublicState::Skipped);
        let edges = [d.edge(&flow, "a", "e"), d.edge(&flow, "f", "e")];
        for edge in &edges {
            d.call(StageDependencyEdge(edge.clone())).await;
        }
        d.call(applied(&flow, edges[1].edge_id, "e")).await;
        assert_eq!(state(d, flow.id("e")).await, PublicState::Skipped);
        assert_eq!(d.refused(applied(&flow, edges[0].edge_id, "e")).await, Code::NotRunnable);
    }

    async fn f8_an_edge_to_a_member_that_was_started_is_refused(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let held = d.take(&flow, "b").await;
        assert_eq!(d.refused(d.edge(&flow, "a", "b")).await, Code::NotRunnable);
        d.call(held.delay(d.now().plus_millis(10))).await;
        assert_eq!(d.refused(d.edge(&flow, "a", "b")).await, Code::NotRunnable);
    }

    async fn f9_who_is_freed_goes_back_to_its_delay(d: &Deployment) {
        let flow = d.open_flow("a").await;
        let late = d.create().delayed_by(1000).send().await;
        d.call(joining(&flow, late, "b")).await;
        let mut named = flow.clone();
        named.ids.insert("b".to_owned(), late);
        d.connect(&named, "a", "b").await;
        assert_eq!(listed_in(&d.dump().await, late), [format!("f:{}:m", flow.id)]);
        d.complete(&flow, "a").await;
        assert_eq!(state(d, late).await, PublicState::Delayed);
        d.advance(1000).await;
        d.tick().await;
        assert_eq!(state(d, late).await, PublicState::Waiting);
    }

    async fn f9_a_grant_of_a_member_that_has_to_wait_is_gone(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let grant = d.claim_grant_call(flow.id("b"));
        d.call(grant.clone()).await;
        d.connect(&flow, "a", "b").await;
        let claim = d.member_claim(grant.execution_id, grant.grant_id);
        assert_eq!(d.refused(claim).await, Code::ExecutionNotLeaseable);
        d.complete(&flow, "a b").await;
    }

    async fn f10_what_is_skipped_is_listed_nowhere_but_among_the_skipped(d: &Deployment) {
        let mut graph = d.graph("a -> b");
        graph.create("b").delay_until = Some(d.now().plus_millis(100).into());
        graph.create("b").deadline_at = Some(d.now().plus_millis(9000));
        let flow = d.submit(&graph).await;
        d.fail(&flow, "a").await;
        let members = format!("f:{}:m", flow.id);
        assert_eq!(listed_in(&d.dump().await, flow.id("b")), ["ended:skipped", &members]);
    }

    async fn f11_thousands_of_upstreams_are_counted_exactly(d: &Deployment) {
        d.host().watch(false);
        let many = 2000;
        let flow = d.flow(&fan_in(many)).await;
        for _ in 0..many - 1 {
            let held = d.claim(LANE).await;
            d.call(held.complete(b"")).await;
        }
        assert_eq!(state(d, flow.id("z")).await, PublicState::WaitingChildren);
        let held = d.claim(LANE).await;
        d.call(held.complete(b"")).await;
        assert_eq!(state(d, flow.id("z")).await, PublicState::Waiting);
    }

    async fn f12_nobody_is_blocked_with_nothing_to_wait_for(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        d.complete(&flow, "a").await;
        d.connect(&flow, "a", "b").await;
        let promote = PromoteBlockedToEligible { execution_id: flow.id("b") };
        assert_eq!(d.refused(promote).await, Code::NotBlockedByDeps);
    }

    async fn f17_edges_in_any_order_are_added_without_looking_at_the_graph(d: &Deployment) {
        d.host().watch(false);
        let names: Vec<String> = (0..1200).map(|n| format!("n{n}")).collect();
        let flow = d.open_flow(&names.join(" ")).await;
        for pair in names[..600].windows(2) {
            d.connect(&flow, &pair[0], &pair[1]).await;
        }
        for pair in names[600..].windows(2).rev() {
            d.connect(&flow, &pair[0], &pair[1]).await;
        }
        assert_eq!(d.refused(d.edge(&flow, "n1", "n0")).await, Code::CycleDetected);
        assert_eq!(d.refused(d.edge(&flow, "n599", "n0")).await, Code::GraphTooLarge);
        assert_eq!(d.refused(d.edge(&flow, "n599", "n400")).await, Code::CycleDetected);
        assert_eq!(d.refused(d.edge(&flow, "n1199", "n1000")).await, Code::CycleDetected);
    }

    async fn f18_staging_is_repeatable_and_needs_no_revision(d: &Deployment) {
        let flow = d.open_flow("a b c").await;
        let edge = ff_script::calls::edge::AddDependency { expected_graph_revision: Some(3),
            ..d.edge(&flow, "a", "b") };
        d.call(StageDependencyEdge(edge.clone())).await;
        d.connect(&flow, "b", "c").await;
        let before = d.dump().await;
        d.call(StageDependencyEdge(edge)).await;
        let after = d.dump().await;
        assert!(before == after, "{}", dump::difference(&before, &after));
    }

    async fn f19_a_flow_ends_with_its_last_member_and_says_so(d: &Deployment) {
        let flow = d.flow("a").await;
        let held = d.take(&flow, "a").await;
        let mut ended = d.listen(Topic::Ended).await;
        d.call(held.complete(b"")).await;
        assert_eq!(ended.next().await, held.id.uuid().to_string());
        assert_eq!(ended.next().await, flow.id.to_string());
        let DescribeFlowReply::Flow { public_flow_state, ended_at, .. } = d.described(&flow).await;
        assert_eq!((public_flow_state.as_str(), ended_at), ("completed", Some(d.now())));
    }

    async fn f20_members_and_results_stay_as_long_as_their_flow(d: &Deployment) {
        let mut graph = d.graph("a => b");
        graph.create("a").policy_json = r#"{"retention_ms":0}"#.to_owned();
        let flow = d.submit(&graph).await;
        d.complete(&flow, "a").await;
        d.advance(limits::PURGED_REMEMBERED_MS * 2).await;
        d.settle().await;
        let held = d.take(&flow, "b").await;
        assert_eq!(held.row.payload, b"a");
    }

    async fn f21_inputs_come_beside_the_payload_and_change_nothing(d: &Deployment) {
        let mut graph = d.graph("a => c, b => c, b -> e");
        graph.create("c").payload = b"own".to_vec();
        graph.edges[1].name = "right".to_owned();
        let flow = d.submit(&graph).await;
        d.complete(&flow, "a b").await;
        let held = d.take(&flow, "c").await;
        assert_eq!(held.row.payload, b"own");
        let told: Vec<(&str, ExecutionId, Option<&[u8]>)> = held.row.inputs.0.iter()
            .map(|one| {
                (&*one.name, one.execution_id, one.bytes_base64.as_ref().map(|bytes| &*bytes.0))
            })
            .collect();
        assert_eq!(told, [("a", flow.id("a"), Some(&b"a"[..])),
            ("right", flow.id("b"), Some(&b"b"[..]))]);
        assert_eq!(d.take(&flow, "e").await.row.inputs.0, []);
    }

    async fn f21_a_large_input_is_named_and_left_to_be_read(d: &Deployment) {
        let flow = d.flow("a => c, b => c, a => only").await;
        let held = d.take(&flow, "a").await;
        let large = vec![b'x'; limits::CLAIM_INPUTS_BYTES as usize + 1];
        d.call(held.complete(&large)).await;
        d.complete(&flow, "b").await;
        let held = d.take(&flow, "c").await;
        let sizes: Vec<Option<usize>> = held.row.inputs.0.iter()
            .map(|one| one.bytes_base64.as_ref().map(|bytes| bytes.0.len())).collect();
        assert_eq!(sizes, [None, Some(1)]);
        assert_eq!(d.take(&flow, "only").await.row.payload, large);
    }

    async fn f21_inputs_are_fixed_when_the_member_is_freed(d: &Deployment) {
        let flow = d.flow("a => any*1, b => any").await;
        d.complete(&flow, "a b").await;
        let held = d.take(&flow, "any").await;
        assert_eq!((held.row.payload.as_slice(), held.row.inputs.0.len()), (&b"a"[..], 1));
    }

    async fn f22_what_is_given_is_checked(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let edge = ff_script::calls::edge::AddDependency {
            dependency_kind: Some("sometimes".to_owned()), ..d.edge(&flow, "a", "b") };
        assert_eq!(d.refused(edge).await, Code::InvalidInput);
        let call = d.create_flow();
        d.call(call.clone()).await;
        let flow_kind = d.create().kind("other").call().kind;
        assert_eq!(d.refused(CreateFlow { flow_kind, ..call }).await, Code::IdempotencyConflict);
        let elsewhere = ExecutionId::from_parts(d.partitions[1], d.new_uuid());
        assert_eq!(d.refused(joining(&flow, elsewhere, "c")).await, Code::InvalidInput);
    }

    async fn f23_no_member_of_a_graph_runs_before_its_edges_exist(d: &Deployment) {
        let graph = d.graph("a -> b");
        d.call(graph.part(0..2, 0..0, false)).await;
        assert!(d.try_claim(LANE).await.is_none());
        d.call(graph.part(2..2, 0..1, true)).await;
        assert_eq!(d.claim(LANE).await.id, graph.flow().id("a"));
        assert!(d.try_claim(LANE).await.is_none());
    }

    async fn f15_a_replay_has_nothing_of_the_run_before(d: &Deployment) {
        let mut graph = d.graph("a -> b");
        graph.create("a").policy_json = r#"{"timeout_policy":{"execution_deadline_ms":1000},
            "retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":0}}}"#.to_owned();
        let flow = d.submit(&graph).await;
        d.fail(&flow, "a a").await;
        d.advance(5000).await;
        d.call(replay(flow.id("a"))).await;
        let stored = record(&d.dump().await, flow.id("a"));
        for field in ["et", "rc", "rl", "out", "cr", "cb", "du"] {
            assert!(!stored.contains_key(field), "{field} is left");
        }
        assert_eq!(stored["dl"], d.now().plus_millis(1000).get().to_string());
        let held = d.take(&flow, "a").await;
        assert_eq!(held.row.attempt_index.get(), 2);
        assert!(!record(&d.dump().await, held.id).contains_key("fr"));
        d.call(held.fail("boom", "transient")).await;
        assert_eq!(state(d, flow.id("a")).await, PublicState::Waiting, "its retries begin anew");
    }
}
