//! A client of the load: submits, claims and completes.

use std::sync::Arc;
use std::time::Instant;

use super::{Options, Pace};
use crate::Failure;
use crate::http_client::{HttpClient, JSON, text_fields};
use crate::statistics::Latencies;

/// How long the parts of lives took.
#[derive(Default)]
pub(super) struct Times {
    /// From a life's beginning to its end.
    pub(super) whole: Latencies,
    pub(super) submit: Latencies,
    pub(super) claim: Latencies,
    pub(super) complete: Latencies,
}

impl Times {
    pub(super) fn merge(&mut self, other: Self) {
        self.whole.merge(other.whole);
        self.submit.merge(other.submit);
        self.claim.merge(other.claim);
        self.complete.merge(other.complete);
    }

    pub(super) fn lives(&self) -> u64 {
        self.whole.len() as u64
    }
}

/// A client with its connection.
pub(super) struct Client {
    pub(super) http: HttpClient,
    number: u32,
    group: usize,
    submission: Vec<u8>,
    result: Vec<u8>,
    times: Times,
}

impl Client {
    pub(super) fn new(http: HttpClient, number: u32, options: &Options) -> Self {
        let payload = "p".repeat(options.payload as usize);
        let submission = format!(r#"{{"kind":"bench","lane":"bench","payload":"{payload}"}}"#);
        Self {
            http,
            number,
            group: usize::from(options.claim_batch),
            submission: submission.into_bytes(),
            result: vec![b'r'; options.result as usize],
            times: Times::default(),
        }
    }

    /// Lives as long as the pace says; gives itself back with what it took.
    pub(super) async fn live(mut self, pace: Arc<Pace>) -> Result<(Self, Times), Failure> {
        while let Some(begun) = pace.next().await {
            self.submit().await?;
            let mut left = self.group;
            while left > 0 {
                let tokens = self.claim(left).await?;
                left -= tokens.len();
                for token in tokens {
                    self.complete(&token).await?;
                    self.times.whole.add(begun.elapsed());
                }
            }
        }
        let times = std::mem::take(&mut self.times);
        Ok((self, times))
    }

    async fn submit(&mut self) -> Result<(), Failure> {
        for _ in 0..self.group {
            let start = Instant::now();
            self.http.post("/v1/executions", JSON, &self.submission).await?;
            self.times.submit.add(start.elapsed());
        }
        Ok(())
    }

    /// Answers the tokens of what it got: not always its own, but nobody is left without.
    async fn claim(&mut self, count: usize) -> Result<Vec<String>, Failure> {
        let body = format!(
            r#"{{"worker_id":"bench","worker_instance_id":"bench-{}","lanes":["bench"],"count":{count},"lease_ttl_ms":30000,"wait_ms":5000}}"#,
            self.number
        );
        let start = Instant::now();
        let answer = self.http.post("/v1/claims", JSON, body.as_bytes()).await?;
        self.times.claim.add(start.elapsed());
        Ok(text_fields(answer, "task_token").map(str::to_owned).collect())
    }

    async fn complete(&mut self, token: &str) -> Result<(), Failure> {
        let header = format!("flowfabric-task: {token}\r\n");
        let start = Instant::now();
        self.http.post("/v1/tasks/complete", &header, &self.result).await?;
        self.times.complete.add(start.elapsed());
        Ok(())
    }
}
