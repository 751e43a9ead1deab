//! Approvals by link: who is asked decides once, and nobody else decides.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{claim, path, submit, text, token};
use crate::client::{Answer, Client};

/// An execution that waits for approvers, and what they decide on.
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) lane: String,
    pub(crate) token: String,
    pub(crate) waitpoint_id: String,
}

/// So many must approve, and one who rejects is enough.
pub(crate) fn votes(count: u32) -> Value {
    json!({"type": "any_of", "conditions": [
        {"type": "count", "count": count, "signals": ["approved"], "distinct_sources": true,
            "source_type": "approver"},
        {"type": "any", "signals": ["rejected"], "source_type": "approver"},
    ]})
}

/// Submits an execution that asks this.
#[track_caller]
pub(crate) fn ask(client: &Client, lane: &str, approval: &Value, condition: &Value) -> Asked {
    let id = submit(client, &json!({"kind": "job", "lane": lane}));
    suspend(client, lane, &id, &json!({"condition": condition, "approval": approval}))
}

#[track_caller]
fn suspend(client: &Client, lane: &str, id: &str, suspension: &Value) -> Asked {
    let task = claim(client, lane);
    let body = json!({"task_token": token(&task), "suspension": suspension});
    let suspended = client.post("/v1/tasks/suspend", &body).expect(200).json();
    assert_eq!(suspended["status"], "suspended");
    Asked {
        id: id.to_owned(),
        lane: lane.to_owned(),
        token: text(&suspended["waitpoint_token"]),
        waitpoint_id: text(&suspended["waitpoint_id"]),
    }
}

/// Makes links and answers their paths, in the order of the approvers.
#[track_caller]
pub(crate) fn links(client: &Client, asked: &Asked, request: &Value) -> Vec<String> {
    let made = client.post(&path(&asked.id, "/approval-links"), request).expect(200).json();
    assert_eq!(made["waitpoint_id"], asked.waitpoint_id);
    assert!(!made.to_string().contains(&asked.token), "a link contains no waitpoint token");
    let links = made["links"].as_array().expect("links");
    let begin = format!("http://{}/approve/", client.address);
    let path = |link: &Value| {
        let url = text(&link["url"]);
        assert!(url.starts_with(&begin), "{url}");
        url[begin.len() - "/approve/".len()..].to_owned()
    };
    links.iter().map(path).collect()
}

#[track_caller]
fn link_of(client: &Client, asked: &Asked, approver: &str) -> String {
    links(client, asked, &json!({"approvers": [approver]})).remove(0)
}

/// Asks as a browser does.
#[track_caller]
pub(crate) fn page(client: &Client, link: &str) -> Answer {
    client.send("GET", link, &[("accept", "text/html,application/xhtml+xml,*/*;q=0.8")], b"")
}

