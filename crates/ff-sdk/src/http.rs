//! A FlowFabric server over HTTP, behind the same traits as every other backend.

mod addresses;
mod bulk;
mod call;
mod engine;
mod follow;
mod tls;
mod transport;
mod wait;
mod work;

pub(crate) use call::Call;
pub(crate) use tls::certificates;
pub(crate) use transport::{Answered, HttpClient};

use std::sync::Arc;
use std::time::Duration;

use ff_api::deployment::Deployment;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::operation::Nothing;
use ff_core::partition::PartitionConfig;
use ff_core::work_source::WorkSource;
use tokio::sync::OnceCell;

use crate::backend_config::ServerConnection;
use crate::connection::{Another, Opener, Parts};
use crate::endings::{Endings, LongWait};
use crate::error::{Context as _, SdkError};
use crate::worker::SharedUpkeep;

/// A server that is reached over HTTP.
pub(crate) struct HttpBackend {
    client: HttpClient,
    partitions: PartitionConfig,
    /// How long a call that nobody received is tried again.
    patience: Duration,
}

impl HttpBackend {
    fn new(server: &ServerConnection, partitions: PartitionConfig) -> Result<Self, SdkError> {
        let client = HttpClient::new("backend_config", "url", server)?;
        Ok(Self { client, partitions, patience: server.patience })
    }

    /// Reaches the server once, to learn how many partitions it has.
    async fn connect(server: &ServerConnection) -> Result<Self, SdkError> {
        let mut backend = Self::new(server, PartitionConfig::default())?;
        let deployment =
            backend.send::<Deployment>(Nothing {}, Nothing {}).await.context("connect")?;
        backend.partitions = deployment.partitions;
        Ok(backend)
    }
}

pub(crate) async fn open(server: &ServerConnection) -> Result<Parts, SdkError> {
    let backend = Arc::new(HttpBackend::connect(server).await?);
    let opener = Again { server: server.clone(), backend: Arc::clone(&backend) };
    Ok(Parts {
        engine: Arc::clone(&backend) as Arc<dyn EngineBackend>,
        completion: None,
        endings: Endings::LongWait(backend as Arc<dyn LongWait>),
        work: OnceCell::new(),
        upkeep: SharedUpkeep::default(),
        opener: Box::new(opener),
    })
}

/// Nothing runs in the background; connections of one's own are made when they are used.
struct Again {
    server: ServerConnection,
    backend: Arc<HttpBackend>,
}

impl Opener for Again {
    fn work(&self) -> Answer<'_, Arc<dyn WorkSource>> {
        Box::pin(std::future::ready(Ok(Arc::clone(&self.backend) as Arc<dyn WorkSource>)))
    }

    fn again(&self) -> Option<Answer<'static, Another>> {
        let backend = HttpBackend::new(&self.server, self.backend.partitions);
        let backend = backend.map_err(|error| EngineError::invalid("server", error.to_string()));
        let another = backend.map(|backend| {
            let backend = Arc::new(backend);
            let engine = Arc::clone(&backend) as Arc<dyn EngineBackend>;
            Another { engine, work: backend }
        });
        Some(Box::pin(std::future::ready(another)))
    }
}
