//! Flows: submitted whole or made step by step, cancelled and read.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{claim, claim_some, complete, path, state, submit, text, token};
use crate::client::Client;

const NOWHERE: &str = "00000000-0000-4000-8000-000000000000";

/// A task of a graph that waits for others, and is passed what they result in.
fn task(name: &str, lane: &str, after: &[&str]) -> Value {
    let after: Vec<Value> =
        after.iter().map(|other| json!({"task": other, "pass": other})).collect();
    json!({"name": name, "execution": {"kind": "job", "lane": lane}, "after": after})
}

fn graph(tasks: &[Value]) -> Value {
    json!({"flow": {"flow_kind": "media"}, "tasks": tasks})
}

/// Two that join in a third.
fn join(lane: &str) -> Value {
    graph(&[
        task("left", lane, &[]),
        task("right", lane, &[]),
        task("join", lane, &["left", "right"]),
    ])
}

#[track_caller]
fn submit_graph(client: &Client, graph: &Value) -> String {
    text(&client.post("/v1/flows/graph", graph).expect(200).json()["flow_id"])
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn flow(id: &str, rest: &str) -> String {
    format!("/v1/flows/{id}{rest}")
}

#[track_caller]
fn describe(client: &Client, id: &str) -> Value {
    client.get(&flow(id, "")).expect(200).json()
}

/// The members by name.
#[track_caller]
fn member(client: &Client, id: &str, name: &str) -> Value {
    let page = client.get(&flow(id, "/members")).expect(200).json();
    let members = page["members"].as_array().expect("a list").clone();
    members.into_iter().find(|member| member["name"] == name).expect("a member of this name")
}

pub(crate) fn a_whole_graph_runs_with_what_is_passed(client: &Client) {
    let id = submit_graph(client, &join("graph"));
    assert_eq!(describe(client, &id)["node_count"], 3);
    let first = claim_some(client, &["graph"], 3, 10_000);
    assert_eq!(first.len(), 2, "the third waits");
    assert_eq!(describe(client, &id)["public_flow_state"], "running");
    for task in &first {
        complete(client, task, b"made");
    }
    let last = claim(client, "graph");
    let inputs = last["inputs"].as_array().expect("inputs");
    let names: BTreeSet<String> = inputs.iter().map(|input| text(&input["name"])).collect();
    assert_eq!(names, BTreeSet::from(["left".to_owned(), "right".to_owned()]));
    assert!(inputs.iter().all(|input| input["bytes_base64"] == "bWFkZQ=="), "{inputs:?}");
    complete(client, &last, b"");
    let ended = describe(client, &id);
    assert_eq!(ended["public_flow_state"], "completed");
    assert_eq!(ended["counts"]["completed"], 3);
    assert!(ended["completed_at"].is_u64(), "{ended}");
}

pub(crate) fn the_end_of_a_step_brings_the_next_one(client: &Client) {
    let lane = "steps";
    let id = submit_graph(
        client,
        &graph(&[task("a", lane, &[]), task("b", lane, &["a"]), task("c", lane, &["b"])]),
    );
    let first = claim(client, lane);
    let end = json!({
        "task_token": token(&first), "result_text": "1",
        "next": {"lease_id": "00000000-0000-4000-8000-0000000000b1", "payload_text": true},
    });
    let answer = client.post("/v1/tasks/complete", &end).expect(200).json();
    let second = list(&answer["tasks"])[0].clone();
    assert_eq!(second["execution_id"], member(client, &id, "b")["execution_id"]);
    assert_eq!((&second["payload_text"], &second["lane"]), (&json!("1"), &json!(lane)));
    assert_eq!(second["lease_ttl_ms"], first["lease_ttl_ms"]);
    assert_eq!(second["worker_instance_id"], first["worker_instance_id"]);
    let again = client.post("/v1/tasks/complete", &end).expect(200).json();
    assert_eq!(again["tasks"][0]["task_token"], second["task_token"], "as the first time");
    let retried =
        json!({"task_token": token(&second), "reason": "no", "is_final": true, "next": {}});
    let failed = client.post("/v1/tasks/fail", &retried).expect(200).json();
    assert_eq!(failed, json!({"retry_scheduled": false}), "nothing comes next");
    assert_eq!(describe(client, &id)["public_flow_state"], "failed");
    let wrong = json!({"task_token": token(&second), "next": {"lease_ttl_ms": 0}});
    let problem = client.post("/v1/tasks/complete", &wrong).problem(400, "invalid_input");
    assert!(text(&problem["detail"]).contains("lease"), "{problem}");
}

pub(crate) fn a_graph_is_the_same_by_its_key_and_refused_with_another_content(client: &Client) {
    let mut keyed = join("keyed");
    keyed["key"] = json!("clip-7");
    let first = client.post("/v1/flows/graph", &keyed).expect(200).json();
    let again = client.post("/v1/flows/graph", &keyed).expect(200).json();
    assert_eq!((&first["created"], &again["created"]), (&json!(true), &json!(false)));
    assert_eq!((&first["flow_id"], &again["node_count"]), (&again["flow_id"], &json!(3)));
    keyed["tasks"][0]["execution"]["payload_text"] = json!("another");
    client.post("/v1/flows/graph", &keyed).problem(409, "idempotency_conflict");
    client.post(&flow(&text(&first["flow_id"]), "/cancel"), &json!({})).expect(200);
}

pub(crate) fn what_cannot_run_is_refused_with_its_place(client: &Client) {
    let refused = |graph: &Value, status: u16, code: &str| {
        client.post("/v1/flows/graph", graph).problem(status, code).to_string()
    };
    let cycle = graph(&[task("a", "bad", &["b"]), task("b", "bad", &["a"])]);
    assert!(refused(&cycle, 409, "cycle_detected").contains("a -> b -> a"));
    let itself = graph(&[task("a", "bad", &["a"])]);
    assert!(refused(&itself, 409, "self_referencing_edge").contains('a'));
    let unknown = graph(&[task("a", "bad", &["x"])]);
    assert!(refused(&unknown, 400, "invalid_input").contains("tasks.a.after"));
    let twice = graph(&[task("a", "bad", &[]), task("a", "bad", &[])]);
    assert!(refused(&twice, 400, "invalid_input").contains("named twice"));
    let doubled = graph(&[task("a", "bad", &[]), task("b", "bad", &["a", "a"])]);
    let told = refused(&doubled, 409, "dependency_already_exists");
    assert!(told.contains("tasks.b.after"));
    let mut needs = join("bad");
    needs["tasks"][2]["needs"] = json!(3);
    assert!(refused(&needs, 400, "invalid_input").contains("tasks.join.needs"));
    refused(&graph(&[]), 400, "invalid_input");
    let mut both = join("bad");
    (both["key"], both["flow"]["flow_id"]) = (json!("k"), json!(NOWHERE));
    assert!(refused(&both, 400, "invalid_input").contains("key"));
    client.get(&flow(NOWHERE, "")).problem(404, "flow_not_found");
}

/// An empty flow, and two executions that live where it lives: its id is that of one of them.
#[track_caller]
fn open_flow(client: &Client, lane: &str) -> (String, [String; 2]) {
    let first = submit(client, &json!({"kind": "job", "lane": lane}));
    let (home, id) = first.rsplit_once(':').expect("a whole id");
    let second = format!("{home}:{}{}", &id[..24], "0123456789ab");
    let placed = json!({"kind": "job", "lane": lane, "execution_id": second});
    assert_eq!(submit(client, &placed), second);
    let made = json!({"flow_kind": "steps", "flow_id": id});
    let created = client.post("/v1/flows", &made).expect(200).json();
    assert_eq!(created, json!({"flow_id": id, "created": true}));
    let again = client.post("/v1/flows", &made).expect(200).json();
    assert_eq!(again["created"], false);
    (id.to_owned(), [first.clone(), second])
}

#[track_caller]
fn join_flow(client: &Client, id: &str, execution: &str, name: &str) -> Value {
    let body = json!({"execution_id": execution, "name": name});
    client.post(&flow(id, "/members"), &body).expect(200).json()
}

fn edge(edge_id: &str, up: &str, down: &str) -> Value {
    json!({"edge_id": edge_id, "upstream_execution_id": up, "downstream_execution_id": down,
        "data_passing_ref": "clip"})
}

pub(crate) fn a_flow_is_made_step_by_step(client: &Client) {
    let (id, [first, second]) = open_flow(client, "steps");
    assert_eq!(join_flow(client, &id, &first, "first")["added"], true);
    assert_eq!(join_flow(client, &id, &first, "first")["added"], false);
    assert_eq!(join_flow(client, &id, &second, "second")["node_count"], 2);
    let edge_id = "00000000-0000-4000-8000-0000000000e1";
    let mut staged = edge(edge_id, &first, &second);
    staged["staged"] = json!(true);
    let added = client.post(&flow(&id, "/edges"), &staged).expect(200).json();
    assert_eq!((&added["edge_id"], &added["added"]), (&json!(edge_id), &json!(true)));
    let again = client.post(&flow(&id, "/edges"), &staged).expect(200).json();
    assert_eq!(again["added"], false);
    let read = client.get(&flow(&id, &format!("/edges/{edge_id}"))).expect(200).json();
    assert_eq!((&read["applied"], &read["edge_state"]), (&json!(false), &json!("pending")));
    let apply = json!({"edge_id": edge_id, "downstream_execution_id": second});
    let applied = client.post(&flow(&id, "/edges/apply"), &apply).expect(200).json();
    assert_eq!(applied["unsatisfied_count"], 1);
    client.post(&flow(&id, "/edges/apply"), &apply).expect(200);
    assert_eq!(state(client, &second), "waiting_children");
    for (end, count) in [("outgoing", 1), ("incoming", 0)] {
        let listed = client.get(&path(&first, &format!("/edges?direction={end}"))).expect(200);
        assert_eq!(listed.json()["edges"].as_array().map(Vec::len), Some(count), "{end}");
    }
    client.put(&flow(&id, "/tags"), &json!({"tags": {"team.owner": "ann"}})).expect(204);
    assert_eq!(describe(client, &id)["tags"]["team.owner"], "ann");
    assert_eq!(client.post(&flow(&id, "/seal"), &json!({})).expect(200).json()["node_count"], 2);
    client.post(&flow(&id, "/seal"), &json!({})).expect(200);
    complete(client, &claim(client, "steps"), b"made");
    let last = claim(client, "steps");
    assert_eq!(
        (&last["execution_id"], &last["inputs"][0]["name"]),
        (&json!(second), &json!("clip"))
    );
    complete(client, &last, b"");
    assert_eq!(describe(client, &id)["public_flow_state"], "completed");
}

pub(crate) fn every_wrong_step_is_refused_by_its_code(client: &Client) {
    let (id, [first, second]) = open_flow(client, "wrong-steps");
    join_flow(client, &id, &first, "first");
    join_flow(client, &id, &second, "second");
    let edge_id = "00000000-0000-4000-8000-0000000000e2";
    let itself = edge(edge_id, &first, &first);
    client.post(&flow(&id, "/edges"), &itself).problem(409, "self_referencing_edge");
    client.post(&flow(&id, "/edges"), &edge(edge_id, &first, &second)).expect(200);
    let back = edge("00000000-0000-4000-8000-0000000000e3", &second, &first);
    client.post(&flow(&id, "/edges"), &back).problem(409, "cycle_detected");
    let mut stale = back.clone();
    stale["expected_graph_revision"] = json!(0);
    client.post(&flow(&id, "/edges"), &stale).problem(409, "stale_graph_revision");
    let elsewhere = json!({"execution_id": other_home(&first)});
    let bare = first.rsplit_once(':').expect("a whole id").1;
    client.post(&flow(&id, "/members"), &json!({"execution_id": bare})).expect(200);
    client.post(&flow(&id, "/members"), &elsewhere).problem(400, "partition_mismatch");
    let gone = format!("{}:{NOWHERE}", first.rsplit_once(':').expect("a whole id").0);
    let missing = json!({"execution_id": gone});
    client.post(&flow(&id, "/members"), &missing).problem(404, "execution_not_found");
    let absent = client.get(&flow(&id, &format!("/edges/{NOWHERE}")));
    absent.problem(404, "edge_not_found");
    let sealed = client.post(&flow(&id, "/seal"), &json!({})).expect(200).json();
    assert_eq!(sealed["node_count"], 2);
    let late = submit_in(client, &first, "wrong-steps");
    let late = json!({"execution_id": late});
    client.post(&flow(&id, "/members"), &late).problem(409, "flow_sealed");
    client.post(&flow(&id, "/cancel"), &json!({})).expect(200);
}

/// The same UUID on another partition.
fn other_home(id: &str) -> String {
    let (home, uuid) = id.rsplit_once(':').expect("a whole id");
    let other = if home == "{fp:0}" { "{fp:1}" } else { "{fp:0}" };
    format!("{other}:{uuid}")
}

/// An execution on the partition of another.
#[track_caller]
fn submit_in(client: &Client, id: &str, lane: &str) -> String {
    let (home, uuid) = id.rsplit_once(':').expect("a whole id");
    let near = format!("{home}:{}{}", &uuid[..24], "ba9876543210");
    submit(client, &json!({"kind": "job", "lane": lane, "execution_id": near}))
}

pub(crate) fn an_unknown_flow_is_not_found_on_every_route(client: &Client) {
    let nobody = submit(client, &json!({"kind": "job", "lane": "no-flow"}));
    let id = nobody.rsplit_once(':').expect("a whole id").1;
    for rest in ["", "/members", "/graph", "/cancel/receipt"] {
        client.get(&flow(id, rest)).problem(404, "flow_not_found");
    }
    client.get(&flow(id, &format!("/edges/{NOWHERE}"))).problem(404, "edge_not_found");
    for rest in ["/seal", "/cancel", "/cancel/retry"] {
        client.post(&flow(id, rest), &json!({})).problem(404, "flow_not_found");
    }
    let tags = json!({"tags": {"team.owner": "ann"}});
    client.put(&flow(id, "/tags"), &tags).problem(404, "flow_not_found");
    let member = json!({"execution_id": nobody});
    client.post(&flow(id, "/members"), &member).problem(404, "flow_not_found");
    let between = edge(NOWHERE, &nobody, &submit_in(client, &nobody, "no-flow"));
    client.post(&flow(id, "/edges"), &between).problem(404, "flow_not_found");
    let apply = json!({"edge_id": NOWHERE, "downstream_execution_id": nobody});
    client.post(&flow(id, "/edges/apply"), &apply).problem(404, "flow_not_found");
    for wrong in ["x", "%20", "01a1ec51", "{fp:0}:x"] {
        let path = flow(&crate::client::encoded(wrong), "");
        assert_eq!(client.get(&path).problem(400, "invalid_input")["field"], "flow_id", "{wrong}");
    }
}

pub(crate) fn a_cancelled_flow_is_claimed_no_more(client: &Client) {
    let id = submit_graph(client, &join("cancelled"));
    let running = claim(client, "cancelled");
    let long = json!({"reason": "x".repeat(5000)});
    client.post(&flow(&id, "/cancel"), &long).problem(400, "invalid_input");
    let why = json!({"reason": "a mistake"});
    let cancelled = client.post(&flow(&id, "/cancel"), &why).expect(200).json();
    assert_eq!(cancelled["member_count"], 3);
    let again = client.post(&flow(&id, "/cancel"), &why).expect(200).json();
    assert_eq!(again["cancellation_policy"], "cancel_all");
    let waited = json!({"wait_ms": 10_000});
    let whole = client.post(&flow(&id, "/cancel"), &waited).expect(200).json();
    assert_eq!(whole["status"], "cancelled");
    let receipt = client.get(&flow(&id, "/cancel/receipt")).expect(200).json();
    let mut fates: Vec<String> =
        list(&receipt["members"]).iter().map(|it| text(&it["fate"])).collect();
    fates.sort();
    assert_eq!(fates, ["fenced", "stopped", "stopped"], "{receipt}");
    let fenced = client.get(&flow(&id, "/cancel/receipt?fate=fenced")).expect(200).json();
    assert_eq!(list(&fenced["members"]).len(), 1, "{fenced}");
    assert_eq!(fenced["members"][0]["execution_id"], running["execution_id"]);
    assert!(fenced["members"][0]["fenced_until"].is_u64(), "{fenced}");
    let page = client.get(&flow(&id, "/cancel/receipt?limit=1")).expect(200).json();
    assert_eq!((list(&page["members"]).len(), &page["next_from"]), (1, &json!(2)));
    let tried = client.post(&flow(&id, "/cancel/retry"), &json!({})).expect(200).json();
    assert_eq!(tried, json!({"tried_count": 0, "settled_count": 0, "stuck_count": 0}));
    let long = json!({"wait_ms": 10_000_000});
    client.post(&flow(&id, "/cancel"), &long).problem(400, "invalid_input");
    let told = describe(client, &id);
    assert_eq!(
        (&told["public_flow_state"], &told["cancel_reason"]),
        (&json!("cancelled"), &json!("a mistake"))
    );
    assert!(claim_some(client, &["cancelled"], 3, 0).is_empty());
    let stopped = text(&running["execution_id"]);
    assert_eq!(state(client, &stopped), "cancelled");
    assert_eq!(member(client, &id, "join")["cancelled_by"], "flow_cascade");
    client.post(&path(&stopped, "/replay"), &json!({})).problem(409, "flow_cancelled");
}

pub(crate) fn what_failed_runs_again(client: &Client) {
    let id = submit_graph(client, &join("mended"));
    for _ in 0..2 {
        let task = claim(client, "mended");
        let fail = json!({"task_token": token(&task), "reason": "boom", "category": "permanent"});
        client.post("/v1/tasks/fail", &fail).expect(200);
    }
    assert_eq!(describe(client, &id)["public_flow_state"], "failed");
    let request = json!({"request_id": "00000000-0000-4000-8000-00000000000a", "limit": 1000});
    let first = client.post(&flow(&id, "/replay"), &request).expect(200).json();
    assert_eq!((list(&first["replayed"]).len(), list(&first["refused"]).len()), (2, 0));
    assert_eq!(describe(client, &id)["public_flow_state"], "open");
    let again = client.post(&flow(&id, "/replay"), &request).expect(200).json();
    assert_eq!(again["replayed"], json!([]), "nothing is failed any more");
    client.post(&flow(&id, "/cancel"), &json!({})).expect(200);
    client.post(&flow(&id, "/replay"), &json!({})).problem(409, "flow_cancelled");
}

pub(crate) fn a_graph_is_read_in_pages(client: &Client) {
    let id = submit_graph(client, &join("whole"));
    for limit in [1, 2, 1000] {
        let (mut names, mut edges, mut cursor) = (Vec::new(), Vec::new(), String::new());
        loop {
            let query = format!("/graph?limit={limit}{cursor}");
            let page = client.get(&flow(&id, &query)).expect(200).json();
            names.extend(list(&page["members"]).iter().map(|it| text(&it["name"])));
            edges.extend(list(&page["edges"]).iter().map(|it| text(&it["data_passing_ref"])));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(names, ["left", "right", "join"]);
        assert_eq!(edges.len(), 2, "{edges:?}");
    }
    client.get(&flow(&id, "/graph?cursor=x")).problem(400, "invalid_input");
    client.post(&flow(&id, "/cancel"), &json!({})).expect(200);
}

pub(crate) fn members_and_flows_come_in_pages(client: &Client) {
    let ids: BTreeSet<String> = (0..5).map(|_| submit_graph(client, &join("paged"))).collect();
    for limit in [1, 2, 1000] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("/v1/flows?limit={limit}{cursor}")).expect(200).json();
            found.extend(page["flows"].as_array().expect("a list").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let each: BTreeSet<String> = found.iter().map(|flow| text(&flow["flow_id"])).collect();
        assert_eq!(each.len(), found.len(), "each once with limit {limit}");
        assert!(each.is_superset(&ids));
    }
    let id = ids.first().expect("one");
    let (mut names, mut from) = (Vec::new(), 0);
    loop {
        let query = format!("/members?limit=2&from={from}");
        let page = client.get(&flow(id, &query)).expect(200).json();
        names
            .extend(page["members"].as_array().expect("a list").iter().map(|it| text(&it["name"])));
        match page["next_from"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(names, ["left", "right", "join"]);
    for (state, count) in [("waiting", 2), ("waiting_children", 1), ("rate_limited", 0)] {
        let page = client.get(&flow(id, &format!("/members?state={state}"))).expect(200).json();
        assert_eq!(page["members"].as_array().map(Vec::len), Some(count), "{state}");
    }
    client.get(&flow(id, "/members?limit=0")).problem(400, "invalid_input");
    client.get("/v1/flows?cursor=x").problem(400, "invalid_input");
    for id in &ids {
        client.post(&flow(id, "/cancel"), &json!({})).expect(200);
    }
}
