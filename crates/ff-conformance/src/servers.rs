//! What is started once per process and shared by all tests: a runtime, a server, a cluster.

use std::any::Any;
use std::future::Future;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::partition::Partition;
use ff_test_valkey::{Valkey, ValkeyCluster, ValkeyOptions};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::library::timed_library;

/// Partitions from which wake-ups are received; each costs a subscription per topic.
pub(crate) const WAKING_PARTITIONS: u16 = 6144;

/// A busy machine is no failure: only what never answers waits this long.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Connections belong to the runtime that opened them, so all tests run on this one.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().build().expect("threads can be started")
});

static STANDALONE: OnceCell<Arc<ValkeyHost>> = OnceCell::const_new();
static CLUSTER: OnceCell<Arc<ValkeyHost>> = OnceCell::const_new();

/// The processes behind the hosts, until [`stop_servers`].
static PROCESSES: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

/// Runs a test to its end on the shared runtime.
pub fn run<F: Future>(test: F) -> F::Output {
    RUNTIME.block_on(test)
}

/// The shared server.
pub(crate) async fn standalone() -> Arc<ValkeyHost> {
    let start = || async {
        let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
        connect(server.url(), server).await
    };
    Arc::clone(STANDALONE.get_or_init(start).await)
}

/// The shared cluster of three masters.
pub(crate) async fn cluster() -> Arc<ValkeyHost> {
    let start = || async {
        let cluster = ValkeyCluster::start(3, 0).expect("the cluster starts");
        connect(cluster.url(), cluster).await
    };
    Arc::clone(CLUSTER.get_or_init(start).await)
}

async fn connect(url: String, process: impl Any + Send) -> Arc<ValkeyHost> {
    PROCESSES.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(process));
    let mut config = ValkeyConfig::parse(&url).expect("the server knows its URL");
    config.partitions.num_flow_partitions = WAKING_PARTITIONS;
    config.connect_timeout = TIME_LIMIT;
    config.response_timeout = TIME_LIMIT;
    config.retry_time = TIME_LIMIT;
    let host = ValkeyHost::connect(config, timed_library()).await.expect("the host connects");
    // What concerns the whole deployment is in the first partition, which has a clock as well.
    let clock = format!("{}:clock", Partition::flow(0).key());
    let words: [&[u8]; 3] = [b"SET", clock.as_bytes(), b"0"];
    host.exec(Partition::flow(0), &words).await.expect("the clock can be set");
    Arc::new(host)
}

/// Ends the shared servers and removes their directories. Nothing can use them afterwards.
pub fn stop_servers() {
    PROCESSES.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
