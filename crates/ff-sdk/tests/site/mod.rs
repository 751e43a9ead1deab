//! A deployment for one test, on any backend: opened for it, gone after it.
#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod proxy;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ff_core::contracts::ExecutionSnapshot;
use ff_sdk::{
    BackendConfig, ClaimedTask, Client, Connection, ExecutionId, FlowFabricWorker, PartitionConfig,
    PublicState, Worker, WorkerBuilder, WorkerConfig,
};
use ff_server::{RunningServer, Server, ServerConfig, StoreConfig, Token};
use ff_test_valkey::{Valkey, ValkeyOptions};

pub(crate) const LANE: &str = "work";
/// The shortest that a worker may have: losing one must not take long.
pub(crate) const LEASE_TTL_MS: u64 = 1_000;
/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

const PARTITIONS: u16 = 8;

/// A deployment, and a connection to it.
pub(crate) struct Site {
    pub(crate) connection: Connection,
    pub(crate) client: Client,
    /// How to connect to it once more; an embedded store cannot be opened twice.
    pub(crate) config: Option<BackendConfig>,
    pub(crate) place: Place,
}

/// What was started for the test.
pub(crate) enum Place {
    Embedded,
    Valkey(Valkey),
    Server(RunningServer),
}

/// What the server of a test wants to see.
pub(crate) const TOKEN: &str = "a-token-of-the-tests";

fn partitions() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() }
}

impl Site {
    /// A store inside the test.
    pub(crate) async fn embedded() -> Self {
        let mut config = BackendConfig::embedded_in_memory();
        config.partitions = Some(partitions());
        let connection = Connection::open(config).await.expect("opens");
        Self::new(connection, None, Place::Embedded)
    }

    /// A Valkey server of its own.
    pub(crate) async fn valkey() -> Self {
        Self::on_valkey(Valkey::start(ValkeyOptions::default()).expect("a Valkey server")).await
    }

    /// A Valkey server that is there already.
    pub(crate) async fn on_valkey(valkey: Valkey) -> Self {
        let config = valkey_config(&valkey.url());
        let connection = Connection::open(config.clone()).await.expect("connects");
        Self::new(connection, Some(config), Place::Valkey(valkey))
    }

    /// A server of its own, over HTTP, with a store in memory.
    pub(crate) async fn server() -> Self {
        let server = start_server().await;
        let config = server_config(&format!("http://{}", server.local_addr()));
        let connection = Connection::open(config.clone()).await.expect("connects");
        Self::new(connection, Some(config), Place::Server(server))
    }

    /// The server, if it is one.
    pub(crate) fn server_address(&self) -> SocketAddr {
        match &self.place {
            Place::Server(server) => server.local_addr(),
            _ => panic!("there is no server"),
        }
    }

    /// A connection that somebody else looks after.
    pub(crate) fn of(connection: Connection, place: Place) -> Self {
        Self::new(connection, None, place)
    }

    fn new(connection: Connection, config: Option<BackendConfig>, place: Place) -> Self {
        let client = Client::new(&connection);
        Self { connection, client, config, place }
    }

    /// A worker with room for this many tasks.
    pub(crate) async fn worker(&self, instance: &str, room: usize) -> FlowFabricWorker {
        let config = worker_config(instance, room);
        FlowFabricWorker::connect_to(config, &self.connection).await.expect("connects")
    }

    /// A worker made of handlers.
    pub(crate) fn handlers(&self) -> WorkerBuilder<()> {
        Worker::builder("tester")
            .connection(&self.connection)
            .lane(LANE)
            .lease_ttl(Duration::from_millis(LEASE_TTL_MS))
    }

    /// Submits bytes of a kind that no handler looks at.
    pub(crate) async fn submit(&self, payload: impl Into<Vec<u8>>) -> ExecutionId {
        let submission = self.client.submit_raw("test", payload).lane(LANE);
        submission.await.expect("submitted").execution_id()
    }

    pub(crate) async fn describe(&self, id: &ExecutionId) -> ExecutionSnapshot {
        self.client.describe(id).await.expect("readable").expect("it is there")
    }

    pub(crate) async fn state(&self, id: &ExecutionId) -> PublicState {
        self.describe(id).await.public_state()
    }
}

pub(crate) fn valkey_config(url: &str) -> BackendConfig {
    let mut config = BackendConfig::valkey_url(url).expect("a URL");
    config.partitions = Some(partitions());
    config.run_engine = true;
    config
}

pub(crate) async fn start_server() -> RunningServer {
    start_server_with(StoreConfig::memory()).await
}

/// A server on a Valkey that others may use too.
pub(crate) async fn start_server_on(valkey: &str) -> RunningServer {
    start_server_with(StoreConfig::parse(valkey).expect("a store")).await
}

async fn start_server_with(store: StoreConfig) -> RunningServer {
    let config = ServerConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        store,
        tokens: vec![Token(TOKEN.to_owned())],
        partitions: Some(PARTITIONS),
        ..ServerConfig::default()
    };
    Server::start(config).await.expect("a server")
}

pub(crate) fn server_config(url: &str) -> BackendConfig {
    BackendConfig::server(url, Some(TOKEN))
}

pub(crate) fn worker_config(instance: &str, room: usize) -> WorkerConfig {
    WorkerConfig {
        backend: BackendConfig::server("http://unused", None),
        worker_id: "tester".parse().expect("valid"),
        worker_instance_id: instance.parse().expect("valid"),
        namespace: "default".parse().expect("valid"),
        lanes: vec![LANE.parse().expect("valid")],
        capabilities: Vec::new(),
        lease_ttl_ms: LEASE_TTL_MS,
        claim_poll_interval_ms: 1_000,
        max_concurrent_tasks: room,
    }
}

/// Claims what is there or comes soon.
pub(crate) async fn claim(worker: &FlowFabricWorker) -> ClaimedTask {
    worker.claim(LONG).await.expect("answers").expect("there is work")
}

/// Asks again until the answer is yes.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    let deadline = Instant::now() + LONG;
    while !check().await {
        assert!(Instant::now() < deadline, "{what} did not happen in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A number that no other call in this process gets.
pub(crate) fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
