//! Random graphs on the embedded store: whatever the order in which members end, the flow ends as
//! a plain evaluation of its graph says, which shares no code with the library. Where it is
//! cancelled or a failure ends all, it ends, and nobody is left waiting.
//!
//! `FF_SEEDS` graphs, from seed `FF_SEED` on.

use ff_conformance::model::Dice;
use ff_conformance::{Deployment, Flow, Held, HostKind};
use ff_core::error::{Code, EngineError};
use ff_core::state::PublicState;
use ff_core::types::EdgeId;
use ff_script::calls::claim::ClaimRow;
use ff_script::calls::edge::AddDependency;
use ff_script::calls::flow_reads::DescribeFlowReply;
use ff_test_seed::random_test;

const SEEDS: u64 = 60;

/// One member: what it does if it runs, how many of its edges it needs, and who comes before it.
struct Node {
    succeeds: bool,
    needed: Option<u64>,
    upstreams: Vec<(usize, &'static str)>,
}

const ARROWS: [&str; 4] = ["->", "->", "-f>", "-a>"];

/// Now and then a graph is larger than what one call does, and has a member that all wait for.
fn random_graph(dice: &mut Dice) -> Vec<Node> {
    let most = if dice.chance(8) { 300 } else { 40 };
    let (count, density, hub) = (2 + dice.below(most), 5 + dice.below(60), dice.chance(30));
    let mut nodes: Vec<Node> = Vec::new();
    for at in 0..count as usize {
        let mut upstreams: Vec<(usize, &'static str)> = (at.saturating_sub(12)..at)
            .filter_map(|up| dice.sometimes(density, |dice| (up, *dice.pick(&ARROWS))))
            .collect();
        if hub && at > 0 && upstreams.iter().all(|(up, _)| *up > 0) {
            upstreams.push((0, *dice.pick(&ARROWS)));
        }
        let edges = upstreams.len() as u64;
        let needed = dice.sometimes(30, |dice| 1 + dice.below(edges)).filter(|_| edges > 0);
        nodes.push(Node { succeeds: dice.chance(70), needed, upstreams });
    }
    nodes
}

/// How each member ends.
fn evaluated(nodes: &[Node]) -> Vec<&'static str> {
    let mut ends: Vec<&'static str> = Vec::new();
    for node in nodes {
        let satisfied = |(up, arrow): &&(usize, &str)| match *arrow {
            "->" => ends[*up] == "completed",
            "-f>" => ends[*up] == "failed",
            _ => true,
        };
        let count = node.upstreams.iter().filter(satisfied).count() as u64;
        let needed = node.needed.unwrap_or(node.upstreams.len() as u64);
        ends.push(match (count >= needed, node.succeeds) {
            (false, _) => "skipped",
            (true, true) => "completed",
            (true, false) => "failed",
        });
    }
    ends
}

fn text(nodes: &[Node]) -> String {
    let mut parts = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let needed = node.needed.map(|count| format!("*{count}")).unwrap_or_default();
        parts.push(format!("n{at}{needed}"));
    }
    for (at, node) in nodes.iter().enumerate() {
        parts.extend(node.upstreams.iter().map(|(up, arrow)| format!("n{up} {arrow} n{at}")));
    }
    parts.join(", ")
}

/// Submits the graph in one call, or in parts of any size, with ticks in between.
async fn submit(d: &Deployment, dice: &mut Dice, nodes: &[Node], fails_fast: bool) -> Flow {
    let mut graph = d.graph(&text(nodes));
    graph.head.on_failure = fails_fast.then(|| "fail_fast".to_owned());
    if dice.chance(50) {
        return d.submit(&graph).await;
    }
    let (all, edges) = (graph.nodes.len(), graph.edges.len());
    let (mut node, mut edge) = (0, 0);
    while node < all || edge < edges {
        let next = all.min(node + dice.below(9) as usize);
        let to = if next < all { edge } else { edges.min(edge + dice.below(20) as usize) };
        d.call(graph.part(node..next, edge..to, false)).await;
        (node, edge) = (next, to);
    }
    d.call(graph.part(all..all, edges..edges, true)).await;
    graph.flow()
}

