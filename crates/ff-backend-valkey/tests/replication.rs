//! `durability = replica`: what was acknowledged outlives its primary, and what no replica has is
//! never acknowledged.

mod fixture;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ff_backend_valkey::{Durability, ValkeyConfig, ValkeyHost};
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::contracts::CreateExecution;
use ff_core::engine_backend::roles::*;
use ff_core::error::EngineError;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, ExecutionKind};
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host};
use ff_script::ids::{IdSource as _, SystemIds};
use ff_script::library::Library;
use ff_test_valkey::{Link, Reply, Valkey, ValkeyCluster, ValkeyOptions};
use fixture::*;

type Backend = ScriptBackend<ValkeyHost>;

const CALLERS: usize = 16;

fn replicated(url: &str, durability: Durability) -> ValkeyConfig {
    let mut config = config(url).with_durability(durability);
    config.replica_timeout = Duration::from_millis(700);
    config
}

async fn open(url: &str, durability: Durability) -> Backend {
    let config = replicated(url, durability);
    let host = ValkeyHost::connect(config, Library::current()).await.expect("it connects");
    let counts = PartitionConfig { num_flow_partitions: 16, ..PartitionConfig::default() };
    ScriptBackend::open(Arc::new(host), counts).await.expect("it opens")
}

fn new_execution(partition: Partition) -> CreateExecution {
    CreateExecution::new(ExecutionKind::try_new("work").expect("a valid name"))
        .with_id(ExecutionId::from_parts(partition, SystemIds.ordered()))
}

fn kind_of(error: &EngineError) -> Option<BackendErrorKind> {
    match error.through() {
        EngineError::Backend(error) => Some(error.kind),
        _ => None,
    }
}

/// A primary with a replica, each behind a way that can be held up and led elsewhere.
struct Pair {
    primary: Valkey,
    replica: Valkey,
    /// From the replica to its primary.
    replicating: Link,
    /// From us to whoever is primary.
    calling: Link,
}

impl Pair {
    fn start() -> Self {
        let primary = Valkey::start(ValkeyOptions::default()).expect("the server starts");
        let replicating = Link::to(primary.port()).expect("a port is free");
        let calling = Link::to(primary.port()).expect("a port is free");
        let replica = Valkey::start_replica(&primary, replicating.port(), ValkeyOptions::default());
        Self { primary, replica: replica.expect("the replica follows"), replicating, calling }
    }

    fn url(&self) -> String {
        format!("valkey://127.0.0.1:{}/", self.calling.port())
    }

    /// Kills the primary; what was on its way to the replica is lost, and the replica takes over.
    fn fail_over(&mut self) {
        self.primary.kill9().expect("the server can be killed");
        self.replicating.lead_to(self.primary.port());
        self.replica.promote().expect("the replica answers");
        self.calling.lead_to(self.replica.port());
    }
}

/// Many callers that create executions and remember those that were acknowledged.
struct Load {
    acknowledged: Arc<Mutex<Vec<ExecutionId>>>,
    refused: Arc<Mutex<Vec<EngineError>>>,
    over: Arc<AtomicBool>,
    callers: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn on(backend: &Arc<Backend>, partitions: &[u16]) -> Self {
        let (acknowledged, refused) = (Arc::default(), Arc::default());
        let over = Arc::new(AtomicBool::new(false));
        let callers = (0..CALLERS).map(|place| {
            let partition = Partition::flow(partitions[place % partitions.len()]);
            let (backend, over) = (Arc::clone(backend), Arc::clone(&over));
            let (acknowledged, refused) = (Arc::clone(&acknowledged), Arc::clone(&refused));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    match backend.create(new_execution(partition)).await {
                        Ok(created) => remember(&acknowledged, created.execution_id()),
                        Err(error) => remember(&refused, error),
                    }
                }
            })
        });
        let callers = callers.collect();
        Self { acknowledged, refused, over, callers }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().expect("no panic").len()
    }

    async fn reaches(&self, count: usize) {
        eventually("acknowledged executions", || async { self.count() >= count }).await;
    }

    /// Returns when a caller was refused for this reason, from now on or since the last time.
    async fn was_told(&self, kind: BackendErrorKind) {
        let forgotten = || std::mem::take(&mut *self.refused.lock().expect("no panic"));
        let told = || forgotten().iter().any(|error| kind_of(error) == Some(kind));
        eventually("a refusal", || async { told() }).await;
    }

    async fn stop(self) -> Vec<ExecutionId> {
        self.over.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.expect("no caller panics");
        }
        let mut acknowledged = self.acknowledged.lock().expect("no panic");
        std::mem::take(&mut acknowledged)
    }
}

fn remember<T>(all: &Mutex<Vec<T>>, one: T) {
    all.lock().expect("no panic").push(one);
}

async fn lost(backend: &Backend, ids: &[ExecutionId]) -> usize {
    let mut lost = 0;
    for id in ids {
        let found = backend.describe_execution(*id).await.expect("it can be read");
        lost += usize::from(found.is_none());
    }
    lost
}

