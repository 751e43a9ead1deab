//! Two servers, each with an engine and a scheduler, on one store of many partitions: what a limit
//! costs when many wait for it, and what is left of it when one of the servers dies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::backend_error::BackendError;
use ff_core::contracts::{
    BudgetScope, Claimed, CreateBudget, CreateExecution, CreateQuota, NextTask, QuotaLimits,
    QuotaQuery, TaskEnd, WorkRequest,
};
use ff_core::engine_backend::roles::*;
use ff_core::partition::{Partition, PartitionConfig, PartitionFamily};
use ff_core::policy::{ExecutionPolicy, QuotaUse};
use ff_core::state::PublicState;
use ff_core::types::{BudgetId, ExecutionId, LaneId, QuotaPolicyId};
use ff_engine::{Engine, EngineConfig};
use ff_scheduler::Scheduler;
use ff_script::args::Args;
use ff_script::audit::audit;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

const PARTITIONS: u16 = 256;
const TIME_LIMIT: Duration = Duration::from_secs(120);
const KEY: &str = "k";

/// The lease of whoever dies, which others wait for.
const LEASE_MS: u64 = 300;

/// An engine that died is missed after four of them.
const BEAT: Duration = Duration::from_millis(50);

/// More steps than the work takes.
const STEPS_MAX: u64 = 150;

/// As many stores at a time as leave each of them some of the machine.
const AT_A_TIME: usize = 8;

/// The functions that only admission calls, by how they begin.
const OWN: [&str; 9] = [
    "ff_check_admission_and_record",
    "ff_check_budget_and_reserve",
    "ff_block_execution_for_admission",
    "ff_release_admission",
    "ff_release_budget",
    "ff_forget_",
    "ff_await_gates",
    "ff_open_gate",
    "ff_settle_openings",
];

/// A store as one server sees it, which counts the calls of admission, and may die at one of its
/// steps: just before the call is sent, or when it was carried out and the answer is on its way.
struct Watched {
    host: Arc<EmbeddedHost>,
    own: Mutex<BTreeMap<&'static str, u64>>,
    /// Calls to these partitions are steps.
    partitions: Vec<Partition>,
    steps_left: AtomicU64,
    is_done: bool,
    dead: Arc<Notify>,
}

impl Watched {
    fn of(host: &Arc<EmbeddedHost>) -> Self {
        Self {
            host: Arc::clone(host),
            own: Mutex::default(),
            partitions: Vec::new(),
            steps_left: AtomicU64::new(u64::MAX),
            is_done: false,
            dead: Arc::default(),
        }
    }

    /// How many steps are left, with this call; 0 if it died before.
    fn step(&self, partition: Partition) -> u64 {
        let order = Ordering::SeqCst;
        if !self.partitions.contains(&partition) {
            return if self.steps_left.load(order) == 0 { 0 } else { u64::MAX };
        }
        self.steps_left.fetch_update(order, order, |left| left.checked_sub(1)).unwrap_or(0)
    }
}

impl Host for Watched {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        Box::pin(async move {
            if let Some(own) = OWN.into_iter().find(|own| function.wire_name.starts_with(own)) {
                *self.own.lock().expect("nobody panicked").entry(own).or_default() += 1;
            }
            let left = self.step(partition);
            if left > 1 {
                return self.host.call(function, partition, args).await;
            }
            if left == 1 && self.is_done {
                let _ = self.host.call(function, partition, args).await;
            }
            self.dead.notify_one();
            std::future::pending().await
        })
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.subscribe(topic)
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() }
}

type Backend = Arc<ScriptBackend<Watched>>;

async fn open(host: Watched) -> Backend {
    Arc::new(ScriptBackend::open(Arc::new(host), config()).await.expect("opens"))
}

fn store() -> Arc<EmbeddedHost> {
    let host = EmbeddedHost::open(EmbeddedConfig::in_memory(), &Library::current());
    Arc::new(host.expect("an embedded host"))
}

struct Server {
    backend: Backend,
    scheduler: Arc<Scheduler>,
    _engine: Engine,
}

