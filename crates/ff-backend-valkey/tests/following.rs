//! Following one subject: heard by those who follow it and nobody else, shared, and given up.

mod fixture;

use std::sync::Arc;
use std::time::Duration;

use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::partition::{Partition, crc16};
use ff_core::types::ExecutionId;
use ff_script::host::{Host, Subject, Subscription, Wake};
use ff_test_valkey::{Reply, Valkey, ValkeyCluster, ValkeyOptions};
use fixture::*;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

/// The frames of the n-th execution of a partition.
fn frames(partition: u16, n: u64) -> Subject {
    let id = format!("{{fp:{partition}}}:00000000-0000-0000-0000-{n:012x}");
    Subject::Frames(id.parse::<ExecutionId>().expect("that is an id"))
}

async fn follow(host: &ValkeyHost, subject: Subject) -> Subscription {
    host.follow(subject).await.expect("it can be followed")
}

async fn next(subscription: &mut Subscription) -> Option<Wake> {
    timeout(LIMIT, subscription.next()).await.expect("a wake-up arrives in time")
}

/// The next message, whatever was missed before.
async fn next_message(subscription: &mut Subscription) -> Option<Wake> {
    loop {
        match next(subscription).await {
            Some(Wake::Missed) => {}
            other => return other,
        }
    }
}

fn message(subject: Subject, text: &str) -> Option<Wake> {
    Some(Wake::Message { partition: subject.partition(), message: text.as_bytes().to_vec() })
}

async fn publish(host: &ValkeyHost, subject: Subject, text: &str) {
    let channel = subject.channel();
    let name = channel.strip_prefix(&format!("{}:", subject.partition().key())).expect("a prefix");
    let args = [name.as_bytes(), text.as_bytes()];
    let index = subject.partition().index;
    // The call's own connection may still be a broken one.
    eventually("a call", || async { call(host, PUBLISH, index, &args).await.is_ok() }).await;
}

/// The channels that the server has subscribers for.
fn channels(server: &Valkey) -> Vec<String> {
    let Ok(Reply::List(names)) = server.command(&["PUBSUB", "SHARDCHANNELS"]) else {
        panic!("the server lists its channels");
    };
    names.iter().map(|name| name.text().to_owned()).collect()
}

fn connections(server: &Valkey) -> usize {
    let list = server.command(&["CLIENT", "LIST"]).expect("the server answers");
    list.text().lines().filter(|line| line.contains("lib-name=flowfabric")).count()
}

#[tokio::test]
async fn a_follower_hears_of_its_subject_and_of_nothing_else() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let (one, two) = (frames(3, 1), frames(3, 2));
    let mut of_one = follow(&host, one).await;
    let mut of_two = follow(&host, two).await;
    for subject in [one, two] {
        publish(&host, subject, "0:1").await;
        publish(&host, subject, "\u{0}:2").await;
    }
    for (subject, follower) in [(one, &mut of_one), (two, &mut of_two)] {
        assert_eq!(next(follower).await, message(subject, "0:1"));
        assert_eq!(next(follower).await, message(subject, "\u{0}:2"));
    }
}

#[tokio::test]
async fn followers_share_a_subscription_and_the_last_one_gives_it_up() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let subject = frames(3, 1);
    let mut all = Vec::new();
    for _ in 0..50 {
        all.push(follow(&host, subject).await);
    }
    let count = server.command(&["PUBSUB", "SHARDNUMSUB", &subject.channel()]);
    let Ok(Reply::List(count)) = count else { panic!("the server counts subscribers") };
    assert_eq!(count[1], Reply::Int(1));
    publish(&host, subject, "all").await;
    for follower in &mut all {
        assert_eq!(next(follower).await, message(subject, "all"));
    }
    let mut last = all.pop().expect("there are fifty");
    drop(all);
    publish(&host, subject, "last").await;
    assert_eq!(next(&mut last).await, message(subject, "last"));
    assert_eq!(channels(&server), [subject.channel()]);
    drop(last);
    eventually("the channel is given up", || async { channels(&server).is_empty() }).await;
}

#[tokio::test]
async fn who_comes_while_the_last_one_leaves_misses_nothing() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let subject = frames(3, 1);
    let mut follower = follow(&host, subject).await;
    for round in 0..300u32 {
        drop(follower);
        if round % 3 == 1 {
            tokio::task::yield_now().await;
        }
        follower = follow(&host, subject).await;
        let text = round.to_string();
        publish(&host, subject, &text).await;
        assert_eq!(next(&mut follower).await, message(subject, &text));
    }
    assert_eq!(connections(&server), 2, "one for calls and one for all that is followed");
}

