//! Many who follow one execution over HTTP: all of them get all of it.

mod site;

use std::time::Duration;

use ff_sdk::{Client, Connection, ExecutionId, FlowFabricWorker, Output, WorkerConfig};
use site::{LONG, Site, claim, server_config, worker_config};
use tokio::task::JoinSet;

const FOLLOWERS: usize = 1_000;
const FRAMES: u64 = 40;
const EVERY: Duration = Duration::from_millis(50);

/// Follows to the end; answers how many frames came, each once and in order.
async fn follow(client: Client, id: ExecutionId) -> u64 {
    let (mut output, mut seen) = (client.follow(&id).await.expect("follows"), 0);
    while let Some(piece) = output.next().await {
        match piece.expect("no trouble") {
            Output::Frame { frame, .. } => {
                seen += 1;
                assert_eq!(frame.sequence(), Some(seen));
            }
            Output::End { sequence, .. } => assert_eq!(sequence, FRAMES),
            _ => {}
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_followers_get_every_frame_once() {
    let site = Site::server().await;
    let id = site.submit("x").await;
    // A thousand connections are opened meanwhile, which may take longer than a short lease lasts.
    let config = WorkerConfig { lease_ttl_ms: 60_000, ..worker_config("w-1", 1) };
    let worker = FlowFabricWorker::connect_to(config, &site.connection).await.expect("connects");
    let task = claim(&worker).await;
    let config = server_config(&format!("http://{}", site.server_address()));
    let client = Client::new(&Connection::open(config).await.expect("connects"));
    let mut followers = JoinSet::new();
    for _ in 0..FOLLOWERS {
        followers.spawn(follow(client.clone(), id));
    }
    let mut pace = tokio::time::interval(EVERY);
    for number in 1..=FRAMES {
        pace.tick().await;
        task.append_frame("token", number.to_string().as_bytes(), None).await.expect("appended");
    }
    task.complete(None).await.expect("completed");
    let all = tokio::time::timeout(2 * LONG, followers.join_all()).await.expect("all end");
    assert_eq!(
        (all.len(), all.iter().min(), all.iter().max()),
        (FOLLOWERS, Some(&FRAMES), Some(&FRAMES))
    );
}