/// Sends the page's form as a browser does.
#[track_caller]
pub(crate) fn submit_form(client: &Client, link: &str, choice: &str) -> Answer {
    let origin = format!("http://{}", client.address);
    let headers = [
        ("accept", "text/html,*/*;q=0.8"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", origin.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    client.send("POST", link, &headers, format!("choice={choice}").as_bytes())
}

#[track_caller]
fn decide(client: &Client, link: &str, choice: &str) -> Answer {
    client.post(link, &json!({"choice": choice}))
}

pub(crate) fn html(answer: &Answer) -> String {
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    String::from_utf8(answer.body.clone()).expect("text")
}

/// Who decided what, as the API tells it.
#[track_caller]
pub(crate) fn decisions(client: &Client, id: &str) -> Vec<(String, String)> {
    let listed = client.get(&path(id, "/approvals")).expect(200).json();
    let last = listed["approvals"].as_array().expect("a list").last().expect("one").clone();
    let decisions = last["decisions"].as_array().expect("a list").clone();
    decisions.iter().map(|one| (text(&one["approver"]), text(&one["signal"]))).collect()
}

pub(crate) fn approvers_decide_by_link_and_the_worker_learns_who(client: &Client) {
    let approval = json!({"question": "Ship it?", "subject": "release 7",
        "approvers": ["ann@example.com", "bob"]});
    let asked = ask(client, "approve", &approval, &votes(2));
    let both = links(client, &asked, &json!({}));
    assert_eq!(both.len(), 2);
    let view = client.get(&both[0]).expect(200).json();
    assert_eq!(
        (&view["approver"], &view["question"], &view["open"]),
        (&json!("ann@example.com"), &json!("Ship it?"), &json!(true))
    );
    assert_eq!(
        view["choices"],
        json!([{"signal": "approved", "label": "Approve"},
        {"signal": "rejected", "label": "Reject"}])
    );
    assert!(view.get("decision").is_none());
    let decided = decide(client, &both[0], "approved").expect(200).json();
    assert_eq!(decided["decision"]["signal"], "approved");
    let second = client.get(&both[1]).expect(200).json();
    assert!(second.get("decisions").is_none(), "what others decided is told afterwards");
    let last = decide(client, &both[1], "approved").expect(200).json();
    assert_eq!(
        (&last["open"], last["decisions"].as_array().map(Vec::len)),
        (&json!(false), Some(2))
    );
    let listed = client.get(&path(&asked.id, "/approvals")).expect(200).json();
    let approval = &listed["approvals"][0];
    assert_eq!((&approval["open"], &approval["close_reason"]), (&json!(false), &json!("resumed")));
    assert!(approval["decisions"][1]["decided_at"].as_u64() > Some(0));
    let task = claim(client, &asked.lane);
    let signals = task["resumption"]["signals"].as_array().expect("signals").clone();
    let senders: Vec<_> = signals
        .iter()
        .map(|one| (text(&one["source_type"]), text(&one["source_identity"])))
        .collect();
    assert_eq!(
        senders,
        [("approver".into(), "ann@example.com".into()), ("approver".into(), "bob".into())]
    );
}

pub(crate) fn the_page_asks_and_its_form_decides(client: &Client) {
    let approval = json!({"question": "Pay?", "subject": "to: eve\n100 €", "choices": [
        {"signal": "yes"}, {"signal": "no", "label": "Never & ever"}]});
    let asked = ask(client, "page", &approval, &json!({"type": "all", "signals": ["yes", "no"]}));
    let link = link_of(client, &asked, "ann");
    let shown = page(client, &link).expect(200);
    let policy = shown.header("content-security-policy").expect("a policy");
    for part in ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"] {
        assert!(policy.split("; ").any(|other| other == part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("script"), "{policy}");
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("vary", "accept"),
    ] {
        assert_eq!(shown.header(name), Some(value));
    }
    let text = html(&shown);
    for part in [
        "Pay?",
        "to: eve\n100 €",
        "value=\"yes\">yes<",
        "value=\"no\">Never &amp; ever<",
        "You decide as <bdi>ann</bdi>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("<script") && !text.contains("http"), "{text}");
    let decided = html(&submit_form(client, &link, "no").expect(200));
    assert!(decided.contains("Your decision is recorded"), "{decided}");
    assert!(decided.contains("<bdi>ann</bdi>: <strong><bdi>Never &amp; ever</bdi>"), "{decided}");
    assert!(!decided.contains("<form"), "{decided}");
    assert_eq!(decisions(client, &asked.id), [("ann".into(), "no".into())]);
    // The same again is the same; another one is not taken.
    submit_form(client, &link, "no").expect(200);
    let stands = html(&submit_form(client, &link, "yes").expect(409));
    assert!(stands.contains("your first decision stands") && stands.contains("Never"), "{stands}");
    decide(client, &link, "no").expect(200);
    let problem = decide(client, &link, "yes").problem(409, "decision_stands");
    assert_eq!(problem["detail"], "the first decision was no");
    assert!(html(&page(client, &link).expect(200)).contains("Your decision is recorded"));
    assert_eq!(decisions(client, &asked.id), [("ann".into(), "no".into())]);
}

pub(crate) fn reading_a_link_never_decides(client: &Client) {
    let asked = ask(client, "preview", &json!({}), &votes(1));
    let link = link_of(client, &asked, "ann");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    for method in ["GET", "HEAD"] {
        for target in [link.clone(), format!("{link}?choice=approved")] {
            client.send(method, &target, &[], b"").expect(200);
            client.send(method, &target, &[("purpose", "prefetch")], b"").expect(200);
            client.another().send(method, &target, &form, b"choice=approved").expect(200);
        }
    }
    for method in ["PUT", "DELETE", "OPTIONS", "PATCH"] {
        client.send(method, &link, &form, b"choice=approved").problem(405, "method_not_allowed");
    }
    // What stands behind the question mark decides nothing either.
    client
        .send("POST", &format!("{link}?choice=approved"), &form, b"")
        .problem(400, "invalid_input");
    assert!(decisions(client, &asked.id).is_empty());
}

pub(crate) fn what_is_not_a_choice_is_refused(client: &Client) {
    let asked = ask(client, "choice", &json!({}), &votes(1));
    let link = link_of(client, &asked, "ann");
    let problem = decide(client, &link, "timeout").problem(400, "invalid_input");
    assert_eq!(problem["field"], "choice");
    decide(client, &link, "*").problem(400, "invalid_input");
    client.post(&link, &json!({})).problem(400, "invalid_input");
    client.post(&link, &json!({"choice": "approved", "as": "bob"})).problem(400, "invalid_input");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let twice = client.send("POST", &link, &form, b"choice=approved&choice=rejected");
    twice.problem(400, "invalid_input");
    client.send("POST", &link, &form, &[0xff; 8]).problem(400, "invalid_input");
    client.send("POST", &link, &form, &[b'a'; 5000]).problem(413, "body_too_large");
    let text = [("content-type", "text/plain")];
    client.send("POST", &link, &text, b"choice=approved").problem(415, "unsupported_media_type");
    client.send("POST", &link, &[], b"choice=approved").problem(415, "unsupported_media_type");
    assert!(decisions(client, &asked.id).is_empty());
}

pub(crate) fn no_bit_of_a_link_can_be_changed(client: &Client) {
    let asked = ask(client, "flip", &json!({}), &votes(1));
    let link = link_of(client, &asked, "ann");
    let start = "/approve/".len();
    let nowhere = without_request_id(client.get("/approve/x").problem(404, "link_not_found"));
    for at in start..link.len() {
        for bit in 0..7 {
            let mut bytes = link.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let changed = ff_core::operation::encode(&String::from_utf8_lossy(&bytes[start..]));
            let answer = decide(client, &format!("/approve/{changed}"), "approved");
            let problem = without_request_id(answer.problem(404, "link_not_found"));
            assert_eq!(problem, nowhere, "bit {bit} of {at}");
        }
    }
    for length in [start + 1, start + 40, link.len() - 1] {
        client.get(&link[..length]).problem(404, "link_not_found");
    }
    client.get(&format!("{link}A")).problem(404, "link_not_found");
    let page = html(&page(client, &link[..link.len() - 2]).expect(404));
    assert!(page.contains("This link leads nowhere"), "{page}");
    assert!(decisions(client, &asked.id).is_empty());
    decide(client, &link, "approved").expect(200);
}

pub(crate) fn a_link_of_what_is_gone_leads_nowhere_like_a_forged_one(client: &Client) {
    let policy = json!({"retention_ms": 0});
    let id = submit(client, &json!({"kind": "job", "lane": "gone", "policy": policy}));
    let asked = suspend(client, "gone", &id, &json!({"condition": votes(1), "approval": {}}));
    let link = link_of(client, &asked, "ann");
    client.get(&link).expect(200);
    client.post(&path(&id, "/cancel"), &json!({})).expect(200);
    until(|| client.get(&link).status == 404);
    let (gone, forged) = (client.get(&link), client.get("/approve/forged"));
    let told = |answer: &Answer| (without_request_id(answer.json()), answer.status);
    assert_eq!(told(&gone), told(&forged));
    assert_eq!(html(&page(client, &link)), html(&page(client, "/approve/forged")));
    decide(client, &link, "approved").problem(404, "link_not_found");
}

/// What a problem tells beside which request it answers.
fn without_request_id(mut problem: Value) -> Value {
    problem.as_object_mut().expect("a problem is an object").remove("request_id");
    problem
}

/// Asks again until it is so.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to that");
        std::thread::yield_now();
    }
}

pub(crate) fn an_expired_link_says_so_and_decides_nothing(client: &Client) {
    let asked = ask(client, "expired", &json!({}), &votes(1));
    let request = json!({"approvers": ["ann"], "expires_in_ms": 1});
    let link = links(client, &asked, &request).remove(0);
    until(|| client.get(&link).status == 410);
    client.get(&link).problem(410, "link_expired");
    decide(client, &link, "approved").problem(410, "link_expired");
    assert!(html(&page(client, &link).expect(410)).contains("This link has expired"));
    assert!(html(&submit_form(client, &link, "approved").expect(410)).contains("expired"));
    assert!(decisions(client, &asked.id).is_empty());
    decide(client, &link_of(client, &asked, "ann"), "approved").expect(200);
}

pub(crate) fn what_is_closed_takes_no_more_decisions(client: &Client) {
    let asked = ask(client, "closed", &json!({}), &votes(1));
    let both = links(client, &asked, &json!({"approvers": ["ann", "bob"]}));
    decide(client, &both[0], "approved").expect(200);
    client.get(&both[1]).problem(410, "approval_closed");
    decide(client, &both[1], "rejected").problem(410, "approval_closed");
    assert!(html(&page(client, &both[1]).expect(410)).contains("This is no longer open"));
    client.get(&both[0]).expect(200);
    client
        .post(&path(&asked.id, "/approval-links"), &json!({"approvers": ["eve"]}))
        .problem(409, "waitpoint_closed");
    assert_eq!(decisions(client, &asked.id), [("ann".into(), "approved".into())]);
}

pub(crate) fn decisions_of_one_approver_at_once_are_one(client: &Client) {
    let asked = ask(client, "double", &json!({}), &votes(2));
    let link = link_of(client, &asked, "ann");
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..8)
            .map(|number| {
                let (client, link) = (client.another(), &link);
                let choice = if number % 2 == 0 { "approved" } else { "rejected" };
                scope.spawn(move || decide(&client, link, choice).status)
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().expect("no panic")).collect()
    });
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 4, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 409).count(), 4, "{answers:?}");
    assert_eq!(decisions(client, &asked.id).len(), 1);
}

