//! What a server must be and must allow before calls go to it, on the first connection and on every
//! later one.

mod fixture;

use std::sync::Arc;

use ff_backend_valkey::{Persistence, ValkeyConfig, ValkeyHost};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::PartitionConfig;
use ff_core::types::LaneId;
use ff_script::backend::ScriptBackend;
use ff_script::calls::deployment::RegisterLane;
use ff_script::library::Library;
use ff_script::value::Value;
use ff_test_valkey::{Reply, Valkey, ValkeyCluster, ValkeyOptions};
use fixture::*;

fn with_file(fsync: &str) -> ValkeyOptions {
    let append_fsync = Some(fsync.to_owned());
    ValkeyOptions { append_only: true, append_fsync, ..ValkeyOptions::default() }
}

fn start(options: ValkeyOptions) -> Valkey {
    Valkey::start(options).expect("the server starts")
}

fn run(server: &Valkey, words: &[&str]) {
    let reply = server.command(words).expect("the server answers");
    assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
}

async fn refusal(config: ValkeyConfig, library: Library) -> BackendError {
    let refused = ValkeyHost::connect(config, library).await.err();
    let error = refused.expect("the server cannot be trusted");
    assert_eq!(error.retry, Retry::Never, "{error}");
    error
}

fn durable(url: &str) -> ValkeyConfig {
    let mut config = config(url);
    config.require_durable = true;
    config
}