/// Builds the same flow edge by edge, in any order, while its members run.
async fn build(d: &Deployment, dice: &mut Dice, nodes: &[Node]) -> Flow {
    let names: Vec<String> = (0..nodes.len()).map(|at| format!("n{at}")).collect();
    let flow = d.open_flow(&names.join(" ")).await;
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, dice.below(at as u64 + 1) as usize);
    }
    for at in order {
        for (up, arrow) in &nodes[at].upstreams {
            // An edge to an upstream that is over may have ended it.
            if state(d, &flow, at).await == PublicState::Skipped {
                break;
            }
            let kind = match *arrow {
                "->" => "success_only",
                "-f>" => "failure_only",
                _ => "any_outcome",
            };
            let edge = AddDependency {
                dependency_kind: Some(kind.to_owned()),
                edge_id: EdgeId::from_uuid(d.new_uuid()),
                ..d.edge(&flow, &format!("n{up}"), &names[at])
            };
            d.call(edge).await;
        }
        // Who has all of its edges may run before others have theirs.
        if dice.chance(50) && state(d, &flow, at).await == PublicState::Waiting {
            end(d, &flow, nodes, at).await;
        }
    }
    d.seal(&flow).await;
    flow
}

async fn state(d: &Deployment, flow: &Flow, at: usize) -> PublicState {
    d.describe(flow.id(&format!("n{at}"))).await.public_state()
}

/// Runs one member, unless its flow does not let it any more.
async fn end(d: &Deployment, flow: &Flow, nodes: &[Node], at: usize) {
    let grant = d.claim_grant_call(flow.id(&format!("n{at}")));
    match d.try_call(grant.clone()).await {
        Err(EngineError::Refused { code: Code::FlowCancelled, .. }) => {
            d.tick().await;
            return;
        }
        other => drop(other.expect("who waits can be claimed")),
    }
    let claim = d.member_claim(grant.execution_id, grant.grant_id);
    let held = Held::from(ClaimRow::from(d.call(claim).await));
    if nodes[at].succeeds {
        d.call(held.complete(b"")).await;
    } else {
        d.call(held.fail("boom", "transient")).await;
    }
}

/// A cancel: after so many steps, with this policy.
type Cancel = Option<(u64, &'static str)>;

const POLICIES: [&str; 3] = ["cancel_all", "cancel_pending", "flow_only"];

/// Lets members run in any order until none can.
async fn run(d: &Deployment, dice: &mut Dice, flow: &Flow, nodes: &[Node], cancel: Cancel) {
    for step in 0.. {
        if let Some((_, policy)) = cancel.filter(|(at, _)| *at == step) {
            // It may be over by then.
            drop(d.try_call(d.cancelling(flow, policy)).await);
            d.audit().await;
        }
        if dice.chance(30) {
            d.tick().await;
        }
        let rows = d.members(flow).await;
        let waits = |at: &usize| rows[*at].public_state == PublicState::Waiting;
        let ready: Vec<usize> = (0..nodes.len()).filter(waits).collect();
        if !ready.is_empty() {
            end(d, flow, nodes, *dice.pick(&ready)).await;
        } else if d.tick().await.total() == 0 {
            return;
        }
    }
}

fn expected(ends: &[&str]) -> String {
    let lines: Vec<String> =
        ends.iter().enumerate().map(|(at, end)| format!("n{at} {end}")).collect();
    lines.join(", ")
}

async fn play(seed: u64) {
    let mut dice = Dice::new(seed);
    let d = Deployment::start(HostKind::Embedded).await;
    d.host().watch(false);
    let mut nodes = random_graph(&mut dice);
    let (dynamic, fails_fast) = (dice.chance(40) && nodes.len() < 50, dice.chance(20));
    let flow = if dynamic {
        nodes.iter_mut().for_each(|node| node.needed = None);
        build(&d, &mut dice, &nodes).await
    } else {
        submit(&d, &mut dice, &nodes, fails_fast).await
    };
    d.audit().await;
    let cancel = dice.sometimes(30, |dice| (dice.below(8), *dice.pick(&POLICIES)));
    run(&d, &mut dice, &flow, &nodes, cancel).await;
    if cancel.is_none() && (dynamic || !fails_fast) {
        let ends = evaluated(&nodes);
        assert_eq!(d.states(&flow).await, expected(&ends), "{}", text(&nodes));
        let state = if ends.contains(&"failed") { "failed:" } else { "completed:" };
        assert!(d.flow_state(&flow).await.starts_with(state), "{}", d.flow_state(&flow).await);
    }
    let DescribeFlowReply::Flow { ended_at, .. } = d.described(&flow).await;
    assert!(ended_at.is_some(), "{} {}", d.states(&flow).await, text(&nodes));
    d.finish().await;
}

#[test]
fn a_flow_ends_as_its_graph_says_whatever_the_order() {
    let test = random_test!();
    for seed in test.seeds(0..SEEDS) {
        println!("{}", test.replay(seed));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(play(seed));
    }
}
