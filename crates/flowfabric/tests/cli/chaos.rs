//! Servers, workers and the store are killed or frozen in an order that a seed decides, while work
//! goes on: nothing that was acknowledged is lost, nothing ends twice, and what a quota or a budget
//! gave comes back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use ff_sdk::{
    BackendConfig, BudgetId, BudgetScope, Client, Connection, CreateBudget, CreateQuota,
    ExecutionId, ExecutionPolicy, PublicState, QuotaLimits, QuotaPolicyId, QuotaQuery, QuotaUse,
};
use ff_test_seed::random_test;
use ff_test_valkey::{Reply, Valkey, ValkeyOptions};

use crate::site::{Running, Scratch, Site, alone};

const PARTITIONS: u16 = 16;
const SERVERS: usize = 2;
const WORKERS: usize = 3;
/// Who is frozen stays so for longer.
const LEASE: &str = "1500ms";
const FREEZE: Duration = Duration::from_millis(2500);
/// Between two acts there is at most so much time.
const BREATH_MS: u64 = 1000;
const TIME_LIMIT: Duration = Duration::from_secs(90);
/// How often each server is given an execution, and one with gates.
const EVERY: Duration = Duration::from_millis(10);
const GATED_EVERY: Duration = Duration::from_millis(40);
/// How many may run at a time under each key, and by what they all reserve.
const KEYS: [&str; 2] = ["left", "right"];
const PLACES: u64 = 2;
const TOKENS: u64 = 35;
const TOKENS_EACH: u64 = 10;

/// Everything that can be killed.
struct Theatre {
    valkey: Valkey,
    servers: Vec<Option<Site>>,
    addresses: Vec<String>,
    workers: Vec<Running>,
}

impl Theatre {
    fn open() -> Self {
        let fsync = Some("always".to_owned());
        let options =
            ValkeyOptions { append_only: true, append_fsync: fsync, ..Default::default() };
        let valkey = Valkey::start(options).expect("valkey-server starts");
        let store = valkey.url();
        let servers: Vec<_> =
            (0..SERVERS).map(|_| Site::start_with(&["--store", &store])).collect();
        let address = |site: &Site| site.url.trim_start_matches("http://").to_owned();
        let addresses = servers.iter().map(address).collect();
        let workers = (0..WORKERS).map(|place| worker(&servers[place % SERVERS])).collect();
        Self { valkey, servers: servers.into_iter().map(Some).collect(), addresses, workers }
    }

    fn kill_server(&mut self, place: usize) {
        // Dropping it kills it the hard way.
        self.servers[place] = None;
    }

    fn restart_server(&mut self, place: usize) {
        let store = self.valkey.url();
        self.servers[place] = Some(Site::start_at(&self.addresses[place], &["--store", &store]));
    }

    fn replace_worker(&mut self, place: usize) {
        let server = self.servers[place % SERVERS].as_ref().expect("its server runs");
        self.workers[place] = worker(server);
    }

    /// With nobody on it any more, every invariant holds.
    fn check_store(mut self) {
        self.workers.clear();
        self.servers.clear();
        let scratch = Scratch::new("chaos");
        let data = scratch.path().join("data").to_str().expect("text").to_owned();
        alone(&["store", "import", &self.valkey.url(), &data]).text();
        let text = alone(&["store", "check", &data]).text();
        assert!(text.contains("no violation"), "{text}");
    }

    /// One act after the other, each while the load goes on.
    fn play(&mut self, seed: u64) {
        let mut next = numbers(seed);
        let mut acts = ACTS;
        for last in (1..acts.len()).rev() {
            acts.swap(last, next(last as u64 + 1) as usize);
        }
        for act in acts {
            println!("{act:?}");
            self.perform(act, &mut next);
            breathe(&mut next);
        }
    }

