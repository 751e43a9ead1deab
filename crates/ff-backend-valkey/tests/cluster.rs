//! Calls on a cluster: routing, failover, moving slots.

mod fixture;

use std::collections::BTreeSet;
use std::time::Duration;

use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::host::Host;
use ff_script::value::Value;
use ff_test_valkey::{Reply, Valkey, ValkeyCluster, ValkeyOptions};
use fixture::*;

fn slot_of(partition: u16) -> u16 {
    Partition::flow(partition).slot()
}

async fn count_everywhere(host: &ValkeyHost) -> Vec<Value> {
    let mut counts = Vec::new();
    for partition in 0..16 {
        counts.push(call(host, COUNT, partition, &[]).await.expect("the call succeeds"));
    }
    counts
}

#[tokio::test]
async fn every_call_goes_to_the_master_of_its_partition() {
    let cluster = ValkeyCluster::start(3, 0).expect("the cluster forms");
    let host = connect(&cluster.url()).await;
    assert_eq!(host.name(), "valkey-cluster");
    assert_eq!(count_everywhere(&host).await, vec![Value::Int(1); 16]);
    let masters: BTreeSet<usize> =
        (0..16).map(|it| cluster.master_of(slot_of(it)).expect("the slot is covered")).collect();
    assert_eq!(masters.len(), 3, "sixteen partitions are spread over all masters");
    assert_eq!(host.dump().await.expect("it can be read").len(), 16);
    let answers = host.raw_on_all_masters(&[b"DBSIZE"]).await.expect("all masters answer");
    let keys: i64 =
        answers.iter().map(|(_, size)| if let Value::Int(size) = size { *size } else { 0 }).sum();
    assert_eq!((answers.len(), keys), (3, 16));
}

#[tokio::test]
async fn one_reachable_seed_is_enough() {
    let cluster = ValkeyCluster::start(3, 0).expect("the cluster forms");
    let url = format!("valkey-cluster://127.0.0.1:1,{}/", cluster.nodes()[2].address());
    let host = connect(&url).await;
    assert_eq!(count_everywhere(&host).await, vec![Value::Int(1); 16]);
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_cluster_with_tls_and_a_user_works_the_same() {
    use ff_backend_valkey::TlsOptions;

    let options = ValkeyOptions {
        tls: true,
        username: Some("ff".to_owned()),
        password: Some("secret".to_owned()),
        ..ValkeyOptions::default()
    };
    let cluster = ValkeyCluster::start_with(3, 0, options).expect("the cluster forms");
    let mut trusting = config(&cluster.url());
    let ca_file = cluster.nodes()[0].ca_file().map(ToOwned::to_owned);
    trusting.tls = Some(TlsOptions { ca_file, ..TlsOptions::default() });
    let host = ValkeyHost::connect(trusting, library(3, "ours")).await.expect("it connects");
    assert_eq!(count_everywhere(&host).await, vec![Value::Int(1); 16]);
}

#[tokio::test]
async fn the_right_kind_of_url_is_asked_for() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let url = format!("valkey-cluster://{}/", server.address());
    let refused = ValkeyHost::connect(config(&url), library(3, "ours")).await;
    let error = refused.err().expect("that is no cluster");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Cluster, Retry::Never), "{error}");

    let cluster = ValkeyCluster::start(3, 0).expect("the cluster forms");
    let refused = ValkeyHost::connect(config(&cluster.nodes()[0].url()), library(3, "ours")).await;
    let error = refused.err().expect("that is a cluster");
    assert!(error.message.contains("valkey-cluster://"), "{error}");
}

#[tokio::test]
async fn calls_succeed_again_on_the_promoted_replica() {
    let mut cluster = ValkeyCluster::start(3, 1).expect("the cluster forms");
    let host = connect(&cluster.url()).await;
    count_everywhere(&host).await;
    let victim = cluster.master_of(slot_of(5)).expect("the slot is covered");
    cluster.node_mut(victim).kill9().expect("the node can be killed");
    eventually("a call after the failover", || async {
        match call(&host, COUNT, 5, &[]).await {
            Ok(count) => {
                assert!(count == Value::Int(2) || count == Value::Int(1), "{count:?}");
                true
            }
            Err(error) => {
                assert_ne!(error.retry, Retry::Never, "{error}");
                false
            }
        }
    })
    .await;
    let promoted = cluster.master_of(slot_of(5)).expect("the slot is covered");
    assert_ne!(promoted, victim);
    for _ in 0..3 {
        count_everywhere(&host).await;
    }
}

#[tokio::test]
async fn a_promoted_replica_with_an_older_library_gets_ours_before_it_runs_a_call() {
    let mut cluster = ValkeyCluster::start(3, 1).expect("the cluster forms");
    let mut unguarded = config(&cluster.url());
    unguarded.check_interval = Duration::from_secs(600);
    let host = ValkeyHost::connect(unguarded, library(3, "ours")).await.expect("it connects");
    let victim = cluster.master_of(slot_of(5)).expect("the slot is covered");
    let replica = cluster
        .nodes()
        .iter()
        .position(|node| {
            let info = node.command(&["INFO", "replication"]).expect("the node answers");
            let master = format!("master_port:{}\r", cluster.nodes()[victim].port());
            info.text().contains(&master)
        })
        .expect("every master has a replica");
    // A replica that was behind when its master died is stood in for by one that is set back.
    let older = library(1, "older").source;
    let node = &cluster.nodes()[replica];
    node.command(&["CONFIG", "SET", "replica-read-only", "no"]).expect("the node answers");
    let set_back = node.command(&["FUNCTION", "LOAD", "REPLACE", &older]);
    assert_eq!(set_back.expect("the node answers").text(), "flowfabric_v1");
    node.command(&["CONFIG", "SET", "replica-read-only", "yes"]).expect("the node answers");
    cluster.node_mut(victim).kill9().expect("the node can be killed");
    eventually("a call after the failover", || async { call(&host, COUNT, 5, &[]).await.is_ok() })
        .await;
    let node = &cluster.nodes()[replica];
    let Reply::List(parts) = node.command(&["FCALL_RO", "ff_version_v1", "0"]).expect("answers")
    else {
        panic!("the library is there");
    };
    assert_eq!(parts[3].text(), "ours");
}