#[tokio::test]
async fn what_a_server_keeps_on_disk_is_looked_at() {
    let file = |fsync: &str| Persistence::AppendOnly { fsync: Some(fsync.to_owned()) };
    let snapshots = ValkeyOptions::default().with_args(&["--save", "3600 1"]);
    for (options, expected) in [
        (with_file("always"), file("always")),
        (with_file("everysec"), file("everysec")),
        (with_file("no"), file("no")),
        (ValkeyOptions::default(), Persistence::Otherwise { snapshots: Some(false) }),
        (snapshots, Persistence::Otherwise { snapshots: Some(true) }),
    ] {
        let server = start(options);
        let host = connect(&server.url()).await;
        assert_eq!(host.persistence(), [(server.address(), expected.clone())]);
        let required = ValkeyHost::connect(durable(&server.url()), library(3, "ours")).await;
        match required {
            Ok(_) => assert!(expected.is_durable(), "{expected}"),
            Err(error) => {
                assert!(!expected.is_durable(), "{error}");
                assert_eq!((error.kind, error.retry), (BackendErrorKind::Resource, Retry::Never));
                assert!(error.message.contains("CONFIG SET append"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn what_the_user_may_not_ask_is_unknown_and_not_durable() {
    let server = start(with_file("always"));
    run(&server, &["ACL", "SETUSER", "w", "on", ">pw", "~*", "&*", "+@all", "-config"]);
    let url = format!("valkey://w:pw@{}/", server.address());
    let host = connect(&url).await;
    let unknown = Persistence::AppendOnly { fsync: None };
    assert_eq!(host.persistence(), [(server.address(), unknown)]);
    let error = refusal(durable(&url), library(3, "ours")).await;
    assert!(error.message.contains("+config|get"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_no_longer_durable_gets_no_more_calls() {
    let server = start(with_file("everysec"));
    let host = ValkeyHost::connect(durable(&server.url()), library(3, "ours")).await;
    let host = host.expect("the server is durable");
    run(&server, &["CONFIG", "SET", "appendonly", "no"]);
    eventually("the refusal", || async {
        let refused = call(&host, COUNT, 0, &[]).await.err();
        refused.is_some_and(|error| error.message.contains("require_durable"))
    })
    .await;
    run(&server, &["CONFIG", "SET", "appendonly", "yes"]);
    eventually("an answer", || async { call(&host, COUNT, 0, &[]).await.is_ok() }).await;
}

/// The check at intervals is switched off: what is found is found by the new connection.
async fn restarted_evicting(server: &mut Valkey, host: &ValkeyHost) {
    let evicting = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
    server.restart().expect("the server starts again");
    run(server, &["CONFIG", "SET", "maxmemory", "100mb"]);
    run(server, &evicting);
    // A connection that was opened before the setting was made is ended.
    run(server, &["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("the refusal", || async {
        let refused = call(host, COUNT, 0, &[]).await.err();
        refused.is_some_and(|error| {
            error.kind == BackendErrorKind::Resource && error.message.contains("noeviction")
        })
    })
    .await;
}

#[tokio::test]
async fn a_server_that_evicts_after_its_restart_gets_no_calls_until_that_is_mended() {
    let mut server = start(with_file("always"));
    let mut unguarded = config(&server.url());
    unguarded.check_interval = std::time::Duration::from_secs(600);
    let host = ValkeyHost::connect(unguarded, library(3, "ours")).await.expect("it connects");
    assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(1)));
    restarted_evicting(&mut server, &host).await;
    run(&server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(2)));
}

#[tokio::test]
async fn a_policy_that_changes_while_the_connection_lasts_is_found() {
    let server = start(ValkeyOptions::default());
    let host = connect(&server.url()).await;
    run(&server, &["CONFIG", "SET", "maxmemory", "100mb"]);
    run(&server, &["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    eventually("the refusal", || async {
        call(&host, COUNT, 0, &[]).await.is_err_and(|error| error.message.contains("noeviction"))
    })
    .await;
}

/// Connects as a user with these rights, and with the advice of the refusal if there is one.
async fn connect_by_advice(server: &Valkey, rules: &[&str]) -> (String, ValkeyHost) {
    let user = ["ACL", "SETUSER", "ada", "reset", "on", ">pw"];
    run(server, &[user.as_slice(), rules].concat());
    let url = format!("valkey://ada:pw@{}/", server.address());
    let error = refusal(config(&url), Library::current()).await;
    assert_eq!(error.kind, BackendErrorKind::Auth, "{error}");
    let (_, advice) = error.message.split_once("): ").expect("the message ends with advice");
    run(server, &advice.split_ascii_whitespace().collect::<Vec<_>>());
    let host = ValkeyHost::connect(config(&url), Library::current()).await;
    (error.message, host.expect("the advice helps"))
}

#[tokio::test]
async fn a_missing_right_is_named_at_connect_with_what_helps() {
    let server = start(ValkeyOptions::default());
    ValkeyHost::connect(config(&server.url()), Library::current()).await.expect("it connects");
    for (rules, named) in [
        (["~ff:*", "+@all", "resetchannels"].as_slice(), "SPUBLISH ff:{fp:0}:ready"),
        (&["~ff:*", "&ff:*", "+@all", "-xadd"], "(XADD ff:{fp:0}:log)"),
        (&["~other:*", "&ff:*", "+@all"], "GET ff:{fp:0}:x:id"),
        (&["~ff:*", "&ff:*", "+@all", "-ssubscribe"], "SSUBSCRIBE ff:{fp:0}:ended"),
        (&["~ff:*", "&ff:*", "+fcall_ro", "+info", "+@connection"], " and more"),
    ] {
        let (message, host) = connect_by_advice(&server, rules).await;
        assert!(message.contains(named), "{message}");
        let config = PartitionConfig { num_flow_partitions: 16, ..PartitionConfig::default() };
        let backend = ScriptBackend::open(Arc::new(host), config).await.expect("it opens");
        let lane = LaneId::try_new("default").expect("a valid name");
        let call = RegisterLane { lane };
        backend.call(ff_core::partition::Partition::flow(0), call).await.expect("it works");
    }
}

/// Users are not replicated: the one who takes over may know others.
#[tokio::test]
async fn a_right_that_a_promoted_replica_lacks_is_found_before_a_call_is_half_done() {
    let mut cluster = ValkeyCluster::start(3, 1).expect("the cluster forms");
    let host = ValkeyHost::connect(config(&cluster.url()), Library::current()).await;
    let host = host.expect("it connects");
    let slot = ff_core::partition::Partition::flow(0).slot();
    let victim = cluster.master_of(slot).expect("the slot is covered");
    run(&cluster.nodes()[victim + 3], &["ACL", "SETUSER", "default", "resetchannels"]);
    cluster.node_mut(victim).kill9().expect("the node can be killed");
    let create = ff_script::host::Function { wire_name: "ff_register_lane_v1", read_only: false };
    eventually("the refusal", || async {
        let error = call(&host, create, 0, &[b"lane"]).await.err();
        error.is_some_and(|error| error.message.contains("SPUBLISH ff:{fp:0}:ready"))
    })
    .await;
}

#[tokio::test]
async fn a_server_without_the_needed_commands_or_language_says_what_to_do() {
    let hiding = ["--rename-command", "FUNCTION", "", "--rename-command", "FCALL_RO", ""];
    let server = start(ValkeyOptions::default().with_args(&hiding));
    let error = refusal(config(&server.url()), library(3, "ours")).await;
    assert!(error.message.contains("rename-command"), "{error}");

    let server = start(ValkeyOptions::default());
    let other = Library { source: "#!wasm name=flowfabric_v1\n".to_owned(), ..library(3, "ours") };
    let error = refusal(config(&server.url()), other).await;
    assert_eq!(error.kind, BackendErrorKind::ScriptNotLoaded, "{error}");
    assert!(error.message.contains("Lua module"), "{error}");

    run(&server, &["ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-info"]);
    let url = format!("valkey://ada:pw@{}/", server.address());
    let error = refusal(config(&url), library(3, "ours")).await;
    assert_eq!(error.kind, BackendErrorKind::Auth, "{error}");
    assert!(error.message.contains("docs/operating.md"), "{error}");
}

/// Servers of the version that wrote the data may be at work: not even the library is touched.
#[tokio::test]
async fn a_store_of_another_format_is_refused_before_the_library_is_loaded() {
    for record in [&["flow", "256", "format", "7"][..], &["flow", "256"]] {
        let server = start(ValkeyOptions::default());
        run(&server, &[&["HSET", "ff:{fp:0}:deployment"], record].concat());
        let error = refusal(config(&server.url()), Library::current()).await;
        assert!(error.message.contains("use the version that wrote it"), "{error}");
        let loaded = server.command(&["FUNCTION", "LIST"]).expect("the server answers");
        assert_eq!(loaded, Reply::List(Vec::new()));
    }
}
