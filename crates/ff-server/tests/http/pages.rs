//! Requests that a web page makes a browser send: to a server that is on the person's own machine,
//! or that only they can reach.

use ff_server::Token;
use serde_json::{Value, json};

use crate::client::{Answer, Client, encoded, read_answer};
use crate::limits::send_raw;
use crate::server::{TestServer, in_memory};
use crate::suite::{state, submit};

const TOKEN: &str = "a-secret-token";

/// Sends a request with these headers and no others.
fn ask(server: &TestServer, head: &str) -> Answer {
    let request = format!("{}\r\n\r\n", head.replace(" | ", "\r\n"));
    let method = head.split(' ').next().expect("a method");
    read_answer(&mut send_raw(&server.client(), &request), method).expect("an answer")
}

/// Every route of the document, with its path made concrete.
fn routes() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&ff_server::openapi_json()).expect("json");
    let paths = document["paths"].as_object().expect("paths").clone();
    let id = "%7Bfp:1%7D:550e8400-e29b-41d4-a716-446655440000";
    let concrete = |path: &str| {
        path.replace("{execution_id}", id).replace("{worker}", "w").replace("{link}", "x")
    };
    let of_path = |(path, operations): (&String, &Value)| {
        let methods = operations.as_object().expect("operations").keys().cloned();
        let path = concrete(path);
        methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_path).collect()
}

#[test]
fn a_server_without_tokens_answers_nothing_to_a_name_that_was_made_to_lead_to_it() {
    let server = in_memory(|_| {});
    let port = server.address().port();
    for (method, path) in routes() {
        let head = format!("{method} {path} HTTP/1.1 | host: evil.example:{port}");
        ask(&server, &head).problem(403, "forbidden_host");
        let page = format!("{head} | origin: http://evil.example:{port} | content-length: 0");
        ask(&server, &page).problem(403, "forbidden_host");
    }
    for path in ["/nowhere", "/v1/claims", "http://evil.example/v1/workers"] {
        let called = if path.starts_with('/') { "evil.example" } else { "localhost" };
        let head = format!("GET {path} HTTP/1.1 | host: {called}");
        ask(&server, &head).problem(403, "forbidden_host");
    }
}

#[test]
fn a_page_of_another_site_changes_nothing_on_any_server() {
    for tokens in [Vec::new(), vec![Token(TOKEN.to_owned())]] {
        let server = in_memory(|config| config.tokens = tokens);
        let client = server.client().with_token(TOKEN);
        let id = submit(&client, &json!({"kind": "a"}));
        let cancel = format!("POST /v1/executions/{}/cancel HTTP/1.1", encoded(&id));
        let token = format!("authorization: Bearer {TOKEN} | content-length: 0");
        for page in [
            "origin: http://evil.example",
            "origin: null",
            "origin: http://localhost:3000",
            "sec-fetch-site: cross-site",
            "sec-fetch-site: same-site",
            "origin: http://evil.example | sec-fetch-site: cross-site | sec-fetch-mode: no-cors",
        ] {
            let head = format!("{cancel} | host: {} | {token} | {page}", server.address());
            let problem = ask(&server, &head).problem(403, "forbidden_origin");
            assert!(problem["detail"].to_string().contains("allowed_hosts"), "{problem}");
            assert_eq!(state(&client, &id), "waiting", "{page}");
        }
        for (method, path) in routes().iter().filter(|(method, _)| method != "GET") {
            let host = server.address();
            let head = format!("{method} {path} HTTP/1.1 | host: {host} | {token}");
            let page = format!("{head} | origin: http://evil.example");
            ask(&server, &page).problem(403, "forbidden_origin");
        }
    }
}

#[test]
fn a_page_of_another_site_reads_nothing_without_a_token() {
    let server = in_memory(|_| {});
    let host = server.address();
    let head = format!("GET /v1/workers HTTP/1.1 | host: {host} | origin: http://evil.example");
    ask(&server, &head).problem(403, "forbidden_origin");
    let preflight = head.replace("GET", "OPTIONS");
    let answer = ask(&server, &preflight);
    answer.problem(403, "forbidden_origin");
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn programs_and_the_servers_own_pages_notice_nothing() {
    let server = in_memory(|config| {
        config.allowed_hosts = vec!["flow.example.com".parse().expect("a host")];
    });
    let port = server.address().port();
    let workers = "GET /v1/workers HTTP/1.1";
    for host in ["localhost", "LOCALHOST.", "127.0.0.1", "[::1]", "flow.example.com"] {
        ask(&server, &format!("{workers} | host: {host}:{port}")).expect(200);
        ask(&server, &format!("{workers} | host: {host}")).expect(200);
    }
    ask(&server, "GET /healthz HTTP/1.0").expect(200);
    ask(&server, "GET http://localhost/healthz HTTP/1.1 | host: localhost").expect(200);
    let submit = "POST /v1/executions HTTP/1.1 | flowfabric-kind: a | content-length: 0";
    for origin in [
        format!("host: localhost:{port}"),
        format!("host: localhost:{port} | origin: http://localhost:{port}"),
        format!("host: [::1]:{port} | origin: http://[::1]:{port} | sec-fetch-site: same-origin"),
        // A proxy that speaks TLS and calls us by its own name, and one that does not.
        "host: flow.example.com | origin: https://flow.example.com".to_owned(),
        format!("host: 127.0.0.1:{port} | origin: https://flow.example.com"),
    ] {
        ask(&server, &format!("{submit} | {origin}")).expect(201);
    }
}

#[test]
fn a_request_has_one_host() {
    let server = in_memory(|config| config.tokens = vec![Token(TOKEN.to_owned())]);
    for hosts in ["x: y", "host: localhost | host: localhost", "host: a b", "host: "] {
        let head = format!("GET /healthz HTTP/1.1 | {hosts}");
        ask(&server, &head).problem(400, "malformed_request");
    }
    Client::new(server.address()).get("/healthz").expect(200);
}
