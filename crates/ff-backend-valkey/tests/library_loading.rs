//! Which library runs: missing and older ones are replaced, newer ones used, foreign ones refused.

mod fixture;

use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_script::library::Library;
use ff_script::value::Value;
use ff_test_valkey::{Reply, Valkey, ValkeyOptions};
use fixture::*;

fn started() -> Valkey {
    Valkey::start(ValkeyOptions::default()).expect("the server starts")
}

fn load(server: &Valkey, library: &Library) {
    let loaded = server.command(&["FUNCTION", "LOAD", "REPLACE", &library.source]);
    assert_eq!(loaded.expect("the server answers"), Reply::Text(library.name.to_owned()));
}

fn hash_on(server: &Valkey) -> String {
    match server.command(&["FCALL_RO", "ff_version_v1", "0"]).expect("the server answers") {
        Reply::List(parts) => parts[3].text().to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_library_is_loaded() {
    let server = started();
    connect(&server.url()).await;
    assert_eq!(hash_on(&server), "ours");
}

#[tokio::test]
async fn an_older_library_is_replaced() {
    let server = started();
    load(&server, &library(2, "older"));
    connect(&server.url()).await;
    assert_eq!(hash_on(&server), "ours");
}

#[tokio::test]
async fn the_same_library_is_left_alone() {
    let server = started();
    load(&server, &library(3, "ours"));
    server.command(&["CONFIG", "RESETSTAT"]).expect("the server answers");
    connect(&server.url()).await;
    let stats = server.command(&["INFO", "commandstats"]).expect("the server answers");
    assert!(!stats.text().contains("function|load"), "{}", stats.text());
}

#[tokio::test]
async fn a_newer_library_is_used_and_never_replaced() {
    let server = started();
    load(&server, &library(4, "newer"));
    let host = connect(&server.url()).await;
    assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(1)));
    assert_eq!(hash_on(&server), "newer");
}

#[tokio::test]
async fn a_foreign_library_of_the_same_version_is_refused() {
    let server = started();
    load(&server, &library(3, "foreign"));
    let refused = ValkeyHost::connect(config(&server.url()), library(3, "ours")).await;
    let error = refused.err().expect("the library is not ours");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::ScriptNotLoaded, Retry::Never));
    for part in ["foreign", "ours", "FUNCTION DELETE flowfabric_v1"] {
        assert!(error.message.contains(part), "{error}");
    }
    assert_eq!(hash_on(&server), "foreign");
}

#[tokio::test]
async fn a_broken_library_is_reported_as_such() {
    let server = started();
    let broken = Library { source: "#!lua name=x\nnot lua".to_owned(), ..library(3, "ours") };
    let refused = ValkeyHost::connect(config(&server.url()), broken).await;
    let error = refused.err().expect("the library cannot be loaded");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::ScriptNotLoaded, Retry::Never));
}

#[tokio::test]
async fn the_call_that_finds_the_library_lost_loads_it_and_succeeds() {
    let server = started();
    let host = connect(&server.url()).await;
    server.command(&["FUNCTION", "FLUSH"]).expect("the server answers");
    assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(1)));
    assert_eq!(hash_on(&server), "ours");
}

#[tokio::test]
async fn the_background_check_replaces_an_older_library() {
    let server = started();
    let _host = connect(&server.url()).await;
    load(&server, &library(1, "older"));
    eventually("the repair", || async { hash_on(&server) == "ours" }).await;
}

#[tokio::test]
async fn calls_are_refused_once_a_foreign_library_was_found() {
    let server = started();
    let host = connect(&server.url()).await;
    load(&server, &library(3, "foreign"));
    eventually("the refusal", || async {
        let refused = call(&host, COUNT, 0, &[]).await.err();
        refused.is_some_and(|error| error.kind == BackendErrorKind::ScriptNotLoaded)
    })
    .await;
    server.command(&["FUNCTION", "FLUSH"]).expect("the server answers");
    call(&host, COUNT, 0, &[]).await.expect("the library is loaded again");
}

#[tokio::test]
async fn a_server_that_evicts_keys_is_refused() {
    let evicting = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let options = ValkeyOptions::default().with_args(&evicting);
    let server = Valkey::start(options).expect("the server starts");
    let refused = ValkeyHost::connect(config(&server.url()), library(3, "ours")).await;
    let error = refused.err().expect("the policy loses work");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Resource, Retry::Never));
    assert!(error.message.contains("CONFIG SET maxmemory-policy noeviction"), "{error}");
}

#[tokio::test]
async fn a_user_who_may_not_load_functions_can_use_a_loaded_library() {
    let server = started();
    let rule = ["ACL", "SETUSER", "worker", "on", ">pw", "~ff:*", "&ff:*", "+@all"];
    server.command(&[rule.as_slice(), &["-function|load", "-config"]].concat()).expect("works");
    let worker = config(&format!("valkey://worker:pw@{}/", server.address()));
    let refused = ValkeyHost::connect(worker.clone(), library(3, "ours")).await;
    let error = refused.err().expect("the user may not load it");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Auth, Retry::Never), "{error}");

    load(&server, &library(3, "ours"));
    let host = ValkeyHost::connect(worker, library(3, "ours")).await.expect("it connects");
    assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(1)));
}
