//! Wake-ups: delivered, shared, and announced as missed after every reconnect.

mod fixture;

use std::time::{Duration, Instant};

use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::host::{Host, Subscription, Topic, Wake};
use ff_test_valkey::{Valkey, ValkeyCluster, ValkeyOptions};
use fixture::*;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

async fn next(subscription: &mut Subscription) -> Option<Wake> {
    timeout(LIMIT, subscription.next()).await.expect("a wake-up arrives in time")
}

fn message(partition: u16, text: &str) -> Option<Wake> {
    let message = text.as_bytes().to_vec();
    Some(Wake::Message { partition: Partition::flow(partition), message })
}

async fn publish(host: &ValkeyHost, partition: u16, topic: &str, text: &str) {
    let args = [topic.as_bytes(), text.as_bytes()];
    call(host, PUBLISH, partition, &args).await.expect("the call succeeds");
}

#[tokio::test]
async fn what_a_function_publishes_reaches_every_subscriber_of_the_topic() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let mut first = host.subscribe(Topic::Ready).await.expect("it subscribes");
    let mut second = host.subscribe(Topic::Ready).await.expect("it subscribes");
    let mut other = host.subscribe(Topic::Ended).await.expect("it subscribes");
    publish(&host, 3, "ready", "lane").await;
    publish(&host, 15, "ended", "\u{0}id").await;
    assert_eq!(next(&mut first).await, message(3, "lane"));
    assert_eq!(next(&mut second).await, message(3, "lane"));
    assert_eq!(next(&mut other).await, message(15, "\u{0}id"));
}

#[tokio::test]
async fn a_topic_uses_one_connection_however_many_subscribe() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(host.subscribe(Topic::Due).await.expect("it subscribes"));
    }
    let list = server.command(&["CLIENT", "LIST"]).expect("the server answers");
    let ours = list.text().lines().filter(|line| line.contains("lib-name=flowfabric"));
    assert_eq!(ours.count(), 2, "{}", list.text());
}

#[tokio::test]
async fn a_reconnect_is_announced_and_wake_ups_go_on() {
    let mut server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let mut subscription = host.subscribe(Topic::Ready).await.expect("it subscribes");
    for round in ["one", "two"] {
        server.kill9().expect("the server can be killed");
        server.restart().expect("the server starts again");
        assert_eq!(next(&mut subscription).await, Some(Wake::Missed));
        // The call's own connection may still be the broken one.
        eventually("a call", || async {
            call(&host, PUBLISH, 1, &[b"ready", round.as_bytes()]).await.is_ok()
        })
        .await;
        assert_eq!(next(&mut subscription).await, message(1, round));
    }
}

#[tokio::test]
async fn a_subscription_ends_with_its_host() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let mut subscription = host.subscribe(Topic::Ready).await.expect("it subscribes");
    drop(host);
    assert_eq!(next(&mut subscription).await, None);
}

#[tokio::test]
async fn a_subscription_that_the_user_may_not_have_is_refused() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let rule = ["ACL", "SETUSER", "deaf", "on", ">pw", "~*", "resetchannels", "+@all"];
    server.command(&rule).expect("the server answers");
    let deaf = config(&format!("valkey://deaf:pw@{}/", server.address()));
    let host = ValkeyHost::connect(deaf, library(3, "ours")).await.expect("it connects");
    let error = host.subscribe(Topic::Ready).await.err().expect("channels are forbidden");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Auth, Retry::Never), "{error}");
}

#[tokio::test]
async fn an_idle_subscription_costs_no_commands() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let mut quiet = config(&server.url());
    quiet.check_interval = Duration::from_secs(600);
    let host = ValkeyHost::connect(quiet, library(3, "ours")).await.expect("it connects");
    let _subscription = host.subscribe(Topic::Ready).await.expect("it subscribes");
    let commands = || {
        let info = server.command(&["INFO", "stats"]).expect("the server answers");
        let line = info.text().lines().find_map(|line| {
            line.strip_prefix("total_commands_processed:").map(|count| count.trim().parse::<u64>())
        });
        line.expect("the server counts").expect("the count is a number")
    };
    let before = commands();
    let start = Instant::now();
    let mut asked = 0;
    while start.elapsed() < Duration::from_millis(300) {
        asked += 1;
        assert_eq!(commands() - before, asked, "only the questions themselves are counted");
    }
}

#[tokio::test]
async fn a_cluster_delivers_from_every_partition_and_announces_a_failover() {
    let mut cluster = ValkeyCluster::start(3, 1).expect("the cluster forms");
    let host = connect(&cluster.url()).await;
    let mut subscription = host.subscribe(Topic::Ready).await.expect("it subscribes");
    for partition in 0..16 {
        publish(&host, partition, "ready", "before").await;
        assert_eq!(next(&mut subscription).await, message(partition, "before"));
    }
    cluster.node_mut(0).kill9().expect("the node can be killed");
    assert_eq!(next(&mut subscription).await, Some(Wake::Missed));
    eventually("every partition's answer", || async {
        for partition in 0..16 {
            if call(&host, COUNT, partition, &[]).await.is_err() {
                return false;
            }
        }
        true
    })
    .await;
    for partition in 0..16 {
        publish(&host, partition, "ready", "after").await;
    }
    let mut heard = std::collections::BTreeSet::new();
    while heard.len() < 16 {
        if let Some(Wake::Message { partition, message }) = next(&mut subscription).await {
            assert_eq!(message, b"after");
            heard.insert(partition);
        }
    }
}
