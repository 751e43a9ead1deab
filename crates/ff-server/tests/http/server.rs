//! Servers for tests, each in a runtime of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ff_server::{RunningServer, Server, ServerConfig, StartError, StoreConfig};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::client::Client;

/// Few partitions make a deployment quick to start and to look through.
pub(crate) const PARTITIONS: u16 = 16;

/// A running server. Dropping it shuts it down.
pub(crate) struct TestServer {
    runtime: Runtime,
    running: Option<RunningServer>,
    _directory: Option<TempDir>,
}

impl TestServer {
    pub(crate) fn try_start(config: ServerConfig) -> Result<Self, StartError> {
        let runtime = Runtime::new().expect("a runtime");
        let running = runtime.block_on(Server::start(config))?;
        Ok(Self { runtime, running: Some(running), _directory: None })
    }

    pub(crate) fn start(config: ServerConfig) -> Self {
        Self::try_start(config).expect("the server starts")
    }

    pub(crate) fn running(&self) -> &RunningServer {
        self.running.as_ref().expect("it runs until it is dropped")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running().local_addr()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address())
    }

    /// Shuts down; true if everything was finished in time.
    pub(crate) fn shutdown(mut self, within: Duration) -> bool {
        let running = self.running.take().expect("it runs until it is dropped");
        self.runtime.block_on(running.shutdown(within))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.shutdown(Duration::from_secs(5)));
        }
    }
}

/// The configuration of a server on a free port.
pub(crate) fn config(store: StoreConfig) -> ServerConfig {
    ServerConfig {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        store,
        partitions: Some(PARTITIONS),
        ..ServerConfig::default()
    }
}

/// A server on an embedded store with a synced journal.
pub(crate) fn embedded() -> TestServer {
    let directory = TempDir::new().expect("a directory");
    let store = StoreConfig::parse(&directory.path().join("data").display().to_string());
    let mut server = TestServer::start(config(store.expect("a store")));
    server._directory = Some(directory);
    server
}

/// A server on this Valkey.
pub(crate) fn on(url: &str) -> TestServer {
    TestServer::start(config(StoreConfig::parse(url).expect("a store")))
}

/// A server that keeps nothing, with a configuration of its own.
pub(crate) fn in_memory(change: impl FnOnce(&mut ServerConfig)) -> TestServer {
    let mut config = config(StoreConfig::memory());
    change(&mut config);
    TestServer::start(config)
}
