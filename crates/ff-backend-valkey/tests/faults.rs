//! A server that dies, hangs, loads, is busy, or turns into a replica.

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_script::value::Value;
use ff_test_valkey::{Valkey, ValkeyOptions};
use fixture::*;

fn durable() -> ValkeyOptions {
    let append_fsync = Some("always".to_owned());
    ValkeyOptions { append_only: true, append_fsync, ..ValkeyOptions::default() }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported_in_time() {
    let mut server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    server.kill9().expect("the server can be killed");
    let mut hasty = config(&server.url());
    hasty.retry_time = Duration::from_millis(300);
    let start = Instant::now();
    let error = ValkeyHost::connect(hasty, library(3, "ours")).await.err();
    let error = error.expect("nobody is there");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Transport, Retry::Safe), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2), "it took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_call_waits_for_a_server_that_restarts() {
    let mut server = Valkey::start(durable()).expect("the server starts");
    let host = connect(&server.url()).await;
    assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(1)));
    server.kill9().expect("the server can be killed");
    let restart = std::thread::spawn(move || server.restart().map(|()| server));
    // The connection is known to be broken by the time the server is up, so the call is not lost.
    let counted = call(&host, COUNT, 0, &[]).await;
    let _server = restart.join().expect("no panic").expect("the server starts again");
    match counted {
        Ok(count) => assert_eq!(count, Value::Int(2)),
        Err(error) => assert_eq!(error.retry, Retry::IfReplaySafe, "{error}"),
    }
}

/// Callers that never stop, and what became of their calls.
struct Load {
    stop: Arc<AtomicBool>,
    succeeded: Arc<AtomicU64>,
    callers: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(host: &Arc<ValkeyHost>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let succeeded = Arc::new(AtomicU64::new(0));
        let callers = (0..64u16).map(|caller| {
            let (host, stop, succeeded) =
                (Arc::clone(host), Arc::clone(&stop), Arc::clone(&succeeded));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    match call(&host, COUNT, caller % 16, &[]).await {
                        Ok(_) => _ = succeeded.fetch_add(1, Ordering::Relaxed),
                        Err(error) => assert_ne!(error.retry, Retry::Never, "{error}"),
                    }
                }
            })
        });
        let callers = callers.collect();
        Self { stop, succeeded, callers }
    }

    fn succeeded(&self) -> u64 {
        self.succeeded.load(Ordering::Relaxed)
    }

    async fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.expect("no call failed for good");
        }
        self.succeeded.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_succeed_again_after_a_kill_and_no_acknowledged_one_is_lost() {
    let mut server = Valkey::start(durable()).expect("the server starts");
    let host = Arc::new(connect(&server.url()).await);
    let load = Load::start(&host);
    for _ in 0..3 {
        let before = load.succeeded();
        eventually("progress", || async { load.succeeded() > before + 500 }).await;
        server.kill9().expect("the server can be killed");
        server.restart().expect("the server starts again");
    }
    let before = load.succeeded();
    eventually("progress after the last kill", || async { load.succeeded() > before + 500 }).await;
    let succeeded = load.finish().await;
    let mut counted = 0;
    for partition in 0..16 {
        let Ok(Value::Int(next)) = call(&host, COUNT, partition, &[]).await else {
            panic!("the server is up");
        };
        counted += u64::try_from(next - 1).expect("counts do not go below zero");
    }
    assert!(counted >= succeeded, "{succeeded} calls were acknowledged, {counted} are there");
}

#[tokio::test]
async fn a_late_answer_is_a_timeout_that_only_the_caller_may_repeat() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let mut hasty = config(&server.url());
    hasty.response_timeout = Duration::from_millis(200);
    let host = ValkeyHost::connect(hasty, library(3, "ours")).await.expect("it connects");
    server.pause().expect("the server can be paused");
    let error = call(&host, COUNT, 0, &[]).await.expect_err("nobody answers");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Timeout, Retry::IfReplaySafe));
    server.resume().expect("the server can be resumed");
    eventually("an answer", || async { call(&host, COUNT, 0, &[]).await.is_ok() }).await;
}

