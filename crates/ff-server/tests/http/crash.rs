//! A server that is killed the hard way: nothing acknowledged is lost, and no rule is broken.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ff_backend_embedded::{SyncMode, store};
use ff_script::audit;
use ff_server::{Server, StoreConfig};
use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{TestServer, config};
use crate::suite::{path, text, token};

const STORE: &str = "FF_TEST_SERVER_STORE";
const SYNC: &str = "FF_TEST_SERVER_SYNC";
const ROUNDS: usize = 4;
const READY: &str = "listening on ";

/// Not a test of its own: this is what a child process runs, told its store by the environment.
#[test]
fn child_process() {
    let Ok(store) = std::env::var(STORE) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let config = config(synced(&store, std::env::var(SYNC).as_deref().unwrap_or("always")));
        let server = Server::start(config).await.expect("the server starts");
        println!("\n{READY}{}", server.local_addr());
        std::future::pending::<()>().await;
    });
}

/// A store with its sync mode; only a directory has one.
fn synced(store: &str, mode: &str) -> StoreConfig {
    let sync = if mode == "everysec" { SyncMode::EverySec } else { SyncMode::Always };
    StoreConfig::parse(store).expect("a store").with_sync(sync)
}

/// This test program again, as a server on this store.
pub(crate) fn child_command(store: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "crash::child_process", "--nocapture", "--test-threads", "1"]);
    command.env(STORE, store);
    command
}

/// A server in a process of its own. Dropping it kills it.
pub(crate) struct ServerChild {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl ServerChild {
    fn start(store: &Path, mode: &str) -> Self {
        let mut command = child_command(&store.display().to_string());
        command.env(SYNC, mode);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self::await_address(command.spawn().expect("the child starts"))
    }