#[tokio::test]
async fn who_gives_up_before_it_began_leaves_nothing_behind() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    for n in 0..200 {
        // Polled once: the server was not asked yet, or has not answered.
        let _ = timeout(Duration::ZERO, host.follow(frames(3, n))).await;
    }
    let mut follower = follow(&host, frames(3, 1000)).await;
    eventually("the rest is given up", || async {
        channels(&server) == [frames(3, 1000).channel()]
    })
    .await;
    publish(&host, frames(3, 1000), "heard").await;
    assert_eq!(next(&mut follower).await, message(frames(3, 1000), "heard"));
}

/// Follows, publishes and leaves, again and again: each time, what was published is heard, or
/// something is said to have been missed.
async fn come_and_go(host: Arc<ValkeyHost>, me: u64) {
    for round in 0..150 {
        let subject = frames(3, (me + round) % 3);
        let mut follower = follow(&host, subject).await;
        let text = format!("{me}:{round}");
        publish(&host, subject, &text).await;
        loop {
            let heard = next(&mut follower).await;
            if heard == Some(Wake::Missed) || heard == message(subject, &text) {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_races_what_is_published_is_heard_or_said_to_be_missed() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = Arc::new(connect(&server.url()).await);
    let mut tasks = tokio::task::JoinSet::new();
    for me in 0..8 {
        tasks.spawn(come_and_go(Arc::clone(&host), me));
    }
    let mut killed = 0;
    let mut left = 8;
    while left > 0 {
        // Cutting the connection now and then is part of the race.
        match timeout(Duration::from_millis(10), tasks.join_next()).await {
            Ok(ended) => {
                ended.expect("a task is there").expect("it heard of everything");
                left -= 1;
            }
            Err(_) => match server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]) {
                Ok(Reply::Int(count)) => killed += count,
                other => panic!("connections can be cut: {other:?}"),
            },
        }
    }
    assert!(killed > 0, "no connection was cut");
    eventually("all are given up", || async { channels(&server).is_empty() }).await;
}

#[tokio::test]
async fn every_follower_is_told_of_a_reconnect_and_thousands_share_a_connection() {
    let mut server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let subjects: Vec<Subject> = (0..3000).map(|n| frames((n % 16) as u16, n)).collect();
    let mut followers = Vec::new();
    for subject in &subjects {
        followers.push(follow(&host, *subject).await);
    }
    assert_eq!((channels(&server).len(), connections(&server)), (3000, 2));
    server.kill9().expect("the server can be killed");
    server.restart().expect("the server starts again");
    for follower in &mut followers {
        assert_eq!(next(follower).await, Some(Wake::Missed));
    }
    for (subject, follower) in subjects.iter().zip(&mut followers).step_by(100) {
        publish(&host, *subject, "again").await;
        assert_eq!(next(follower).await, message(*subject, "again"));
    }
    drop(followers);
    eventually("all are given up", || async { channels(&server).is_empty() }).await;
}

#[tokio::test]
async fn a_follower_that_does_not_read_is_told_that_it_missed_something() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let subject = frames(3, 1);
    let mut slow = follow(&host, subject).await;
    let mut quick = follow(&host, subject).await;
    for n in 0..100 {
        publish(&host, subject, &n.to_string()).await;
        assert_eq!(next(&mut quick).await, message(subject, &n.to_string()));
    }
    assert_eq!(next(&mut slow).await, Some(Wake::Missed));
    assert_eq!(next(&mut slow).await, message(subject, "84"), "the latest are kept");
}

#[tokio::test]
async fn following_ends_with_the_host() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let mut follower = follow(&host, frames(3, 1)).await;
    drop(host);
    assert_eq!(next(&mut follower).await, None);
    drop(follower);
    eventually("the server is left", || async { connections(&server) == 0 }).await;
}

#[tokio::test]
async fn a_subject_that_the_user_may_not_follow_is_refused() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let rule = ["ACL", "SETUSER", "u", "on", ">pw", "~*", "resetchannels", "&ff:{fp:1}:*", "+@all"];
    server.command(&rule).expect("the server answers");
    let config = config(&format!("valkey://u:pw@{}/", server.address()));
    let host = ValkeyHost::connect(config, library(3, "ours")).await.expect("it connects");
    let error = host.follow(frames(2, 1)).await.err().expect("its channel is forbidden");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Auth, Retry::Never), "{error}");
    let mut follower = follow(&host, frames(1, 1)).await;
    publish(&host, frames(1, 1), "heard").await;
    assert_eq!(next_message(&mut follower).await, message(frames(1, 1), "heard"));
}