#[tokio::test]
async fn a_connection_that_hangs_is_replaced() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let mut hasty = config(&server.url());
    hasty.response_timeout = Duration::from_millis(200);
    hasty.check_interval = Duration::from_secs(600);
    let host = ValkeyHost::connect(hasty, library(3, "ours")).await.expect("it connects");
    let clients = |server: &Valkey| {
        let list = server.command(&["CLIENT", "LIST"]).expect("the server answers");
        let ours = list.text().lines().filter(|line| line.contains("lib-name=flowfabric"));
        ours.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let before = clients(&server);
    server.pause().expect("the server can be paused");
    call(&host, COUNT, 0, &[]).await.expect_err("nobody answers");
    server.resume().expect("the server can be resumed");
    eventually("an answer", || async { call(&host, COUNT, 0, &[]).await.is_ok() }).await;
    eventually("the old connection's end", || async {
        clients(&server).iter().all(|client| !before.contains(client))
    })
    .await;
}

#[tokio::test]
async fn a_busy_server_is_waited_for() {
    let options = ValkeyOptions::default().with_args(&["--busy-reply-threshold", "20"]);
    let server = Valkey::start(options).expect("the server starts");
    let spinning = connect(&server.url()).await;
    let host = connect(&server.url()).await;
    let spin = call(&spinning, SPIN, 0, &[b"500"]);
    let counted = async {
        // Sent once the spinning function holds the server.
        eventually("busy", || async {
            server.command(&["PING"]).is_ok_and(|reply| format!("{reply:?}").contains("BUSY"))
        })
        .await;
        call(&host, COUNT, 0, &[]).await
    };
    let (spun, counted) = tokio::join!(spin, counted);
    assert_eq!(spun, Ok(bytes("done")));
    assert_eq!(counted, Ok(Value::Int(1)));
}

#[tokio::test]
async fn a_server_busy_for_longer_than_the_retries_is_reported_as_busy() {
    let options = ValkeyOptions::default().with_args(&["--busy-reply-threshold", "20"]);
    let server = Valkey::start(options).expect("the server starts");
    let spinning = connect(&server.url()).await;
    let mut hasty = config(&server.url());
    hasty.retry_time = Duration::from_millis(100);
    let host = ValkeyHost::connect(hasty, library(3, "ours")).await.expect("it connects");
    let spin = call(&spinning, SPIN, 0, &[b"1000"]);
    let refused = async {
        eventually("busy", || async {
            server.command(&["PING"]).is_ok_and(|reply| format!("{reply:?}").contains("BUSY"))
        })
        .await;
        call(&host, COUNT, 0, &[]).await.expect_err("the server is busy")
    };
    let (_, error) = tokio::join!(spin, refused);
    assert_eq!((error.kind, error.retry), (BackendErrorKind::BusyLoading, Retry::Safe), "{error}");
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_waited_for() {
    // Each key takes 5 ms to load, and the server serves others after every few of them.
    let slow = ["--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024"];
    let mut server = Valkey::start(durable().with_args(&slow)).expect("the server starts");
    let mut patient = config(&server.url());
    patient.retry_time = Duration::from_secs(20);
    let host = ValkeyHost::connect(patient, library(3, "ours")).await.expect("it connects");
    let value = vec![b'x'; 1000];
    for partition in 0..200 {
        call(&host, WRITE, partition, &[&value]).await.expect("the call succeeds");
    }
    server.command(&["BGREWRITEAOF"]).expect("the server answers");
    eventually("the rewrite", || async {
        let info = server.command(&["INFO", "persistence"]).expect("the server answers");
        info.text().contains("aof_rewrite_in_progress:0")
            && info.text().contains("aof_rewrite_scheduled:0")
    })
    .await;
    server.restart_without_waiting().expect("the server starts again");
    eventually("loading", || async {
        server.command(&["PING"]).is_ok_and(|reply| format!("{reply:?}").contains("LOADING"))
    })
    .await;
    eventually("an answer", || async {
        match call(&host, READ, 199, &[]).await {
            Ok(read) => read == bytes(&value),
            // The connection broke under the call; everything else is waited for.
            Err(error) => {
                assert_eq!(error.retry, Retry::IfReplaySafe, "{error}");
                false
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_reported_and_used_again_afterwards() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let mut hasty = config(&server.url());
    hasty.retry_time = Duration::from_millis(200);
    let host = ValkeyHost::connect(hasty, library(3, "ours")).await.expect("it connects");
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).expect("the server answers");
    let error = call(&host, COUNT, 0, &[]).await.expect_err("replicas do not write");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Cluster, Retry::Safe), "{error}");
    server.command(&["REPLICAOF", "NO", "ONE"]).expect("the server answers");
    assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn a_server_without_its_replicas_refuses_writes_with_its_reason() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    let host = connect(&server.url()).await;
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).expect("it answers");
    let error = call(&host, COUNT, 0, &[]).await.expect_err("there are no replicas");
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Resource, Retry::Safe), "{error}");
}
