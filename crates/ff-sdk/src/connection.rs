//! An open way to a deployment, shared by workers and clients.

#[cfg(any(feature = "embedded", feature = "valkey"))]
mod store;

use std::fmt;
use std::sync::Arc;

use ff_core::completion_backend::CompletionBackend;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::partition::PartitionConfig;
use ff_core::types::{ExecutionId, ExecutionRef};
use ff_core::work_source::WorkSource;
use tokio::sync::OnceCell;

use crate::backend_config::{BackendConfig, BackendConnection};
use crate::endings::Endings;
use crate::error::{Context as _, SdkError};
use crate::http;
use crate::worker::{SharedUpkeep, Upkeep};

/// An open way to a deployment. Cheap to clone; workers and clients of one process share it, which
/// an embedded store needs: only one may be open per directory.
///
/// ```
/// # async fn example() -> Result<(), ff_sdk::SdkError> {
/// use ff_sdk::{BackendConfig, Client, Connection};
///
/// let connection = Connection::open(BackendConfig::embedded_in_memory()).await?;
/// let client = Client::new(&connection);
/// client.submit("greet", "world").await?;
/// connection.close().await;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Connection(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) engine: Arc<dyn EngineBackend>,
    pub(crate) completion: Option<Arc<dyn CompletionBackend>>,
    pub(crate) endings: Endings,
    pub(crate) work: OnceCell<Arc<dyn WorkSource>>,
    pub(crate) upkeep: SharedUpkeep,
    pub(crate) opener: Box<dyn Opener>,
}

/// Another way to the same deployment.
pub(crate) struct Another {
    pub(crate) engine: Arc<dyn EngineBackend>,
    pub(crate) work: Arc<dyn WorkSource>,
}

/// What belongs to a connection besides its traits: work is looked for only if somebody wants it,
/// and what runs in the background is stopped at the end.
pub(crate) trait Opener: Send + Sync {
    /// Starts to look for work.
    fn work(&self) -> Answer<'_, Arc<dyn WorkSource>>;

    /// Connects once more, where there is something to connect to.
    fn again(&self) -> Option<Answer<'static, Another>> {
        None
    }

    /// Waits until the store stops itself, and answers why.
    fn stopped(&self) -> futures_core::future::BoxFuture<'_, String> {
        Box::pin(std::future::pending())
    }

    /// Ends what runs in the background.
    fn close(&self) -> futures_core::future::BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Connection {
    /// Connects, and starts what the configuration asks for.
    pub async fn open(config: BackendConfig) -> Result<Self, SdkError> {
        config.validate()?;
        let parts = match config.connection {
            #[cfg(any(feature = "embedded", feature = "valkey"))]
            BackendConnection::Store(store) => {
                store::open(store, config.partitions, config.run_engine).await?
            }
            BackendConnection::Server(server) => http::open(&server).await?,
        };
        Ok(Self(Arc::new(parts)))
    }

    /// A connection over implementations of your own.
    pub fn from_parts(
        engine: Arc<dyn EngineBackend>,
        work: Arc<dyn WorkSource>,
        completion: Option<Arc<dyn CompletionBackend>>,
    ) -> Self {
        let endings = match &completion {
            Some(completion) => Endings::of_completions(Arc::clone(completion)),
            None => Endings::Polled,
        };
        let (work, opener) = (OnceCell::new(), Box::new(Given(work)));
        let upkeep = SharedUpkeep::default();
        Self(Arc::new(Parts { engine, completion, endings, work, upkeep, opener }))
    }

    /// The backend that every call goes through.
    pub fn engine(&self) -> &Arc<dyn EngineBackend> {
        &self.0.engine
    }

    /// Where work comes from. Starts to listen for it at the first call.
    pub async fn work(&self) -> Result<Arc<dyn WorkSource>, SdkError> {
        let work = self.0.work.get_or_try_init(|| self.0.opener.work()).await;
        work.cloned().context("work_source")
    }

    /// Where completions can be subscribed to, if the backend can tell of them.
    pub fn completion(&self) -> Option<Arc<dyn CompletionBackend>> {
        self.0.completion.clone()
    }

    /// Opens another way to the same deployment: its connections belong to the runtime that awaits
    /// this. Where there are no connections it is the same way; work is looked for on the runtime
    /// that calls this then, which outlasts each of those that share it.
    pub(crate) async fn another(&self) -> Result<Answer<'static, Another>, SdkError> {
        if let Some(again) = self.0.opener.again() {
            return Ok(again);
        }
        let another = Another { engine: Arc::clone(&self.0.engine), work: self.work().await? };
        Ok(Box::pin(std::future::ready(Ok(another))))
    }

    /// The thread that claims for the workers of this connection.
    pub(crate) async fn upkeep(&self) -> Result<Arc<Upkeep>, SdkError> {
        self.0.upkeep.of(self).await
    }

    /// How many partitions the deployment has.
    pub fn partition_config(&self) -> PartitionConfig {
        self.0.engine.partition_config()
    }

    /// The id of the execution that is called so in this deployment.
    pub fn resolve(&self, name: impl Into<ExecutionRef>) -> Result<ExecutionId, SdkError> {
        let id = name.into().resolve(&self.partition_config());
        id.map_err(|error| EngineError::from(error).into())
    }

    /// What to call an execution where people read it: its UUID, if that is enough to find it.
    pub fn shortest(&self, id: ExecutionId) -> ExecutionRef {
        ExecutionRef::shortest(id, &self.partition_config())
    }

    pub(crate) fn endings(&self) -> &Endings {
        &self.0.endings
    }

    /// Waits until an embedded store stops itself, and answers why: its disk failed, or a call
    /// failed halfway. Every call fails from then on, until the program opens the store anew. Never
    /// returns for another backend.
    pub async fn stopped(&self) -> String {
        self.0.opener.stopped().await
    }

    /// Ends what runs in the background; an embedded store syncs and unlocks its directory. Later
    /// calls may fail. Happens by itself when the last clone is dropped.
    pub async fn close(&self) {
        self.0.opener.close().await;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("backend", &self.0.engine.name()).finish_non_exhaustive()
    }
}

/// Where work comes from on a connection that was made of finished parts: nothing is started.
struct Given(Arc<dyn WorkSource>);

impl Opener for Given {
    fn work(&self) -> Answer<'_, Arc<dyn WorkSource>> {
        Box::pin(std::future::ready(Ok(Arc::clone(&self.0))))
    }
}
