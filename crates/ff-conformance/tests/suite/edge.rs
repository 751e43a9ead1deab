//! Edges: who waits for whom, from the stage to the end of the upstream.

use ff_conformance::record::key_of;
use ff_conformance::{Deployment, Flow, LANE, conformance, joining, lane};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::{EdgeId, ExecutionId};
use ff_script::calls::edge::{
    AddDependency, AddDependencyReply, ApplyDependencyToChild, ApplyDependencyToChildReply,
    EvaluateFlowEligibility, EvaluateFlowEligibilityReply, PromoteBlockedToEligible,
    ResolveDependency, ResolveDependencyReply, StageDependencyEdge as Staged,
};
use ff_script::host::Topic;

use super::flow::{fillers, nowhere};

pub(crate) fn applied(flow: &Flow, edge_id: EdgeId, to: &str) -> ApplyDependencyToChild {
    let downstream_execution_id = flow.id(to);
    ApplyDependencyToChild { flow_id: flow.id, edge_id, downstream_execution_id }
}

fn of_kind(edge: AddDependency, kind: &str) -> AddDependency {
    AddDependency { dependency_kind: Some(kind.to_owned()), ..edge }
}

async fn stage(d: &Deployment, flow: &Flow, from: &str, to: &str) -> EdgeId {
    let edge = d.edge(flow, from, to);
    let edge_id = edge.edge_id;
    d.call(Staged(edge)).await;
    edge_id
}

async fn eligibility(d: &Deployment, execution_id: ExecutionId) -> String {
    let reply = d.call(EvaluateFlowEligibility { execution_id }).await;
    let EvaluateFlowEligibilityReply::Eligibility { eligibility } = reply;
    eligibility
}

async fn state(d: &Deployment, flow: &Flow, name: &str) -> PublicState {
    d.describe(flow.id(name)).await.public_state()
}

/// Sets a field of a record around the library.
async fn plant(d: &Deployment, id: ExecutionId, field: &str, value: &str) {
    let words: [&[u8]; 4] = [b"HSET", &key_of(id, ""), field.as_bytes(), value.as_bytes()];
    d.host().exec(d.home(), &words).await.expect("every store has the command");
}

