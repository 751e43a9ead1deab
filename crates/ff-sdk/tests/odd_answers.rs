//! Answers that are no answers of a server: pages of a proxy, a token that is being changed. They
//! cost time, never work that is done, and they end no worker.

mod site;

use std::time::Duration;

use ff_sdk::{Connection, Context, PublicState, ShutdownHandle, TaskError, Worker};
use site::proxy::{self, Proxy};
use site::{LANE, LONG, Site, eventually, server_config};
use tokio::task::JoinHandle;

/// A server, and a worker that reaches it through a proxy.
struct Behind {
    site: Site,
    proxy: Proxy,
    stop: ShutdownHandle,
    running: JoinHandle<Result<ff_sdk::ShutdownReport, ff_sdk::SdkError>>,
}

async fn greet(_: Context, name: String) -> Result<String, TaskError> {
    Ok(format!("hello, {name}"))
}

impl Behind {
    async fn start() -> Self {
        let site = Site::server().await;
        let proxy = Proxy::start(site.server_address().to_string()).await;
        let config = server_config(&format!("http://{}", proxy.address));
        let connection = Connection::open(config).await.expect("connects");
        let worker = Worker::builder("tester")
            .connection(&connection)
            .lane(LANE)
            .lease_ttl(Duration::from_secs(20))
            .on("greet", greet)
            .build()
            .expect("valid");
        let stop = worker.shutdown_handle();
        let running = tokio::spawn(worker.run());
        Self { site, proxy, stop, running }
    }

    /// One execution ends well, at the first attempt.
    async fn greets(&self) {
        let client = &self.site.client;
        let submission = client.submit("greet", "world").lane(LANE);
        let id = submission.await.expect("submitted").execution_id();
        let greeting = client.await_result::<String>(&id, LONG).await;
        let snapshot = self.site.describe(&id).await;
        assert_eq!(greeting.expect("a result"), "hello, world", "{snapshot:?}");
        let ended = (snapshot.public_state(), snapshot.total_attempt_count);
        assert_eq!(ended, (PublicState::Completed, 1));
    }

    async fn stop(self) {
        self.stop.shutdown();
        self.running.await.expect("no panic").expect("it could go on");
    }
}

/// What a server of ours says to a token that it does not know.
fn unauthorized() -> String {
    let problem = serde_json::json!({
        "type": "urn:flowfabric:problem:unauthorized", "title": "No.", "status": 401,
        "code": "unauthorized", "class": "terminal", "retryable": false,
    });
    proxy::answer(401, "application/problem+json", &problem.to_string())
}

fn odd_answers() -> Vec<String> {
    let pages = [401, 403, 404, 410, 418, 500].map(proxy::page);
    pages.into_iter().chain([unauthorized()]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_proxy_never_fails_work_that_is_done() {
    let behind = Behind::start().await;
    for page in odd_answers() {
        behind.proxy.answer_with("POST /v1/tasks/complete", 6, page);
        behind.greets().await;
        assert_eq!(behind.proxy.pages_left(), 0, "the worker must have met them");
    }
    behind.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_outlasts_odd_answers_to_its_claims() {
    let behind = Behind::start().await;
    for page in odd_answers() {
        behind.proxy.answer_with("POST /v1/claims", 2, page);
        // The claim that waits already is answered; the next ones get the page.
        behind.greets().await;
        eventually("the odd answers", || async {
            behind.proxy.pages_left() == 0 || behind.running.is_finished()
        })
        .await;
        assert!(!behind.running.is_finished(), "the worker must not end");
    }
    behind.greets().await;
    behind.stop().await;
}
