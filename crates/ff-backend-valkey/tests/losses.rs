//! Acknowledged work that is gone after a failover or a restart is noticed, and only then.

mod fixture;

use std::sync::Arc;
use std::time::Duration;

use ff_backend_valkey::ValkeyHost;
use ff_core::contracts::{CreateExecution, LaneQuery, TickRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, ExecutionKind};
use ff_script::backend::ScriptBackend;
use ff_script::host::Host;
use ff_script::ids::{IdSource as _, SystemIds};
use ff_script::library::Library;
use ff_test_valkey::{Reply, Valkey, ValkeyCluster, ValkeyOptions};
use fixture::*;

type Backend = ScriptBackend<ValkeyHost>;

async fn open(url: &str) -> Backend {
    let host = ValkeyHost::connect(config(url), Library::current()).await.expect("it connects");
    let counts = PartitionConfig { num_flow_partitions: 16, ..PartitionConfig::default() };
    ScriptBackend::open(Arc::new(host), counts).await.expect("it opens")
}

fn new_execution(partition: Partition) -> CreateExecution {
    CreateExecution::new(ExecutionKind::try_new("work").expect("a valid name"))
        .with_id(ExecutionId::from_parts(partition, SystemIds.ordered()))
}

async fn create(backend: &Backend, partition: Partition) -> ExecutionId {
    let created = backend.create(new_execution(partition)).await.expect("it is acknowledged");
    created.execution_id()
}

/// The last mark that was left on a server, whatever its partition; 0 if there is none.
fn mark_on(server: &Valkey) -> u64 {
    let marks = (0..16).flat_map(|partition| {
        let key = format!("ff:{{fp:{partition}}}:marks");
        match server.command(&["HVALS", &key]) {
            Ok(Reply::List(values)) => values,
            _ => Vec::new(),
        }
    });
    let number = |value: Reply| value.text().split(':').next().and_then(|it| it.parse().ok());
    marks.filter_map(number).max().unwrap_or(0)
}

fn offset(server: &Valkey) -> Option<u64> {
    let info = server.command(&["INFO", "replication"]).ok()?;
    let field = |name: &str| {
        info.text().lines().find_map(|line| line.strip_prefix(name)).map(|it| it.trim().to_owned())
    };
    if field("role:")? == "master" {
        return field("master_repl_offset:")?.parse().ok();
    }
    field("slave_repl_offset:")?.parse().ok()
}

/// A cluster, the partition of a shard that will fail over, and its primary; the replica is three
/// places further on.
struct Failing {
    cluster: ValkeyCluster,
    backend: Backend,
    partition: Partition,
    primary: usize,
}

impl Failing {
    async fn start() -> Self {
        let cluster = ValkeyCluster::start(3, 1).expect("the cluster forms");
        let backend = open(&cluster.url()).await;
        let partition = Partition::flow(5);
        let slot = Partition::flow(5).slot();
        let primary = cluster.master_of(slot).expect("the slot is covered");
        Self { cluster, backend, partition, primary }
    }

    fn node(&self, index: usize) -> &Valkey {
        &self.cluster.nodes()[index]
    }

    /// Creates executions until a mark covers the first of them.
    async fn create_until_marked(&self) -> Vec<ExecutionId> {
        let mut created = Vec::new();
        let before = mark_on(self.node(self.primary));
        while mark_on(self.node(self.primary)) < before + 2 {
            created.push(create(&self.backend, self.partition).await);
        }
        created
    }

    /// Returns when the replica has everything.
    async fn in_step(&self) {
        eventually("the replica in step", || async {
            let (primary, replica) = (self.node(self.primary), self.node(self.primary + 3));
            offset(replica).is_some_and(|replica| offset(primary) == Some(replica))
        })
        .await;
    }

    /// Cuts the replica off: what is written from now on does not reach it.
    async fn cut_off(&self) {
        let replica = self.node(self.primary + 3);
        replica.command(&["CONFIG", "SET", "primaryauth", "wrong"]).expect("it answers");
        let kill = ["CLIENT", "KILL", "TYPE", "replica"];
        self.node(self.primary).command(&kill).expect("it answers");
        eventually("the end of the link", || async {
            let info = replica.command(&["INFO", "replication"]).expect("it answers");
            info.text().contains("master_link_status:down")
        })
        .await;
    }