pub(crate) fn links_are_made_for_those_who_are_asked(client: &Client) {
    let asked = ask(client, "whom", &json!({"approvers": ["ann", "bob"]}), &votes(1));
    let make = |body: Value| client.post(&path(&asked.id, "/approval-links"), &body);
    assert_eq!(
        make(json!({"approvers": ["eve"]})).problem(400, "invalid_input")["field"],
        "approvers"
    );
    make(json!({"approvers": [""]})).problem(400, "invalid_input");
    make(json!({"expires_in_ms": 0})).problem(400, "invalid_input");
    make(json!({"waitpoint_id": "11111111-2222-4333-8444-555555555555"}))
        .problem(404, "waitpoint_not_found");
    assert_eq!(links(client, &asked, &json!({"approvers": ["bob"]})).len(), 1);
    let nobody = ask(client, "whom-else", &json!({}), &votes(1));
    let problem = client.post(&path(&nobody.id, "/approval-links"), &json!({}));
    assert_eq!(problem.problem(400, "invalid_input")["field"], "approvers");
    let plain = submit(client, &json!({"kind": "job", "lane": "plain"}));
    client.post(&path(&plain, "/approval-links"), &json!({})).problem(409, "nothing_to_approve");
    let unknown = "{fp:0}:550e8400-e29b-41d4-a716-446655440000";
    client.post(&path(unknown, "/approval-links"), &json!({})).problem(404, "execution_not_found");
}