    fn perform(&mut self, act: Act, next: &mut impl FnMut(u64) -> u64) {
        let server = next(SERVERS as u64) as usize;
        let worker = next(WORKERS as u64) as usize;
        match act {
            Act::ReplaceWorker => self.replace_worker(worker),
            Act::FreezeWorker => {
                let frozen = &self.workers[worker];
                freeze(|signal| frozen.signal(signal));
            }
            Act::FreezeServer => {
                let frozen = self.servers[server].as_ref().expect("it runs");
                freeze(|signal| frozen.signal(signal));
            }
            Act::KillServer => self.kill_servers(&[server], next),
            Act::KillServers => self.kill_servers(&[0, 1], next),
            Act::KillStore => self.kill_store(next),
            Act::KillServerAndStore => {
                self.kill_server(server);
                self.kill_store(next);
                self.restart_server(server);
            }
        }
    }

    fn kill_servers(&mut self, places: &[usize], next: &mut impl FnMut(u64) -> u64) {
        places.iter().for_each(|place| self.kill_server(*place));
        breathe(next);
        places.iter().for_each(|place| self.restart_server(*place));
    }

    fn kill_store(&mut self, next: &mut impl FnMut(u64) -> u64) {
        self.valkey.kill9().expect("killed");
        breathe(next);
        self.valkey.restart().expect("restarted");
    }
}

/// What befalls those who work.
#[derive(Clone, Copy, Debug)]
enum Act {
    ReplaceWorker,
    FreezeWorker,
    FreezeServer,
    KillServer,
    KillServers,
    KillStore,
    KillServerAndStore,
}

/// Each at least once.
const ACTS: [Act; 9] = [
    Act::ReplaceWorker,
    Act::FreezeWorker,
    Act::FreezeServer,
    Act::KillServer,
    Act::KillServers,
    Act::KillStore,
    Act::KillServerAndStore,
    Act::ReplaceWorker,
    Act::KillServer,
];

/// Numbers below a bound, one after the other, by a seed.
fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    }
}

fn breathe(next: &mut impl FnMut(u64) -> u64) {
    sleep(Duration::from_millis(next(BREATH_MS)));
}

/// Stops somebody for so long that its leases lapse, and lets it go on as if nothing had happened.
fn freeze(signal: impl Fn(&str)) {
    signal("-STOP");
    sleep(FREEZE);
    signal("-CONT");
}

/// A worker process with a program of its own for each task.
fn worker(server: &Site) -> Running {
    let options = ["--kind", "chaos", "--lease-ttl", LEASE, "--concurrency", "2", "--quiet"];
    server.worker(&options, &["sh", "-c", "sleep 0.02; cat"])
}

/// Does something with a server, from a thread of its own.
fn with_client<T>(url: &str, work: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let connection =
            Connection::open(BackendConfig::server(url, None)).await.expect("connected");
        work(Client::new(&connection)).await
    })
}

/// Submits to one server until told to stop; answers what was acknowledged.
fn submit_until(url: &str, gates: Option<Gates>, stop: &AtomicBool) -> Vec<ExecutionId> {
    with_client(url, async |client| {
        let mut acknowledged = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let policy = gates.map_or_else(Default::default, |gates| gates.policy(&acknowledged));
            let submission = client.submit("chaos", &acknowledged.len()).policy(policy);
            // A submission that was not acknowledged may or may not be there: nothing is promised.
            if let Ok(submitted) = submission.await {
                acknowledged.push(submitted.execution_id());
            }
            if let Some(gates) = gates {
                gates.are_kept(&client).await;
            }
            tokio::time::sleep(if gates.is_some() { GATED_EVERY } else { EVERY }).await;
        }
        acknowledged
    })
}

/// What half of the executions pass: a quota of two keys, and a budget that is narrower than both
/// of them together.
#[derive(Clone, Copy)]
struct Gates {
    quota: QuotaPolicyId,
    budget: BudgetId,
}

impl Gates {
    fn make(url: &str) -> Self {
        with_client(url, async |client| {
            let limits = QuotaLimits::at_once(PLACES);
            let quota = CreateQuota { limits, ..Default::default() };
            let budget = CreateBudget::new(BudgetScope::Kind, "nobody").hard("tokens", TOKENS);
            Self {
                quota: client.create_quota(quota).await.expect("made").quota_policy_id,
                budget: client.create_budget(budget).await.expect("made").budget_id,
            }
        })
    }

    /// The gates of the next one.
    fn policy(self, before: &[ExecutionId]) -> ExecutionPolicy {
        ExecutionPolicy {
            quota: Some(QuotaUse::of(self.quota).with_key(KEYS[before.len() % KEYS.len()])),
            budget_ids: vec![self.budget],
            reserve_usage: [("tokens".to_owned(), TOKENS_EACH)].into(),
            ..Default::default()
        }
    }

