//! Calls on a standalone server: arguments, replies, errors, credentials, TLS.

mod fixture;

use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::partition::{Partition, PartitionFamily};
use ff_script::dump::Stored;
use ff_script::host::Host;
use ff_script::value::Value;
use ff_test_valkey::{Valkey, ValkeyOptions};
use fixture::*;

#[tokio::test]
async fn what_one_call_writes_another_reads() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let written = call(&host, WRITE, 7, &[b"hello"]).await.expect("the call succeeds");
    assert_eq!(written, Value::Array(vec![Value::Int(1), bytes("OK")]));
    assert_eq!(call(&host, READ, 7, &[]).await, Ok(bytes("hello")));
    assert_eq!(call(&host, READ, 8, &[]).await, Ok(Value::Nil));
    assert_eq!(host.name(), "valkey");
}

#[tokio::test]
async fn arguments_are_bytes_of_any_kind_and_size() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = vec![0xff; 4 * 1024 * 1024];
    for argument in [every_byte.as_slice(), b"", &large] {
        let echoed = call(&host, ECHO, 0, &[argument, b"", argument]).await;
        let expected = [bytes(argument), bytes(""), bytes(argument)];
        assert!(echoed == Ok(Value::Array(expected.to_vec())), "{} bytes", argument.len());
    }
}

#[tokio::test]
async fn an_error_inside_a_function_is_a_bug_and_is_not_repeated() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let error = call(&host, FAIL, 0, &[]).await.expect_err("the function fails");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Protocol, Retry::Never));
    assert!(error.message.contains("WRONGTYPE"), "{error}");
}

#[tokio::test]
async fn a_function_that_a_right_library_lacks_is_reported_soon() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    let error = call(&host, MISSING, 0, &[]).await.expect_err("there is no such function");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::ScriptNotLoaded, Retry::Never));
}

#[tokio::test]
async fn writes_beyond_the_memory_limit_are_refused_and_reads_are_not() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    call(&host, WRITE, 0, &[b"kept"]).await.expect("there is room");
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).expect("the server answers");
    let error = call(&host, WRITE, 0, &[b"more"]).await.expect_err("there is no room");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::StoreFull, Retry::Safe));
    assert_eq!(call(&host, READ, 0, &[]).await, Ok(bytes("kept")));
}

#[tokio::test]
async fn a_user_with_a_password_gets_in_and_a_wrong_password_does_not() {
    let options = ValkeyOptions {
        username: Some("ff".to_owned()),
        password: Some("right-canary".to_owned()),
        ..ValkeyOptions::default()
    };
    let server = Valkey::start(options).expect("the server starts");
    connect(&server.url()).await;

    let without = config(&format!("valkey://{}/", server.address()));
    let by_options = without.clone().with_credentials(Some("ff"), "right-canary");
    ValkeyHost::connect(by_options, library(3, "ours")).await.expect("the host connects");
    for wrong in [
        without.clone(),
        without.clone().with_credentials(Some("ff"), "wrong-canary"),
        without.with_credentials(None, "wrong-canary"),
    ] {
        let refused = ValkeyHost::connect(wrong, library(3, "ours")).await;
        let error = refused.err().expect("the credentials are wrong");
        assert_eq!((error.kind, error.retry), (BackendErrorKind::Auth, Retry::Never), "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn a_password_of_the_default_user_is_enough() {
    let options = ValkeyOptions { password: Some("secret".to_owned()), ..ValkeyOptions::default() };
    let server = Valkey::start(options).expect("the server starts");
    let host = connect(&server.url()).await;
    assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(1)));
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_trusts_the_given_authority_and_no_other() {
    use ff_backend_valkey::TlsOptions;

    let options = ValkeyOptions { tls: true, ..ValkeyOptions::default() };
    let server = Valkey::start(options).expect("the server starts");
    let mut trusting = config(&server.url());
    let ca_file = server.ca_file().map(ToOwned::to_owned);
    trusting.tls = Some(TlsOptions { ca_file, ..TlsOptions::default() });
    let host = ValkeyHost::connect(trusting, library(3, "ours")).await.expect("it connects");
    let large = vec![7; 1024 * 1024];
    call(&host, WRITE, 0, &[&large]).await.expect("the call succeeds");
    assert!(call(&host, READ, 0, &[]).await == Ok(bytes(&large)));

    let mut careless = config(&server.url());
    careless.tls = Some(TlsOptions { insecure: true, ..TlsOptions::default() });
    ValkeyHost::connect(careless, library(3, "ours")).await.expect("it connects");

    let refused = ValkeyHost::connect(config(&server.url()), library(3, "ours")).await;
    let error = refused.err().expect("the system does not know the authority");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Auth, Retry::Never), "{error}");
}

#[tokio::test]
async fn several_connections_carry_calls_as_well() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let mut several = config(&server.url());
    several.connections = 3;
    let host = ValkeyHost::connect(several, library(3, "ours")).await.expect("it connects");
    for count in 1..=9 {
        assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(count)));
    }
}

#[tokio::test]
async fn a_dump_holds_every_key_of_ours_with_its_value() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    for words in [
        "SET ff:{fp:1}:s text",
        "HSET ff:{fp:1}:h a 1",
        "ZADD ff:{fp:1}:z 1.5 m",
        "ZADD ff:{fp:1}:z -inf n",
        "RPUSH ff:{fp:1}:l x y",
        "SADD ff:{fp:1}:m one",
        "XADD ff:{fp:1}:x 5-6 f v",
        "SET other 1",
    ] {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        host.exec(Partition::flow(1), &words).await.expect("the command works");
    }
    let dump = host.dump().await.expect("the store can be read");
    let mut keys: Vec<&[u8]> = dump.keys().map(Vec::as_slice).collect();
    keys.sort();
    let suffixes: Vec<&str> =
        keys.iter().map(|key| std::str::from_utf8(&key[10..]).expect("ASCII")).collect();
    assert_eq!(suffixes, ["h", "l", "m", "s", "x", "z"]);
    let Some(Stored::SortedSet(scores)) = dump.get(b"ff:{fp:1}:z".as_slice()) else {
        panic!("z is a sorted set");
    };
    assert_eq!(scores[b"n".as_slice()], f64::NEG_INFINITY);
    let Some(Stored::Stream(entries)) = dump.get(b"ff:{fp:1}:x".as_slice()) else {
        panic!("x is a stream");
    };
    assert_eq!((entries[0].ms, entries[0].seq), (5, 6));
    assert_eq!(entries[0].fields, [(b"f".to_vec(), b"v".to_vec())]);
}

#[tokio::test]
async fn every_family_of_partitions_can_be_called() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    for family in [PartitionFamily::Flow, PartitionFamily::Budget, PartitionFamily::Quota] {
        let partition = Partition { family, index: 1 };
        assert_eq!(host.call(COUNT, partition, Default::default()).await, Ok(Value::Int(1)));
    }
}
