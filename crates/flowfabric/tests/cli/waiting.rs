//! `signal`, `waits`, `secret` and programs that wait.

use serde_json::json;

use crate::site::{Running, Scratch, Site, uuid_in};

/// Waits for a decision, then prints it with what came along and who ended the wait.
const GATE: &str = r#"
    if [ -s "$FLOWFABRIC_SIGNALS" ] || [ -n "${FLOWFABRIC_RESUMED_BY-}" ]; then
        cat "$FLOWFABRIC_SIGNALS"
        echo "by ${FLOWFABRIC_RESUMED_BY-nobody} in attempt $FLOWFABRIC_ATTEMPT"
        exit
    fi
    cat > "$FLOWFABRIC_SUSPEND"
    exit 80
"#;

fn gate(site: &Site) -> Running {
    site.worker(&["--kind", "gate"], &["sh", "-c", GATE])
}

/// Submits what the program hands on as its suspension, and waits until it waits.
fn suspended(site: &Site, suspension: &serde_json::Value) -> String {
    let id = site.submit(&["gate", "--input", &suspension.to_string()]);
    site.until(&id, "suspended");
    id
}

fn decision() -> serde_json::Value {
    json!({"condition": {"type": "any", "signals": ["approved", "rejected"]},
        "reason": "waiting_for_approval", "timeout_ms": 7_200_000})
}

#[test]
fn a_program_waits_and_is_run_again_with_the_signals() {
    let site = Site::start();
    let mut worker = gate(&site);
    let id = suspended(&site, &decision());
    assert_eq!(uuid_in(&worker.event_named("suspended")), id);
    let other = site.run(&["signal", &id, "seen"]).text();
    let for_others = "it does not wait for that, but for approved, rejected";
    assert_eq!(other, format!("{id} was told seen: {for_others}"));
    let told = ["signal", &id, "approved", "--payload", "go \"on\"", "--from", "ann"];
    assert_eq!(site.run(&told).text(), format!("{id} was told approved: it goes on"));
    let result = site.run(&["result", &id, "--wait"]).text();
    let (signal, end) = result.split_once('\n').expect("two lines");
    let signal: serde_json::Value = serde_json::from_str(signal).expect("json");
    assert_eq!(
        (&signal["signal_name"], &signal["source_identity"]),
        (&json!("approved"), &json!("ann"))
    );
    assert_eq!(signal["payload_text"], "go \"on\"");
    assert_eq!(end, "by signal in attempt 1");
    let late = site.run(&["signal", &id, "approved"]).complaint(1);
    assert!(late.contains("waits for nothing"), "{late}");
}

