//! A whole upgrade under load: an old server works on a Valkey, a newer one with a newer library
//! joins, the older library comes back for a while as after a failover, and the old server leaves.
//! Nobody is refused anything, and everything ends once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::contracts::{CreateExecution, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::PartitionConfig;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, WorkerId, WorkerInstanceId};
use ff_engine::{Engine, EngineConfig};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use ff_test_valkey::{Reply, Valkey, ValkeyOptions};

const PARTITIONS: u16 = 8;
const EXECUTIONS: usize = 900;
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// What a newer library does otherwise: module, what stands there, what stands there then. Its
/// answers are longer, its records have a field more, and it knows a timer that ours does not.
const CHANGES: &[(&str, &str, &str)] = &[
    (
        "model/claim",
        "\nreturn claim\n",
        "\nlocal row = claim.row\nclaim.ROW[#claim.ROW + 1] = 'novelty'\n\n\
         function claim.row(p, x, kind)\n  local values, payload = row(p, x, kind)\n  \
         for i = #values + 1, #claim.ROW - 1 do values[i] = claim.REST[i - claim.PLAIN] end\n  \
         values[#claim.ROW] = 'new'\n  return values, payload\nend\n\nreturn claim\n",
    ),
    ("model/field", "flow_id = 'fl',", "flow_id = 'fl', novelty = 'zz',"),
    (
        "model/creation",
        "  local x = build(w, p, a, compiled, now)\n",
        "  local x = build(w, p, a, compiled, now)\n  record.set(x, 'novelty', '1')\n  \
         w[#w + 1] = { 'ZADD', p.due, 1, 'z:' .. a.execution_id }\n",
    ),
    (
        "model/worker",
        "due.on[TIMER] = function(w, p, member)\n",
        "due.on['z:'] = function(w, p, member)\n  w[#w + 1] = { 'ZREM', p.due, member }\n  \
         return 'forgotten'\nend\n\ndue.on[TIMER] = function(w, p, member)\n",
    ),
    ("verb/tick", "    entries)\nend", "    entries, 'new')\nend"),
    ("verb/tick", "'gates', 'owed' },", "'gates', 'owed', 'novelty' },"),
];

fn newer_library() -> Library {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua");
    let mut modules: Vec<(&str, String)> = Vec::new();
    for (name, right, other) in CHANGES {
        let known = modules.iter().position(|(module, _)| module == name);
        let place = known.unwrap_or_else(|| {
            let source = std::fs::read_to_string(lua.join(format!("{name}.lua")));
            modules.push((name, source.expect("the module is there")));
            modules.len() - 1
        });
        let source = &mut modules[place].1;
        assert_eq!(source.matches(right).count(), 1, "{name}: {right}");
        *source = source.replace(right, other);
    }
    let replaced: Vec<(&str, &str)> = modules.iter().map(|(name, text)| (*name, &**text)).collect();
    let library = Library::with_modules(&replaced);
    let version = library.version + 1;
    let (old, new) = (format!("version = {},", library.version), format!("version = {version},"));
    assert_eq!(library.source.matches(&old).count(), 1);
    Library { version, source: library.source.replace(&old, &new), ..library }
}

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() }
}

/// What a server runs besides its HTTP.
struct Server {
    backend: Arc<ScriptBackend<ValkeyHost>>,
    scheduler: Arc<Scheduler>,
    engine: Engine,
}

impl Server {
    async fn start(url: &str, library: Library) -> Self {
        let mut valkey = ValkeyConfig::parse(url).expect("a url").with_flow_partitions(PARTITIONS);
        valkey.check_interval = Duration::from_millis(200);
        let host = Arc::new(ValkeyHost::connect(valkey, library).await.expect("connects"));
        let backend = Arc::new(ScriptBackend::open(host, config()).await.expect("opens"));
        let engine = Engine::start(Arc::clone(&backend), EngineConfig::default()).await;
        let scheduler = Arc::new(Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds)));
        Self { backend, scheduler, engine: engine.expect("starts") }
    }
}

/// What everybody did so far.
#[derive(Default)]
struct Tally {
    created: AtomicUsize,
    completed: Mutex<BTreeSet<ExecutionId>>,
    over: AtomicBool,
}

impl Tally {
    fn completed(&self) -> usize {
        self.completed.lock().expect("nobody panics").len()
    }

