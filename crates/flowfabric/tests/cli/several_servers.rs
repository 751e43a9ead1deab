//! A program that knows several servers of a deployment goes on when one of them is gone.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use ff_sdk::{BackendConfig, Client, Connection, Context, Kind, TaskError, Worker};
use ff_test_valkey::{Valkey, ValkeyOptions};
use tokio::sync::Notify;

use crate::site::Site;

const TIME_LIMIT: Duration = Duration::from_secs(30);
/// A lease outlives the way to the next server, so that it is not lost over it.
const LEASE: Duration = Duration::from_secs(10);
const STEP: Kind<u32, u32> = Kind::new("step");

/// What a handler and the test tell each other.
#[derive(Default)]
struct Steps {
    begun: Notify,
    go_on: Notify,
}

async fn step(context: Context<Arc<Steps>>, number: u32) -> Result<u32, TaskError> {
    context.state().begun.notify_one();
    context.state().go_on.notified().await;
    Ok(number + context.attempt())
}

/// Servers on one store, and how a program names all of them.
fn servers(valkey: &Valkey) -> (Vec<Site>, BackendConfig) {
    let store = valkey.url();
    let sites: Vec<_> = (0..2).map(|_| Site::start_with(&["--store", &store])).collect();
    let urls: Vec<_> = sites.iter().map(|site| site.url.clone()).collect();
    (sites, BackendConfig::server(urls.join(","), None))
}

/// Runs handlers until it is told to stop.
async fn work(connection: &Connection, steps: &Arc<Steps>, ended: Arc<Notify>) {
    let worker = Worker::builder("stepper").connection(connection).lease_ttl(LEASE);
    let worker = worker.state(Arc::clone(steps)).handle(&STEP, step).build().expect("valid");
    worker.run_until(ended.notified()).await.expect("it could go on");
}

async fn steps_survive(mut sites: Vec<Site>, config: BackendConfig) {
    let own = async || Connection::open(config.clone()).await.expect("connects");
    let (worker, client) = (own().await, Client::new(&own().await));
    let (steps, ended) = (Arc::new(Steps::default()), Arc::new(Notify::new()));
    let working = async { work(&worker, &steps, Arc::clone(&ended)).await };
    let calling = async {
        let call = client.call(&STEP, 1).timeout(TIME_LIMIT);
        let killing = async {
            steps.begun.notified().await;
            // While a handler runs, a result is waited for, and leases are renewed there.
            sites.remove(0).kill();
            steps.go_on.notify_one();
        };
        let (first, ()) = tokio::join!(call.into_future(), killing);
        assert_eq!(first.expect("a result"), 2, "the first attempt went on");
        steps.go_on.notify_one();
        let second = client.call(&STEP, 2).timeout(TIME_LIMIT).await;
        assert_eq!(second.expect("a result"), 3);
        ended.notify_one();
    };
    tokio::join!(working, calling);
}

#[test]
fn worker_and_client_go_on_with_the_next_when_theirs_is_killed() {
    let valkey = Valkey::start(ValkeyOptions::default()).expect("valkey-server starts");
    let (sites, config) = servers(&valkey);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(steps_survive(sites, config));
}