conformance! {
    async fn nothing_is_passed_from_who_fails(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let mut call = d.edge(&flow, "a", "b");
        call.dependency_kind = Some("failure_only".to_owned());
        call.data_passing_ref = "left".to_owned();
        assert_eq!(d.refused(call.clone()).await, Code::InvalidInput);
        assert_eq!(d.refused(Staged(call.clone())).await, Code::InvalidInput);
        call.dependency_kind = Some("any_outcome".to_owned());
        d.call(call).await;
        d.fail(&flow, "a").await;
        assert_eq!(d.take(&flow, "b").await.row.inputs.0, []);
    }

    async fn the_rest_that_nobody_needs_is_cancelled_when_a_join_is_freed(d: &Deployment) {
        let flow = d.flow("a -> join*1!, b -> join, c -> join, c -> other").await;
        let held = d.take(&flow, "b").await;
        d.complete(&flow, "a").await;
        assert_eq!(d.refused(held.complete(b"")).await, Code::ExecutionNotActive);
        let told = d.describe(flow.id("b")).await;
        assert_eq!(told.public_state(), PublicState::Cancelled);
        assert_eq!(told.cancel.map(|cancel| cancel.reason).as_deref(), Some("not_needed"));
        // Another one waits for this one.
        assert_eq!(d.describe(flow.id("c")).await.public_state(), PublicState::Waiting);
        d.complete(&flow, "join c other").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 1 cancelled, 4 completed");
    }

    async fn who_is_needed_by_the_last_of_several_is_cancelled_with_it(d: &Deployment) {
        let flow = d.flow("a -> one*1!, a -> two*1!, b -> one, b -> two").await;
        d.complete(&flow, "a").await;
        assert_eq!(d.describe(flow.id("b")).await.public_state(), PublicState::Cancelled);
        d.complete(&flow, "one two").await;
        let plain = d.flow("a -> join*1, b -> join").await;
        d.complete(&plain, "a join").await;
        assert_eq!(d.flow_state(&plain).await, "open: 1 waiting, 2 completed");
        d.complete(&plain, "b").await;
    }

    async fn more_upstreams_than_one_call_looks_at_are_cancelled_in_steps(d: &Deployment) {
        let count = 2 * limits::EDGES_PER_CALL;
        let edges: Vec<String> = (0..count).map(|number| format!("n{number} -> join*1!")).collect();
        let flow = d.flow(&edges.join(", ")).await;
        d.complete(&flow, "n0").await;
        d.settle().await;
        assert_eq!(
            d.flow_state(&flow).await,
            format!("open: 1 completed, 1 waiting, {} cancelled", count - 1)
        );
        d.complete(&flow, "join").await;
        assert!(d.flow_state(&flow).await.starts_with("completed: "));
    }

    async fn an_edge_is_staged_and_applied_in_two_steps(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let edge = d.edge(&flow, "a", "b");
        let (edge_id, graph_revision) = (edge.edge_id, 3);
        let reply = d.call(Staged(edge.clone())).await;
        assert_eq!(reply, AddDependencyReply::Added { edge_id, graph_revision });
        let again = d.call(Staged(edge)).await;
        assert_eq!(again, AddDependencyReply::AddedBefore { edge_id, graph_revision });
        assert_eq!(state(d, &flow, "b").await, PublicState::Waiting);
        let reply = d.call(applied(&flow, edge_id, "b")).await;
        assert_eq!(reply, ApplyDependencyToChildReply::Applied { unsatisfied_count: 1 });
        let again = d.call(applied(&flow, edge_id, "b")).await;
        assert_eq!(again, ApplyDependencyToChildReply::AppliedBefore {});
        assert_eq!(state(d, &flow, "b").await, PublicState::WaitingChildren);
        d.complete(&flow, "a b").await;
    }

    async fn an_edge_is_added_in_one_step_and_once(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let edge = d.edge(&flow, "a", "b");
        let (edge_id, graph_revision) = (edge.edge_id, 3);
        let reply = d.call(edge.clone()).await;
        assert_eq!(reply, AddDependencyReply::Added { edge_id, graph_revision });
        let again = d.call(edge.clone()).await;
        assert_eq!(again, AddDependencyReply::AddedBefore { edge_id, graph_revision });
        assert_eq!(state(d, &flow, "b").await, PublicState::WaitingChildren);
        let parallel = d.edge(&flow, "a", "b");
        let (code, details) = d.refusal(parallel.clone()).await;
        assert_eq!((code, details), (Code::DependencyAlreadyExists, vec![edge_id.to_string()]));
        assert_eq!(d.refused(Staged(parallel)).await, Code::DependencyAlreadyExists);
        let other = d.open_flow("c d").await;
        d.connect(&other, "c", "d").await;
        let taken = AddDependency { edge_id, ..d.edge(&flow, "b", "a") };
        assert_eq!(d.refused(taken).await, Code::DependencyAlreadyExists);
    }

    async fn an_edge_with_something_wrong_is_refused_with_the_reason(d: &Deployment) {
        let (flow, other) = (d.open_flow("a b c").await, d.open_flow("x").await);
        let edge = d.edge(&flow, "a", "b");
        let itself = d.edge(&flow, "a", "a");
        assert_eq!(d.refused(itself.clone()).await, Code::SelfReferencingEdge);
        assert_eq!(d.refused(Staged(itself)).await, Code::SelfReferencingEdge);
        let lost = AddDependency { flow_id: nowhere(d).id, ..edge.clone() };
        assert_eq!(d.refused(lost.clone()).await, Code::FlowNotFound);
        assert_eq!(d.refused(Staged(lost)).await, Code::FlowNotFound);
        let across = AddDependency { downstream_execution_id: other.id("x"), ..edge.clone() };
        let (code, details) = d.refusal(across.clone()).await;
        assert_eq!((code, details), (Code::ExecutionNotInFlow, vec![other.id("x").to_string()]));
        assert_eq!(d.refused(Staged(across)).await, Code::ExecutionNotInFlow);
        let stale = AddDependency { expected_graph_revision: Some(7), ..edge.clone() };
        let (code, details) = d.refusal(stale.clone()).await;
        assert_eq!((code, details), (Code::StaleGraphRevision, vec!["3".to_owned()]));
        assert_eq!(d.refused(Staged(stale)).await, Code::StaleGraphRevision);
        let right = AddDependency { expected_graph_revision: Some(3), ..edge };
        d.call(right).await;
        d.complete(&flow, "a").await;
        d.take(&flow, "b").await;
        assert_eq!(d.refused(d.edge(&flow, "c", "b")).await, Code::NotRunnable);
        let staged_id = stage(d, &flow, "c", "b").await;
        assert_eq!(d.refused(applied(&flow, staged_id, "b")).await, Code::NotRunnable);
    }

    async fn a_flow_that_is_closed_takes_no_edges(d: &Deployment) {
        let flow = d.open_flow("a b c").await;
        let edge_id = stage(d, &flow, "a", "b").await;
        d.seal(&flow).await;
        assert_eq!(d.refused(d.edge(&flow, "a", "c")).await, Code::FlowSealed);
        assert_eq!(d.refused(Staged(d.edge(&flow, "a", "c"))).await, Code::FlowSealed);
        assert_eq!(d.refused(applied(&flow, edge_id, "b")).await, Code::FlowSealed);
        d.complete(&flow, "a b c").await;
        assert_eq!(d.refused(d.edge(&flow, "a", "c")).await, Code::FlowAlreadyTerminal);
        assert_eq!(d.refused(Staged(d.edge(&flow, "a", "c"))).await, Code::FlowAlreadyTerminal);
        assert_eq!(d.refused(applied(&flow, edge_id, "b")).await, Code::FlowAlreadyTerminal);
        let flow = d.open_flow("a b c").await;
        let edge_id = stage(d, &flow, "a", "b").await;
        d.call(d.cancelling(&flow, "flow_only")).await;
        assert_eq!(d.refused(d.edge(&flow, "a", "c")).await, Code::FlowCancelled);
        assert_eq!(d.refused(Staged(d.edge(&flow, "a", "c"))).await, Code::FlowCancelled);
        assert_eq!(d.refused(applied(&flow, edge_id, "b")).await, Code::FlowCancelled);
    }

    async fn only_a_staged_edge_of_this_downstream_is_applied(d: &Deployment) {
        let (flow, other) = (d.open_flow("a b c").await, d.open_flow("x").await);
        let edge_id = stage(d, &flow, "a", "b").await;
        let unknown = EdgeId::from_uuid(d.new_uuid());
        assert_eq!(d.refused(applied(&flow, unknown, "b")).await, Code::InvalidDependency);
        assert_eq!(d.refused(applied(&flow, edge_id, "c")).await, Code::InvalidDependency);
        let foreign = ApplyDependencyToChild { downstream_execution_id: other.id("x"),
            ..applied(&flow, edge_id, "b") };
        assert_eq!(d.refused(foreign.clone()).await, Code::ExecutionAlreadyInFlow);
        let nobody = ApplyDependencyToChild { downstream_execution_id: d.new_id(), ..foreign };
        assert_eq!(d.refused(nobody.clone()).await, Code::ExecutionNotFound);
        let lost = ApplyDependencyToChild { flow_id: nowhere(d).id, ..nobody };
        assert_eq!(d.refused(lost).await, Code::FlowNotFound);
    }

    async fn a_cycle_is_refused_whatever_the_order_of_its_edges(d: &Deployment) {
        let flow = d.open_flow("a b c").await;
        stage(d, &flow, "a", "b").await;
        d.connect(&flow, "b", "c").await;
        assert_eq!(d.refused(d.edge(&flow, "c", "a")).await, Code::CycleDetected);
        assert_eq!(d.refused(Staged(d.edge(&flow, "c", "a"))).await, Code::CycleDetected);
        assert_eq!(d.refused(d.edge(&flow, "b", "a")).await, Code::CycleDetected);
        let back = d.open_flow("a b c e").await;
        for (from, to) in [("c", "e"), ("b", "c"), ("a", "b")] {
            d.connect(&back, from, to).await;
        }
        assert_eq!(d.refused(d.edge(&back, "e", "a")).await, Code::CycleDetected);
        let join = d.open_flow("a b c e").await;
        for (from, to) in [("a", "b"), ("c", "e"), ("e", "a")] {
            stage(d, &join, from, to).await;
        }
        assert_eq!(d.refused(Staged(d.edge(&join, "b", "c"))).await, Code::CycleDetected);
    }

    async fn a_graph_that_is_too_large_to_be_ordered_is_told_so(d: &Deployment) {
        d.host().watch(false);
        let names: Vec<String> = (0..260).map(|n| format!("n{n}")).collect();
        let flow = d.open_flow(&format!("a b c {}", names.join(" "))).await;
        d.connect(&flow, "a", "b").await;
        for pair in names.windows(2) {
            d.call(Staged(d.edge(&flow, &pair[0], &pair[1]))).await;
        }
        d.host().watch(true);
        let too_large = d.edge(&flow, "b", "n0");
        assert_eq!(d.refused(too_large.clone()).await, Code::GraphTooLarge);
        assert_eq!(d.refused(Staged(too_large)).await, Code::GraphTooLarge);
    }

    async fn an_edge_is_told_by_who_asks_if_nobody_did(d: &Deployment) {
        let many = limits::EDGES_PER_CALL + 1;
        let edges: Vec<String> = (0..many).map(|n| format!("a -> b{n}")).collect();
        let flow = d.flow(&edges.join(", ")).await;
        let id = |place: u64| format!("00000001-0000-8000-8000-{place:012x}");
        let edge = |place: u64| ResolveDependency {
            flow_id: flow.id, edge_id: id(place).parse().expect("an id") };
        assert_eq!(d.refused(edge(0)).await, Code::UpstreamNotTerminal);
        assert_eq!(d.refused(edge(many)).await, Code::InvalidDependency);
        let lost = ResolveDependency { flow_id: nowhere(d).id, ..edge(0) };
        assert_eq!(d.refused(lost).await, Code::FlowNotFound);
        d.complete(&flow, "a").await;
        let edge_state = "satisfied".to_owned();
        let told = ResolveDependencyReply::ResolvedBefore { edge_state: edge_state.clone() };
        assert_eq!(d.call(edge(0)).await, told);
        let told = ResolveDependencyReply::Resolved { edge_state };
        assert_eq!(d.call(edge(many - 1)).await, told);
        assert_eq!(state(d, &flow, &format!("b{}", many - 1)).await, PublicState::Waiting);
        assert_eq!(d.tick().await.edges, 0);
    }

    async fn nothing_is_told_in_a_flow_whose_cancel_frees_nobody(d: &Deployment) {
        let many = limits::EDGES_PER_CALL + 1;
        let edges: Vec<String> = (0..many).map(|n| format!("a -> b{n}")).collect();
        let flow = d.flow(&format!("{}, {}", fillers(), edges.join(", "))).await;
        d.complete(&flow, "a").await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        let id = format!("{:08x}-0000-8000-8000-{:012x}", limits::WALK_BATCH + 1, many - 1);
        let edge = ResolveDependency { flow_id: flow.id, edge_id: id.parse().expect("an id") };
        assert_eq!(d.refused(edge).await, Code::FlowCancelled);
        d.settle().await;
        assert_eq!(d.flow_state(&flow).await, "cancelled: 1 completed, 193 cancelled");
    }

    async fn what_upstreams_allow_is_told(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        d.connect(&flow, "a", "b").await;
        assert_eq!(eligibility(d, d.new_id()).await, "not_found");
        assert_eq!(eligibility(d, flow.id("a")).await, "eligible");
        assert_eq!(eligibility(d, flow.id("b")).await, "blocked_by_dependencies");
        let held = d.take(&flow, "a").await;
        assert_eq!(eligibility(d, flow.id("a")).await, "owned");
        d.call(held.complete(b"")).await;
        assert_eq!(eligibility(d, flow.id("a")).await, "terminal");
        assert_eq!(eligibility(d, flow.id("b")).await, "eligible");
        d.install_secret().await;
        let held = d.take(&flow, "b").await;
        d.suspend_held(&held, &ff_core::contracts::Condition::any(["go"])).await;
        assert_eq!(eligibility(d, held.id).await, "not_runnable");
    }

    async fn who_is_blocked_by_nobody_can_be_promoted(d: &Deployment) {
        let flow = d.open_flow("a b").await;
        let promote = |name: &str| PromoteBlockedToEligible { execution_id: flow.id(name) };
        d.connect(&flow, "a", "b").await;
        let (code, details) = d.refusal(promote("b")).await;
        assert_eq!((code, details), (Code::DepsNotSatisfied, vec!["1".to_owned()]));
        assert_eq!(d.refused(promote("a")).await, Code::NotBlockedByDeps);
        let nobody = PromoteBlockedToEligible { execution_id: d.new_id() };
        assert_eq!(d.refused(nobody).await, Code::ExecutionNotFound);
        let held = d.take(&flow, "a").await;
        assert_eq!(d.refused(promote("a")).await, Code::NotRunnable);
        d.call(held.complete(b"")).await;
        assert_eq!(d.refused(promote("a")).await, Code::Terminal);
        // Somebody wrote around the library.
        plant(d, flow.id("b"), "st", "blocked").await;
        d.call(promote("b")).await;
        assert_eq!(state(d, &flow, "b").await, PublicState::Waiting);
        d.host().clear(&d.partitions).await;
    }

    async fn who_is_blocked_in_a_cancelled_flow_is_not_promoted(d: &Deployment) {
        let flow = d.flow(&format!("{}, a -> b", fillers())).await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        let promote = PromoteBlockedToEligible { execution_id: flow.id("b") };
        assert_eq!(d.refused(promote).await, Code::FlowCancelled);
        d.settle().await;
    }

    async fn each_kind_of_edge_is_satisfied_by_its_ends(d: &Deployment) {
        let text = "a -> s, a -f> f, a -a> e";
        for (end, states) in [
            ("complete", "a completed, s waiting, f skipped, e waiting"),
            ("fail", "a failed, s skipped, f waiting, e waiting"),
            ("cancel", "a cancelled, s skipped, f waiting, e waiting"),
        ] {
            let flow = d.flow(text).await;
            match end {
                "complete" => d.complete(&flow, "a").await,
                "fail" => d.fail(&flow, "a").await,
                _ => drop(d.call(super::cancel::outside(flow.id("a"), "operator_override")).await),
            }
            assert_eq!(d.states(&flow).await, states, "{end}");
        }
        let skipped = d.flow("x -f> a, a -> s, a -f> f, a -a> e").await;
        d.complete(&skipped, "x").await;
        assert_eq!(d.states(&skipped).await,
            "x completed, a skipped, s skipped, f skipped, e waiting");
    }

    async fn a_join_is_free_when_enough_are_satisfied_and_hopeless_when_not(d: &Deployment) {
        let flow = d.flow("a -> any*1, b -> any*1, a -> all, b -> all").await;
        d.fail(&flow, "a").await;
        assert_eq!(d.states(&flow).await,
            "a failed, b waiting, any waiting_children, all skipped");
        d.complete(&flow, "b").await;
        assert_eq!(d.states(&flow).await, "a failed, b completed, any waiting, all skipped");
        let flow = d.flow("a -> two*2, b -> two, c -> two").await;
        d.complete(&flow, "a").await;
        assert_eq!(state(d, &flow, "two").await, PublicState::WaitingChildren);
        d.complete(&flow, "b").await;
        assert_eq!(state(d, &flow, "two").await, PublicState::Waiting);
        d.fail(&flow, "c").await;
        assert_eq!(state(d, &flow, "two").await, PublicState::Waiting);
        let flow = d.flow("a -> two*2, b -> two, c -> two").await;
        d.fail(&flow, "a b").await;
        assert_eq!(state(d, &flow, "two").await, PublicState::Skipped);
    }

    async fn kinds_are_kept_as_they_were_given(d: &Deployment) {
        let flow = d.open_flow("a b c").await;
        d.call(of_kind(d.edge(&flow, "a", "b"), "failure_only")).await;
        d.call(of_kind(d.edge(&flow, "a", "c"), "any_outcome")).await;
        d.fail(&flow, "a").await;
        assert_eq!(d.states(&flow).await, "a failed, b waiting, c waiting");
        let held = d.claim(LANE).await;
        assert_eq!(held.id, flow.id("b"));
    }

    async fn the_time_of_who_has_to_wait_begins_when_it_is_freed(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"execution_deadline_ms":1000}}"#;
        let flow = d.open_flow("a").await;
        let id = d.create().policy(policy).send().await;
        d.call(joining(&flow, id, "b")).await;
        let mut named = flow.clone();
        named.ids.insert("b".to_owned(), id);
        d.connect(&named, "a", "b").await;
        assert_eq!(d.describe(id).await.deadline_at, None);
        d.advance(5000).await;
        d.tick().await;
        d.complete(&named, "a").await;
        assert_eq!(d.describe(id).await.deadline_at, Some(d.now().plus_millis(1000)));
    }

    async fn one_call_wakes_each_lane_once(d: &Deployment) {
        let mut graph = d.graph("a -> b, a -> c, a -> e, a -f> s, a -> g, s -a> h");
        for name in ["c", "h"] {
            graph.create(name).lane = lane("side");
        }
        let flow = d.submit(&graph).await;
        let held = d.take(&flow, "a").await;
        let mut ready = d.listen(Topic::Ready).await;
        d.call(held.complete(b"")).await;
        d.create().lane("last").send().await;
        let heard = [ready.lane().await, ready.lane().await, ready.lane().await];
        assert_eq!(heard, [LANE, "side", "last"]);
    }
}
