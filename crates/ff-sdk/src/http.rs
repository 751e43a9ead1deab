//! A FlowFabric server over HTTP, behind the same traits as every other backend.

mod call;
mod engine;
mod listing;
mod transport;
mod work;

pub(crate) use transport::{Answered, HttpClient, Sent};

use std::sync::Arc;

use ff_api::deployment::Deployment;
use ff_api::paths;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::partition::PartitionConfig;
use ff_core::work_source::WorkSource;
use futures_core::future::BoxFuture;
use tokio::sync::OnceCell;

use crate::backend_config::ServerConnection;
use crate::connection::{ListAll, Opener, Parts};
use crate::endings::{Endings, LongWait};
use crate::error::SdkError;
use call::Call;

/// A server that is reached over HTTP. What the server offers no route for is answered with
/// [`ff_core::error::EngineError::Unavailable`].
pub(crate) struct HttpBackend {
    client: HttpClient,
    partitions: PartitionConfig,
}

impl HttpBackend {
    /// Reaches the server once, to learn how many partitions it has.
    async fn connect(server: &ServerConnection) -> Result<Self, SdkError> {
        let client = HttpClient::new("backend_config", "url", &server.url, server.token())?;
        let mut backend = Self { client, partitions: PartitionConfig::default() };
        let deployment = backend.json::<Deployment>(Call::get(paths::DEPLOYMENT.to_owned())).await;
        let deployment = deployment.map_err(|error| error.in_context("connect"))?;
        backend.partitions = deployment.partitions.into();
        Ok(backend)
    }
}

pub(crate) async fn open(server: &ServerConnection) -> Result<Parts, SdkError> {
    let backend = Arc::new(HttpBackend::connect(server).await?);
    Ok(Parts {
        engine: Arc::clone(&backend) as Arc<dyn EngineBackend>,
        completion: None,
        endings: Endings::from_long_wait(Arc::clone(&backend) as Arc<dyn LongWait>),
        listing: Some(Arc::clone(&backend) as Arc<dyn ListAll>),
        work: OnceCell::new_with(Some(backend as Arc<dyn WorkSource>)),
        opener: Box::new(Nothing),
    })
}

/// Nothing runs in the background.
struct Nothing;

impl Opener for Nothing {
    fn work(&self) -> Answer<'_, Arc<dyn WorkSource>> {
        unreachable!("the server is the work source")
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
