//! The output of tasks.

use serde_json::{Value, json};

use super::{claim, complete, path, submit, token};
use crate::client::Client;

fn append(task: &Value, first: u64, frames: Value) -> Value {
    json!({"task_token": token(task), "first_sequence": first, "frames": frames})
}

pub(crate) fn output_is_written_once_and_read_by_anybody(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "frames"}));
    let task = claim(client, "frames");
    assert_eq!(task["next_frame"], 1);
    let frames = json!([
        {"frame_type": "token", "payload_text": "héllo", "correlation_id": "c-1"},
        {"kind": "stderr", "payload_base64": "AP8="},
    ]);
    for _ in 0..2 {
        let appended = client.post("/v1/tasks/frames", &append(&task, 1, frames.clone()));
        let outcome = json!({"stream_id": format!("{id}:0"), "frame_count": 2});
        assert_eq!(appended.expect(200).json(), outcome);
    }
    let gap = append(&task, 4, json!([{"payload_text": "late"}]));
    let problem = client.post("/v1/tasks/frames", &gap).problem(409, "frame_gap");
    assert_eq!(problem["details"], json!(["3"]));

    let read = client.get(&path(&id, "/stream")).expect(200).json();
    let fields: Vec<&Value> =
        read["frames"].as_array().expect("frames").iter().map(|frame| &frame["fields"]).collect();
    assert_eq!((&fields[0]["payload"], &fields[0]["encoding"]), (&json!("héllo"), &json!("utf8")));
    assert_eq!(
        (&fields[0]["frame_type"], &fields[0]["correlation_id"]),
        (&json!("token"), &json!("c-1"))
    );
    assert_eq!((&fields[1]["payload"], &fields[1]["encoding"]), (&json!("AP8="), &json!("base64")));
    assert_eq!((&read["next"], &read["last_sequence"]), (&json!(3), &json!(2)));
    assert_eq!((&read["execution_ended"], &read["closed_at"]), (&json!(false), &Value::Null));

    complete(client, &task, b"");
    let query = "/stream?attempt_index=0&after=1-0&limit=1";
    let closed = client.get(&path(&id, query)).expect(200).json();
    assert_eq!(closed["frames"][0]["id"], "2-0");
    assert_eq!(
        (&closed["closed_reason"], &closed["execution_ended"]),
        (&json!("attempt_success"), &json!(true))
    );
    client.post("/v1/tasks/frames", &append(&task, 3, json!([{}]))).problem(409, "stream_closed");
    for (query, field) in [
        ("limit=0", "limit"),
        ("after=end", "after"),
        ("from=-", "from"),
        ("attempt_index=x", "attempt_index"),
    ] {
        let problem =
            client.get(&path(&id, &format!("/stream?{query}"))).problem(400, "invalid_input");
        assert!(problem["detail"].as_str().is_some_and(|it| it.starts_with(field)), "{problem}");
    }
}

pub(crate) fn a_summary_is_read_as_the_document_it_is(client: &Client) {
    let policy = json!({"stream_policy": {"durability_mode": "summary"}});
    let id = submit(client, &json!({"kind": "job", "lane": "summary", "policy": policy}));
    let task = claim(client, "summary");
    let patches =
        json!([{"payload_text": "{\"n\":1.50,\"list\":[]}"}, {"payload_text": "{\"x\":1}"}]);
    client.post("/v1/tasks/frames", &append(&task, 1, patches)).expect(200);
    let read = client.get(&path(&id, "/stream")).expect(200);
    let body = String::from_utf8(read.body).expect("UTF-8");
    assert!(body.contains(r#""summary":{"n":1.50,"list":[],"x":1}"#), "{body}");
    complete(client, &task, b"");
}

/// The events of a body, as name, id and data.
pub(crate) fn events(body: &[u8]) -> Vec<(String, String, Value)> {
    let text = String::from_utf8(body.to_vec()).expect("text");
    let field = |event: &str, name: &str| {
        let lines = event.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).collect()
    };
    let events = text.split("\n\n").filter(|event| event.contains("event: "));
    let read = |event: &str| {
        let (name, id): (String, String) = (field(event, "event"), field(event, "id"));
        let data: String = field(event, "data");
        (name, id, serde_json::from_str(&data).expect("JSON"))
    };
    events.map(read).collect()
}

pub(crate) fn ids(events: &[(String, String, Value)]) -> Vec<String> {
    events.iter().map(|(name, id, _)| format!("{name} {id}")).collect()
}

pub(crate) fn output_is_followed_as_events(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "events"}));
    let task = claim(client, "events");
    let first = json!([{"payload_text": "a\nb"}, {"payload_base64": "AP8="}]);
    client.post("/v1/tasks/frames", &append(&task, 1, first)).expect(200);
    let (follower, tail) = (client.another(), path(&id, "/stream/tail"));
    let following = std::thread::spawn(move || follower.get(&tail).expect(200));
    let more = json!([{"payload_text": "c"}]);
    client.post("/v1/tasks/frames", &append(&task, 3, more)).expect(200);
    complete(client, &task, b"");
    let answer = following.join().expect("no panic");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let followed = events(&answer.body);
    let all = ["attempt 0-0", "frame 0-1", "frame 0-2", "frame 0-3", "end 0-3"];
    assert_eq!(ids(&followed), all);
    assert_eq!(followed[1].2["fields"]["payload"], "a\nb");
    assert_eq!(followed[2].2["fields"]["encoding"], "base64");
    assert_eq!(followed[4].2["closed_reason"], "attempt_success");
    let tail = path(&id, "/stream/tail");
    let again = client.send("GET", &tail, &[("last-event-id", "0-2")], b"").expect(200);
    assert_eq!(ids(&events(&again.body)), all[3..]);
    let uuid = id.rsplit(':').next().expect("an id has a UUID");
    let behind = client.get(&path(uuid, "/stream/tail?after=0-1")).expect(200);
    assert_eq!(ids(&events(&behind.body)), all[2..]);
    let end = client.get(&path(&id, "/stream/tail?after=end")).expect(200);
    assert_eq!(ids(&events(&end.body)), ["skipped 0-3", "end 0-3"]);
    let wrong = client.send("GET", &tail, &[("last-event-id", "7")], b"");
    assert_eq!(wrong.problem(400, "invalid_input")["field"], "Last-Event-ID");
    client.get(&path(&id, "/stream/tail?after=x")).problem(400, "invalid_input");
    let unknown = "{fp:1}:550e8400-e29b-41d4-a716-446655440000";
    client.get(&path(unknown, "/stream/tail")).problem(404, "execution_not_found");
}