    /// Kills the primary. Returns when the replica has taken over and was marked.
    async fn fail_over(&mut self) {
        let before = mark_on(self.node(self.primary + 3));
        self.cluster.node_mut(self.primary).kill9().expect("the node can be killed");
        eventually("a mark on the replica", || async {
            mark_on(self.node(self.primary + 3)) > before
        })
        .await;
    }

    async fn lost(&self, ids: &[ExecutionId]) -> usize {
        let mut lost = 0;
        for id in ids {
            let found = self.backend.describe_execution(*id).await.expect("it can be read");
            lost += usize::from(found.is_none());
        }
        lost
    }
}

#[tokio::test]
async fn a_failover_that_lost_acknowledged_work_is_reported() {
    let mut failing = Failing::start().await;
    let kept = failing.create_until_marked().await;
    failing.in_step().await;
    failing.cut_off().await;
    let doomed = failing.create_until_marked().await;
    failing.fail_over().await;
    assert_eq!(failing.lost(&doomed).await, doomed.len(), "the replica never had them");
    assert_eq!(failing.lost(&kept).await, 0);
    let host = failing.backend.host();
    eventually("the report", || async { host.losses() == 1 }).await;
    let losses = host.noticed_losses();
    assert_eq!(losses[0].address, failing.node(failing.primary + 3).address());
    let (from, to) = (losses[0].kept_until.get(), losses[0].acknowledged_until.get());
    assert!(from > 0 && from < to && to <= losses[0].noticed_at.get(), "{losses:?}");
}

#[tokio::test]
async fn a_failover_that_lost_nothing_is_not_reported() {
    let mut failing = Failing::start().await;
    let created = failing.create_until_marked().await;
    failing.in_step().await;
    failing.fail_over().await;
    assert_eq!(failing.lost(&created).await, 0);
    assert_eq!(failing.backend.host().losses(), 0);
}

#[tokio::test]
async fn a_restart_that_lost_everything_is_reported_and_the_lanes_are_made_known_again() {
    let mut server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let backend = open(&server.url()).await;
    create(&backend, Partition::flow(1)).await;
    eventually("a mark", || async { mark_on(&server) > 1 }).await;
    server.kill9().expect("the server can be killed");
    server.restart().expect("the server starts again");
    eventually("the report", || async { backend.host().losses() == 1 }).await;
    assert_eq!(backend.host().noticed_losses()[0].kept_until.get(), 0);
    create(&backend, Partition::flow(1)).await;
    let lanes = backend.list_lanes(LaneQuery::default()).await.expect("they can be read");
    assert_eq!(lanes.lanes.len(), 1);
    let again = open(&server.url()).await;
    assert_eq!(again.host().losses(), 0, "a new server has lost nothing");
}

#[tokio::test]
async fn a_restart_that_lost_nothing_is_not_reported() {
    let append_fsync = Some("always".to_owned());
    let options = ValkeyOptions { append_only: true, append_fsync, ..ValkeyOptions::default() };
    let mut server = Valkey::start(options).expect("the server starts");
    let backend = open(&server.url()).await;
    for _ in 0..3 {
        create(&backend, Partition::flow(1)).await;
        let before = mark_on(&server);
        server.kill9().expect("the server can be killed");
        server.restart().expect("the server starts again");
        eventually("a mark", || async { mark_on(&server) > before }).await;
    }
    assert_eq!(backend.host().losses(), 0);
}

/// What an idle server does by itself must not be answered by marks without end.
#[tokio::test]
async fn upkeep_and_reads_leave_no_marks() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let mut quiet = config(&server.url());
    quiet.check_interval = Duration::from_secs(600);
    let host = ValkeyHost::connect(quiet, Library::current()).await.expect("it connects");
    let counts = PartitionConfig { num_flow_partitions: 16, ..PartitionConfig::default() };
    let backend = ScriptBackend::open(Arc::new(host), counts).await.expect("it opens");
    create(&backend, Partition::flow(1)).await;
    // Nothing else marks, so a mark that stays for four times the pace is the last.
    let mut last = 0;
    while last == 0 || mark_on(&server) != last {
        last = mark_on(&server);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let until = tokio::time::Instant::now() + Duration::from_millis(300);
    while tokio::time::Instant::now() < until {
        backend.tick(Partition::flow(1), TickRequest::once(10)).await.expect("it ticks");
        backend.list_lanes(LaneQuery::default()).await.expect("they can be read");
    }
    assert_eq!(mark_on(&server), last);
}
