//! Flows of ten thousand members: whatever happens to them is done in steps, each of which does a
//! bounded amount of work, and in the end nobody waits for nothing.
//!
//! On Valkey the commands of every step are counted: one call does no more in a large flow than in
//! a small one. The servers are this program's own, and its tests run one after the other on each.

use std::ops::Range;

use ff_conformance::{Deployment, Flow, Graph, HostKind, LANE, run, stop_servers};
use ff_core::limits;
use ff_script::calls::flow_reads::DescribeFlowReply;
use ff_script::calls::graph::{GraphEdge, GraphNode};
use ff_script::value::Value;

const MEMBERS: usize = 10_000;
const UPSTREAMS: usize = 5;
const CANCELLED: usize = 1_000;
/// What one call may do, in commands of the store: some for each of the edges it may follow.
const COMMANDS_MAX: f64 = 2_000.0;

/// A flow under test, and how many steps were counted.
struct Large {
    d: Deployment,
    flow: Flow,
    steps: usize,
}

/// A graph by the places of its members.
fn graph(d: &Deployment, members: usize, upstreams: impl Fn(usize) -> Range<usize>) -> Graph {
    let mut graph = d.graph("");
    for place in 0..members {
        let create = d.create().call();
        let (name, optional, needed) = (format!("n{place}"), false, None);
        graph.nodes.push(GraphNode { name, optional, needed, create });
        for up in upstreams(place) {
            let id = |place: usize| graph.nodes[place].create.execution_id;
            let (kind, name) = ("success_only".to_owned(), String::new());
            let edge =
                GraphEdge { upstream: id(up), downstream: id(place), kind, pass: false, name };
            graph.edges.push(edge);
        }
    }
    graph
}

impl Large {
    /// Submits a graph part by part, as clients do: each brings the edges of its members.
    async fn submit(
        kind: HostKind,
        members: usize,
        upstreams: impl Fn(usize) -> Range<usize>,
    ) -> Self {
        let d = Deployment::start(kind).await;
        d.host().watch(false);
        let graph = graph(&d, members, &upstreams);
        let mut large = Self { d, flow: graph.flow(), steps: 0 };
        let most = limits::GRAPH_BATCH_MAX as usize;
        let (mut node, mut edge, mut known) = (0, 0, 0);
        while node < members || edge < graph.edges.len() {
            let to = members.min(node + most);
            known += (node..to).map(|place| upstreams(place).len()).sum::<usize>();
            let edges = known.min(edge + most);
            let whole = to == members && edges == graph.edges.len();
            large.counted(graph.part(node..to, edge..edges, whole)).await;
            (node, edge) = (to, edges);
        }
        large.settle().await;
        large
    }

    /// Does one call, which must not do too much.
    async fn counted<C: ff_script::call::Call>(&mut self, call: C) -> C::Reply {
        let before = commands(&self.d).await;
        let reply = self.d.call(call).await;
        self.check(before).await;
        reply
    }

    async fn check(&mut self, before: Option<f64>) {
        self.steps += 1;
        if let (Some(before), Some(after)) = (before, commands(&self.d).await) {
            assert!(after - before < COMMANDS_MAX, "{} commands in one call", after - before);
        }
    }

    /// Ticks until nothing is due any more; answers how many it took.
    async fn settle(&mut self) -> usize {
        let begin = self.steps;
        loop {
            let before = commands(&self.d).await;
            let report = self.d.tick().await;
            self.check(before).await;
            if report.next_due_at.is_none_or(|at| at > self.d.now()) {
                return self.steps - begin;
            }
        }
    }

    /// Runs so many members that can be claimed.
    async fn complete(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let claimed = self.d.claimed(self.d.claim_call(LANE, left.min(250))).await;
            left -= claimed.len();
            // One of each lot stands for all.
            let (last, others) = claimed.split_last().expect("more are there");
            for held in others {
                self.d.call(held.complete(b"done")).await;
            }
            self.counted(last.complete(b"done")).await;
        }
    }

    async fn state(&self) -> String {
        self.d.flow_state(&self.flow).await
    }

    async fn end(self, state: &str) {
        assert_eq!(self.state().await, state);
        let DescribeFlowReply::Flow { ended_at, .. } = self.d.described(&self.flow).await;
        assert!(ended_at.is_some(), "it is over");
        self.d.finish().await;
    }
}

