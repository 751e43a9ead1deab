//! The page of an approval link in a real browser: Chromium, driven by its WebDriver. Both come
//! with `scripts/need browser`.

#[path = "../http/client.rs"]
#[allow(dead_code, reason = "shared with the tests by plain HTTP, which need more of it")]
mod client;
mod driver;
#[path = "../http/server.rs"]
#[allow(dead_code, reason = "shared with the tests by plain HTTP, which need more of it")]
mod server;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use serde_json::{Value, json};

use client::{Client, encoded};
use driver::Browser;
use server::{TestServer, in_memory};

/// Would leave a trace if any of it ran.
const SCRIPT: &str =
    "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">";

/// A server with one execution that asks ann, her link, and the execution's path.
fn asked() -> (TestServer, String, String) {
    let server = in_memory(|_| {});
    let client = server.client();
    let created = client.post("/v1/executions", &json!({"kind": "job"})).expect(201).json();
    let id = created["execution_id"].as_str().expect("an id").to_owned();
    let claim = json!({"worker_id": "w", "worker_instance_id": "w-1", "lanes": ["default"],
        "lease_ttl_ms": 30_000, "wait_ms": 10_000});
    let claimed = client.post("/v1/claims", &claim).expect(200).json();
    let condition = json!({"type": "any", "signals": ["approved", "rejected"],
        "source_type": "approver"});
    let approval = json!({"question": format!("Ship it? {SCRIPT}"), "subject": SCRIPT,
        "choices": [{"signal": "approved", "label": "Ship"}, {"signal": "rejected"}]});
    let body = json!({"task_token": claimed["tasks"][0]["task_token"],
        "suspension": {"condition": condition, "approval": approval}});
    client.post("/v1/tasks/suspend", &body).expect(200);
    let path = format!("/v1/executions/{}", encoded(&id));
    let request = json!({"approvers": ["ann"]});
    let made = client.post(&format!("{path}/approval-links"), &request).expect(200).json();
    let url = made["links"][0]["url"].as_str().expect("a url").to_owned();
    (server, url, path)
}

fn decisions(client: &Client, path: &str) -> Vec<Value> {
    let listed = client.get(&format!("{path}/approvals")).expect(200).json();
    listed["approvals"][0]["decisions"].as_array().expect("a list").clone()
}

#[test]
fn an_approver_sees_the_question_and_decides_by_its_form() {
    let (server, url, path) = asked();
    let browser = Browser::start();
    browser.open(&url);
    assert_eq!(browser.title(), format!("Ship it? {SCRIPT}"), "no script ran");
    assert_eq!(browser.text("h1"), format!("Ship it? {SCRIPT}"));
    assert_eq!(browser.text(".subject"), SCRIPT);
    assert_eq!(browser.count("script") + browser.count("img"), 0);
    assert_eq!(browser.style("main", "border-top-left-radius"), "8px", "the style is allowed");
    assert!(decisions(&server.client(), &path).is_empty(), "showing it decides nothing");
    browser.click("button[value=approved]");
    browser.until("main", "ann: Ship, ");
    assert_eq!(browser.count("form"), 0);
    let made = decisions(&server.client(), &path);
    assert_eq!((made.len(), &made[0]["signal"]), (1, &json!("approved")));
    browser.open(&url);
    assert!(browser.text("main").contains("Your decision is recorded."));
    // A browser asks for an icon by itself; nothing else of the page was refused.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|text| text.contains("favicon.ico")), "{complaints:?}");
}

#[test]
fn a_page_of_another_site_can_neither_frame_it_nor_send_its_form() {
    let (server, url, path) = asked();
    let site = other_site(format!(
        "<iframe src=\"http://{}/healthz\"></iframe><iframe src=\"{url}\"></iframe>\
         <form method=\"post\" action=\"{url}\">\
         <button name=\"choice\" value=\"approved\">win</button></form>",
        server.address()
    ));
    let browser = Browser::start();
    browser.open(&site);
    browser.enter_frame(0);
    browser.until("body", "\"ok\"");
    browser.open(&site);
    browser.enter_frame(1);
    browser.until_it_complains_of("frame-ancestors");
    assert_eq!(browser.count("form"), 0);
    browser.open(&site);
    browser.click("button");
    browser.until("body", "Web pages of other sites may not use this server");
    assert!(decisions(&server.client(), &path).is_empty());
}

/// Serves one page until the test is over, and answers its address.
fn other_site(html: String) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            // What is asked for does not matter, and it ends with an empty line.
            let mut lines = stream.by_ref().lines().map_while(Result::ok);
            if lines.any(|line| line.is_empty()) {
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n";
                let _ = stream.get_mut().write_all(format!("{head}{html}").as_bytes());
            }
        }
    });
    format!("http://{address}/")
}
