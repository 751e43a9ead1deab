//! Several schedulers on one store, as servers have them: how many calls a submission costs all of
//! them together, and by how much they overtake each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::backend_error::BackendError;
use ff_core::contracts::{Claimed, CreateExecution, WorkRequest};
use ff_core::engine_backend::roles::*;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, LaneId};
use ff_scheduler::Scheduler;
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use ff_script::value::Value;
use ff_test_valkey::{Valkey, ValkeyOptions};
use futures_core::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const PARTITIONS: u16 = 64;
const SERVERS: usize = 10;

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() }
}

/// How many claims each server has sent to each partition.
type Claims = Arc<Mutex<HashMap<(usize, Partition), u64>>>;

/// A real store that counts the claims that a server sends to it.
struct Counting {
    host: ValkeyHost,
    server: usize,
    claims: Claims,
}

impl Host for Counting {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        if function.wire_name.starts_with("ff_claim_next") {
            let mut claims = self.claims.lock().expect("nobody panicked");
            *claims.entry((self.server, partition)).or_default() += 1;
        }
        self.host.call(function, partition, args)
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

struct Site {
    backend: Arc<ScriptBackend<Counting>>,
    servers: Vec<Arc<Scheduler>>,
    claims: Claims,
    /// Those who take, and what they took.
    crew: JoinSet<()>,
    tell: mpsc::UnboundedSender<Claimed>,
    told: mpsc::UnboundedReceiver<Claimed>,
    _valkey: Valkey,
}

async fn connect(url: &str, server: usize, claims: &Claims) -> Arc<ScriptBackend<Counting>> {
    let listening = ValkeyConfig::parse(url).expect("a URL").with_flow_partitions(PARTITIONS);
    let host = ValkeyHost::connect(listening, Library::current()).await.expect("connects");
    let host = Arc::new(Counting { host, server, claims: Arc::clone(claims) });
    Arc::new(ScriptBackend::open(host, config()).await.expect("opens"))
}

impl Site {
    async fn open() -> Self {
        let valkey = Valkey::start(ValkeyOptions::default()).expect("a Valkey server");
        let claims = Claims::default();
        let backend = connect(&valkey.url(), SERVERS, &claims).await;
        let mut servers = Vec::new();
        for server in 0..SERVERS {
            let own = connect(&valkey.url(), server, &claims).await;
            let scheduler = Scheduler::new(own, Arc::new(SystemIds));
            servers.push(Arc::new(scheduler));
        }
        let (tell, told) = mpsc::unbounded_channel();
        let crew = JoinSet::new();
        Self { backend, servers, claims, crew, tell, told, _valkey: valkey }
    }

    async fn submit(&self) -> Partition {
        let id = ExecutionId::solo(SystemIds.ordered(), &config());
        let kind = "work".parse().expect("valid");
        self.backend.create(CreateExecution::new(kind).with_id(id)).await.expect("created");
        id.partition()
    }

    /// Every server listens from now on.
    async fn listen(&self) {
        for server in &self.servers {
            let early = WorkRequest { wait_ms: 0, ..request("early") };
            assert!(server.claim(early).await.expect("answers").is_empty());
        }
    }

    /// So many workers of every server take what comes, until the end of the test.
    fn take_with(&mut self, workers: usize) {
        for (number, server) in self.servers.iter().enumerate() {
            for worker in 0..workers {
                let (server, tell) = (Arc::clone(server), self.tell.clone());
                self.crew.spawn(async move {
                    let name = format!("w-{number}-{worker}");
                    while let Ok(claimed) = server.claim(request(&name)).await {
                        claimed.into_iter().for_each(|one| drop(tell.send(one)));
                    }
                });
            }
        }
    }

    async fn taken(&mut self, count: usize) -> Vec<Claimed> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.push(self.told.recv().await.expect("they go on"));
        }
        taken
    }

    fn claims(&self) -> u64 {
        self.claims.lock().expect("nobody panicked").values().sum()
    }
}

fn request(name: &str) -> WorkRequest {
    let lanes = vec![LaneId::default()];
    let (worker, instance) = ("worker".parse().expect("valid"), name.parse().expect("valid"));
    WorkRequest { wait_ms: 60_000, ..WorkRequest::new(worker, instance, lanes, 60_000) }
}

/// By how much the worst one was overtaken, in milliseconds between submissions.
fn worst_overtake(taken: &[Claimed]) -> u64 {
    let mut latest = 0;
    let overtaken = taken.iter().map(|one| {
        latest = latest.max(one.created_at.get());
        latest - one.created_at.get()
    });
    overtaken.max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_among_a_thousand_waiting_workers_costs_one_claim_of_each_server_at_most() {
    let mut site = Site::open().await;
    site.take_with(100);
    let mut submitted: HashMap<Partition, u64> = HashMap::new();
    // Until everybody has looked, and knows of the others.
    for _ in 0..20 {
        *submitted.entry(site.submit().await).or_default() += 1;
        site.taken(1).await;
    }
    // Who comes too late for the last of them counts for it.
    site.claims.lock().expect("nobody panicked").clear();
    let (mut each, mut before) = (Vec::new(), 0);
    for _ in 0..200 {
        *submitted.entry(site.submit().await).or_default() += 1;
        site.taken(1).await;
        let all = site.claims();
        each.push(all - before);
        before = all;
    }
    let calls = site.claims() as f64 / 200.0;
    each.sort_unstable();
    println!("{calls} claims for each execution, {} for most", each[100]);
    for ((server, partition), claims) in &*site.claims.lock().expect("nobody panicked") {
        let most = submitted.get(partition).copied().unwrap_or(0);
        assert!(*claims <= most, "server {server} asked {partition} {claims} times for {most}");
    }
    // Without turns it is one for each server. What else the machine does now and then makes some
    // come too late for their turn.
    assert!(calls <= SERVERS as f64 / 2.0, "{calls} claims for each");
    assert!(each[100] <= 2, "half of them cost {} claims or more", each[100]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_that_take_a_backlog_seldom_ask_for_the_same_and_keep_the_order() {
    let mut site = Site::open().await;
    site.listen().await;
    for _ in 0..600 {
        site.submit().await;
    }
    site.take_with(2);
    let first = site.taken(100).await;
    let before = site.claims();
    let rest = site.taken(500).await;
    let calls = (site.claims() - before) as f64 / 500.0;
    let taken = [first, rest].concat();
    let worst = worst_overtake(&taken);
    println!("{calls} claims for each execution; one was overtaken by {worst} ms");
    assert!(calls <= 2.2, "{calls} claims for each");
    assert!(worst <= 1_000, "one was overtaken by {worst} ms");
}