#[tokio::test]
async fn a_master_that_hangs_is_replaced_by_its_replica() {
    let cluster = ValkeyCluster::start(3, 1).expect("the cluster forms");
    let mut hasty = config(&cluster.url());
    hasty.response_timeout = Duration::from_millis(300);
    let host = ValkeyHost::connect(hasty, library(3, "ours")).await.expect("it connects");
    let victim = cluster.master_of(slot_of(5)).expect("the slot is covered");
    cluster.nodes()[victim].pause().expect("the node can be paused");
    eventually("a call after the failover", || async { call(&host, COUNT, 5, &[]).await.is_ok() })
        .await;
    cluster.nodes()[victim].resume().expect("the node can be resumed");
    cluster.wait_until_whole().expect("the old master becomes a replica");
    assert_ne!(cluster.master_of(slot_of(5)).expect("the slot is covered"), victim);
    count_everywhere(&host).await;
}

#[tokio::test]
async fn a_planned_failover_fails_no_call() {
    let cluster = ValkeyCluster::start(3, 1).expect("the cluster forms");
    let host = connect(&cluster.url()).await;
    let before = cluster.master_of(slot_of(5)).expect("the slot is covered");
    let replica = before + 3;
    let mut count = 0;
    let started = cluster.nodes()[replica].command(&["CLUSTER", "FAILOVER"]);
    assert_eq!(started.expect("the node answers").text(), "OK");
    while cluster.master_of(slot_of(5)).expect("the slot is covered") == before {
        count += 1;
        assert_eq!(call(&host, COUNT, 5, &[]).await, Ok(Value::Int(count)));
    }
    for _ in 0..100 {
        count += 1;
        assert_eq!(call(&host, COUNT, 5, &[]).await, Ok(Value::Int(count)));
    }
}

#[tokio::test]
async fn a_moving_slot_is_waited_for_and_then_followed() {
    let cluster = ValkeyCluster::start(3, 0).expect("the cluster forms");
    let host = connect(&cluster.url()).await;
    assert_eq!(call(&host, COUNT, 5, &[]).await, Ok(Value::Int(1)));
    let slot = slot_of(5).to_string();
    let from = cluster.master_of(slot_of(5)).expect("the slot is covered");
    let to = (from + 1) % 3;
    let id = |node: usize| cluster.nodes()[node].command(&["CLUSTER", "MYID"]).expect("answers");
    let (source, target) = (&cluster.nodes()[from], &cluster.nodes()[to]);
    let set = |node: &Valkey, words: &[&str]| {
        let all = [&["CLUSTER", "SETSLOT", slot.as_str()], words].concat();
        assert_eq!(node.command(&all).expect("answers"), Reply::Text("OK".to_owned()));
    };
    set(target, &["IMPORTING", id(from).text()]);
    set(source, &["MIGRATING", id(to).text()]);

    let moved = async {
        let port = target.port().to_string();
        let keys = source.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).expect("answers");
        let Reply::List(keys) = keys else { panic!("keys come as a list") };
        for key in keys {
            let words = ["MIGRATE", "127.0.0.1", &port, key.text(), "0", "5000"];
            source.command(&words).expect("the key moves");
        }
        // Meanwhile the call has asked and was told to wait.
        eventually("a refused call", || async {
            let stats = source.command(&["INFO", "errorstats"]).expect("answers");
            stats.text().contains("errorstat_ASK")
        })
        .await;
        set(target, &["NODE", id(to).text()]);
        set(source, &["NODE", id(to).text()]);
    };
    let (counted, ()) = tokio::join!(call(&host, COUNT, 5, &[]), moved);
    assert_eq!(counted, Ok(Value::Int(2)), "the count came along, and the call ran once");
    assert_eq!(call(&host, COUNT, 5, &[]).await, Ok(Value::Int(3)));
}

#[tokio::test]
async fn a_slot_that_nobody_serves_is_reported_in_time() {
    let mut cluster = ValkeyCluster::start(3, 0).expect("the cluster forms");
    let mut hasty = config(&cluster.url());
    hasty.retry_time = Duration::from_millis(300);
    let host = ValkeyHost::connect(hasty, library(3, "ours")).await.expect("it connects");
    let victim = cluster.master_of(slot_of(5)).expect("the slot is covered");
    cluster.node_mut(victim).kill9().expect("the node can be killed");
    eventually("the cluster is known to be down", || async {
        let error = call(&host, COUNT, 5, &[]).await.expect_err("nobody serves the slot");
        assert_ne!(error.retry, Retry::Never, "{error}");
        let other = (0..16).find(|it| cluster.master_of(slot_of(*it)).is_ok_and(|m| m != victim));
        let other = host.call(COUNT, Partition::flow(other.unwrap_or(0)), Default::default());
        other.await.is_err_and(|error| error.kind == BackendErrorKind::Cluster)
    })
    .await;
    cluster.node_mut(victim).restart().expect("the node starts again");
    eventually("a call", || async { call(&host, COUNT, 5, &[]).await.is_ok() }).await;
}