#[test]
fn a_decision_that_nobody_is_asked_for_by_name_is_just_said() {
    let site = Site::start();
    let _worker = gate(&site);
    let id = suspended(&site, &decision());
    let said = site.run(&["reject", &id, "--as", "ann"]).text();
    assert_eq!(said, format!("{id} was told rejected: it goes on"));
    let result = site.run(&["result", &id, "--wait"]).text();
    assert!(result.contains(r#""source_identity":"ann""#), "{result}");
    let other = json!({"condition": {"type": "any", "signals": ["paid"]}});
    let id = suspended(&site, &other);
    let nobody = site.run(&["approve", &id]).complaint(1);
    assert!(nobody.contains("asks nobody for an approval now"), "{nobody}");
}

#[test]
fn a_wait_that_ends_by_its_time_says_so_to_the_program() {
    let site = Site::start();
    let _worker = gate(&site);
    let soon = json!({"condition": {"type": "timeout_only"}, "timeout_ms": 1,
        "timeout_behavior": "auto_resume_with_timeout_signal"});
    let result = site.run(&["submit", "gate", "--input", &soon.to_string(), "--wait"]).text();
    assert!(result.ends_with("by timeout in attempt 1"), "{result}");
}

#[test]
fn an_exit_without_a_suspension_is_a_failure() {
    let site = Site::start();
    let _worker = site.worker(&["--kind", "k"], &["sh", "-c", "echo oops >&2; exit 80"]);
    let said = site.run(&["submit", "k", "--wait"]).complaint(3);
    assert!(said.trim_end().ends_with("oops"), "{said}");
    let _gate = gate(&site);
    let said = site.run(&["submit", "gate", "--input", "{}", "--wait"]).complaint(3);
    assert!(said.contains("FLOWFABRIC_SUSPEND: missing field `condition`"), "{said}");
}

#[test]
fn what_waits_is_listed_in_lines_that_fit() {
    let site = Site::start();
    assert_eq!(site.run(&["waits"]).stderr, "nothing waits\n");
    let _worker = gate(&site);
    let first = suspended(&site, &decision());
    let mut keyed = decision();
    keyed["waitpoint_key"] = json!("a-key-that-is-much-too-long-for-a-column");
    keyed["timeout_ms"] = json!(34_560_000_000u64);
    let second = suspended(&site, &keyed);
    let table = site.run(&["waits"]).text();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{table}");
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>().join(" "),
        "EXECUTION KIND FOR SINCE UNTIL"
    );
    assert!(lines[1].starts_with(&first) && lines[1].contains("approval"), "{table}");
    assert!(lines[1].ends_with("in 1h") || lines[1].ends_with("in 2h"), "{table}");
    assert!(lines[2].starts_with(&second) && lines[2].contains("a-key-that…"), "{table}");
    let mut named = decision();
    named["approval"] = json!({"approvers": ["ann", "bob@example.com", "eve"]});
    let third = suspended(&site, &named);
    let table = site.run(&["waits"]).text();
    let line = table.lines().find(|line| line.starts_with(&third)).expect("a line");
    assert!(line.contains("ann +2") && line.chars().count() <= 80, "{table}");
    let one = site.run(&["waits", "--json", "--limit", "1"]).json();
    assert_eq!((one.len(), &one[0]["reason"]), (1, &json!("waiting_for_approval")));
}

#[test]
fn a_token_of_one_s_own_is_enough_where_the_server_wants_one() {
    let scratch = Scratch::new("token");
    let site = Site::start_with(&["--store", "memory:", "--tokens", "let-me-in"]);
    let with = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.env("FLOWFABRIC_TOKEN", "let-me-in");
        crate::site::run(&mut command)
    };
    let mut command = site.command(&["worker", "run", "--json", "--kind", "gate", "--"]);
    command.env("FLOWFABRIC_TOKEN", "let-me-in").args(["sh", "-c", GATE]);
    let mut worker = Running::start(&mut command);
    let id = with(&["submit", "gate", "--input", &decision().to_string()]).text();
    worker.event_named("suspended");
    crate::site::eventually(|| !with(&["waits", "--json"]).json().is_empty());
    let waitpoint = with(&["waits", "--json"]).json()[0]["waitpoint_id"].clone();
    let waitpoint = waitpoint.as_str().expect("an id");
    let file = scratch.path().join("token");
    std::fs::write(&file, format!("k1:{}\n", "0".repeat(40))).expect("written");
    let file = file.to_str().expect("text");
    let signal = ["signal", &id, "approved", "--waitpoint", waitpoint, "--token-file", file];
    let said = site.run(&signal).complaint(1);
    assert!(said.contains("the token is wrong") && !said.contains("000"), "{said}");
    assert_eq!(with(&["get", "--json", &id]).json()[0]["public_state"], "suspended");
    let open = site.get(&format!("/v1/executions/{id}/pending-waitpoints"), "let-me-in");
    let token = open["waitpoints"][0]["waitpoint_token"].as_str().expect("a token").to_owned();
    std::fs::write(file, token).expect("written");
    assert_eq!(site.run(&signal).text(), format!("{id} was told approved: it goes on"));
}

#[test]
fn a_secret_is_rotated_without_ever_being_shown() {
    let site = Site::start();
    let _worker = gate(&site);
    let id = suspended(&site, &decision());
    let said = site.run(&["secret", "rotate"]).text();
    assert!(
        said.starts_with('k') && said.ends_with("signs waitpoint tokens in 16 partitions"),
        "{said}"
    );
    let secret = "5e".repeat(32);
    let given = ["secret", "rotate", "--kid", "mine", "--secret-file", "-", "--json"];
    let rotated = site.run_with(format!("{secret}\n").as_bytes(), &given).json().remove(0);
    assert_eq!((&rotated["new_kid"], &rotated["rotated"]), (&json!("mine"), &json!(16)));
    let wrong = site.run_with(b"not a secret", &given).complaint(2);
    assert!(!wrong.contains("not a secret"), "{wrong}");
    assert_eq!(
        site.run(&["signal", &id, "approved"]).text(),
        format!("{id} was told approved: it goes on")
    );
}
