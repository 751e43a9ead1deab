//! Opens the store and what runs on it: the engine that ticks it and the scheduler that finds work.

use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, Stats, Storage};
use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::backend_error::BackendError;
use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::partition::PartitionConfig;
use ff_engine::{Engine, EngineConfig};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic};
use ff_script::ids::IdSource;
use ff_script::library::Library;

use crate::config::StoreConfig;

/// An open store with everything that runs on it.
pub(crate) struct Store {
    pub(crate) backend: Arc<dyn EngineBackend>,
    pub(crate) work: Arc<Scheduler>,
    pub(crate) ended: Subscription,
    pub(crate) engine: Engine,
    pub(crate) place: Place,
}

/// What is known about the place of the data besides its contents.
#[derive(Clone)]
pub(crate) enum Place {
    /// In this process.
    Embedded { host: Arc<EmbeddedHost>, shown: String },
    /// Elsewhere.
    Valkey { host: Arc<ValkeyHost>, shown: String },
}

impl Place {
    /// For the banner.
    pub(crate) fn shown(&self) -> &str {
        match self {
            Self::Embedded { shown, .. } | Self::Valkey { shown, .. } => shown,
        }
    }

    /// What Valkey keeps on disk, for the banner.
    pub(crate) fn kept(&self) -> Option<String> {
        let Self::Valkey { host, .. } = self else { return None };
        let mut kept = host.persistence();
        let same = kept.windows(2).all(|pair| pair[0].1 == pair[1].1);
        if same {
            kept.truncate(1);
            return kept.pop().map(|(_, kept)| kept.to_string());
        }
        let of_each = kept.iter().map(|(address, kept)| format!("{address}: {kept}"));
        Some(of_each.collect::<Vec<_>>().join("; "))
    }

    /// How often Valkey was found to have lost acknowledged work, and whether all of it is durable.
    pub(crate) fn losses(&self) -> Option<(u64, bool)> {
        let Self::Valkey { host, .. } = self else { return None };
        Some((host.losses(), host.persistence().iter().all(|(_, kept)| kept.is_durable())))
    }

    /// What an operator should know although the store works. Anybody may read it, so it names no
    /// server.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Self::Valkey { host, .. } = self else { return Vec::new() };
        let latest = host.noticed_losses().pop();
        let told = latest.map(|loss| {
            let (count, at) = (host.losses(), loss.noticed_at);
            format!("the store has lost acknowledged work ({count} times, last at {at}): {loss}")
        });
        told.into_iter().collect()
    }

    /// What the embedded store did so far.
    pub(crate) fn stats(&self) -> Option<Stats> {
        match self {
            Self::Embedded { host, .. } => Some(host.stats()),
            Self::Valkey { .. } => None,
        }
    }

    /// Whether a store in this process takes work, in all its parts. Of another, the calls tell.
    pub(crate) async fn ready(&self) -> Result<(), BackendError> {
        match self {
            Self::Embedded { host, .. } => host.ready().await,
            Self::Valkey { .. } => Ok(()),
        }
    }

    /// Why the store has stopped itself, if it has.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        match self {
            Self::Embedded { host, .. } => host.stop_reason(),
            Self::Valkey { .. } => None,
        }
    }

    /// Waits until the store stops itself, which only one in this process can do.
    pub(crate) async fn stopped(&self) -> String {
        match self {
            Self::Embedded { host, .. } => host.stopped().await,
            Self::Valkey { .. } => std::future::pending().await,
        }
    }

    /// Finishes what is under way and lets go of the data.
    pub(crate) async fn close(&self) {
        if let Self::Embedded { host, .. } = self {
            // One that takes too long says so itself.
            host.close().await;
        }
    }
}

/// Opens the store that the configuration names. Answers what is wrong in words.
pub(crate) async fn open(
    config: &StoreConfig,
    partitions: PartitionConfig,
    ids: Arc<dyn IdSource>,
) -> Result<Store, String> {
    match config {
        StoreConfig::Memory => {
            let shown = "embedded, in memory: gone when the server ends".to_owned();
            open_embedded(EmbeddedConfig::in_memory(), shown, partitions, ids).await
        }
        StoreConfig::Embedded { dir, sync } => {
            let mut embedded = EmbeddedConfig::in_directory(dir);
            embedded.storage = Storage::Directory { path: dir.clone(), sync: *sync };
            let shown = format!("embedded in {} (sync {})", dir.display(), sync_word(*sync));
            open_embedded(embedded, shown, partitions, ids).await
        }
        StoreConfig::Valkey(valkey) => open_valkey(valkey, partitions, ids).await,
    }
}

fn sync_word(sync: ff_backend_embedded::SyncMode) -> &'static str {
    use ff_backend_embedded::SyncMode;
    match sync {
        SyncMode::Always => "always",
        SyncMode::EverySec => "everysec",
        SyncMode::Off => "off",
    }
}

async fn open_embedded(
    config: EmbeddedConfig,
    shown: String,
    partitions: PartitionConfig,
    ids: Arc<dyn IdSource>,
) -> Result<Store, String> {
    // Reading a journal back takes its time and blocks.
    let opened =
        tokio::task::spawn_blocking(move || EmbeddedHost::open(config, &Library::current()));
    let opened = opened.await.map_err(|error| error.to_string())?;
    let host = Arc::new(opened.map_err(|error| error.to_string())?);
    let place = Place::Embedded { host: Arc::clone(&host), shown };
    start(host, place, partitions, ids).await.map_err(|error| error.to_string())
}

async fn open_valkey(
    config: &ValkeyConfig,
    partitions: PartitionConfig,
    ids: Arc<dyn IdSource>,
) -> Result<Store, String> {
    let config = config.clone().with_flow_partitions(partitions.num_flow_partitions);
    let addresses: Vec<String> = config.addresses.iter().map(ToString::to_string).collect();
    let kind = if config.cluster { "valkey cluster" } else { "valkey" };
    let shown = format!("{kind} at {}", addresses.join(", "));
    let connected = ValkeyHost::connect(config, Library::current()).await;
    let host = Arc::new(connected.map_err(|error| error.to_string())?);
    let place = Place::Valkey { host: Arc::clone(&host), shown };
    start(host, place, partitions, ids).await.map_err(|error| error.to_string())
}

/// Starts everything on a host. Servers on one Valkey share its partitions; a store of our own has
/// nobody to share with.
async fn start<H: Host>(
    host: Arc<H>,
    place: Place,
    partitions: PartitionConfig,
    ids: Arc<dyn IdSource>,
) -> Result<Store, EngineError> {
    let ended = host.subscribe(Topic::Ended).await?;
    let backend = Arc::new(ScriptBackend::open(host, partitions).await?);
    let config = EngineConfig::default();
    let engine = match &place {
        Place::Embedded { .. } => Engine::start(Arc::clone(&backend), config).await?,
        Place::Valkey { .. } => {
            Engine::start_sharing(Arc::clone(&backend), config, ids.as_ref()).await?
        }
    };
    let work = Arc::new(Scheduler::start(Arc::clone(&backend), ids).await?);
    Ok(Store { backend, work, ended, engine, place })
}
