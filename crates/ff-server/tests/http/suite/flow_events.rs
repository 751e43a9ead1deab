//! Flows that are followed and waited for, and graphs that come in lines.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::frames::{events, ids};
use super::{claim, complete, text};
use crate::client::{Answer, Client};

const NOWHERE: &str = "00000000-0000-4000-8000-000000000000";

/// Less than the time after which those who wait look although they heard nothing.
const BY_PUSH: Duration = Duration::from_secs(4);

fn task(name: &str, lane: &str, after: &[&str]) -> Value {
    let after: Vec<Value> = after.iter().map(|other| json!({"task": other})).collect();
    json!({"name": name, "execution": {"kind": "job", "lane": lane}, "after": after})
}

/// Sends lines.
fn send_lines(client: &Client, lines: &[String]) -> Answer {
    let headers = [("content-type", "application/x-ndjson")];
    client.send("POST", "/v1/flows/graph", &headers, lines.join("\n").as_bytes())
}

/// A flow of two, one behind the other.
fn submit_two(client: &Client, lane: &str) -> String {
    let tasks = [task("a", lane, &[]), task("b", lane, &["a"])];
    let graph = json!({"flow": {"flow_kind": "media"}, "tasks": tasks});
    text(&client.post("/v1/flows/graph", &graph).expect(200).json()["flow_id"])
}

fn flow(id: &str, rest: &str) -> String {
    format!("/v1/flows/{id}{rest}")
}

/// What happened, as `kind member`.
fn happened(body: &[u8]) -> Vec<String> {
    let line = |(name, _, data): (String, String, Value)| match name.as_str() {
        "event" => format!("{} {}", data["kind"].as_str().expect("a word"), data["name"]),
        _ => format!("{name} {}", data["public_flow_state"]),
    };
    events(body).into_iter().map(line).filter(|line| !line.starts_with("granted")).collect()
}

pub(crate) fn a_flow_is_followed_as_events(client: &Client) {
    let id = submit_two(client, "flow-events");
    let (follower, path) = (client.another(), flow(&id, "/events"));
    let following = std::thread::spawn(move || follower.get(&path).expect(200));
    for _ in 0..2 {
        let task = claim(client, "flow-events");
        complete(client, &task, b"");
    }
    let answer = following.join().expect("no panic");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let all = [
        "flow_created null",
        r#"created "a""#,
        r#"created "b""#,
        "flow_sealed null",
        r#"claimed "a""#,
        r#"ended "a""#,
        r#"freed "b""#,
        r#"claimed "b""#,
        r#"ended "b""#,
        "flow_ended null",
        r#"end "completed""#,
    ];
    assert_eq!(happened(&answer.body), all);
    let told = events(&answer.body);
    let last = told.iter().find(|(_, _, data)| data["kind"] == "freed").expect("it was told");
    let headers = [("last-event-id", last.1.as_str())];
    let again = client.send("GET", &flow(&id, "/events"), &headers, b"").expect(200);
    assert_eq!(happened(&again.body), all[7..]);
    let behind = client.get(&flow(&id, &format!("/events?after={}", last.1))).expect(200);
    assert_eq!(ids(&events(&behind.body)), ids(&events(&again.body)));
    let end = client.get(&flow(&id, "/events?after=end")).expect(200);
    assert_eq!(happened(&end.body), all[10..]);
    let wrong = client.send("GET", &flow(&id, "/events"), &[("last-event-id", "7")], b"");
    assert_eq!(wrong.problem(400, "invalid_input")["field"], "Last-Event-ID");
    client.get(&flow(&id, "/events?after=x")).problem(400, "invalid_input");
    client.get(&flow(NOWHERE, "/events")).problem(404, "flow_not_found");
}

pub(crate) fn the_end_of_a_flow_is_waited_for(client: &Client) {
    let id = submit_two(client, "flow-end");
    let soon = client.get(&flow(&id, "/end")).expect(200).json();
    assert_eq!(soon["completed_at"], Value::Null, "nobody waited");
    let (other, path) = (client.another(), flow(&id, "/end?wait_ms=30000"));
    let waiting = std::thread::spawn(move || (other.get(&path).expect(200).json(), Instant::now()));
    for _ in 0..2 {
        let task = claim(client, "flow-end");
        complete(client, &task, b"");
    }
    let ended_at = Instant::now();
    let (ended, heard_at) = waiting.join().expect("no panic");
    assert_eq!(
        (&ended["public_flow_state"], &ended["node_count"]),
        (&json!("completed"), &json!(2))
    );
    assert!(heard_at.duration_since(ended_at) < BY_PUSH);
    client.get(&flow(&id, "/end?wait_ms=99999999")).problem(400, "invalid_input");
    client.get(&flow(NOWHERE, "/end?wait_ms=1000")).problem(404, "flow_not_found");
}

pub(crate) fn a_graph_may_come_in_lines(client: &Client) {
    const TASKS: usize = 500;
    let head = json!({"flow": {"flow_kind": "media"}, "key": "in-lines"}).to_string();
    let mut lines = vec![head.clone(), String::new()];
    lines.extend((0..TASKS).map(|n| match n {
        0 => task("t0", "lines", &[]).to_string(),
        n => task(&format!("t{n}"), "lines", &["t0"]).to_string(),
    }));
    let accepted = send_lines(client, &lines).expect(200).json();
    assert_eq!((&accepted["node_count"], &accepted["created"]), (&json!(TASKS), &json!(true)));
    let whole: Vec<Value> =
        lines[2..].iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let graph = json!({"flow": {"flow_kind": "media"}, "key": "in-lines", "tasks": whole});
    let again = client.post("/v1/flows/graph", &graph).expect(200).json();
    assert_eq!((&again["flow_id"], &again["created"]), (&accepted["flow_id"], &json!(false)));
    client.post(&flow(&text(&accepted["flow_id"]), "/cancel"), &json!({})).expect(200);
}

pub(crate) fn what_is_wrong_in_a_line_is_named(client: &Client) {
    let head = json!({"flow": {"flow_kind": "media"}}).to_string();
    let one = task("a", "bad", &[]).to_string();
    let refused = |lines: &[&str], code: &str| {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let status = if code == "cycle_detected" { 409 } else { 400 };
        send_lines(client, &lines).problem(status, code).to_string()
    };
    assert!(refused(&[""], "invalid_input").contains("first line"));
    assert!(refused(&[&one], "invalid_input").contains("line 1"));
    assert!(refused(&[&head, &one, "{"], "malformed_json").contains("line 3"));
    assert!(refused(&[&head, r#"{"name":"a"}"#], "invalid_input").contains("line 2"));
    let strange = one.replacen('{', r#"{"x":1,"#, 1);
    assert!(refused(&[&head, "", &strange], "invalid_input").contains("line 3"));
    assert!(refused(&[&head], "invalid_input").contains("number of tasks"));
    let cycle = [task("a", "bad", &["b"]).to_string(), task("b", "bad", &["a"]).to_string()];
    assert!(refused(&[&head, &cycle[0], &cycle[1]], "cycle_detected").contains("a -> b -> a"));
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(12 << 20));
    send_lines(client, &[head, long]).problem(413, "body_too_large");
}
