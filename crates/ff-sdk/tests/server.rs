//! What only a server can do, and what can go wrong on the way to one.

mod site;

use std::time::{Duration, Instant};

use ff_sdk::{
    BackendConfig, BackendErrorKind, Client, Code, Connection, DeliverSignal, EngineError,
    ExecutionId, FlowFabricAdminClient, HandleKind, LaneId, RotateWaitpointSecretRequest, SdkError,
    Signal, SignalOutcome,
};
use site::proxy::Proxy;
use site::{LANE, LONG, Site, TOKEN, claim, eventually, server_config};

fn lane() -> LaneId {
    LANE.parse().expect("valid")
}

fn admin(site: &Site) -> FlowFabricAdminClient {
    let url = format!("http://{}/", site.server_address());
    FlowFabricAdminClient::with_token(url, TOKEN).expect("valid")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_claims_through_the_server_s_scheduler() {
    let site = Site::server().await;
    let (worker, admin) = (site.worker("w-1", 1).await, admin(&site));
    assert!(worker.claim_via_server(&admin, &lane(), 5_000).await.expect("answers").is_none());
    let id = site.submit("granted").await;
    let task = worker.claim_via_server(&admin, &lane(), 5_000).await.expect("answers");
    let task = task.expect("granted and claimed");
    assert_eq!((*task.execution_id(), task.claim_kind()), (id, HandleKind::Fresh));
    let refused = worker.claim_via_server(&admin, &lane(), 5_000).await.expect_err("no room");
    assert!(matches!(refused, SdkError::WorkerAtCapacity), "{refused}");
    task.delay_for(Duration::ZERO).await.expect("put aside");
    eventually("the end of the pause", || async {
        let next = worker.claim_via_server(&admin, &lane(), 5_000).await.expect("answers");
        next.is_some_and(|task| task.claim_kind() == HandleKind::Resumed)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_of_waitpoint_tokens_is_rotated_through_the_server() {
    let site = Site::server().await;
    let mut request = RotateWaitpointSecretRequest {
        new_kid: "second".to_owned(),
        new_secret_hex: "5e".repeat(16),
        grace_ms: Some(1_000),
    };
    let rotated = admin(&site).rotate_waitpoint_secret(request.clone()).await.expect("rotated");
    assert_eq!((rotated.new_kid.as_str(), rotated.failed.len()), ("second", 0));
    request.new_secret_hex = "not hex".to_owned();
    let refused = admin(&site).rotate_waitpoint_secret(request).await.expect_err("refused");
    let SdkError::AdminApi { status, raw_body, .. } = &refused else { panic!("{refused}") };
    assert_eq!(*status, 400);
    assert!(!raw_body.contains("not hex"), "{raw_body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_a_waitpoint_s_token_needs_no_other() {
    let site = Site::server().await;
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let at = task.create_pending_waitpoint("answer", 60_000).await.expect("opened");
    let stranger = FlowFabricAdminClient::new(format!("http://{}", site.server_address()));
    let signal =
        Signal { signal_name: "go".to_owned(), waitpoint_token: at.1, ..Signal::default() };
    let signal = DeliverSignal::to_waitpoint(at.0, signal);
    let outcome = stranger.expect("valid").deliver_signal(id, signal).await.expect("delivered");
    assert!(matches!(outcome, SignalOutcome::Buffered { .. }), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_s_refusal_is_told_with_its_code_and_its_opinion() {
    let site = Site::server().await;
    let worker = site.worker("w-1", 1).await;
    let refused = worker.claim_via_server(&admin(&site), &lane(), 0).await;
    match refused.expect_err("a grant must last") {
        SdkError::AdminApi { status, kind, retryable, raw_body, .. } => {
            assert_eq!(
                (status, kind.as_deref(), retryable),
                (400, Some("invalid_input"), Some(false))
            );
            assert!(raw_body.contains("grant_ttl_ms"), "{raw_body}");
        }
        other => panic!("the server must have answered: {other}"),
    }
    let url = format!("http://{}", site.server_address());
    let stranger = FlowFabricAdminClient::new(&url).expect("valid");
    let refused = worker.claim_via_server(&stranger, &lane(), 5_000).await;
    let refused = refused.expect_err("no token");
    assert!(matches!(refused, SdkError::AdminApi { status: 401, .. }), "{refused}");
    assert_eq!(worker.capacity(), 1);
}

#[tokio::test]
async fn a_wrong_token_is_refused_when_connecting() {
    let site = Site::server().await;
    let url = format!("http://{}", site.server_address());
    let wrong = Connection::open(BackendConfig::server(&url, Some("wrong"))).await;
    let error = wrong.expect_err("refused");
    assert_eq!(error.engine().and_then(EngineError::code), Some(Code::Unauthorized), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported_in_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let before = Instant::now();
    let error = Connection::open(server_config(&format!("http://{address}"))).await;
    let error = error.expect_err("nobody is there");
    assert_eq!(error.backend_kind(), Some(BackendErrorKind::Transport), "{error}");
    assert!(error.is_retryable());
    assert!(before.elapsed() < LONG, "it took {:?}", before.elapsed());
    let admin = FlowFabricAdminClient::new(format!("http://{address}")).expect("valid");
    let request = ff_sdk::ClaimForWorkerRequest {
        worker_id: "w".parse().expect("valid"),
        lane_id: lane(),
        worker_instance_id: "w-1".parse().expect("valid"),
        capabilities: Vec::new(),
        grant_ttl_ms: 1_000,
    };
    let error = admin.claim_for_worker(request).await.expect_err("nobody is there");
    assert!(matches!(&error, SdkError::Http { .. }) && error.is_retryable(), "{error}");
}

#[tokio::test]
async fn something_that_is_no_flowfabric_server_is_told_apart() {
    let web = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = web.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = web.accept().await {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let mut request = [0; 4096];
            let _ = client.read(&mut request).await;
            let page = "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\noops";
            let _ = client.write_all(page.as_bytes()).await;
        }
    });
    let error = Connection::open(server_config(&format!("http://{address}"))).await;
    let error = error.expect_err("no server of ours");
    assert_eq!(error.backend_kind(), Some(BackendErrorKind::Protocol), "{error}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn an_id_of_another_deployment_is_refused() {
    let site = Site::server().await;
    let elsewhere = ExecutionId::parse("{fp:99}:550e8400-e29b-41d4-a716-446655440000");
    let error = site.client.describe(&elsewhere.expect("an id")).await.expect_err("refused");
    assert_eq!(
        error.engine().and_then(EngineError::code),
        Some(Code::PartitionMismatch),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_shut_down_lets_waiting_workers_go() {
    let site = Site::server().await;
    let worker = site.worker("w-1", 1).await;
    let client = Client::new(&site.connection);
    let id = site.submit("x").await;
    claim(&worker).await.complete(None).await.expect("completed");
    client.await_result_raw(&id, LONG).await.expect("a result");
    let site::Place::Server(server) = site.place else { panic!("it is a server") };
    let waiting = worker.claim(LONG);
    let (waited, finished) = tokio::join!(waiting, server.shutdown(LONG));
    assert!(finished, "nothing held the server up");
    let error = waited.expect_err("the server is gone");
    assert!(error.is_retryable(), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_was_waited_for_is_read_once() {
    const RESULT_BYTES: usize = 1 << 20;
    let site = Site::server().await;
    let proxy = Proxy::start(site.server_address().to_string()).await;
    let config = server_config(&format!("http://{}", proxy.address));
    let client = Client::new(&Connection::open(config).await.expect("connects"));
    let worker = site.worker("w-1", 1).await;
    let id = site.submit("x").await;
    let task = claim(&worker).await;
    let before = proxy.answered_bytes();
    let waiting = tokio::spawn(async move { client.await_result_raw(&id, LONG).await });
    // The two looks that find it running are answered.
    eventually("the wait", || async { proxy.answered_bytes() > before + 1_000 }).await;
    task.complete(Some(vec![7; RESULT_BYTES])).await.expect("completed");
    assert_eq!(waiting.await.expect("no panic").expect("a result").len(), RESULT_BYTES);
    let read = proxy.answered_bytes() - before;
    assert!(read < RESULT_BYTES + RESULT_BYTES / 2, "{read} bytes were read");
}
