//! `submit` and `result`.

use crate::site::{Scratch, Site};

#[test]
fn the_input_is_a_text_a_file_or_standard_input() {
    let site = Site::start();
    let _worker = site.worker(&["--kind", "upper"], &["tr", "a-z", "A-Z"]);
    let scratch = Scratch::new("input");
    let file = scratch.path().join("input");
    std::fs::write(&file, "from a file").expect("written");
    let file = format!("@{}", file.display());
    let submit = ["submit", "upper", "--wait", "--input"];
    assert_eq!(site.run(&[&submit[..], &["as text"]].concat()).text(), "AS TEXT");
    assert_eq!(site.run(&[&submit[..], &[&file]].concat()).text(), "FROM A FILE");
    assert_eq!(site.run_with(b"piped", &[&submit[..], &["-"]].concat()).text(), "PIPED");
    assert_eq!(site.run(&submit[..3]).text(), "");
    let missing = site.run(&[&submit[..], &["@/no/such/file"]].concat()).complaint(1);
    assert!(missing.contains("/no/such/file: No such file"), "{missing}");
}

#[test]
fn everything_about_a_submission_arrives() {
    let site = Site::start();
    let policy = r#"{"retry_policy":{"max_retries":2}}"#;
    let arguments = [
        "submit",
        "mail",
        "--json",
        "--lane",
        "slow",
        "--namespace",
        "shop",
        "--priority",
        "7",
        "--delay-ms",
        "600000",
        "--policy",
        policy,
        "--tag",
        "team.name=search",
        "--tag",
        "team.size=2",
    ];
    let created = site.run(&arguments).json().remove(0);
    assert_eq!(created["public_state"], "delayed");
    assert_eq!(created["created"], true);
    let id = created["execution_id"].as_str().expect("an id");
    let execution = site.run(&["get", "--json", id]).json().remove(0);
    assert_eq!(execution["lane"], "slow");
    assert_eq!(execution["namespace"], "shop");
    assert_eq!(execution["priority"], 7);
    assert_eq!(execution["creator"], "cli");
    assert_eq!(execution["tags"]["team.name"], "search");
    let text = site.run(&["get", id]).text();
    for line in ["state        delayed", "tag          team.size = 2", "not before   20"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains(r#"policy       {"retry_policy":{"max_retries":2"#), "{text}");
}

#[test]
fn a_key_makes_a_repetition_harmless() {
    let site = Site::start();
    let submit = ["mail", "--idempotency-key", "order-1", "--input", "x"];
    let first = site.submit(&submit);
    assert_eq!(site.submit(&submit), first);
    let again = site.run(&[&["submit", "--json"], &submit[..]].concat()).json().remove(0);
    assert_eq!(again["created"], false);
    let other = ["submit", "mail", "--idempotency-key", "order-1", "--input", "y"];
    let refused = site.run(&other).complaint(1);
    assert!(refused.contains("idempotency"), "{refused}");
}

#[test]
fn many_are_submitted_at_once_and_answered_in_order() {
    let site = Site::start();
    let ids = site.run(&["submit", "idle", "--count", "2500"]).text();
    let unique: std::collections::BTreeSet<&str> = ids.lines().collect();
    assert_eq!(unique.len(), 2500);

    let _worker = site.worker(&["--kind", "upper", "--lane", "l"], &["tr", "a-z", "A-Z"]);
    let lines = ["submit", "upper", "--lane", "l", "--lines", "--input", "-"];
    let wait = [&lines[..], &["--wait"]].concat();
    assert_eq!(site.run_with(b"ada\n\ngrace\r\nlinus", &wait).text(), "ADA\nGRACE\nLINUS");
    let json = site.run_with(b"a\nb\n", &[&wait[..], &["--json"]].concat()).json();
    let results: Vec<_> = json.iter().map(|line| line["result_text"].as_str()).collect();
    assert_eq!(results, [Some("A"), Some("B")]);

    let keyed = [&lines[..], &["--idempotency-key", "k", "--json"]].concat();
    let first = site.run_with(b"a\nb\n", &keyed).json();
    let again = site.run_with(b"a\nb\n", &keyed).json();
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(first["execution_id"], again["execution_id"]);
        assert_eq!((&first["created"], &again["created"]), (&true.into(), &false.into()));
    }
    assert_eq!(site.run_with(b"\n", &lines).text(), "");
}

#[test]
fn one_of_many_that_fails_does_not_hide_the_others() {
    let site = Site::start();
    let program = r#"name=$(cat); [ "$name" != nobody ] || exit 1; echo "hello, $name""#;
    let _worker = site.worker(&["--kind", "greet"], &["sh", "-c", program]);
    let lines = ["submit", "greet", "--lines", "--wait"];
    let ran = site.run_with(b"ada\nnobody\ngrace\n", &lines);
    assert_eq!(ran.stdout, "hello, ada\nhello, grace\n");
    let complaint = ran.complaint(3);
    assert!(complaint.contains("exit status: 1"), "{complaint}");
    assert!(complaint.contains("1 of 3 ended without success"), "{complaint}");
}

#[test]
fn what_cannot_be_right_is_refused_by_name() {
    let site = Site::start();
    for (arguments, complaint) in [
        (&["submit", "k", "--policy", "{\"retries\":1}"][..], "--policy: "),
        (&["submit", "k", "--priority", "9001"][..], "priority"),
        (&["submit", "k", "--lane", ""][..], "lane"),
        (&["submit", "k", "--count", "3", "--lane", "a:b{c"][..], "number 1: "),
    ] {
        let said = site.run(arguments).complaint(1);
        assert!(said.contains(complaint), "{arguments:?}: {said}");
    }
    for arguments in [
        &["submit", "k", "--tag", "novalue"][..],
        &["submit", "k", "--count", "0"][..],
        &["submit", "k", "--count", "2", "--lines"][..],
        &["submit"][..],
    ] {
        site.run(arguments).complaint(2);
    }
}

#[test]
fn a_result_tells_how_the_execution_ended() {
    let site = Site::start();
    let id = site.submit(&["mail", "--delay-ms", "600000"]);
    let early = site.run(&["result", &id]).complaint(4);
    assert!(early.contains("has not ended") && early.contains("--wait"), "{early}");
    site.run(&["result", &id, "--wait", "--timeout-ms", "50"]).complaint(4);
    site.run(&["cancel", &id, "--reason", "nobody wants it"]).text();
    let cancelled = site.run(&["result", &id]).complaint(3);
    assert!(cancelled.contains("cancelled: nobody wants it"), "{cancelled}");
    let json = site.run(&["result", &id, "--json"]);
    assert_eq!(json.code, Some(3));
    assert!(json.stdout.contains(r#""reason":"nobody wants it""#), "{json:?}");
    assert!(json.stderr.contains(r#""exit_code":3"#), "{json:?}");

    let expiring =
        site.submit(&["mail", "--policy", r#"{"timeout_policy":{"execution_deadline_ms":1}}"#]);
    let expired = site.run(&["result", &expiring, "--wait"]).complaint(3);
    assert!(expired.contains("expired"), "{expired}");
}
