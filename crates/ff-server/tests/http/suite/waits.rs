//! Waiting is answered by push.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{claim, claim_some, complete, path, submit};
use crate::client::Client;

/// How soon a push must arrive.
const SOON: Duration = Duration::from_millis(200);

pub(crate) fn a_waiting_claim_is_answered_by_push(client: &Client) {
    // The lane is looked through once; from then on only a push can tell of work.
    assert!(claim_some(client, &["push"], 1, 0).is_empty());
    for _ in 0..3 {
        let waiting = client.another();
        let (begun, began) = std::sync::mpsc::channel();
        let waiter = thread::spawn(move || {
            begun.send(()).expect("somebody listens");
            let tasks = claim_some(&waiting, &["push"], 1, 20_000);
            (tasks, Instant::now())
        });
        began.recv().expect("it began");
        wait_until_waiting(client, 1);
        let submitted = Instant::now();
        let id = submit(client, &json!({"kind": "job", "lane": "push"}));
        let (tasks, answered) = waiter.join().expect("no panic");
        assert_eq!(tasks[0]["execution_id"], json!(id));
        let took = answered.duration_since(submitted);
        assert!(took < SOON, "{took:?}");
        complete(client, &tasks[0], b"");
    }
}

/// Looks at the server's own numbers until as many claims are under way.
fn wait_until_waiting(client: &Client, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let text = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
        let waiting = text.lines().find_map(|line| line.strip_prefix("ff_http_waiting "));
        if waiting.and_then(|text| text.parse::<usize>().ok()) == Some(count) {
            return;
        }
        assert!(Instant::now() < deadline, "nobody waits: {waiting:?}");
        thread::yield_now();
    }
}

pub(crate) fn a_waiting_result_is_answered_by_push(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "push-result"}));
    let early = client.get(&path(&id, "/result?wait_ms=1"));
    assert_eq!(early.problem(409, "execution_not_ended")["retryable"], true);
    let task = claim(client, "push-result");
    let (waiting, waited_for) = (client.another(), path(&id, "/result?wait_ms=20000"));
    let waiter = thread::spawn(move || (waiting.get(&waited_for), Instant::now()));
    wait_until_waiting(client, 1);
    let ended = Instant::now();
    complete(client, &task, b"pushed");
    let (answer, answered) = waiter.join().expect("no panic");
    assert_eq!(answer.expect(200).body, b"pushed");
    let took = answered.duration_since(ended);
    assert!(took < SOON, "{took:?}");
    let problem = client.get(&path(&id, "/result?wait_ms=60001"));
    assert_eq!(problem.problem(400, "invalid_input")["field"], "wait_ms");
}

pub(crate) fn a_client_that_hangs_up_loses_no_work(client: &Client) {
    assert!(claim_some(client, &["hang-up"], 1, 0).is_empty());
    let body = json!({
        "worker_id": "ghost", "worker_instance_id": "ghost-1", "lanes": ["hang-up"],
        "lease_ttl_ms": 86_400_000, "wait_ms": 60_000,
    })
    .to_string();
    let request = format!(
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut ghost = client.connect().expect("a connection");
    ghost.write_all(request.as_bytes()).expect("sent");
    wait_until_waiting(client, 1);
    drop(ghost);
    let id = submit(client, &json!({"kind": "job", "lane": "hang-up"}));
    // Its lease would last a day: the work is only found if it was handed back.
    let task = claim(client, "hang-up");
    assert_eq!(task["execution_id"], json!(id));
    complete(client, &task, b"");
}