pub(crate) fn a_rotated_key_is_accepted_for_its_grace_only(client: &Client) {
    let asked = ask(client, "rotate", &json!({}), &votes(3));
    let first = link_of(client, &asked, "ann");
    let rotate = |body: Value| client.post("/v1/admin/rotate-link-key", &body);
    let rotated = rotate(json!({"new_kid": "second"})).expect(200);
    assert_eq!(rotated.json(), json!({"kid": "second"}), "the key itself is not told");
    rotate(json!({"new_kid": "second"})).expect(200);
    let second = link_of(client, &asked, "bob");
    assert_eq!(decide(client, &first, "approved").expect(200).json()["approver"], "ann");
    client.get(&second).expect(200);
    rotate(json!({"grace_ms": 0})).expect(200);
    until(|| client.get(&second).status == 404);
    decide(client, &second, "approved").problem(404, "link_not_found");
    client.get(&first).expect(200);
    decide(client, &link_of(client, &asked, "bob"), "approved").expect(200);
    rotate(json!({"new_kid": "a b"})).problem(400, "invalid_kid");
    assert_eq!(decisions(client, &asked.id).len(), 2);
}

pub(crate) fn only_a_link_makes_an_approver(client: &Client) {
    let asked = ask(client, "forge", &json!({}), &votes(1));
    let mut signal = json!({"waitpoint_id": asked.waitpoint_id, "waitpoint_token": asked.token,
        "signal_name": "approved", "source_type": "approver", "source_identity": "ann"});
    let refused = client.post(&path(&asked.id, "/signal"), &signal).problem(400, "invalid_input");
    assert_eq!(refused["field"], "source_type");
    signal["source_type"] = json!("person");
    let taken = client.post(&path(&asked.id, "/signal"), &signal).expect(200).json();
    assert_eq!(taken["effect"], "no_op");
    assert!(decisions(client, &asked.id).is_empty());
}

