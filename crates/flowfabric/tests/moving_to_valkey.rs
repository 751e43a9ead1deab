//! From the embedded store to Valkey, and back: a directory is exported into a server or a cluster,
//! or a server is started on it, and everything goes on where it was: held leases, timers, queues.
//! What a server or a cluster holds is made a directory again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, store};
use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::backend::Handle;
use ff_core::contracts::{Claimed, CreateExecution, TickRequest, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, TimestampMs, WorkerId, WorkerInstanceId};
use ff_engine::{Engine, EngineConfig};
use ff_scheduler::Scheduler;
use ff_script::audit;
use ff_script::backend::ScriptBackend;
use ff_script::dump::Dump;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use ff_test_valkey::{Valkey, ValkeyCluster, ValkeyOptions};

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: 16, ..PartitionConfig::default() }
}

fn execution(kind: &str, delay_until: Option<TimestampMs>) -> CreateExecution {
    CreateExecution {
        creator: "test".to_owned(),
        delay_until,
        tags: [("team.name".to_owned(), "a".to_owned())].into(),
        ..CreateExecution::new(ExecutionKind::try_new(kind).expect("valid"))
            .with_id(ExecutionId::solo(SystemIds.ordered(), &config()))
            .with_payload((0..=255).cycle().take(1000).collect::<Vec<u8>>())
    }
}

fn request(worker: &str, lease_ttl_ms: u64) -> WorkRequest {
    WorkRequest {
        kinds: Vec::new(),
        namespaces: Vec::new(),
        lanes: vec![LaneId::try_new("default").expect("valid")],
        worker_id: WorkerId::try_new(worker).expect("valid"),
        worker_instance_id: WorkerInstanceId::try_new(worker).expect("valid"),
        capabilities: Default::default(),
        lease_ttl_ms,
        count: 1,
        wait_ms: 60_000,
        payload_text: false,
        lease_ids: Vec::new(),
        retry: false,
    }
}