impl Server {
    async fn start(backend: Backend) -> Self {
        let config = EngineConfig { beat: BEAT, ..EngineConfig::default() };
        let engine = Engine::start_sharing(Arc::clone(&backend), config, &SystemIds).await;
        let scheduler = Arc::new(Scheduler::new(Arc::clone(&backend), Arc::new(SystemIds)));
        Self { backend, scheduler, _engine: engine.expect("runs") }
    }
}

fn request(worker: &str, lease_ttl_ms: u64) -> WorkRequest {
    let instance = worker.parse().expect("valid");
    let (worker, lanes) = ("worker".parse().expect("valid"), vec![LaneId::default()]);
    WorkRequest { wait_ms: 50, ..WorkRequest::new(worker, instance, lanes, lease_ttl_ms) }
}

/// Completes a task, and the next one that its end brings, until none comes.
async fn complete(scheduler: &Scheduler, task: Claimed) -> u64 {
    let (mut task, mut count) = (Some(task), 0);
    while let Some(running) = task {
        let end = TaskEnd::Complete(Some(b"done".to_vec()));
        let finished = scheduler.finish(&running.handle, end, NextTask::default()).await;
        count += u64::from(finished.is_ok());
        task = finished.ok().and_then(|finished| finished.next);
    }
    count
}

/// What executions must pass.
#[derive(Clone, Copy)]
struct Gates {
    quota: QuotaPolicyId,
    budget: BudgetId,
}

impl Gates {
    async fn make(backend: &Backend, places: u64) -> Self {
        let limits = QuotaLimits::at_once(places);
        let quota = backend.create_quota(CreateQuota { limits, ..Default::default() }).await;
        let budget = CreateBudget::new(BudgetScope::Kind, "nobody").hard("tokens", places * 10);
        Self {
            quota: quota.expect("made").quota_policy_id,
            budget: backend.create_budget(budget).await.expect("made").budget_id,
        }
    }

    async fn create(
        self,
        backend: &Backend,
        partition: Partition,
        has_budget: bool,
    ) -> ExecutionId {
        let quota = Some(QuotaUse::of(self.quota).with_key(KEY));
        let mut policy = ExecutionPolicy { quota, ..Default::default() };
        if has_budget {
            policy.budget_ids = vec![self.budget];
            policy.reserve_usage = [("tokens".to_owned(), 10)].into();
        }
        let id = ExecutionId::from_parts(partition, SystemIds.ordered());
        let mut execution = CreateExecution::new("work".parse().expect("valid")).with_id(id);
        execution.policy = Some(policy);
        backend.create(execution).await.expect("created");
        id
    }

    /// How many hold a place, and what is reserved.
    async fn taken(self, backend: &Backend) -> (u64, u64) {
        let quota = backend.describe_quota(self.quota, QuotaQuery::of(KEY)).await;
        let budget = backend.describe_budget(self.budget).await.expect("described");
        (quota.expect("described").running, budget.dimensions["tokens"].reserved)
    }