pub(crate) fn what_is_asked_is_text_and_nothing_else(client: &Client) {
    let script = "<script>fetch('//evil')</script>\"'><img src=x onerror=alert(1)>&lt;";
    let approval = json!({"question": script, "subject": script,
        "choices": [{"signal": "<b onclick='x'>\"", "label": "<i>\"'>"}]});
    let asked = ask(client, "script", &approval, &json!({"type": "operator_only"}));
    let link = links(client, &asked, &json!({"approvers": ["<u>'\"&eve"]})).remove(0);
    let asks = html(&page(client, &link).expect(200));
    let choice = ff_core::operation::encode("<b onclick='x'>\"");
    let tells = html(&submit_form(client, &link, &choice).expect(200));
    for text in [asks, tells] {
        for tag in ["<script", "<img", "<b ", "<i>", "<u>"] {
            assert!(!text.contains(tag), "{tag} in {text}");
        }
        assert!(text.contains("&lt;script&gt;fetch(&#39;//evil&#39;)"), "{text}");
        assert!(text.contains("&lt;u&gt;&#39;&quot;&amp;eve"), "{text}");
    }
    assert_eq!(decisions(client, &asked.id).len(), 1);
    let long = json!({"question": "x".repeat(4097)});
    submit(client, &json!({"kind": "job", "lane": "long"}));
    let task = claim(client, "long");
    let suspension = json!({"condition": votes(1), "approval": long});
    let body = json!({"task_token": token(&task), "suspension": suspension});
    let problem = client.post("/v1/tasks/suspend", &body).problem(400, "invalid_input");
    assert_eq!(problem["field"], "approval.question");
}