#[tokio::test]
async fn a_server_that_is_away_is_reported_in_time_and_followed_when_it_is_back() {
    let mut server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let mut hasty = config(&server.url());
    hasty.retry_time = Duration::from_millis(200);
    let host = ValkeyHost::connect(hasty, library(3, "ours")).await.expect("it connects");
    server.kill9().expect("the server can be killed");
    let error = host.follow(frames(3, 1)).await.err().expect("nobody answers");
    assert_eq!(error.retry, Retry::Safe, "{error}");
    server.restart().expect("the server starts again");
    eventually("following", || async { host.follow(frames(3, 1)).await.is_ok() }).await;
}

#[tokio::test]
async fn what_is_followed_costs_no_commands_while_nothing_happens() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let mut quiet = config(&server.url());
    quiet.check_interval = Duration::from_secs(600);
    let host = ValkeyHost::connect(quiet, library(3, "ours")).await.expect("it connects");
    let _followers = [follow(&host, frames(3, 1)).await, follow(&host, frames(4, 1)).await];
    let commands = || {
        let info = server.command(&["INFO", "stats"]).expect("the server answers");
        let line = info.text().lines().find_map(|line| {
            line.strip_prefix("total_commands_processed:").map(|count| count.trim().parse::<u64>())
        });
        line.expect("the server counts").expect("the count is a number")
    };
    let before = commands();
    for asked in 1..=1000 {
        assert_eq!(commands() - before, asked, "only the questions themselves are counted");
    }
}

#[tokio::test]
async fn a_cluster_is_followed_on_every_master_and_through_a_failover() {
    let mut cluster = ValkeyCluster::start(3, 1).expect("the cluster forms");
    let host = connect(&cluster.url()).await;
    let mut followers = Vec::new();
    for partition in 0..16 {
        let subject = frames(partition, 1);
        followers.push((subject, follow(&host, subject).await));
    }
    for (subject, follower) in &mut followers {
        publish(&host, *subject, "before").await;
        assert_eq!(next(follower).await, message(*subject, "before"));
    }
    let victim = cluster.master_of(slot_of(5)).expect("the slot is covered");
    let lost: Vec<bool> = (0..16)
        .map(|it| cluster.master_of(slot_of(it)).is_ok_and(|master| master == victim))
        .collect();
    cluster.node_mut(victim).kill9().expect("the node can be killed");
    for ((_, follower), _) in followers.iter_mut().zip(lost).filter(|(_, lost)| *lost) {
        assert_eq!(next(follower).await, Some(Wake::Missed));
    }
    for (subject, follower) in &mut followers {
        publish(&host, *subject, "after").await;
        assert_eq!(next_message(follower).await, message(*subject, "after"));
    }
}

fn slot_of(partition: u16) -> u16 {
    let tag = Partition::flow(partition).hash_tag();
    crc16(tag.trim_matches(['{', '}']).as_bytes()) % 16_384
}

#[tokio::test]
async fn a_subject_is_followed_to_where_its_slot_moves() {
    let cluster = ValkeyCluster::start(3, 0).expect("the cluster forms");
    let host = connect(&cluster.url()).await;
    let (moving, slot) = (frames(5, 1), slot_of(5).to_string());
    let mut follower = follow(&host, moving).await;
    let from = cluster.master_of(slot_of(5)).expect("the slot is covered");
    let (source, target) = (&cluster.nodes()[from], &cluster.nodes()[(from + 1) % 3]);
    let id = target.command(&["CLUSTER", "MYID"]).expect("the node answers");
    for node in [target, source] {
        let set = node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", id.text()]);
        assert_eq!(set.expect("the node answers"), Reply::Text("OK".to_owned()));
    }
    assert_eq!(next(&mut follower).await, Some(Wake::Missed));
    publish(&host, moving, "there").await;
    assert_eq!(next_message(&mut follower).await, message(moving, "there"));
    assert_eq!(channels(target), [moving.channel()]);
    drop(follower);
    eventually("it is given up there", || async { channels(target).is_empty() }).await;
}
