//! Children: what a running execution adds to its flow, counts and waits for.

use ff_conformance::record::{events_of, listed_in, record};
use ff_conformance::{Deployment, Graph, LANE, LEASE_MS, conformance, instance};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::{BlockingReason, PublicState};
use ff_core::types::ExecutionId;
use ff_script::calls::children::AddChildrenReply;
use ff_script::calls::claim::AttemptKind;
use ff_script::calls::edge::PromoteBlockedToEligible;
use ff_script::calls::flow_reads::DescribeFlowReply;
use ff_script::calls::pause::MoveToWaitingChildrenReply;
use ff_script::host::Topic;

use super::cancel::outside;
use super::replay::replay;

async fn state(d: &Deployment, id: ExecutionId) -> PublicState {
    d.describe(id).await.public_state()
}

/// Several children without edges.
fn names(count: u64) -> String {
    (0..count).map(|number| format!("c{number}")).collect::<Vec<_>>().join(", ")
}

conformance! {
    async fn a_parent_goes_on_in_the_call_that_ends_its_last_child(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b").await;
        let reply = d.call(held.wait_for_children()).await;
        let public_state = PublicState::WaitingChildren;
        assert_eq!(reply, MoveToWaitingChildrenReply::Moved { public_state });
        let snapshot = d.describe(held.id).await;
        assert_eq!(snapshot.state.blocking_reason, BlockingReason::WaitingForChildren);
        assert_eq!(snapshot.blocking_detail.as_deref(), Some("2 of 2 children are not done"));
        d.complete(&flow, "a").await;
        assert_eq!(state(d, held.id).await, PublicState::WaitingChildren);
        let last = d.take(&flow, "b").await;
        let mut ready = d.listen(Topic::Ready).await;
        d.call(last.complete(b"b")).await;
        assert_eq!(ready.lane().await, LANE);
        let dump = d.dump().await;
        let members = format!("f:{}:m", flow.id);
        assert_eq!(listed_in(&dump, held.id), [members.as_str(), "q:default:tests:work"]);
        assert_eq!(events_of(&dump, held.id).last().map(String::as_str), Some("children_done 0"));
        let resumed = d.claim(LANE).await;
        assert_eq!((resumed.id, resumed.attempt_id), (held.id, held.attempt_id));
        assert_eq!(resumed.row.attempt_kind, AttemptKind::Resumed);
        assert_eq!(resumed.told_children(), r#"a completed "a", b completed "b""#);
        d.call(resumed.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
    }

    async fn a_parent_whose_children_are_done_already_goes_on_at_once(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b").await;
        d.complete(&flow, "a b").await;
        let reply = d.call(held.wait_for_children()).await;
        let public_state = PublicState::Waiting;
        assert_eq!(reply, MoveToWaitingChildrenReply::Moved { public_state });
        let resumed = d.claim(LANE).await;
        assert_eq!(resumed.attempt_id, held.attempt_id);
        assert_eq!(resumed.told_children(), r#"a completed "a", b completed "b""#);
    }

    async fn however_a_child_ends_its_parent_goes_on_and_is_told(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut graph = d.graph("a -> b, c, e");
        graph.create("e").deadline_at = Some(d.now().plus_millis(1000));
        let flow = graph.flow();
        assert_eq!(d.adopt(&held, &graph).await, 4);
        d.call(held.wait_for_children()).await;
        d.fail(&flow, "a").await;
        d.call(outside(flow.id("c"), "operator_override")).await;
        assert_eq!(state(d, held.id).await, PublicState::WaitingChildren);
        d.advance(1000).await;
        d.tick().await;
        let resumed = d.resume(held.id).await;
        let told = "a failed, b skipped, c cancelled, e expired";
        let mut parts: Vec<String> =
            resumed.told_children().split(", ").map(str::to_owned).collect();
        parts.sort();
        assert_eq!(parts.join(", "), told);
    }

    async fn children_that_end_in_one_tick_are_all_counted(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut graph = d.graph("a, b, c");
        for node in &mut graph.nodes {
            node.create.deadline_at = Some(d.now().plus_millis(1000));
        }
        d.adopt(&held, &graph).await;
        d.call(held.wait_for_children()).await;
        d.advance(1000).await;
        assert_eq!(d.tick().await.expired, 3);
        assert_eq!(state(d, held.id).await, PublicState::Waiting);
    }

    async fn a_repetition_adds_nothing_and_tells_what_was_new(d: &Deployment) {
        let held = d.create_and_claim().await;
        let graph = d.graph("a -> b");
        assert_eq!(d.adopt(&held, &graph).await, 2);
        assert_eq!(d.adopt(&held, &graph).await, 0);
        let mut more = d.graph("a -> b, c");
        for name in ["a", "b"] {
            more.create(name).execution_id = graph.flow().id(name);
        }
        more.edges[0].upstream = graph.flow().id("a");
        more.edges[0].downstream = graph.flow().id("b");
        let reply = d.call(held.add_children(&more)).await;
        let added = ff_script::wire::List(vec![more.flow().id("c")]);
        assert_eq!(reply, AddChildrenReply::Added { flow_id: graph.flow_id, added });
        assert_eq!(d.flow_state(&graph.flow()).await, "running: 1 active, 1 waiting_children, \
            2 waiting");
    }

    async fn a_retried_parent_creates_nothing_twice(d: &Deployment) {
        let policy = r#"{"retry_policy":{"max_retries":3,"backoff":{"type":"fixed","delay_ms":0}}}"#;
        d.create().policy(policy).send().await;
        let held = d.claim(LANE).await;
        let graph = d.graph("a, b");
        d.adopt(&held, &graph).await;
        d.complete(&graph.flow(), "a").await;
        d.call(held.fail("boom", "transient")).await;
        let again = d.take(&graph.flow().with(&graph), "b").await;
        d.call(again.complete(b"b")).await;
        let retried = d.claim(LANE).await;
        assert_eq!((retried.id, retried.row.attempt_index.get()), (held.id, 1));
        assert_eq!(retried.told_children(), r#"a completed "a", b completed "b""#);
        assert_eq!(d.adopt(&retried, &graph).await, 0);
        assert_eq!(d.flow_state(&graph.flow()).await, "running: 1 active, 2 completed");
    }

    async fn the_same_name_with_other_content_is_a_conflict(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut graph = d.graph("a, b");
        graph.create("a").content_digest = "one".to_owned();
        d.adopt(&held, &graph).await;
        graph.create("a").content_digest = "other".to_owned();
        let (code, details) = d.refusal(held.add_children(&graph)).await;
        assert_eq!(code, Code::IdempotencyConflict);
        assert_eq!(details, [graph.flow().id("a").to_string()]);
        let mut other = d.graph("x");
        other.create("x").execution_id = d.create_one().await;
        assert_eq!(d.refused(held.add_children(&other)).await, Code::IdempotencyConflict);
        let mut twice = d.graph("x, y");
        twice.create("y").execution_id = twice.flow().id("x");
        assert_eq!(d.refused(held.add_children(&twice)).await, Code::IdempotencyConflict);
    }

    async fn a_child_of_a_child_is_counted_by_its_own_parent(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a").await;
        d.call(held.wait_for_children()).await;
        let child = d.take(&flow, "a").await;
        let graph = d.graph("aa");
        assert_eq!(d.adopt(&child, &graph).await, 1);
        d.call(child.wait_for_children()).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting, 2 waiting_children");
        d.complete(&graph.flow(), "aa").await;
        assert_eq!(state(d, held.id).await, PublicState::WaitingChildren, "a is not over");
        let child = d.resume(flow.id("a")).await;
        assert_eq!(child.told_children(), r#"aa completed "aa""#);
        d.call(child.complete(b"a")).await;
        assert_eq!(d.resume(held.id).await.told_children(), r#"a completed "a""#);
    }

    async fn a_parent_may_end_before_its_children(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b").await;
        d.call(held.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 completed, 2 waiting");
        d.complete(&flow, "a").await;
        assert_eq!(record(&d.dump().await, held.id)["oc"], "1");
        d.complete(&flow, "b").await;
        assert!(!record(&d.dump().await, held.id).contains_key("oc"));
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
    }

    async fn a_parent_that_is_cancelled_alone_leaves_its_children(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b").await;
        d.call(held.wait_for_children()).await;
        d.call(outside(held.id, "operator_override")).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 cancelled, 2 waiting");
        d.complete(&flow, "a b").await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 cancelled, 2 completed");
    }

    async fn a_parent_that_waits_keeps_its_deadline_and_the_time_of_its_attempt(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":1000}}"#;
        d.create().policy(policy).send().await;
        let held = d.claim(LANE).await;
        let flow = d.begin_family(&held, "a").await;
        d.advance(300).await;
        d.call(held.wait_for_children()).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(state(d, held.id).await, PublicState::WaitingChildren);
        d.complete(&flow, "a").await;
        let resumed = d.claim(LANE).await;
        assert_eq!(resumed.row.attempt_timeout_at, Some(d.now().plus_millis(700)));
        d.call(resumed.complete(b"")).await;
        let at = d.now().plus_millis(1000);
        d.create().deadline_at(at).send().await;
        let held = d.claim(LANE).await;
        let flow = d.begin_family(&held, "a").await;
        d.call(held.wait_for_children()).await;
        d.set_time(at.get()).await;
        assert_eq!(d.tick().await.expired, 1);
        assert_eq!(d.flow_state(&flow).await, "open: 1 expired, 1 waiting");
        d.complete(&flow, "a").await;
        assert_eq!(d.flow_state(&flow).await, "failed: 1 completed, 1 expired");
    }

    async fn a_reclaimed_parent_is_told_of_its_children(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b").await;
        d.complete(&flow, "a").await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        let mut call = d.claim_call(LANE, 2);
        call.worker_instance_id = instance("other");
        let taken = d.claimed(call).await;
        let parent = taken.iter().find(|taken| taken.id == held.id).expect("its lease has lapsed");
        assert_eq!(parent.told_children(), r#"a completed "a", b waiting"#);
        d.call(parent.wait_for_children()).await;
        assert_eq!(state(d, held.id).await, PublicState::WaitingChildren);
    }

    async fn results_that_do_not_fit_are_read_by_reference(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b, c").await;
        let most = limits::CLAIM_INPUTS_BYTES as usize;
        for (name, bytes) in [("a", most - 2), ("b", 3), ("c", 2)] {
            let child = d.take(&flow, name).await;
            d.call(child.complete(&vec![b'x'; bytes])).await;
        }
        d.call(held.wait_for_children()).await;
        let told = d.claim(LANE).await.row.children.0;
        let sizes = told.iter().map(|child| child.bytes_base64.as_ref().map(|bytes| bytes.0.len()));
        assert_eq!(sizes.collect::<Vec<_>>(), [Some(most - 2), None, Some(2)]);
        assert!(told.iter().all(|child| child.is_completed()));
    }

    async fn children_wait_where_workers_of_their_parents_namespace_look(d: &Deployment) {
        // The namespace that their caller takes them for has such a queue already.
        d.create().send().await;
        d.claim(LANE).await;
        d.create().kind("split").namespace("shop").send().await;
        let parent = d.claim(LANE).await;
        let flow = d.begin_family(&parent, "a").await;
        assert_eq!(d.claim(LANE).await.id, flow.id("a"));
    }

    async fn an_execution_in_no_flow_becomes_the_first_member_of_its_own(d: &Deployment) {
        let new = d.create().kind("split").namespace("shop").policy(r#"{"retention_ms":5000}"#);
        new.send().await;
        let held = d.claim(LANE).await;
        let flow = d.begin_family(&held, "a, b").await;
        let DescribeFlowReply::Flow { kind, namespace, sealed, node_count, started_at, .. } =
            d.described(&flow).await;
        assert_eq!((kind.as_str(), namespace.as_str()), ("split", "shop"));
        assert_eq!((sealed, node_count, started_at), (true, 3, Some(d.now())));
        assert_eq!(d.states(&flow).await, " active, a waiting, b waiting");
        assert_eq!(d.describe(flow.id("a")).await.namespace.as_str(), "shop", "its parent's");
        d.complete(&flow, "a b").await;
        d.call(held.complete(b"")).await;
        d.advance(4999).await;
        d.settle().await;
        assert!(d.try_describe(held.id).await.is_some());
        d.advance(1 + limits::PURGED_REMEMBERED_MS).await;
        d.settle().await;
        for id in [held.id, flow.id("a"), flow.id("b")] {
            assert_eq!(d.try_describe(id).await, None);
        }
        let home = format!("{}:", d.home().key());
        let left: Vec<String> = d.dump().await.keys()
            .map(|key| String::from_utf8_lossy(key).replace(&home, ""))
            .filter(|key| key.starts_with("x:") || key.starts_with("f:"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    }

    async fn a_family_is_kept_while_the_idempotency_key_of_its_parent_counts(d: &Deployment) {
        let id = d.new_id();
        let policy = r#"{"retention_ms":0}"#;
        let new = || d.create().id(id).policy(policy).idempotency("key", "digest").dedup_ms(9000);
        new().send().await;
        let held = d.claim(LANE).await;
        let flow = d.begin_family(&held, "a").await;
        d.complete(&flow, "a").await;
        d.call(held.complete(b"")).await;
        d.advance(8999).await;
        d.settle().await;
        assert_eq!(state(d, held.id).await, PublicState::Completed);
        d.advance(1).await;
        d.settle().await;
        assert_eq!(d.try_describe(held.id).await, None);
    }

    async fn more_children_than_one_execution_may_have_are_refused(d: &Deployment) {
        let held = d.create_and_claim().await;
        let graph = d.graph(&names(limits::CHILDREN_MAX));
        for nodes in graph.nodes.chunks(limits::GRAPH_BATCH_MAX as usize) {
            let part = Graph { nodes: nodes.to_vec(), ..graph.clone() };
            assert_eq!(d.adopt(&held, &part).await, nodes.len());
        }
        assert_eq!(d.refused(held.add_children(&d.graph("one"))).await, Code::GraphTooLarge);
        d.call(held.delay(d.now())).await;
        let resumed = d.resume(held.id).await;
        assert_eq!(resumed.row.children.0.len() as u64, limits::CHILDREN_MAX);
    }

    async fn a_flow_that_is_full_takes_no_children(d: &Deployment) {
        let flow = d.flow("a").await;
        let held = d.take(&flow, "a").await;
        let key = format!("{}:f:{}", d.home().key(), flow.id);
        for (field, most) in [("nodes", limits::FLOW_MEMBERS_MAX), ("edges", limits::FLOW_EDGES_MAX)] {
            let (key, field) = (key.as_bytes(), field.as_bytes());
            let most = most.to_string();
            let full: [&[u8]; 4] = [b"HSET", key, field, most.as_bytes()];
            d.host().exec(d.home(), &full).await.expect("every store has the command");
            let code = d.refused(held.add_children(&d.graph("x -> y"))).await;
            assert_eq!(code, Code::GraphTooLarge);
            let right: [&[u8]; 4] = [b"HSET", key, field, if field == b"nodes" { b"1" } else { b"0" }];
            d.host().exec(d.home(), &right).await.expect("every store has the command");
        }
    }

    async fn only_who_holds_the_lease_may_add_children(d: &Deployment) {
        let held = d.create_and_claim().await;
        let graph = d.graph("a");
        let fenced = |fence: [&str; 3]| {
            let mut args: Vec<Vec<u8>> = super::scenario::encode(&held.add_children(&graph));
            for (place, part) in fence.iter().enumerate() {
                args[place + 1] = part.as_bytes().to_vec();
            }
            args
        };
        let [_, lease, epoch, attempt] = held.fence();
        for (fence, code) in [
            (["", "", ""], "fence_required"),
            ([&lease, "", &attempt], "partial_fence_triple"),
            ([&lease, "7", &attempt], "stale_lease"),
        ] {
            let args = fenced(fence);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            assert_eq!(d.raw("ff_add_children", &args).await.code(), code);
        }
        let mut unknown = held.add_children(&graph);
        unknown.execution_id = d.new_id();
        assert_eq!(d.refused(unknown).await, Code::ExecutionNotFound);
        assert_eq!(epoch, "1");
        d.call(super::between::revoke(held.id, None)).await;
        assert_eq!(d.refused(held.add_children(&graph)).await, Code::LeaseRevoked);
        let held = d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        assert_eq!(d.refused(held.add_children(&graph)).await, Code::LeaseExpired);
        d.tick().await;
        let held = d.claim(LANE).await;
        d.call(held.complete(b"")).await;
        assert_eq!(d.refused(held.add_children(&graph)).await, Code::ExecutionNotActive);
    }

    async fn what_is_wrong_with_a_child_is_refused(d: &Deployment) {
        let held = d.create_and_claim().await;
        let refused = async |change: fn(&mut Graph)| {
            let mut graph = d.graph("a -> b");
            change(&mut graph);
            d.refused(held.add_children(&graph)).await
        };
        let policy = |graph: &mut Graph| {
            graph.create("b").policy_json = "[".to_owned();
        };
        assert_eq!(refused(policy).await, Code::InvalidPolicyJson);
        let quota = |graph: &mut Graph| {
            let id = "00000000-0000-4000-8000-000000000001";
            graph.create("b").policy_json = format!(r#"{{"quota":{{"policy_id":"{id}"}}}}"#);
        };
        assert_eq!(refused(quota).await, Code::QuotaPolicyNotFound);
        let capability = |graph: &mut Graph| {
            graph.create("b").policy_json =
                r#"{"routing_requirements":{"required_capabilities":["a b"]}}"#.to_owned();
        };
        assert_eq!(refused(capability).await, Code::InvalidCapabilities);
        let tag = |graph: &mut Graph| {
            graph.create("b").tags_json = r#"{"A":"b"}"#.to_owned();
        };
        assert_eq!(refused(tag).await, Code::InvalidTagKey);
        let needed = |graph: &mut Graph| graph.node("b").needed = Some(2);
        assert_eq!(refused(needed).await, Code::InvalidInput);
        let key = |graph: &mut Graph| {
            graph.create("b").idempotency_key = Some("key".parse().expect("a key"));
        };
        assert_eq!(refused(key).await, Code::InvalidInput);
        let large = |graph: &mut Graph| {
            graph.create("b").payload = vec![0; limits::PAYLOAD_BYTES_MAX as usize + 1];
        };
        assert_eq!(refused(large).await, Code::PayloadTooLarge);
        let none = |graph: &mut Graph| graph.nodes.clear();
        assert_eq!(refused(none).await, Code::InvalidInput);
        let elsewhere = |graph: &mut Graph| {
            let id = graph.edges[0].upstream;
            let other = ff_core::partition::Partition::flow(id.partition().index + 1);
            graph.edges[0].upstream = ExecutionId::from_parts(other, id.uuid());
        };
        assert_eq!(refused(elsewhere).await, Code::InvalidInput);
        let itself = |graph: &mut Graph| {
            graph.edges[0].upstream = graph.edges[0].downstream;
        };
        assert_eq!(refused(itself).await, Code::SelfReferencingEdge);
        let backwards = |graph: &mut Graph| graph.nodes.reverse();
        assert_eq!(refused(backwards).await, Code::CycleDetected);
        let too_many = d.graph(&names(limits::GRAPH_BATCH_MAX + 1));
        assert_eq!(d.refused(held.add_children(&too_many)).await, Code::InvalidInput);
        assert_eq!(record(&d.dump().await, held.id).get("fl"), None, "nothing was written");
    }

    async fn a_flow_of_that_id_that_is_another_is_a_conflict(d: &Deployment) {
        let held = d.create_and_claim().await;
        let created = d.create_flow();
        let mut graph = d.graph("a");
        graph.flow_id = created.flow_id;
        d.call(created).await;
        assert_eq!(d.refused(held.add_children(&graph)).await, Code::IdempotencyConflict);
    }

    async fn a_parent_that_waits_cannot_be_promoted(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b").await;
        d.call(held.wait_for_children()).await;
        let promote = PromoteBlockedToEligible { execution_id: held.id };
        let refused = d.refusal(promote).await;
        assert_eq!(refused, (Code::DepsNotSatisfied, vec!["2".to_owned()]));
        assert_eq!(d.flow_state(&flow).await, "open: 1 waiting_children, 2 waiting");
    }

    async fn a_parent_that_somebody_made_wait_for_nobody_is_promoted(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a").await;
        d.call(held.wait_for_children()).await;
        let key = format!("{}:x:{}", d.home().key(), held.id.uuid());
        let forget: [&[u8]; 3] = [b"HDEL", key.as_bytes(), b"oc"];
        d.host().exec(d.home(), &forget).await.expect("every store has the command");
        d.call(PromoteBlockedToEligible { execution_id: held.id }).await;
        assert_eq!(d.claim(LANE).await.id, held.id);
        d.complete(&flow, "a").await;
    }

    async fn a_replayed_parent_runs_again_and_its_children_stay(d: &Deployment) {
        let held = d.create_and_claim().await;
        let graph = d.graph("a, b");
        let flow = graph.flow();
        d.adopt(&held, &graph).await;
        d.call(held.wait_for_children()).await;
        d.call(outside(held.id, "operator_override")).await;
        d.complete(&flow, "a").await;
        d.call(replay(held.id)).await;
        assert_eq!(state(d, held.id).await, PublicState::Waiting, "it waits for nobody yet");
        let mut call = d.claim_call(LANE, 2);
        call.lease_ttl_ms = LEASE_MS;
        let taken = d.claimed(call).await;
        let again = taken.iter().find(|taken| taken.id == held.id).expect("it runs again");
        assert_eq!(again.told_children(), r#"a completed "a", b waiting"#);
        assert_eq!(d.adopt(again, &graph).await, 0);
        d.call(again.wait_for_children()).await;
        let child = taken.iter().find(|taken| taken.id == flow.id("b")).expect("a child");
        d.call(child.complete(b"b")).await;
        let resumed = d.resume(held.id).await;
        d.call(resumed.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
    }

    async fn a_parent_that_still_waits_counts_a_replayed_child_as_open_again(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a, b").await;
        d.call(held.wait_for_children()).await;
        d.fail(&flow, "a").await;
        d.call(replay(flow.id("a"))).await;
        d.complete(&flow, "b").await;
        assert_eq!(state(d, held.id).await, PublicState::WaitingChildren);
        d.complete(&flow, "a").await;
        assert_eq!(state(d, held.id).await, PublicState::Waiting, "nobody took it yet");
        d.call(d.claim_grant_call(held.id)).await;
        d.call(replay(flow.id("b"))).await;
        assert_eq!(state(d, held.id).await, PublicState::WaitingChildren, "so it waits again");
        d.complete(&flow, "b").await;
        let resumed = d.resume(held.id).await;
        assert_eq!(resumed.told_children(), r#"a completed "a", b completed "b""#);
    }

    async fn a_parent_that_went_on_keeps_what_it_has(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a").await;
        d.call(held.wait_for_children()).await;
        d.complete(&flow, "a").await;
        let resumed = d.resume(held.id).await;
        d.call(replay(flow.id("a"))).await;
        assert_eq!(state(d, held.id).await, PublicState::Active);
        d.call(resumed.complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "open: 1 completed, 1 waiting");
        d.complete(&flow, "a").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 2 completed");
        d.call(replay(flow.id("a"))).await;
        assert_eq!(state(d, held.id).await, PublicState::Completed);
        assert_eq!(d.flow_state(&flow).await, "open: 1 completed, 1 waiting");
    }

    async fn children_that_a_replay_lets_wait_again_are_open_again(d: &Deployment) {
        let held = d.create_and_claim().await;
        let flow = d.begin_family(&held, "a -> b -> c").await;
        d.call(held.wait_for_children()).await;
        d.fail(&flow, "a").await;
        assert_eq!(state(d, held.id).await, PublicState::Waiting);
        d.call(replay(flow.id("a"))).await;
        assert_eq!(state(d, held.id).await, PublicState::WaitingChildren);
        d.complete(&flow, "a b c").await;
        assert_eq!(state(d, held.id).await, PublicState::Waiting);
    }
}
