//! Clients that want too much, or nothing at all.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ff_server::StoreConfig;
use ff_test_valkey::Valkey;
use serde_json::json;

use crate::client::{Client, read_answer};
use crate::server::{TestServer, config, in_memory};
use crate::suite::submit;

const MIB: usize = 1024 * 1024;

pub(crate) fn send_raw(client: &Client, request: &str) -> BufReader<TcpStream> {
    let mut stream = client.connect().expect("a connection");
    stream.write_all(request.as_bytes()).expect("sent");
    BufReader::new(stream)
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let server = in_memory(|_| {});
    let client = server.client();
    for (path, length) in [
        ("/v1/executions", 1 << 30),
        ("/v1/executions/bulk", 64 * MIB),
        ("/v1/claims", 65 * 1024),
        ("/v1/tasks/complete", 1 << 30),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n"
        );
        let answer = read_answer(&mut send_raw(&client, &request), "POST").expect("an answer");
        let problem = answer.problem(413, "body_too_large");
        assert!(problem["details"][0].is_string(), "the limit is told: {problem}");
    }
}

#[test]
fn a_body_that_grows_too_large_is_cut() {
    let server = in_memory(|_| {});
    let mut stream = send_raw(
        &server.client(),
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n",
    );
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
    for _ in 0..64 {
        // The server may have answered and closed already.
        if stream.get_mut().write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let answer = read_answer(&mut stream, "POST").expect("an answer");
    answer.problem(413, "body_too_large");
}

#[test]
fn a_payload_above_the_limit_is_refused_with_its_size() {
    let server = in_memory(|_| {});
    let raw = [("flowfabric-kind", "a")];
    let body = vec![7; 8 * MIB + 1];
    let answer = server.client().send("POST", "/v1/executions", &raw, &body);
    let problem = answer.problem(413, "payload_too_large");
    assert_eq!(problem["details"], json!([body.len().to_string(), (8 * MIB).to_string()]));
    let answer = server.client().send("POST", "/v1/executions", &raw, &body[1..]);
    answer.expect(201);
}

#[test]
fn a_client_that_sends_no_request_is_cut() {
    let server = in_memory(|config| config.limits.header_timeout_ms = 200);
    let started = Instant::now();
    for begun in ["", "GET /heal", "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: "] {
        let mut stream = send_raw(&server.client(), begun);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the server closes the connection");
        let text = String::from_utf8_lossy(&rest);
        assert!(rest.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
    }
    assert!(started.elapsed() < Duration::from_secs(10));
    server.client().get("/healthz").expect(200);
}

#[test]
fn a_body_that_comes_too_slowly_is_refused() {
    let server = in_memory(|config| config.limits.body_timeout_ms = 200);
    let mut stream = send_raw(
        &server.client(),
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{",
    );
    let answer = read_answer(&mut stream, "POST").expect("an answer");
    let problem = answer.problem(408, "request_timeout");
    assert_eq!(problem["retryable"], true);
}

#[test]
fn an_answer_that_nobody_reads_is_given_up() {
    let server = in_memory(|config| config.limits.write_timeout_ms = 200);
    let client = server.client();
    let raw = [("flowfabric-kind", "a")];
    let created = client.send("POST", "/v1/executions", &raw, &vec![7; 8 * MIB]).expect(201);
    let id = created.json()["execution_id"].as_str().expect("an id").to_owned();
    let request = format!("GET /v1/executions/{id}/payload HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let _unread = send_raw(&client, &request);
    // One connection is ours; the other one vanishes although its client stays.
    wait_for_line(&client, "ff_http_connections 2");
    wait_for_line(&client, "ff_http_connections 1");
}

pub(crate) fn wait_for_line(client: &Client, wanted: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
        if text.lines().any(|line| line == wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "{wanted} never came");
        std::thread::yield_now();
    }
}

/// The number of a line of the metrics.
fn number(client: &Client, name: &str) -> u64 {
    let text = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    value.and_then(|digits| digits.parse().ok()).expect("a number")
}

#[test]
fn connections_beyond_the_limit_are_told_to_come_back() {
    let valkey = crate::deployment::valkey();
    let mut config = config(StoreConfig::parse(&valkey.url()).expect("a store"));
    config.limits.connections = 8;
    let server = TestServer::start(config);
    let client = server.client();
    client.get("/healthz").expect(200);
    // One that the server has not heard of yet can be taken for silent, and make room.
    let turned_away = (0..8).find_map(|_| turned_away(&valkey, &client));
    let turned_away = turned_away.expect("somebody is turned away");
    turned_away.problem(503, "overloaded");
    assert_eq!(turned_away.header("retry-after"), Some("1"));
    client.another().get("/healthz").expect(200);
}

/// While the store hangs, so does every answer about it: connections that work are not cut, and who
/// comes when they have all places is turned away.
fn turned_away(valkey: &Valkey, client: &Client) -> Option<crate::client::Answer> {
    valkey.pause().expect("paused");
    let asking: Vec<_> = (0..6).map(|_| client.connect().expect("a connection")).collect();
    for mut stream in &asking {
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    }
    let turned_away = wait_until_turned_away(client);
    valkey.resume().expect("resumed");
    let answers = asking.into_iter().map(|it| read_answer(&mut BufReader::new(it), "GET"));
    let answers: Vec<_> = answers.filter_map(Result::ok).collect();
    assert!(answers.iter().all(|answer| [200, 503].contains(&answer.status)), "{answers:?}");
    // Who is turned away is so because the others are kept.
    assert!(turned_away.is_none() || answers.len() >= 5, "{answers:?}");
    turned_away
}

/// The server learns of requests a little later than the client sends them, and waits for the store
/// no longer than a second or two.
fn wait_until_turned_away(client: &Client) -> Option<crate::client::Answer> {
    let deadline = Instant::now() + Duration::from_secs(1);
    while Instant::now() < deadline {
        let answer = client.another().get("/healthz");
        if answer.status != 200 {
            return Some(answer);
        }
    }
    None
}

#[test]
fn silent_connections_make_room_for_those_who_ask() {
    let server = in_memory(|config| config.limits.connections = 32);
    let client = server.client();
    let slow = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\nflowfabric-kind: a\r\n\
        content-length: 100\r\n\r\n{";
    let begun = ["", "GET /heal", slow, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"];
    let mut silent = Vec::new();
    for round in 0..25 {
        silent.extend(begun.map(|request| send_raw(&client, request)));
        client.another().get("/healthz").expect(200);
        let created = client.another().post("/v1/executions", &json!({"kind": "a"}));
        assert_eq!(created.status, 201, "round {round}: {created:?}");
    }
    assert!(number(&client, "ff_http_connections_cut_total") >= 100 - 24, "all but the places");
    assert!(number(&client, "ff_http_connections") <= 24);
    assert_eq!(number(&client, "ff_http_connections_refused_total"), 0);
}

#[test]
fn waiting_claims_leave_room_for_everybody_else() {
    let server = in_memory(|config| config.limits.connections = 32);
    let client = server.client();
    let body = r#"{"worker_id":"w","worker_instance_id":"w-1","lanes":["quiet"],
        "lease_ttl_ms":60000,"wait_ms":60000}"#;
    let claim = format!(
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut waiting: Vec<_> = (0..16).map(|_| send_raw(&client, &claim)).collect();
    wait_for_line(&client, "ff_http_waiting 16");
    for _ in 0..60 {
        let mut refused = send_raw(&client, &claim);
        let answer = read_answer(&mut refused, "POST").expect("an answer");
        answer.problem(429, "too_many_waiting");
        client.another().get("/healthz").expect(200);
        client.another().post("/v1/executions", &json!({"kind": "a"})).expect(201);
        waiting.push(refused);
    }
    assert_eq!(number(&client, "ff_http_waiting"), 16, "those who wait keep their places");
}

#[test]
fn requests_whose_clients_stall_are_given_up_for_others() {
    let server = in_memory(|config| config.limits.requests = 4);
    let client = server.client();
    let stalled = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\nflowfabric-kind: a\r\n\
        content-length: 100\r\n\r\n{";
    let mut all_stalled = Vec::new();
    // Only where they leave no room for others, and long before their time is over.
    let deadline = Instant::now() + Duration::from_secs(10);
    let none_cut = |text: &[u8]| String::from_utf8_lossy(text).contains("_cut_total 0");
    loop {
        let answer = client.get("/metrics");
        match answer.status {
            200 if !none_cut(&answer.body) => break,
            200 => all_stalled.push(send_raw(&client, stalled)),
            _ => {}
        }
        assert!(Instant::now() < deadline, "they are not given up");
    }
    client.post("/v1/executions", &json!({"kind": "a"})).expect(201);
    client.get("/healthz").expect(200);
}

#[test]
fn one_address_does_not_take_all_places() {
    let server = in_memory(|config| config.limits.connections = 32);
    let greedy: Vec<_> = (0..100).map(|_| connect_from([127, 0, 0, 2], server.address())).collect();
    let client = server.client();
    client.get("/healthz").expect(200);
    let others: Vec<_> = (0..7).map(|_| client.another()).collect();
    others.iter().for_each(|other| drop(other.get("/healthz").expect(200)));
    wait_for_line(&client, "ff_http_connections 32");
    // Whoever has a place keeps it: each of them answers on the connection it has.
    for mut stream in others.iter().map(|other| other.kept().expect("kept open")) {
        let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.get_mut().write_all(request.as_bytes()).expect("sent");
        read_answer(&mut stream, "GET").expect("an answer").expect(200);
    }
    drop(greedy);
}

/// A connection from another address of this machine.
fn connect_from(from: [u8; 4], to: std::net::SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    runtime.expect("a runtime").block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((from, 0).into()).expect("an address of our own");
        socket.connect(to).await.expect("a connection").into_std().expect("a plain one")
    })
}

#[test]
fn more_waiting_requests_than_allowed_are_told_so() {
    let server = in_memory(|config| config.limits.waiting = 1);
    let client = server.client();
    let id = submit(&client, &json!({"kind": "a", "lane": "waiting-limit"}));
    let waiting = client.another();
    let wait = format!("/v1/executions/{id}/result?wait_ms=30000");
    let waiter = std::thread::spawn(move || waiting.get(&wait));
    wait_for_line(&client, "ff_http_waiting 1");
    let second = client.get(&format!("/v1/executions/{id}/result?wait_ms=30000"));
    second.problem(429, "too_many_waiting");
    assert_eq!(second.header("retry-after"), Some("1"));
    client.post(&format!("/v1/executions/{id}/cancel"), &json!({})).expect(200);
    waiter.join().expect("no panic").problem(409, "execution_cancelled");
}

#[test]
fn those_who_follow_hold_a_place_of_those_who_wait() {
    let server = in_memory(|config| config.limits.waiting = 1);
    let client = server.client();
    let id = submit(&client, &json!({"kind": "a", "lane": "follow-limit"}));
    let (following, tail) = (client.another(), format!("/v1/executions/{id}/stream/tail"));
    let follower = std::thread::spawn(move || following.get(&tail));
    wait_for_line(&client, "ff_http_waiting 1");
    let second = client.get(&format!("/v1/executions/{id}/stream/tail"));
    second.problem(429, "too_many_waiting");
    client.post(&format!("/v1/executions/{id}/cancel"), &json!({})).expect(200);
    let followed = follower.join().expect("no panic").expect(200);
    assert!(followed.body.ends_with(b"event: end\ndata: {}\n\n"), "{followed:?}");
    wait_for_line(&client, "ff_http_waiting 0");
}

#[test]
fn a_follower_that_never_reads_is_cut_and_costs_little() {
    let server = in_memory(|config| config.limits.write_timeout_ms = 200);
    let client = server.client();
    let id = submit(&client, &json!({"kind": "a", "lane": "never-reads"}));
    let task = crate::suite::claim(&client, "never-reads");
    let request =
        format!("GET /v1/executions/{id}/stream/tail HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let unread = send_raw(&client, &request);
    wait_for_line(&client, "ff_http_waiting 1");
    let frame = json!({"payload_text": "x".repeat(60_000)});
    for number in 0..40 {
        let frames = vec![frame.clone(); 10];
        let body = json!({
            "task_token": crate::suite::token(&task), "first_sequence": number * 10 + 1,
            "frames": frames,
        });
        client.post("/v1/tasks/frames", &body).expect(200);
    }
    wait_for_line(&client, "ff_http_waiting 0");
    drop(unread);
}

#[test]
fn a_thousand_rude_connections_leave_the_server_in_order() {
    let server = in_memory(|config| config.limits.header_timeout_ms = 500);
    let client = server.client();
    for round in 0..250 {
        let nonsense: &[u8] = match round % 5 {
            0 => b"\r\n\r\n\r\n",
            1 => b"GET / HTTP/9.9\r\n\r\n",
            2 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            3 => b"POST /v1/executions HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            _ => b"GET /v1/executions/\x00 HTTP/1.1\r\n\r\n",
        };
        let mut stream = client.connect().expect("a connection");
        stream.write_all(nonsense).expect("sent");
    }
    client.get("/healthz").expect(200);
    client.post("/v1/executions", &json!({"kind": "a"})).expect(201);
}
