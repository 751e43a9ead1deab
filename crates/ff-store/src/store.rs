//! An open store, and what runs on it.

use std::sync::Arc;

#[cfg(feature = "embedded")]
use ff_backend_embedded::EmbeddedHost;
#[cfg(feature = "valkey")]
use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::{Code, EngineError};
use ff_core::partition::PartitionConfig;
use ff_engine::{Engine, EngineConfig};
use ff_scheduler::Scheduler;
use ff_script::backend::{ScriptBackend, WaitpointSecrets};
use ff_script::endings::Endings;
use ff_script::host::Host;
use ff_script::ids::IdSource;
use ff_script::library::Library;

use crate::config::StoreConfig;
use crate::facts::KeptFacts;
use crate::first_secrets::FirstSecrets;

/// An open store.
#[derive(Clone)]
pub struct Store {
    backend: Arc<ScriptBackend>,
    host: StoreHost,
    secrets: WaitpointSecrets,
}

/// What runs the functions of an open store.
#[derive(Clone)]
pub enum StoreHost {
    /// In this process.
    #[cfg(feature = "embedded")]
    Embedded(Arc<EmbeddedHost>),
    /// Elsewhere.
    #[cfg(feature = "valkey")]
    Valkey {
        /// The connections.
        host: Arc<ValkeyHost>,
        /// How they were made.
        config: Box<ValkeyConfig>,
    },
}

