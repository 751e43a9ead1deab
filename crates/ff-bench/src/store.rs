//! The store under measurement: opened or started for the run, gone after it.

use std::path::Path;
use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, MemoryLimit, Storage, SyncMode};
use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::engine_backend::PartitionBackend;
use ff_core::partition::PartitionConfig;
use ff_script::backend::ScriptBackend;
use ff_script::host::Host;
use ff_script::library::Library;
use ff_test_valkey::{Valkey, ValkeyCluster, ValkeyOptions};
use tempfile::TempDir;

use crate::Failure;
use crate::arguments::{HostKind, Journal, StoreOptions};

const CLUSTER_MASTERS: u16 = 3;

/// An open store. Fields are dropped in this order: first those who call, then what is called.
pub(crate) struct Store {
    /// What workers and submitters use.
    pub(crate) backend: Arc<dyn PartitionBackend>,
    /// What is underneath, for bare calls.
    pub(crate) host: Arc<dyn Host>,
    /// What can be asked about itself.
    pub(crate) inside: Inside,
    _place: Place,
}

/// The host by its own type, which can tell what a [`Host`] cannot.
pub(crate) enum Inside {
    Embedded(Arc<EmbeddedHost>),
    Valkey(Arc<ValkeyHost>),
}

/// What was made for the run and goes with it.
pub(crate) enum Place {
    /// Nothing: it was there before, or needs nothing.
    None,
    Directory {
        _directory: TempDir,
    },
    Servers {
        _servers: Vec<Valkey>,
    },
    Cluster {
        _cluster: ValkeyCluster,
    },
}

impl Store {
    /// Opens the store that the options ask for, with a deployment in it.
    pub(crate) async fn open(options: &StoreOptions) -> Result<Self, Failure> {
        match options.host {
            HostKind::Embedded => Self::open_embedded(options).await,
            HostKind::Valkey | HostKind::Cluster => Self::open_valkey(options).await,
        }
    }

    async fn open_embedded(options: &StoreOptions) -> Result<Self, Failure> {
        let (storage, place) = storage(options.journal)?;
        let shards = options.shard_count().map_or(1, usize::from);
        let config = EmbeddedConfig { shards, storage, ..EmbeddedConfig::in_memory() };
        let host = Arc::new(EmbeddedHost::open(config, &Library::current())?);
        let backend = ScriptBackend::open(Arc::clone(&host), partitions(options)).await?;
        let inside = Inside::Embedded(Arc::clone(&host));
        Ok(Self { backend: Arc::new(backend), host, inside, _place: place })
    }

    /// Opens the embedded store of a directory, which stays, as the product does.
    pub(crate) async fn open_directory(path: &Path, partitions: u16) -> Result<Self, Failure> {
        Self::open_directory_within(path, partitions, MemoryLimit::of_this_machine()).await
    }

    /// The same, with as much memory for keys and values.
    pub(crate) async fn open_directory_within(
        path: &Path,
        partitions: u16,
        memory_limit: MemoryLimit,
    ) -> Result<Self, Failure> {
        let config = EmbeddedConfig { memory_limit, ..EmbeddedConfig::in_directory(path) };
        let host = Arc::new(EmbeddedHost::open(config, &Library::current())?);
        let counts =
            PartitionConfig { num_flow_partitions: partitions, ..PartitionConfig::default() };
        let backend = ScriptBackend::open(Arc::clone(&host), counts).await?;
        let inside = Inside::Embedded(Arc::clone(&host));
        Ok(Self { backend: Arc::new(backend), host, inside, _place: Place::None })
    }

    async fn open_valkey(options: &StoreOptions) -> Result<Self, Failure> {
        let (url, place) = match &options.url {
            Some(url) => (url.clone(), Place::None),
            None => start(options)?,
        };
        let config = ValkeyConfig::parse(&url).map_err(|error| format!("--url: {error}"))?;
        if config.cluster != (options.host == HostKind::Cluster) {
            return Err("--url: a cluster's URL goes with --host cluster, and no other".into());
        }
        let config = config
            .with_flow_partitions(options.partitions)
            .with_durability(options.durability.into());
        let host = Arc::new(ValkeyHost::connect(config, Library::current()).await?);
        let backend = ScriptBackend::open(Arc::clone(&host), partitions(options)).await?;
        let inside = Inside::Valkey(Arc::clone(&host));
        Ok(Self { backend: Arc::new(backend), host, inside, _place: place })
    }

    /// The number of flow partitions.
    pub(crate) fn partitions(&self) -> u16 {
        self.backend.partition_config().num_flow_partitions
    }

    /// The Valkey, if it is one.
    pub(crate) fn valkey(&self) -> Option<&Arc<ValkeyHost>> {
        match &self.inside {
            Inside::Embedded(_) => None,
            Inside::Valkey(host) => Some(host),
        }
    }

    /// A number for a journal that is not there would be worse than none.
    pub(crate) fn check_journal(&self, journal: Journal) -> Result<(), Failure> {
        match &self.inside {
            Inside::Embedded(host)
                if journal != Journal::Off && host.stats().journal_bytes == 0 =>
            {
                Err(format!("the store wrote no journal although --journal is {journal}").into())
            }
            _ => Ok(()),
        }
    }
}

fn partitions(options: &StoreOptions) -> PartitionConfig {
    PartitionConfig { num_flow_partitions: options.partitions, ..PartitionConfig::default() }
}

/// A directory that goes with the run.
pub(crate) fn directory() -> Result<TempDir, Failure> {
    Ok(tempfile::Builder::new().prefix("ff-bench-").tempdir()?)
}

fn storage(journal: Journal) -> Result<(Storage, Place), Failure> {
    let sync = match journal {
        Journal::Always => SyncMode::Always,
        Journal::Everysec => SyncMode::EverySec,
        Journal::Off => return Ok((Storage::Memory, Place::None)),
    };
    let directory = directory()?;
    let path = directory.path().join("data");
    Ok((Storage::Directory { path, sync }, Place::Directory { _directory: directory }))
}

/// Starts a Valkey server or a cluster; answers its URL too.
pub(crate) fn start(options: &StoreOptions) -> Result<(String, Place), Failure> {
    let valkey = ValkeyOptions {
        append_only: options.journal != Journal::Off,
        append_fsync: (options.journal != Journal::Off).then(|| options.journal.to_string()),
        ..ValkeyOptions::default()
    };
    if options.host == HostKind::Valkey {
        let mut servers = vec![Valkey::start(valkey.clone())?];
        for _ in 0..options.replica_count() {
            let replica = Valkey::start_replica(&servers[0], servers[0].port(), valkey.clone())?;
            servers.push(replica);
        }
        return Ok((servers[0].url(), Place::Servers { _servers: servers }));
    }
    let masters = usize::from(options.masters.unwrap_or(CLUSTER_MASTERS));
    let cluster = ValkeyCluster::start_with(masters, options.replica_count().into(), valkey)?;
    Ok((cluster.url(), Place::Cluster { _cluster: cluster }))
}