/// The last mark on a server, of whomever.
fn marks_on(server: &Valkey) -> usize {
    let Ok(Reply::List(values)) = server.command(&["HVALS", "ff:{fp:15}:marks"]) else { return 0 };
    let number = |value: &Reply| value.text().split(':').next().and_then(|it| it.parse().ok());
    values.iter().filter_map(number).max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_while_the_replica_lags_loses_acknowledged_work_and_is_noticed() {
    let mut pair = Pair::start();
    let backend = Arc::new(open(&pair.url(), Durability::Primary).await);
    let load = Load::on(&backend, &[3]);
    load.reaches(100).await;
    pair.replicating.hold();
    let (before, marks) = (load.count(), marks_on(&pair.primary));
    load.reaches(before + 100).await;
    eventually("marks", || async { marks_on(&pair.primary) > marks + 2 }).await;
    pair.fail_over();
    eventually("the report", || async { backend.host().losses() > 0 }).await;
    let acknowledged = load.stop().await;
    let lost = lost(&backend, &acknowledged).await;
    println!("{lost} of {} acknowledged executions are lost", acknowledged.len());
    assert!(lost >= 100, "{lost} are lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_while_the_replica_lags_loses_nothing_that_a_replica_had_to_confirm() {
    let mut pair = Pair::start();
    let backend = Arc::new(open(&pair.url(), Durability::Replica).await);
    let load = Load::on(&backend, &[3]);
    load.reaches(100).await;
    pair.replicating.hold();
    load.was_told(BackendErrorKind::Resource).await;
    let before = load.count();
    pair.fail_over();
    // The new primary has no replica: it is read from, and takes no work.
    load.was_told(BackendErrorKind::Resource).await;
    let acknowledged = load.stop().await;
    assert!(acknowledged.len() >= 100 && acknowledged.len() == before);
    assert_eq!(lost(&backend, &acknowledged).await, 0);
    eventually("the new primary's trouble", || async {
        backend.host().replication_trouble().is_some()
    })
    .await;
    assert_eq!(backend.host().losses(), 0, "nothing that was acknowledged is missed");

    // With a replica of its own it takes work again, by itself.
    let next = Valkey::start_replica(&pair.replica, pair.replica.port(), ValkeyOptions::default());
    let _next = next.expect("the replica follows");
    eventually("work is taken again", || async {
        backend.create(new_execution(Partition::flow(3))).await.is_ok()
    })
    .await;
}

/// Holds the replica up, does something else, and calls: the call is done and not confirmed. A mark
/// of the host's own may be kept back before it, so that it is not sent; then all is done again.
async fn not_replicated<T, F: Future<Output = T>>(
    pair: &Pair,
    host: &ValkeyHost,
    function: Function,
    meanwhile: impl Fn() -> F,
) -> T {
    loop {
        pair.replicating.release();
        eventually("a confirmation", || async { call(host, COUNT, 1, &[]).await.is_ok() }).await;
        pair.replicating.hold();
        let done = meanwhile().await;
        let error = call(host, function, 1, &[]).await.expect_err("no replica has it");
        if error.kind == BackendErrorKind::NotReplicated {
            assert_eq!(error.retry, Retry::IfReplaySafe);
            return done;
        }
        assert_eq!((error.kind, error.retry), (BackendErrorKind::Resource, Retry::Safe));
    }
}

/// WAIT asks about the last write of its own connection, and a call may tell of another's.
#[tokio::test]
async fn what_a_call_found_done_is_not_confirmed_before_a_replica_has_it() {
    let pair = Pair::start();
    let other = connect(&pair.url()).await;
    let host =
        ValkeyHost::connect(replicated(&pair.url(), Durability::Replica), library(3, "ours"));
    let host = host.await.expect("it connects");
    let elsewhere = || async { call(&other, COUNT, 1, &[]).await.expect("the primary has it") };
    not_replicated(&pair, &host, FIND, elsewhere).await;
    pair.replicating.release();
    eventually("the confirmation", || async { call(&host, FIND, 1, &[]).await.is_ok() }).await;
}

/// The last try of a call may be refused before it has any effect: what an earlier one did counts.
#[tokio::test]
async fn a_submission_that_was_not_confirmed_is_never_said_not_to_be_there_and_made_once() {
    let pair = Pair::start();
    let backend = open(&pair.url(), Durability::Replica).await;
    let mut submitted = 0;
    let execution = loop {
        let execution = new_execution(Partition::flow(3));
        pair.replicating.hold();
        let error = backend.create(execution.clone()).await.expect_err("no replica has it");
        pair.replicating.release();
        submitted += 1;
        eventually("the confirmation", || async {
            backend.create(execution.clone()).await.is_ok()
        })
        .await;
        // A mark of the host's own may be kept back before it, so that it is never sent.
        if error.retry() != Retry::Safe {
            assert_eq!(error.retry(), Retry::IfReplaySafe, "{error}");
            break execution;
        }
    };
    let again = backend.create(execution).await.expect("it is confirmed");
    assert!(!again.is_new());
    let counted = backend.count_executions().await.expect("they can be counted");
    assert_eq!(counted.total, submitted, "{counted:?}");
}

#[tokio::test]
async fn what_is_done_and_not_confirmed_says_so_and_nothing_more_is_done_until_it_is() {
    let pair = Pair::start();
    let host =
        ValkeyHost::connect(replicated(&pair.url(), Durability::Replica), library(3, "ours"));
    let host = host.await.expect("it connects");
    let count = || {
        let count = pair.primary.command(&["GET", "ff:{fp:1}:count"]).expect("it answers");
        count.text().parse::<u32>().unwrap_or(0)
    };
    let before = not_replicated(&pair, &host, COUNT, || async { count() }).await;
    assert_eq!(count(), before + 1, "it is done");
    for _ in 0..3 {
        let error = call(&host, COUNT, 1, &[]).await.expect_err("no replica keeps up");
        assert_eq!((error.kind, error.retry), (BackendErrorKind::Resource, Retry::Safe));
    }
    assert_eq!(count(), before + 1, "nothing more is done");
    call(&host, READ, 1, &[]).await.expect("reads wait for nobody");
    assert!(host.replication_trouble().is_some());
    pair.replicating.release();
    eventually("it goes on", || async { call(&host, COUNT, 1, &[]).await.is_ok() }).await;
    assert!(host.replication_trouble().is_none());
}

#[tokio::test]
async fn a_server_without_a_replica_is_refused_at_the_start() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let config = replicated(&server.url(), Durability::Replica);
    let refused = ValkeyHost::connect(config, Library::current()).await.err();
    let error = refused.expect("it has no replica");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Resource, Retry::Safe));
    assert!(error.message.contains("durability = replica"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_share_one_wait_and_never_hold_up_reads() {
    let pair = Pair::start();
    let host =
        ValkeyHost::connect(replicated(&pair.url(), Durability::Replica), library(3, "ours"));
    let host = Arc::new(host.await.expect("it connects"));
    let calls = |name: &str| {
        let stats = pair.primary.command(&["INFO", "commandstats"]).expect("it answers");
        let start = format!("cmdstat_{name}:calls=");
        let line = stats
            .text()
            .lines()
            .find_map(|line| line.strip_prefix(&start)?.split(',').next()?.parse().ok());
        line.unwrap_or(0_usize)
    };
    let (waits, done) = (calls("wait"), Arc::new(AtomicUsize::new(0)));
    let callers = (0..64).map(|_| {
        let (host, done) = (Arc::clone(&host), Arc::clone(&done));
        tokio::spawn(async move {
            for _ in 0..20 {
                call(&host, COUNT, 1, &[]).await.expect("a replica has it");
                done.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no caller panics");
    }
    let (calls, waits) = (done.load(Ordering::Relaxed), calls("wait") - waits);
    println!("{calls} calls, {waits} times WAIT");
    assert_eq!(calls, 1280);
    assert!(waits < calls / 4, "{waits} for {calls} calls");

    pair.replicating.hold();
    let waiting = tokio::spawn({
        let host = Arc::clone(&host);
        async move { call(&host, COUNT, 1, &[]).await }
    });
    while !waiting.is_finished() {
        call(&host, ECHO, 1, &[b"x"]).await.expect("reads wait for nobody");
    }
    waiting.await.expect("no panic").expect_err("no replica has it");
}

#[tokio::test]
async fn a_call_that_fails_in_a_batch_fails_alone() {
    let pair = Pair::start();
    let host =
        ValkeyHost::connect(replicated(&pair.url(), Durability::Replica), library(3, "ours"));
    let host = host.await.expect("it connects");
    let (good, bad, late) = tokio::join!(
        call(&host, COUNT, 1, &[]),
        call(&host, FAIL, 2, &[]),
        call(&host, COUNT, 3, &[]),
    );
    assert_eq!(bad.expect_err("it fails inside").kind, BackendErrorKind::Protocol);
    assert!(good.is_ok() && late.is_ok());
}

/// The same in a cluster, whose replicas take over by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_fails_over_under_load_and_loses_nothing_that_was_confirmed() {
    let mut cluster = ValkeyCluster::start(3, 2).expect("the cluster forms");
    let backend = Arc::new(open(&cluster.url(), Durability::Replica).await);
    let failing = cluster.master_of(Partition::flow(5).slot()).expect("the slot is covered");
    let load = Load::on(&backend, &[5]);
    load.reaches(200).await;
    cluster.node_mut(failing).kill9().expect("the node can be killed");
    // The other replica follows the new primary, so that work is taken again.
    let before = load.count();
    load.reaches(before + 200).await;
    let acknowledged = load.stop().await;
    assert_eq!(lost(&backend, &acknowledged).await, 0, "of {}", acknowledged.len());
    assert_eq!(backend.host().losses(), 0);
}
