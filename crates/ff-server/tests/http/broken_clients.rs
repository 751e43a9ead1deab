//! Clients that break the rules of HTTP, dawdle, or leave in the middle.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, Client, read_answer};
use crate::limits::{send_raw, wait_for_line};
use crate::server::in_memory;
use crate::suite::{claim, complete, submit};

const MIB: usize = 1024 * 1024;

fn answer_to(client: &Client, request: &[u8]) -> Answer {
    let mut stream = client.connect().expect("a connection");
    // The server may answer, and close, before it has read everything.
    let _ = stream.write_all(request);
    read_answer(&mut BufReader::new(stream), "GET").expect("an answer")
}

#[test]
fn what_is_not_http_is_told_so_by_a_document() {
    let server = in_memory(|_| {});
    let client = server.client();
    let requests: [&[u8]; 9] = [
        b"GET / HTTP/9.9\r\n\r\n",
        b"G@T / HTTP/1.1\r\n\r\n",
        b"GET /\x01 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\na b: c\r\n\r\n",
        b"POST /v1/claims HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/claims HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /v1/claims HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ];
    for request in requests {
        let answer = answer_to(&client, request);
        answer.problem(400, "malformed_request");
        assert_eq!(answer.header("connection"), Some("close"));
    }
    let chunk =
        b"POST /v1/claims HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        transfer-encoding: chunked\r\n\r\nzz\r\n";
    answer_to(&client, chunk).problem(400, "malformed_request");
    client.get("/healthz").expect(200);
}

#[test]
fn heads_that_are_too_large_are_refused_by_their_status() {
    let server = in_memory(|_| {});
    let client = server.client();
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(70_000));
    answer_to(&client, long.as_bytes()).problem(414, "uri_too_long");
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    answer_to(&client, many.as_bytes()).problem(431, "headers_too_large");
    let large = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(4 * MIB));
    answer_to(&client, large.as_bytes()).problem(431, "headers_too_large");
    client.get("/healthz").expect(200);
}

#[test]
fn an_upgrade_to_another_protocol_is_not_taken() {
    let server = in_memory(|_| {});
    let client = server.client();
    let mut stream = send_raw(&client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server closes the connection");
    let upgrade = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
        upgrade: h2c\r\n\r\n";
    answer_to(&client, upgrade.as_bytes()).expect(200);
}

/// Sends one byte after the other for as long as the server listens. The pause is the attack
/// itself: what arrives keeps the connection busy without ever being a request.
fn dribble(stream: &mut TcpStream, byte: u8) {
    let given_up = Instant::now() + Duration::from_secs(20);
    while stream.write_all(&[byte]).is_ok() {
        assert!(Instant::now() < given_up, "the server listens forever");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_head_that_dribbles_in_is_cut() {
    let server = in_memory(|config| config.limits.header_timeout_ms = 300);
    let client = server.client();
    let mut stream = send_raw(&client, "GET /healthz HTTP/1.1\r\nx: ").into_inner();
    dribble(&mut stream, b'a');
    wait_for_line(&client, "ff_http_connections 1");
}

#[test]
fn a_body_that_dribbles_in_is_refused() {
    let server = in_memory(|config| config.limits.body_timeout_ms = 300);
    let mut stream = send_raw(
        &server.client(),
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 60000\r\n\r\n{",
    );
    let mut sending = stream.get_ref().try_clone().expect("another handle");
    let dribbling = std::thread::spawn(move || dribble(&mut sending, b' '));
    let answer = read_answer(&mut stream, "POST").expect("an answer");
    answer.problem(408, "request_timeout");
    dribbling.join().expect("the server stops listening");
}

#[test]
fn a_client_that_stops_sending_has_hung_up() {
    let server = in_memory(|_| {});
    let client = server.client();
    let claim_body = r#"{"worker_id":"w","worker_instance_id":"w-1","lanes":["half"],
        "lease_ttl_ms":60000,"wait_ms":60000}"#;
    let request = format!(
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{claim_body}",
        claim_body.len()
    );
    let stream = send_raw(&client, &request);
    wait_for_line(&client, "ff_http_waiting 1");
    stream.get_ref().shutdown(Shutdown::Write).expect("half closed");
    wait_for_line(&client, "ff_http_waiting 0");
    wait_for_line(&client, "ff_http_connections 1");
    submit(&client, &json!({"kind": "a", "lane": "half"}));
    // Nobody else holds it: what a client that is gone would have got stays where it is.
    complete(&client, &claim(&client, "half"), b"");
}

#[test]
fn thousands_of_idle_connections_leave_room_for_those_inside() {
    let server = in_memory(|config| config.limits.connections = 64);
    let client = server.client();
    client.get("/healthz").expect(200);
    for _ in 0..5 {
        // In waves, because each of them is a file of this process, too.
        let idle: Vec<_> = (0..400).map(|_| client.connect().expect("a connection")).collect();
        client.get("/healthz").expect(200);
        client.post("/v1/executions", &json!({"kind": "a"})).expect(201);
        drop(idle);
    }
    wait_for_line(&client, "ff_http_connections 1");
    client.another().get("/healthz").expect(200);
}