    async fn reaches(&self, count: usize) {
        let begin = Instant::now();
        while self.completed() < count {
            assert!(begin.elapsed() < TIME_LIMIT, "{} of {count}", self.completed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn new_execution() -> CreateExecution {
    CreateExecution {
        ..CreateExecution::new(ExecutionKind::try_new("work").expect("valid"))
            .with_id(ExecutionId::solo(SystemIds.ordered(), &config()))
            .with_payload(vec![7; 300])
    }
}

/// Submits through a server until there are enough, or the server is told to leave.
async fn submit(server: Arc<Server>, leaving: Arc<AtomicBool>, tally: Arc<Tally>) {
    while !leaving.load(Ordering::SeqCst)
        && tally.created.fetch_add(1, Ordering::SeqCst) < EXECUTIONS
    {
        let created = server.backend.create(new_execution()).await.expect("is taken");
        assert!(created.is_new());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Claims and completes through a server until all is over, or the server is told to leave.
async fn work(name: &str, server: Arc<Server>, leaving: Arc<AtomicBool>, tally: Arc<Tally>) {
    let request = WorkRequest {
        kinds: Vec::new(),
        namespaces: Vec::new(),
        lanes: vec![LaneId::try_new("default").expect("valid")],
        worker_id: WorkerId::try_new(name).expect("valid"),
        worker_instance_id: WorkerInstanceId::try_new(name).expect("valid"),
        capabilities: Default::default(),
        lease_ttl_ms: 30_000,
        count: 4,
        wait_ms: 300,
        payload_text: false,
        lease_ids: Vec::new(),
        retry: false,
    };
    while !leaving.load(Ordering::SeqCst) && !tally.over.load(Ordering::SeqCst) {
        for claimed in server.scheduler.claim(request.clone()).await.expect("claims") {
            assert_eq!(claimed.payload, [7; 300]);
            let handle = &claimed.handle;
            server.backend.complete(handle, Some(b"done".to_vec())).await.expect("completes");
            let new = tally.completed.lock().expect("nobody panics").insert(handle.execution_id);
            assert!(new, "{} was completed twice", handle.execution_id);
        }
    }
}

fn load(valkey: &Valkey, library: &Library) {
    let loaded = valkey.command(&["FUNCTION", "LOAD", "REPLACE", &library.source]);
    assert_eq!(loaded.expect("the server answers"), Reply::Text(library.name.to_owned()));
}

fn overdue(valkey: &Valkey) -> usize {
    let due = |index| format!("ff:{{fp:{index}}}:due");
    let count = |index| match valkey.command(&["ZCOUNT", &due(index), "-inf", "1"]) {
        Ok(Reply::Int(count)) => count as usize,
        other => panic!("{other:?}"),
    };
    (0..PARTITIONS).map(count).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_under_load_refuses_nobody_and_loses_nothing() {
    let valkey = Valkey::start(ValkeyOptions::default()).expect("a Valkey server");
    let tally = Arc::new(Tally::default());
    let (stay, leave) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let old = Arc::new(Server::start(&valkey.url(), Library::current()).await);
    let mut old_tasks = vec![tokio::spawn(submit(old.clone(), leave.clone(), tally.clone()))];
    old_tasks.push(tokio::spawn(work("old", old.clone(), leave.clone(), tally.clone())));
    tally.reaches(EXECUTIONS / 6).await;

    // The newer server brings its library; the old one goes on with it.
    let new = Arc::new(Server::start(&valkey.url(), newer_library()).await);
    let mut tasks = vec![tokio::spawn(submit(new.clone(), stay.clone(), tally.clone()))];
    tasks.push(tokio::spawn(work("new", new.clone(), stay.clone(), tally.clone())));
    tally.reaches(EXECUTIONS / 3).await;

    // A promoted replica may still have the older one, which works on what the newer one wrote.
    load(&valkey, &Library::current());
    tally.reaches(EXECUTIONS / 2).await;
    leave.store(true, Ordering::SeqCst);
    for task in old_tasks {
        task.await.expect("the old server was never refused anything");
    }
    let old = Arc::into_inner(old).expect("its tasks have ended");
    old.engine.shutdown().await;
    tally.reaches(EXECUTIONS).await;
    tally.over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.expect("the new server was never refused anything");
    }

    let completed = tally.completed.lock().expect("nobody panics").clone();
    for id in completed {
        let snapshot = new.backend.describe_execution(id).await.expect("readable").expect("there");
        assert_eq!(snapshot.public_state(), PublicState::Completed);
        assert_eq!(snapshot.total_attempt_count, 1);
    }
    let begin = Instant::now();
    while overdue(&valkey) > 0 {
        assert!(begin.elapsed() < TIME_LIMIT, "{} timers never fired", overdue(&valkey));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