pub(crate) fn an_attempt_is_read_and_waited_for_by_its_number(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "attempts"}));
    let task = claim(client, "attempts");
    let stream = |query: &str| path(&id, &format!("/attempts/0/stream{query}"));
    let empty = client.get(&stream("/tail")).expect(200).json();
    assert_eq!((&empty["count"], &empty["closed_at"]), (&json!(0), &Value::Null));
    let (waiting, tail) = (client.another(), stream("/tail?after=0-0&block_ms=30000"));
    let waiting = std::thread::spawn(move || waiting.get(&tail).expect(200).json());
    let frames = json!([{"payload_text": "a"}, {"payload_text": "b"}]);
    client.post("/v1/tasks/frames", &append(&task, 1, frames)).expect(200);
    assert_eq!(waiting.join().expect("no panic")["count"], 2);
    let one = client.get(&stream("?from=2&limit=1")).expect(200).json();
    assert_eq!((&one["frames"][0]["id"], &one["count"]), (&json!("2-0"), &json!(1)));
    let (waiting, tail) = (client.another(), stream("/tail?after=2-0&block_ms=30000"));
    let waiting = std::thread::spawn(move || waiting.get(&tail).expect(200).json());
    complete(client, &task, b"");
    assert_eq!(waiting.join().expect("no panic")["closed_reason"], "attempt_success");
    for (wrong, field) in [
        (stream("/tail?block_ms=30001"), "block_ms"),
        (stream("/tail?after=end"), "after"),
        (path(&id, "/attempts/x/stream"), "attempt_index"),
    ] {
        assert_eq!(client.get(&wrong).problem(400, "invalid_input")["field"], field);
    }
}

/// A body that is sent piece by piece.
struct Upload(std::io::BufReader<std::net::TcpStream>);

impl Upload {
    fn begin(client: &Client, task: &Value, first: u64) -> Self {
        use std::io::Write as _;
        let mut stream = client.connect().expect("a connection");
        let bearer = client.token.as_ref().map(|it| format!("authorization: Bearer {it}\r\n"));
        let head = format!(
            "POST /v1/tasks/frames/stream HTTP/1.1\r\nhost: {}\r\n{}flowfabric-task: {}\r\n\
             flowfabric-first-sequence: {first}\r\ncontent-type: application/x-ndjson\r\n\
             transfer-encoding: chunked\r\n\r\n",
            client.address,
            bearer.unwrap_or_default(),
            token(task)
        );
        stream.write_all(head.as_bytes()).expect("sent");
        Self(std::io::BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        use std::io::Write as _;
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.0.get_mut().write_all(chunk.as_bytes()).expect("sent");
    }

    fn answer(mut self) -> crate::client::Answer {
        self.send("");
        self.failed()
    }

    fn failed(mut self) -> crate::client::Answer {
        crate::client::read_answer(&mut self.0, "POST").expect("an answer")
    }
}

pub(crate) fn output_is_written_as_one_long_request(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "upload"}));
    let task = claim(client, "upload");
    let mut upload = Upload::begin(client, &task, 1);
    upload.send("{\"payload_text\":\"a\"}\n{\"payload_text\":\"b\"}\n{\"payload_te");
    let tail = path(&id, "/attempts/0/stream/tail?after=1-0&block_ms=30000");
    assert_eq!(client.get(&tail).expect(200).json()["frames"][0]["id"], "2-0");
    upload.send("xt\":\"c\"}\n\n\r\n{\"frame_type\":\"last\"}");
    let outcome = json!({"stream_id": format!("{id}:0"), "frame_count": 4});
    assert_eq!(upload.answer().expect(200).json(), outcome);
    let mut again = Upload::begin(client, &task, 3);
    again.send("{\"payload_text\":\"c\"}\n{\"frame_type\":\"last\"}\n{\"payload_text\":\"d\"}\n");
    assert_eq!(again.answer().expect(200).json()["frame_count"], 5);
    let mut wrong = Upload::begin(client, &task, 6);
    wrong.send("{\"payload_text\":\"e\"}\n");
    client.get(&path(&id, "/attempts/0/stream/tail?after=5-0&block_ms=30000")).expect(200);
    wrong.send("{\"colour\":\"red\"}\n");
    wrong.failed().problem(400, "invalid_input");
    let mut gap = Upload::begin(client, &task, 9);
    gap.send("{}\n");
    gap.failed().problem(409, "frame_gap");
    let headers = [("flowfabric-task", token(&task)), ("content-type", "text/plain".to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let refused = client.send("POST", "/v1/tasks/frames/stream", &headers, b"{}");
    refused.problem(415, "unsupported_media_type");
    complete(client, &task, b"");
}