/// How much less often further connections of a process look at their server.
#[cfg(feature = "valkey")]
const CHECKED_LESS_OFTEN: u32 = 8;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store in this process could not be opened.
    #[cfg(feature = "embedded")]
    #[error(transparent)]
    Embedded(#[from] ff_backend_embedded::OpenError),
    /// It could not be reached, or it holds another deployment.
    #[error(transparent)]
    Deployment(#[from] EngineError),
}

impl Store {
    /// Opens the store that is described. Without counts it opens the deployment that is there, or
    /// a new one with the default counts; with them, a deployment that has others is refused.
    pub async fn open(
        config: StoreConfig,
        counts: Option<PartitionConfig>,
    ) -> Result<Self, OpenError> {
        Self::open_with(config, counts, WaitpointSecrets::default()).await
    }

    /// The same, with these keys of waitpoint tokens where there are none.
    pub async fn open_with(
        config: StoreConfig,
        counts: Option<PartitionConfig>,
        secrets: WaitpointSecrets,
    ) -> Result<Self, OpenError> {
        let store = Uncounted::of(config).await?;
        let opened = store.open(counts.unwrap_or_default(), &secrets).await;
        let existing = opened.as_ref().err().and_then(existing).filter(|_| counts.is_none());
        Ok(match existing {
            Some(existing) => store.open(existing, &secrets).await?,
            None => opened?,
        })
    }

    #[cfg(feature = "valkey")]
    async fn connect(
        config: Box<ValkeyConfig>,
        counts: PartitionConfig,
        secrets: &WaitpointSecrets,
    ) -> Result<Self, EngineError> {
        let listening = config.clone().with_partitions(counts);
        let host = Arc::new(ValkeyHost::connect(listening, Library::current()).await?);
        Self::new(StoreHost::Valkey { host, config }, counts, secrets).await
    }

    async fn new(
        host: StoreHost,
        counts: PartitionConfig,
        secrets: &WaitpointSecrets,
    ) -> Result<Self, EngineError> {
        let backend = ScriptBackend::open(host.as_dyn(), counts).await?;
        let backend = Arc::new(backend.with_waitpoint_secrets(secrets.clone()));
        Ok(Self { backend, host, secrets: secrets.clone() })
    }

    /// The engine's API on it.
    pub fn backend(&self) -> &Arc<ScriptBackend> {
        &self.backend
    }

    /// What runs its functions.
    pub fn host(&self) -> &StoreHost {
        &self.host
    }

    /// Connects once more, where there is something to connect to: connections belong to the
    /// runtime that awaits this.
    pub async fn connect_again(&self) -> Result<Self, EngineError> {
        match &self.host {
            #[cfg(feature = "embedded")]
            StoreHost::Embedded(_) => Ok(self.clone()),
            #[cfg(feature = "valkey")]
            StoreHost::Valkey { config, .. } => {
                let counts = self.backend.partition_config();
                let mut config = config.clone();
                // The server is looked at by those that were there before.
                config.check_interval *= CHECKED_LESS_OFTEN;
                Self::connect(config, counts, &self.secrets).await
            }
        }
    }

    /// Starts to fire its timers. Processes on one Valkey share its partitions; a store of our own
    /// has nobody to share with.
    pub async fn start_engine(&self, ids: &dyn IdSource) -> Result<Engine, EngineError> {
        let (backend, config) = (Arc::clone(&self.backend), EngineConfig::default());
        match &self.host {
            #[cfg(feature = "embedded")]
            StoreHost::Embedded(_) => Engine::start(backend, config).await,
            #[cfg(feature = "valkey")]
            StoreHost::Valkey { .. } => Engine::start_sharing(backend, config, ids).await,
        }
    }

    /// Starts to give every partition that has none the first key of its waitpoint tokens.
    #[must_use]
    pub fn install_first_secrets(&self) -> FirstSecrets {
        FirstSecrets::start(Arc::clone(&self.backend))
    }

    /// Starts to keep every partition up to date with the facts that all of them know.
    #[must_use]
    pub fn keep_facts(&self) -> KeptFacts {
        KeptFacts::start(Arc::clone(&self.backend))
    }

    /// Finds work on this store.
    pub fn scheduler(&self, ids: Arc<dyn IdSource>) -> Scheduler {
        Scheduler::new(Arc::clone(&self.backend), ids)
    }

    /// Tells of ended executions.
    pub fn endings(&self) -> Endings {
        Endings::of_host(Arc::clone(self.backend.host()))
    }

    /// Waits until the store stops itself, which only one in this process can do, and answers why.
    pub async fn stopped(&self) -> String {
        match &self.host {
            #[cfg(feature = "embedded")]
            StoreHost::Embedded(host) => host.stopped().await,
            #[cfg(feature = "valkey")]
            StoreHost::Valkey { .. } => std::future::pending().await,
        }
    }

    /// Finishes what is under way and lets go of the data. Connections end when they are dropped.
    pub async fn close(&self) {
        #[cfg(feature = "embedded")]
        if let StoreHost::Embedded(host) = &self.host {
            // One that takes too long says so itself.
            host.close().await;
        }
    }
}

/// A store whose counts are not known yet. A Valkey host must know how many
/// partitions to listen to, so another number than the default means to connect a second time.
enum Uncounted {
    #[cfg(feature = "embedded")]
    Embedded(Arc<EmbeddedHost>),
    #[cfg(feature = "valkey")]
    Valkey(Box<ValkeyConfig>),
}

impl Uncounted {
    async fn of(config: StoreConfig) -> Result<Self, OpenError> {
        match config {
            #[cfg(feature = "embedded")]
            StoreConfig::Embedded(config) => {
                // Reading a data directory back blocks for as long as it takes.
                let open = || EmbeddedHost::open(config, &Library::current());
                let opened = tokio::task::spawn_blocking(open).await;
                let host = opened.expect("opening a store does not panic and is not cancelled")?;
                Ok(Self::Embedded(Arc::new(host)))
            }
            #[cfg(feature = "valkey")]
            StoreConfig::Valkey(config) => Ok(Self::Valkey(config)),
        }
    }

    async fn open(
        &self,
        counts: PartitionConfig,
        secrets: &WaitpointSecrets,
    ) -> Result<Store, EngineError> {
        match self {
            #[cfg(feature = "embedded")]
            Self::Embedded(host) => {
                Store::new(StoreHost::Embedded(Arc::clone(host)), counts, secrets).await
            }
            #[cfg(feature = "valkey")]
            Self::Valkey(config) => Store::connect(config.clone(), counts, secrets).await,
        }
    }
}

impl StoreHost {
    fn as_dyn(&self) -> Arc<dyn Host> {
        match self {
            #[cfg(feature = "embedded")]
            Self::Embedded(host) => Arc::clone(host) as Arc<dyn Host>,
            #[cfg(feature = "valkey")]
            Self::Valkey { host, .. } => Arc::clone(host) as Arc<dyn Host>,
        }
    }
}

/// The counts of a deployment that refused others.
fn existing(error: &EngineError) -> Option<PartitionConfig> {
    let [flow, budget, quota] = error.details() else { return None };
    (error.code() == Some(Code::DeploymentMismatch)).then_some(())?;
    Some(PartitionConfig {
        num_flow_partitions: flow.parse().ok()?,
        num_budget_partitions: budget.parse().ok()?,
        num_quota_partitions: quota.parse().ok()?,
    })
}
