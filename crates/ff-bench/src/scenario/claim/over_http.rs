//! Through a server: workers that wait for the answer to their claim.

use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Found, LANE, Options, Submitter, Worked, measure};
use crate::Failure;
use crate::http_client::{HttpClient, JSON, text_fields};
use crate::server::ServedStore;

pub(super) async fn run(served: &ServedStore, options: &Options) -> Result<Found, Failure> {
    let server = served.serve()?;
    let (say, worked) = mpsc::unbounded_channel();
    let mut workers = JoinSet::new();
    for number in 0..options.workers {
        let http = HttpClient::connect(&server.address).await?;
        workers.spawn(work(http, number, say.clone()));
    }
    drop(say);
    let submission = format!(r#"{{"kind":"bench","lane":"{LANE}","payload":{{"order":17}}}}"#);
    let submitter = HttpSubmitter {
        http: HttpClient::connect(&server.address).await?,
        submission: submission.into_bytes(),
    };
    tokio::select! {
        found = measure(submitter, worked, options.executions) => found,
        Some(ended) = workers.join_next() => {
            ended??;
            Err("a worker ended".into())
        }
    }
}

struct HttpSubmitter {
    http: HttpClient,
    submission: Vec<u8>,
}

impl Submitter for HttpSubmitter {
    async fn submit(&mut self) -> Result<(), Failure> {
        self.http.post("/v1/executions", JSON, &self.submission).await?;
        Ok(())
    }

    async fn bare(&mut self) -> Result<(), Failure> {
        self.http.get("/healthz").await?;
        Ok(())
    }
}

async fn work(
    mut http: HttpClient,
    number: u32,
    say: mpsc::UnboundedSender<Worked>,
) -> Result<(), Failure> {
    let claim = format!(
        r#"{{"worker_id":"bench","worker_instance_id":"bench-{number}","lanes":["{LANE}"],"count":1,"lease_ttl_ms":30000,"wait_ms":60000}}"#
    );
    loop {
        let answer = http.post("/v1/claims", JSON, claim.as_bytes()).await?;
        let started = Instant::now();
        let token = text_fields(answer, "task_token").next().map(str::to_owned);
        let Some(token) = token else { continue };
        let header = format!("flowfabric-task: {token}\r\n");
        http.post("/v1/tasks/complete", &header, b"done").await?;
        // Nobody listens any more when the run is over.
        let _ = say.send(Worked { started, ended: Instant::now() });
    }
}
