//! What scenarios of the SDK run on: a store, an engine, and a client and workers.

use std::sync::Arc;

use ff_backend_valkey::ValkeyHost;
use ff_core::partition::PartitionConfig;
use ff_sdk::{BackendConfig, Client, Connection, EmbeddedConfig, FlowFabricWorker};

use crate::Failure;
use crate::arguments::{HostKind, StoreOptions};
use crate::metering::{self, Spent};
use crate::scenario::sdk;
use crate::server::{ServedStore, ServerProcess};
use crate::slow_log;
use crate::store::Store;

/// Fields are dropped in this order: first those who call, then what is called.
pub(crate) struct Deployment {
    pub(crate) client: Client,
    pub(crate) connection: Connection,
    /// Runs the engine of a Valkey, which the embedded store has with it.
    pub(crate) server: Option<ServerProcess>,
    /// Valkey is asked what it spends; what the embedded store does is known by its threads.
    store: Option<Store>,
    served: Option<ServedStore>,
}

impl Deployment {
    pub(crate) async fn start(on: &StoreOptions) -> Result<Self, Failure> {
        if on.host == HostKind::Embedded {
            return Self::embedded(on).await;
        }
        let served = ServedStore::start(on)?;
        let server = served.serve()?;
        let url = Some(served.store.clone());
        let store = Store::open(&StoreOptions { url, ..on.clone() }).await?;
        let connection = Connection::open(BackendConfig::valkey_url(&served.store)?).await?;
        Ok(Self {
            client: Client::new(&connection),
            connection,
            server: Some(server),
            store: Some(store),
            served: Some(served),
        })
    }

    async fn embedded(on: &StoreOptions) -> Result<Self, Failure> {
        let config = EmbeddedConfig { shards: 1, ..EmbeddedConfig::in_memory() };
        let mut backend = BackendConfig::embedded_with(config);
        let num_flow_partitions = on.partitions;
        backend.partitions =
            Some(PartitionConfig { num_flow_partitions, ..PartitionConfig::default() });
        let connection = Connection::open(backend).await?;
        let client = Client::new(&connection);
        Ok(Self { client, connection, server: None, store: None, served: None })
    }

    /// As many workers with one task at a time, which share a connection.
    pub(crate) async fn workers(&self, count: u32) -> Result<Vec<FlowFabricWorker>, Failure> {
        sdk::connect_to(std::slice::from_ref(&self.connection), count).await
    }

    /// As many connections of their own, each with a scheduler; an embedded store has only one.
    pub(crate) async fn connections(&self, count: u32) -> Result<Vec<Connection>, Failure> {
        let mut open = Vec::new();
        for _ in 0..count {
            open.push(match self.url() {
                Some(url) => Connection::open(BackendConfig::valkey_url(url)?).await?,
                None => self.connection.clone(),
            });
        }
        Ok(open)
    }

    /// Where Valkey is, if it is one.
    pub(crate) fn url(&self) -> Option<&str> {
        self.served.as_ref().map(|served| served.store.as_str())
    }

    pub(crate) fn valkey(&self) -> Option<&Arc<ValkeyHost>> {
        self.store.as_ref().and_then(Store::valkey)
    }

    /// What store and callers spent since they were started.
    pub(crate) async fn spent(&self) -> Result<Spent, Failure> {
        Spent::so_far_on(self.valkey()).await
    }

    /// Memory that the data takes, where the store can tell.
    pub(crate) async fn memory_bytes(&self) -> Result<Option<f64>, Failure> {
        match &self.store {
            Some(store) => metering::memory_bytes(store).await,
            None => Ok(None),
        }
    }

    /// Begins to look for the longest call.
    pub(crate) async fn begin_slow_log(&self) -> Result<(), Failure> {
        match self.valkey() {
            Some(host) => slow_log::begin(host).await,
            None => Ok(()),
        }
    }

    /// The longest call since then, where the store can tell.
    pub(crate) async fn longest_call_us(&self) -> Result<Option<f64>, Failure> {
        match self.valkey() {
            Some(host) => slow_log::longest_us(host).await,
            None => Ok(None),
        }
    }
}
