//! Straight to Valkey: workers of the SDK, in this process, over one connection; the submitter has
//! another.

use std::time::Instant;

use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::call::Call;
use ff_script::calls::library::Version;
use ff_sdk::{BackendConfig, Client, FlowFabricWorker};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Found, LANE, Options, Submitter, TIME_LIMIT, Worked, measure};
use crate::Failure;
use crate::arguments::StoreOptions;
use crate::scenario::sdk;
use crate::server::ServedStore;
use crate::store::Store;

pub(super) async fn run(served: &ServedStore, options: &Options) -> Result<Found, Failure> {
    // Some engine has to run, as in any deployment.
    let _server = served.serve()?;
    let (say, worked) = mpsc::unbounded_channel();
    let mut workers = JoinSet::new();
    for worker in sdk::connect(&served.store, options.workers, 1).await? {
        workers.spawn(work(worker, say.clone()));
    }
    drop(say);
    let on = StoreOptions { url: Some(served.store.clone()), ..options.store.store() };
    let submitter = SdkSubmitter {
        client: Client::connect(BackendConfig::valkey_url(&served.store)?).await?,
        store: Store::open(&on).await?,
    };
    tokio::select! {
        found = measure(submitter, worked, options.executions) => found,
        Some(ended) = workers.join_next() => {
            ended??;
            Err("a worker ended".into())
        }
    }
}

struct SdkSubmitter {
    client: Client,
    store: Store,
}

impl Submitter for SdkSubmitter {
    async fn submit(&mut self) -> Result<(), Failure> {
        self.client.submit("bench", "input").lane(LANE).await?;
        Ok(())
    }

    async fn bare(&mut self) -> Result<(), Failure> {
        self.store.host.call(Version::FUNCTION, Partition::flow(0), Args::default()).await?;
        Ok(())
    }
}

async fn work(worker: FlowFabricWorker, say: mpsc::UnboundedSender<Worked>) -> Result<(), Failure> {
    loop {
        let Some(task) = worker.claim(TIME_LIMIT).await? else { continue };
        let started = Instant::now();
        task.complete(Some(b"done".to_vec())).await?;
        // Nobody listens any more when the run is over.
        let _ = say.send(Worked { started, ended: Instant::now() });
    }
}