/// Commands that a Valkey has run so far, those of functions included.
async fn commands(d: &Deployment) -> Option<f64> {
    if d.kind() != HostKind::Valkey {
        return None;
    }
    let Some(Value::Bytes(info)) = d.host().exec(d.home(), &[b"INFO", b"commandstats"]).await
    else {
        panic!("a Valkey tells of its commands");
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    let calls = info.split("calls=").skip(1).filter_map(|rest| rest.split(',').next());
    Some(calls.filter_map(|count| count.parse::<f64>().ok()).sum())
}

async fn fan_out(kind: HostKind) {
    let mut large = Large::submit(kind, MEMBERS + 1, |place| 0..place.min(1)).await;
    assert_eq!(large.state().await, "open: 1 waiting, 10000 waiting_children");
    large.complete(1).await;
    let freed = limits::EDGES_PER_CALL as usize;
    let some = format!("open: 1 completed, {freed} waiting, {} waiting_children", MEMBERS - freed);
    assert_eq!(large.state().await, some);
    assert!(large.settle().await >= MEMBERS / freed - 1, "it took steps");
    assert_eq!(large.state().await, "open: 1 completed, 10000 waiting");
    large.d.finish().await;
}

async fn fan_in(kind: HostKind) {
    let upstreams = |place| if place == MEMBERS { 0..MEMBERS } else { 0..0 };
    let mut large = Large::submit(kind, MEMBERS + 1, upstreams).await;
    large.complete(MEMBERS - 1).await;
    let last = "open: 1 waiting, 1 waiting_children, 9999 completed";
    assert_eq!(large.state().await, last);
    large.complete(2).await;
    large.end("completed: 10001 completed").await;
}

async fn skip_chain(kind: HostKind) {
    let mut large = Large::submit(kind, MEMBERS, |place| place.saturating_sub(1)..place).await;
    let first = large.d.claim(LANE).await;
    large.counted(first.fail("boom", "transient")).await;
    let skipped = limits::EDGES_PER_CALL as usize;
    let some =
        format!("blocked: 1 failed, {skipped} skipped, {} waiting_children", MEMBERS - 1 - skipped);
    assert_eq!(large.state().await, some);
    assert!(large.settle().await >= MEMBERS / skipped - 1, "it took steps");
    large.end("failed: 1 failed, 9999 skipped").await;
}

async fn many_edges(kind: HostKind) {
    let upstreams = |place: usize| place.saturating_sub(UPSTREAMS)..place;
    let mut large = Large::submit(kind, MEMBERS, upstreams).await;
    let DescribeFlowReply::Flow { node_count, edge_count, sealed, .. } =
        large.d.described(&large.flow).await;
    assert_eq!((node_count, edge_count, sealed), (10_000, 49_985, true));
    large.complete(100).await;
    assert_eq!(large.state().await, "open: 1 waiting, 100 completed, 9899 waiting_children");
    large.d.finish().await;
}

async fn cancel(kind: HostKind) {
    let mut large = Large::submit(kind, CANCELLED, |_| 0..0).await;
    let running = large.d.claimed(large.d.claim_call(LANE, CANCELLED / 4)).await.len();
    assert_eq!(running, CANCELLED / 4);
    large.counted(large.d.cancelling(&large.flow, "cancel_all")).await;
    assert!(large.d.try_claim(LANE).await.is_none(), "nobody is claimed from then on");
    let batch = limits::WALK_BATCH as usize;
    assert!(large.settle().await >= CANCELLED / batch - 1, "it took steps");
    large.end("cancelled: 1000 cancelled").await;
}

/// One after the other: commands are counted for the whole server. A cluster does what one server
/// does; there it is enough to see that no step leaves its slot.
fn play(kind: HostKind) {
    run(async move {
        fan_out(kind).await;
        skip_chain(kind).await;
        cancel(kind).await;
        if kind != HostKind::Cluster {
            fan_in(kind).await;
            many_edges(kind).await;
        }
    });
}

#[test]
fn large_flows_move_in_bounded_steps_on_the_embedded_store() {
    play(HostKind::Embedded);
}

#[test]
fn large_flows_move_in_bounded_steps_on_valkey() {
    play(HostKind::Valkey);
    play(HostKind::Cluster);
    stop_servers();
}
