//! Secrets go through a server that logs all it can, and are found nowhere afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::site::{Running, Scratch, flowfabric};

const API_TOKEN: &str = "canary-api-token";
const FIRST_SECRET: &str = "ca4a71000000000000000000000000ca4a71";
const NEXT_SECRET: &str = "ca4a72000000000000000000000000ca4a72";

/// A server, and all that its answers said which are not meant to hold a secret.
struct Talk {
    address: String,
    heard: String,
}

impl Talk {
    /// Sends a request, and answers its status and body.
    fn send(&self, what: &str, body: &Value) -> (u16, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let request = format!(
            "{what} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {API_TOKEN}\r\n\
             content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        (status, answer)
    }

    /// An answer whose purpose is to hand a secret over.
    fn given(&self, what: &str, body: &Value) -> Value {
        let (status, answer) = self.send(what, body);
        assert_eq!(status, 200, "{what}: {answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("json")
    }

    /// An answer that must hold none.
    fn hear(&mut self, what: &str, body: &Value) -> u16 {
        let (status, answer) = self.send(what, body);
        self.heard.push_str(&answer);
        status
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}")).to_owned()
}

/// The path of an execution and what is asked of it.
fn of(id: &str, rest: &str) -> String {
    format!("/v1/executions/{}{rest}", id.replace('{', "%7B").replace('}', "%7D"))
}

#[test]
fn no_secret_is_found_in_logs_numbers_descriptions_lists_or_refusals() {
    let scratch = Scratch::new("canary");
    let (log, secret) = (scratch.path().join("log"), scratch.path().join("secret"));
    std::fs::write(&secret, FIRST_SECRET).expect("written");
    let mut command = flowfabric();
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--store", "memory:"]);
    command.args(["--log", "trace", "--partitions", "4", "--waitpoint-secret-file"]).arg(&secret);
    command.env("FLOWFABRIC_TOKENS", API_TOKEN).stderr(File::create(&log).expect("a file"));
    let mut server = Running::start(&mut command);
    let address = text(&server.event()["url"]).replace("http://", "");
    let mut talk = Talk { address, heard: String::new() };
    let secrets = everything(&mut talk);
    server.signal("-TERM");
    assert_eq!(server.wait(), Some(0));
    let logged = std::fs::read_to_string(&log).expect("a log");
    assert!(logged.contains("first secret") && logged.contains("was rotated"), "{logged}");
    for secret in secrets {
        assert!(!logged.contains(&secret), "{secret} is in the log: {logged}");
        assert!(!talk.heard.contains(&secret), "{secret} was told: {}", talk.heard);
    }
}

/// Takes every secret along every way, and answers them.
fn everything(talk: &mut Talk) -> Vec<String> {
    talk.hear("POST /v1/executions", &json!({"kind": "k", "lane": "canary"}));
    let claim = json!({"worker_id": "w", "worker_instance_id": "w-1", "lanes": ["canary"],
        "lease_ttl_ms": 30_000, "wait_ms": 10_000});
    let task = talk.given("POST /v1/claims", &claim)["tasks"][0].clone();
    let (id, task_token) = (text(&task["execution_id"]), task["task_token"].clone());
    let open = json!({"task_token": task_token,
        "waitpoint": {"waitpoint_key": "early", "expires_in_ms": 60_000}});
    let early = text(&talk.given("POST /v1/tasks/waitpoints", &open)["hmac_token"]);
    let condition = json!({"type": "any", "signals": ["approved"], "source_type": "approver"});
    let suspension = json!({"condition": condition, "approval": {"approvers": ["ann"]}});
    let suspend = json!({"task_token": task_token, "suspension": suspension});
    let suspended = talk.given("POST /v1/tasks/suspend", &suspend);
    let token = text(&suspended["waitpoint_token"]);
    let links = talk.given(&format!("POST {}", of(&id, "/approval-links")), &json!({}));
    let url = text(&links["links"][0]["url"]);
    let link = url.split("/approve/").nth(1).expect("a link").to_owned();

    let rotate = "POST /v1/admin/rotate-waitpoint-secret";
    let next = json!({"new_kid": "next", "new_secret_hex": NEXT_SECRET});
    assert_eq!(talk.hear(rotate, &next), 200);
    let other = json!({"new_kid": "k1", "new_secret_hex": NEXT_SECRET});
    assert_eq!(talk.hear(rotate, &other), 409);
    let listed = talk.given(&format!("GET {}", of(&id, "/pending-waitpoints")), &Value::Null);
    let newer = text(&listed["waitpoints"][0]["waitpoint_token"]);

    let signal = format!("POST {}", of(&id, "/signal"));
    let forged = format!("{}0123", &token[..token.len() - 4]);
    let to = |token: &str| {
        json!({"waitpoint_id": suspended["waitpoint_id"], "signal_name": "x",
        "waitpoint_token": token})
    };
    assert_eq!(talk.hear(&signal, &to(&forged)), 401);
    assert_eq!(talk.hear(&signal, &to(&token)), 200);
    assert_eq!(talk.hear(&signal, &json!({"waitpoint_token": token, "signal_name": 7})), 400);
    for path in ["", "x", "/", "/..", "?x=1"] {
        talk.hear(&format!("GET /approve/{link}{path}"), &Value::Null);
        talk.hear(&format!("PUT /approve/{link}{path}"), &Value::Null);
    }
    talk.hear(&format!("POST /approve/{link}"), &json!({"choice": "other"}));
    assert_eq!(talk.hear(&format!("POST /approve/{link}"), &json!({"choice": "approved"})), 200);
    assert_eq!(talk.hear(&signal, &to(&token)), 409);
    for read in ["", "/history", "/attempts", "/approvals", "/state"] {
        talk.hear(&format!("GET {}", of(&id, read)), &Value::Null);
    }
    for partition in 0..4 {
        talk.hear(&format!("GET /v1/events?partition={partition}"), &Value::Null);
    }
    for read in ["/metrics", "/v1/suspended", "/v1/executions", "/v1/deployment", "/v1/stats"] {
        assert_eq!(talk.hear(&format!("GET {read}"), &Value::Null), 200, "{read}");
    }
    let digits = |token: &str| token.split_once(':').expect("a token").1.to_owned();
    let fixed = [API_TOKEN, FIRST_SECRET, NEXT_SECRET].map(str::to_owned);
    fixed.into_iter().chain([digits(&early), digits(&token), digits(&newer), link]).collect()
}