    async fn until_free(self, backend: &Backend) {
        let begun = Instant::now();
        while self.taken(backend).await != (0, 0) {
            assert!(begun.elapsed() < TIME_LIMIT, "{:?} are taken", self.taken(backend).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// `FF_WAITING` executions wait for the key: what the first refusals in each partition cost counts
/// the less, the more there are.
fn waiting() -> u64 {
    const WAITING: u64 = 4_000;
    std::env::var("FF_WAITING").map_or(WAITING, |text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_that_wait_for_one_key_costs_five_calls_at_most() {
    const PLACES: u64 = 10;
    let (waiting, host) = (waiting(), store());
    let mut servers = Vec::new();
    for _ in 0..2 {
        servers.push(Server::start(open(Watched::of(&host)).await).await);
    }
    let backend = &servers[0].backend;
    let gates = Gates::make(backend, PLACES).await;
    for number in 0..waiting {
        gates.create(backend, Partition::flow(number as u16 % PARTITIONS), false).await;
    }
    let (done, mut crew) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
    for number in 0..2 * PLACES {
        let scheduler = Arc::clone(&servers[number as usize % servers.len()].scheduler);
        let done = Arc::clone(&done);
        crew.spawn(async move {
            while done.load(Ordering::SeqCst) < waiting {
                let request = request(&format!("w-{number}"), 600_000);
                for task in scheduler.claim(request).await.expect("answers") {
                    done.fetch_add(complete(&scheduler, task).await, Ordering::SeqCst);
                }
            }
        });
    }
    while let Some(ended) = crew.join_next().await {
        ended.expect("nobody panicked");
    }
    gates.until_free(backend).await;
    let own = servers.iter().map(|it| it.backend.host().own.lock().expect("nobody panicked"));
    let own: Vec<_> = own.collect();
    let each = own.iter().flat_map(|own| own.values()).sum::<u64>() as f64 / waiting as f64;
    println!("{each} calls for each of {waiting} executions: {own:?}");
    assert!(each <= 5.0, "{each} calls for each execution: {own:?}");
}

/// One server dies at its step of this number, and another goes on. Answers whether it got so far.
async fn survived(steps: u64, is_done: bool) -> bool {
    let host = store();
    let living = Server::start(open(Watched::of(&host)).await).await;
    let backend = &living.backend;
    let gates = Gates::make(backend, 1).await;
    let homes = [3, 77, 77, 251].map(Partition::flow);
    let mut ids = Vec::new();
    for partition in homes {
        ids.push(gates.create(backend, partition, true).await);
    }
    let shared = [
        config().shared_partition_of(PartitionFamily::Quota, gates.quota.as_uuid()),
        config().shared_partition_of(PartitionFamily::Budget, gates.budget.as_uuid()),
    ];
    let mut dying = Watched::of(&host);
    let dead = Arc::clone(&dying.dead);
    (dying.partitions, dying.is_done) = ([&homes[..], &shared].concat(), is_done);
    let dying = open(dying).await;
    dying.host().steps_left.store(steps, Ordering::SeqCst);
    let died = tokio::select! {
        () = dead.notified() => true,
        () = work_until_all_ended(dying, &ids) => false,
    };
    until_all_ended(&living, &ids, 600_000).await;
    gates.until_free(backend).await;
    let report = audit(&host.dump().await.expect("it can be read"), &config());
    assert!(report.is_clean(), "after {steps} steps, done {is_done}: {report}");
    died
}

/// What the server does that dies, if it lives.
async fn work_until_all_ended(dying: Backend, ids: &[ExecutionId]) {
    let server = Server::start(dying).await;
    until_all_ended(&server, ids, LEASE_MS).await;
}

async fn until_all_ended(server: &Server, ids: &[ExecutionId], lease_ttl_ms: u64) {
    let begun = Instant::now();
    for id in ids {
        loop {
            let shown = server.backend.describe_execution(*id).await.expect("answers");
            if shown.expect("it is there").public_state() == PublicState::Completed {
                break;
            }
            assert!(begun.elapsed() < TIME_LIMIT, "{id} waits for ever");
            let request = request("worker-1", lease_ttl_ms);
            for task in server.scheduler.claim(request).await.expect("answers") {
                complete(&server.scheduler, task).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_step_a_server_dies_at_the_other_gives_everything_back() {
    let (mut deaths, room) = (JoinSet::new(), Arc::new(Semaphore::new(AT_A_TIME)));
    for steps in 1..=STEPS_MAX {
        for is_done in [false, true] {
            let room = Arc::clone(&room);
            deaths.spawn(async move {
                let _permit = room.acquire().await.expect("it stays open");
                (steps, survived(steps, is_done).await)
            });
        }
    }
    let mut latest = 0;
    while let Some(ended) = deaths.join_next().await {
        let (steps, died) = ended.expect("nobody panicked");
        if died {
            latest = latest.max(steps);
        }
    }
    println!("they died at step {latest} at most");
    // Four claims, of which each asks two gates, is refused or released, and opened again.
    assert!(latest > 40, "they died at step {latest} at most");
    assert!(latest < STEPS_MAX, "all steps are among those that were cut");
}
