//! Servers and clusters start, answer, die, and come back.

use ff_test_valkey::{Link, Reply, Valkey, ValkeyCluster, ValkeyOptions};

#[test]
fn a_killed_server_with_an_append_only_file_comes_back_with_its_data() {
    let options = ValkeyOptions {
        append_only: true,
        append_fsync: Some("always".to_owned()),
        ..ValkeyOptions::default()
    };
    let mut server = Valkey::start(options).expect("the server starts");
    server.command(&["SET", "a", "1"]).expect("the server answers");
    server.kill9().expect("the server can be killed");
    server.command(&["PING"]).expect_err("nobody answers");
    server.restart().expect("the server starts again");
    assert_eq!(server.command(&["GET", "a"]).expect("it answers"), Reply::Text("1".to_owned()));
}

#[test]
fn the_directory_of_a_dropped_server_is_gone() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let dir = server.dir().to_owned();
    assert!(dir.exists());
    drop(server);
    assert!(!dir.exists());
}

#[test]
fn a_cluster_with_replicas_and_tls_and_a_password_forms() {
    let options = ValkeyOptions {
        tls: true,
        username: Some("ff".to_owned()),
        password: Some("secret".to_owned()),
        ..ValkeyOptions::default()
    };
    let cluster = ValkeyCluster::start_with(3, 1, options).expect("the cluster forms");
    assert_eq!(cluster.nodes().len(), 6);
    assert_eq!(cluster.master_of(0).expect("slot 0 is covered"), 0);
    assert_eq!(cluster.master_of(16_383).expect("the last slot is covered"), 2);
}

#[test]
fn a_replica_behind_a_held_link_lags_and_catches_up_or_takes_over_without_the_rest() {
    let mut primary = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let link = Link::to(primary.port()).expect("a port is free");
    let replica = Valkey::start_replica(&primary, link.port(), ValkeyOptions::default())
        .expect("the replica follows");
    let set = |value: &str| primary.command(&["SET", "a", value]).expect("it answers");
    let seen = || replica.command(&["GET", "a"]).expect("it answers").text().to_owned();
    set("1");
    while seen() != "1" {}
    link.hold();
    set("2");
    assert_eq!(seen(), "1");
    link.release();
    while seen() != "2" {}
    link.hold();
    set("3");
    primary.kill9().expect("the server can be killed");
    link.lead_to(primary.port());
    replica.promote().expect("it answers");
    assert_eq!(seen(), "2");
    assert_eq!(replica.command(&["SET", "a", "4"]).expect("it answers").text(), "OK");
}