    /// Reads the address that the child prints.
    pub(crate) fn await_address(mut child: Child) -> Self {
        let output = child.stdout.take().expect("its output is piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix(READY).map(str::to_owned));
        let address = line.expect("the child says where it listens").parse().expect("an address");
        // The pipe stays open, or the child would die of its next line.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill9(&mut self) {
        // Killed already is killed, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ServerChild {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// What clients were told before the server died.
#[derive(Default)]
struct Told {
    submitted: Mutex<Vec<String>>,
    completed: Mutex<Vec<String>>,
}

fn submit_until_it_breaks(client: &Client, told: &Told, stop: &AtomicBool) {
    let json = [("content-type", "application/json")];
    let body = json!({"kind": "a", "lane": "crash", "payload": "x".repeat(200)}).to_string();
    while !stop.load(Ordering::Relaxed) {
        match client.try_send("POST", "/v1/executions", &json, body.as_bytes()) {
            Ok(answer) if answer.status == 201 => {
                let id = text(&answer.json()["execution_id"]);
                told.submitted.lock().expect("no panic").push(id);
            }
            Ok(answer) => panic!("{answer:?}"),
            Err(_) => return,
        }
    }
}

fn work_until_it_breaks(client: &Client, told: &Told, stop: &AtomicBool, name: usize) {
    let json = [("content-type", "application/json")];
    let request = json!({
        "worker_id": "w", "worker_instance_id": format!("w-{name}"), "lanes": ["crash"],
        "count": 4, "lease_ttl_ms": 2000, "wait_ms": 500,
    })
    .to_string();
    while !stop.load(Ordering::Relaxed) {
        let Ok(answer) = client.try_send("POST", "/v1/claims", &json, request.as_bytes()) else {
            return;
        };
        for task in answer.json()["tasks"].as_array().expect("tasks") {
            let id = text(&task["execution_id"]);
            let token = token(task);
            let headers = [("flowfabric-task", token.as_str())];
            let ended = client.try_send("POST", "/v1/tasks/complete", &headers, id.as_bytes());
            match ended {
                Ok(answer) if answer.status == 204 => {
                    told.completed.lock().expect("no panic").push(id);
                }
                Ok(answer) => panic!("{answer:?}"),
                Err(_) => return,
            }
        }
    }
}

fn run_load(
    address: SocketAddr,
    told: &Arc<Told>,
    stop: &Arc<AtomicBool>,
) -> Vec<thread::JoinHandle<()>> {
    (0..8)
        .map(|name| {
            let (told, stop) = (Arc::clone(told), Arc::clone(stop));
            thread::spawn(move || {
                let client = Client::new(address);
                if name < 4 {
                    submit_until_it_breaks(&client, &told, &stop);
                } else {
                    work_until_it_breaks(&client, &told, &stop, name);
                }
            })
        })
        .collect()
}

#[test]
fn a_server_killed_under_load_loses_nothing_acknowledged() {
    kill_under_load("always");
}

#[test]
fn a_server_that_syncs_every_second_loses_nothing_when_it_is_killed() {
    kill_under_load("everysec");
}

fn kill_under_load(mode: &str) {
    let seed = ff_test_seed::random_test!().seed();
    let directory = tempfile::TempDir::new().expect("a directory");
    let store = directory.path().join("data");
    let told = Arc::new(Told::default());
    for round in 1..=ROUNDS {
        // Somewhere in the middle of the load, and never at the same place.
        let more = 100 + (seed.wrapping_mul(round as u64).wrapping_mul(0x9e37_79b9) >> 7) % 300;
        kill_round(&store, mode, &told, more as usize);
        audited(&store, &told, &format!("{mode}, seed {seed}, round {round}"));
    }
    let server = TestServer::start(config(synced(&store.display().to_string(), mode)));
    check_everything(&server.client(), &told);
}

/// A server works under load until so many more are completed, and is killed.
fn kill_round(store: &Path, mode: &str, told: &Arc<Told>, more: usize) {
    let mut child = ServerChild::start(store, mode);
    let stop = Arc::new(AtomicBool::new(false));
    let completed = || told.completed.lock().expect("no panic").len();
    let wanted = completed() + more;
    let load = run_load(child.address, told, &stop);
    let deadline = Instant::now() + Duration::from_secs(60);
    while completed() < wanted {
        assert!(Instant::now() < deadline, "the load is too slow");
        thread::sleep(Duration::from_micros(100));
    }
    child.kill9();
    stop.store(true, Ordering::Relaxed);
    load.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// What `flowfabric store check` does, right after the kill: every invariant holds, and every
/// execution that was acknowledged is there.
fn audited(directory: &Path, told: &Told, when: &str) {
    let checked = store::check(directory).unwrap_or_else(|error| panic!("{when}: {error}"));
    let report = audit::audit(&checked.dump, &audit::partition_config(&checked.dump));
    assert!(report.is_clean(), "{when}: {report}");
    for id in told.submitted.lock().expect("no panic").iter() {
        let uuid = id.rsplit(':').next().expect("an id has a uuid");
        let has = |key: &Vec<u8>| key.ends_with(format!(":x:{uuid}").as_bytes());
        assert!(checked.dump.keys().any(has), "{when}: {id} is gone");
    }
}

fn check_everything(client: &Client, told: &Told) {
    let submitted = told.submitted.lock().expect("no panic").clone();
    let completed = told.completed.lock().expect("no panic").clone();
    for id in &completed {
        let result = client.get(&path(id, "/result")).expect(200);
        assert_eq!(result.body, id.as_bytes(), "the result of {id}");
    }
    for id in &submitted {
        client.get(&path(id, "")).expect(200);
    }
    // Everything that was accepted ends: what was under way is taken over.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut left: Vec<&String> = submitted.iter().collect();
    while !left.is_empty() {
        assert!(Instant::now() < deadline, "{} never ended", left.len());
        for task in crate::suite::claim_some(client, &["crash"], 64, 1000) {
            crate::suite::complete(client, &task, text(&task["execution_id"]).as_bytes());
        }
        left.retain(|id| {
            let execution: Value = client.get(&path(id, "")).expect(200).json();
            execution["public_state"] != "completed"
        });
    }
}
