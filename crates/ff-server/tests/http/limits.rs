//! Clients that want too much, or nothing at all.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, read_answer};
use crate::server::in_memory;
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
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
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
        "POST /v1/claims HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
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
    for begun in ["", "GET /heal", "GET /healthz HTTP/1.1\r\nhost: x\r\nx: "] {
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
        "POST /v1/claims HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
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
    let request = format!("GET /v1/executions/{id}/payload HTTP/1.1\r\nhost: x\r\n\r\n");
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

#[test]
fn connections_beyond_the_limit_are_told_to_come_back() {
    let server = in_memory(|config| config.limits.connections = 3);
    let client = server.client();
    client.get("/healthz").expect(200);
    let idle: Vec<_> = (0..2).map(|_| client.connect().expect("a connection")).collect();
    let turned_away = wait_until_turned_away(&client);
    turned_away.problem(503, "overloaded");
    assert_eq!(turned_away.header("retry-after"), Some("1"));
    client.get("/healthz").expect(200);
    drop(idle);
    let deadline = Instant::now() + Duration::from_secs(10);
    while client.another().get("/healthz").status != 200 {
        assert!(Instant::now() < deadline, "there is room again");
        std::thread::yield_now();
    }
}

/// The server learns of connections a little later than the client.
fn wait_until_turned_away(client: &Client) -> crate::client::Answer {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = client.another().get("/healthz");
        if answer.status != 200 {
            return answer;
        }
        assert!(Instant::now() < deadline, "nobody is turned away");
    }
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