    /// How many hold a place under each key, and what is reserved; none while nobody answers.
    async fn taken(self, client: &Client) -> Option<([u64; 2], u64)> {
        let mut running = [0; 2];
        for (place, key) in KEYS.into_iter().enumerate() {
            running[place] =
                client.describe_quota(self.quota, QuotaQuery::of(key)).await.ok()?.running;
        }
        let budget = client.describe_budget(self.budget).await.ok()?;
        Some((running, budget.dimensions["tokens"].reserved))
    }

    async fn are_kept(self, client: &Client) {
        let Some((running, reserved)) = self.taken(client).await else { return };
        assert!(running.iter().all(|running| *running <= PLACES), "{running:?} at a time");
        assert!(reserved <= TOKENS, "{reserved} are reserved");
    }

    /// Waits until everything is back.
    fn are_free(self, url: &str) {
        with_client(url, async |client| {
            let client = &client;
            let begun = Instant::now();
            loop {
                let taken = self.taken(client).await;
                if taken == Some(([0; 2], 0)) {
                    return;
                }
                assert!(begun.elapsed() < TIME_LIMIT, "{taken:?} are still taken");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
}

/// Waits until every execution has ended, and checks that it ended well.
fn all_completed(url: &str, ids: &[ExecutionId]) {
    with_client(url, async |client| {
        let begun = Instant::now();
        for id in ids {
            let left = TIME_LIMIT.saturating_sub(begun.elapsed());
            let ended = client.await_result_raw(id, left).await;
            assert!(ended.is_ok(), "{id}: {ended:?}");
            let snapshot = client.describe(id).await.expect("answers").expect("it is there");
            assert_eq!(snapshot.public_state(), PublicState::Completed, "{id}");
        }
    });
}

/// All texts of a reply, however deep.
fn texts(reply: &Reply) -> Vec<&str> {
    match reply {
        Reply::List(replies) => replies.iter().flat_map(texts).collect(),
        other => vec![other.text()],
    }
}

/// How often each execution ended, by its uuid, as the logs of all partitions tell.
fn endings(valkey: &Valkey) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for partition in 0..PARTITIONS {
        let key = format!("ff:{{fp:{partition}}}:log");
        let log = valkey.command(&["XRANGE", &key, "-", "+"]).expect("answers");
        for text in texts(&log) {
            let Some(event) = text.strip_prefix("ended:") else { continue };
            let uuid = event.split(':').next().unwrap_or_default();
            *counts.entry(uuid.to_owned()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn whatever_is_killed_nothing_acknowledged_is_lost_or_ends_twice() {
    let test = random_test!();
    let seed = test.seed();
    for seed in test.seeds(seed..seed + 1) {
        println!("{}", test.replay(seed));
        survive(seed);
    }
}

fn survive(seed: u64) {
    let mut theatre = Theatre::open();
    let stop = &AtomicBool::new(false);
    let urls: Vec<_> =
        theatre.addresses.iter().map(|address| format!("http://{address}")).collect();
    let gates = Gates::make(&urls[0]);
    let acknowledged: Vec<ExecutionId> = thread::scope(|scope| {
        let plain = urls.iter().map(|url| (url, None));
        let submitters: Vec<_> = plain
            .chain([(&urls[1], Some(gates))])
            .map(|(url, gates)| scope.spawn(move || submit_until(url, gates, stop)))
            .collect();
        theatre.play(seed);
        stop.store(true, Ordering::Relaxed);
        submitters.into_iter().flat_map(|it| it.join().expect("no panic")).collect()
    });
    assert!(acknowledged.len() > 100, "{} were submitted", acknowledged.len());
    all_completed(&urls[0], &acknowledged);
    gates.are_free(&urls[0]);
    let endings = endings(&theatre.valkey);
    for id in &acknowledged {
        assert_eq!(endings.get(&id.uuid().to_string()), Some(&1), "endings of {id}");
    }
    assert!(endings.values().all(|count| *count == 1), "{endings:?}");
    theatre.check_store();
}