/// What was going on when the embedded store was closed.
struct Left {
    dir: PathBuf,
    held: Handle,
    lapsing: ExecutionId,
    delayed: ExecutionId,
    waiting: ExecutionId,
    done: ExecutionId,
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

async fn claim(scheduler: &Scheduler, worker: &str, lease_ttl_ms: u64) -> Claimed {
    let mut claimed = scheduler.claim(request(worker, lease_ttl_ms)).await.expect("answers");
    claimed.pop().expect("there is work")
}

/// Fills a data directory: one execution held under a long lease, one under a short lease that
/// nobody renews, one delayed, one waiting, one done.
async fn fill(name: &str) -> Left {
    let dir = std::env::temp_dir().join(format!("ff-moving-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let host = EmbeddedHost::open(EmbeddedConfig::in_directory(&dir), &Library::current());
    let host = Arc::new(host.expect("opens"));
    let backend = Arc::new(ScriptBackend::open(host.clone(), config()).await.expect("opens"));
    let scheduler = Scheduler::new(backend.clone(), Arc::new(SystemIds));

    let mut ids = Vec::new();
    for kind in ["done", "held", "lapsing"] {
        ids.push(backend.create(execution(kind, None)).await.expect("created").execution_id());
        let ttl_ms = if kind == "lapsing" { 1 } else { 600_000 };
        let claimed = claim(&scheduler, kind, ttl_ms).await;
        if kind == "done" {
            backend.complete(&claimed.handle, Some(b"result".to_vec())).await.expect("completed");
        } else if kind == "held" {
            ids.push(claimed.handle.execution_id);
            HELD.with_borrow_mut(|held| *held = Some(claimed.handle));
        }
    }
    let now = backend.tick(Partition::flow(0), TickRequest::once(1)).await.expect("ticks").now;
    let later = execution("delayed", Some(now.plus_millis(500)));
    let delayed = backend.create(later).await.expect("created").execution_id();
    let waiting = backend.create(execution("waiting", None)).await.expect("created").execution_id();
    host.close().await;
    let held = HELD.with_borrow_mut(Option::take).expect("one is held");
    Left { dir, held, lapsing: ids[3], delayed, waiting, done: ids[0] }
}

thread_local! {
    static HELD: std::cell::RefCell<Option<Handle>> = const { std::cell::RefCell::new(None) };
}

/// On Valkey, everything that was left goes on and ends.
async fn goes_on(url: &str, left: &Left) {
    let valkey = ValkeyConfig::parse(url).expect("valid").with_flow_partitions(16);
    let host = ValkeyHost::connect(valkey, Library::current()).await.expect("connects");
    let host = Arc::new(host);
    let backend = Arc::new(ScriptBackend::open(host.clone(), config()).await.expect("opens"));
    let engine = Engine::start(backend.clone(), EngineConfig::default()).await.expect("starts");
    let scheduler = Scheduler::new(backend.clone(), Arc::new(SystemIds));

    let result = backend.read_result(left.done).await.expect("readable");
    assert_eq!(result.as_deref(), Some(b"result".as_slice()), "what was done stays done");
    backend.complete(&left.held, None).await.expect("the holder completes under its old lease");
    let mut open = vec![left.lapsing, left.delayed, left.waiting];
    while !open.is_empty() {
        let claimed = claim(&scheduler, "after", 60_000).await;
        assert_eq!(claimed.payload.len(), 1000);
        assert_eq!(claimed.tags["team.name"], "a");
        backend.complete(&claimed.handle, None).await.expect("completed");
        open.retain(|id| *id != claimed.handle.execution_id);
    }
    for id in [left.held.execution_id, left.lapsing, left.delayed, left.waiting] {
        let snapshot = backend.describe_execution(id).await.expect("readable").expect("there");
        assert_eq!(snapshot.public_state(), PublicState::Completed);
    }
    engine.shutdown().await;
    let report = audit::audit(&host.dump().await.expect("readable"), &config());
    assert!(report.is_clean(), "{report}");
}

/// `flowfabric store export … | valkey-cli --pipe`, as the documentation says.
fn pipe(dir: &Path, slots: Option<(u16, u16)>, port: u16) {
    let mut export = Command::new(env!("CARGO_BIN_EXE_flowfabric"));
    export.args(["store", "export"]).arg(dir);
    if let Some((first, last)) = slots {
        export.args(["--slots", &format!("{first}-{last}")]);
    }
    let mut export = export.stdout(Stdio::piped()).spawn().expect("the export starts");
    let loaded = Command::new("valkey-cli")
        .args(["-p", &port.to_string(), "--pipe"])
        .stdin(export.stdout.take().expect("piped"))
        .output()
        .expect("valkey-cli is installed");
    assert!(export.wait().expect("it ends").success());
    let said = String::from_utf8_lossy(&loaded.stdout);
    assert!(said.contains("errors: 0"), "{said}");
}

#[tokio::test]
async fn an_export_goes_on_in_a_server() {
    let left = fill("pipe").await;
    let valkey = Valkey::start(ValkeyOptions::default()).expect("a server");
    pipe(&left.dir, None, valkey.port());
    goes_on(&valkey.url(), &left).await;
}

/// Adds an execution that is at its second attempt, so that its history has a first one.
async fn add_history(dir: &Path) {
    let host = EmbeddedHost::open(EmbeddedConfig::in_directory(dir), &Library::current());
    let host = Arc::new(host.expect("opens"));
    let backend = Arc::new(ScriptBackend::open(host.clone(), config()).await.expect("opens"));
    let scheduler = Scheduler::new(backend.clone(), Arc::new(SystemIds));
    let id = backend.create(execution("again", None)).await.expect("created").execution_id();
    // Some are waiting from before: all of them are taken, and none is renewed.
    while claim(&scheduler, "first", 1).await.handle.execution_id != id {}
    while backend.tick(id.partition(), TickRequest::once(100)).await.expect("ticks").lapsed == 0 {}
    while claim(&scheduler, "second", 600_000).await.handle.execution_id != id {}
    host.close().await;
}

/// What a server holds, but for the marks that the host itself leaves.
async fn loaded(host: &ValkeyHost) -> Dump {
    without_marks(host.dump().await.expect("readable"))
}

#[tokio::test]
async fn an_export_that_is_loaded_twice_is_there_once() {
    let left = fill("twice").await;
    add_history(&left.dir).await;
    let valkey = Valkey::start(ValkeyOptions::default()).expect("a server");
    let connect = ValkeyConfig::parse(&valkey.url()).expect("valid").with_flow_partitions(16);
    let host = ValkeyHost::connect(connect, Library::current()).await.expect("connects");
    pipe(&left.dir, None, valkey.port());
    let once = loaded(&host).await;
    assert!(once.keys().any(|key| key.ends_with(b":attempts")), "there is a history");
    pipe(&left.dir, None, valkey.port());
    assert!(loaded(&host).await == once, "the second load changed something");
    pipe(&left.dir, Some((0, 16383)), valkey.port());
    assert!(loaded(&host).await == once, "a load by slots changed something");
}

#[tokio::test]
async fn an_export_goes_on_in_a_cluster() {
    let left = fill("cluster").await;
    let cluster = ValkeyCluster::start(3, 0).expect("a cluster");
    for (first, last) in [(0, 5460), (5461, 10921), (10922, 16383)] {
        let node = cluster.master_of(first).expect("every slot has a master");
        assert_eq!(cluster.master_of(last).expect("the same"), node, "one master per third");
        pipe(&left.dir, Some((first, last)), cluster.nodes()[node].port());
    }
    goes_on(&cluster.url(), &left).await;
}

#[tokio::test]
async fn a_server_started_on_the_directory_goes_on() {
    let left = fill("directory").await;
    let dir = Some(left.dir.clone());
    let options = ValkeyOptions { append_only: true, dir, ..ValkeyOptions::default() };
    let valkey = Valkey::start(options).expect("a server on the data directory");
    goes_on(&valkey.url(), &left).await;
}

/// `flowfabric store import`, as the documentation says.
fn import(url: &str, dir: &Path) -> std::process::Output {
    let mut import = Command::new(env!("CARGO_BIN_EXE_flowfabric"));
    import.args(["store", "import", url]).arg(dir).output().expect("the import starts")
}

/// What a Valkey holds becomes a directory, which holds all of it and goes on.
async fn comes_back(url: &str, left: &Left) {
    let valkey = ValkeyConfig::parse(url).expect("valid").with_flow_partitions(16);
    let host = ValkeyHost::connect(valkey, Library::current()).await.expect("connects");
    let there = host.dump().await.expect("readable");
    let back = left.dir.with_extension("back");
    let _ = std::fs::remove_dir_all(&back);
    let ran = import(url, &back);
    assert!(ran.status.success(), "{ran:?}");
    let checked = store::check(&back).expect("whole");
    assert!(without_marks(checked.dump.clone()) == without_marks(there), "all of it is there");
    let report = audit::audit(&checked.dump, &config());
    assert!(report.is_clean(), "{report}");
    let again = import(url, &back);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("there is a store here already"), "{said}");

    let opened = EmbeddedHost::open(EmbeddedConfig::in_directory(&back), &Library::current());
    let host = Arc::new(opened.expect("opens"));
    let backend = ScriptBackend::open(host.clone(), config()).await.expect("opens");
    backend.complete(&left.held, None).await.expect("the holder completes under its old lease");
    host.close().await;
    std::fs::remove_dir_all(&back).expect("removed");
}

fn without_marks(mut dump: Dump) -> Dump {
    dump.retain(|key, _| !key.ends_with(b":marks"));
    dump
}

#[tokio::test]
async fn what_a_server_holds_comes_back_into_a_directory() {
    let left = fill("back").await;
    let dir = Some(left.dir.clone());
    let options = ValkeyOptions { append_only: true, dir, ..ValkeyOptions::default() };
    let valkey = Valkey::start(options).expect("a server on the data directory");
    comes_back(&valkey.url(), &left).await;
}

#[tokio::test]
async fn what_a_cluster_holds_comes_back_into_a_directory() {
    let left = fill("cluster-back").await;
    let cluster = ValkeyCluster::start(3, 0).expect("a cluster");
    for (first, last) in [(0, 5460), (5461, 10921), (10922, 16383)] {
        let node = cluster.master_of(first).expect("every slot has a master");
        pipe(&left.dir, Some((first, last)), cluster.nodes()[node].port());
    }
    comes_back(&cluster.url(), &left).await;
}
