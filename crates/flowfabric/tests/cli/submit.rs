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
        "--delay",
        "10m",
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
    assert_eq!(execution["effective_policy"]["max_reclaim_count"], 100);
    let policy = "policy       --retries 2 --backoff 1s..1m --retention 1d (7d if it fails)\n";
    assert!(text.contains(policy), "{text}");
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
    assert!(complaint.contains("exit status 1"), "{complaint}");
    assert!(complaint.contains("1 of 3 ended, but were not completed"), "{complaint}");
}

#[test]
fn what_cannot_be_right_is_refused_by_name() {
    let site = Site::start();
    for (arguments, complaint) in [
        (&["submit", "k", "--policy", "{\"retries\":1}"][..], "--policy: "),
        (&["submit", "k", "--policy", "nope"][..], "--policy is no JSON: "),
        (&["submit", "k", "--priority", "9001"][..], "priority"),
        (&["submit", "k", "--lane", ""][..], "lane"),
        (&["submit", "k", "--lane", "a:b{c"][..], "lane must be"),
    ] {
        let said = site.run(arguments).complaint(2);
        assert!(said.contains(complaint) && !said.contains("config:"), "{arguments:?}: {said}");
    }
    for arguments in [
        &["submit", "k", "--tag", "novalue"][..],
        &["submit", "k", "--count", "0"][..],
        &["submit", "k", "--delay", "30"][..],
        &["submit", "k", "--backoff", "1s"][..],
        &["submit", "k", "--count", "2", "--lines"][..],
        &["submit"][..],
    ] {
        site.run(arguments).complaint(2);
    }
}

#[test]
fn a_result_tells_how_the_execution_ended() {
    let site = Site::start();
    let id = site.submit(&["mail", "--delay", "10m"]);
    let early = site.run(&["result", &id]).complaint(4);
    assert!(early.contains("has not ended") && early.contains("--wait"), "{early}");
    site.run(&["result", &id, "--wait=50ms"]).complaint(4);
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

#[test]
fn a_policy_is_said_by_flags() {
    let site = Site::start();
    let flags = ["--retries", "1", "--backoff", "10ms", "--timeout", "20s", "--deadline", "2h"];
    let id = site.submit(&[&["flaky"], &flags[..], &["--retention", "7d"]].concat());
    let execution = site.run(&["get", "--json", &id]).json().remove(0);
    let policy = execution["policy"].to_string();
    for part in [
        r#""max_retries":1"#,
        r#""initial_delay_ms":10"#,
        r#""attempt_timeout_ms":20000"#,
        r#""execution_deadline_ms":7200000"#,
        r#""retention_ms":604800000"#,
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    let program = r#"[ "$FLOWFABRIC_ATTEMPT" = 2 ] || exit 1; echo done"#;
    let _worker = site.worker(&["--kind", "flaky"], &["sh", "-c", program]);
    assert_eq!(site.run(&["result", &id, "--wait"]).text(), "done");
}

#[test]
fn whoever_stops_waiting_is_told_where_to_come_back_to() {
    let site = Site::start();
    let interrupted = |line: &str| {
        let binary = env!("CARGO_BIN_EXE_flowfabric");
        let line =
            format!("printf 'a\\nb\\n' | timeout --preserve-status -s INT 1 {binary} {line}");
        let mut shell = std::process::Command::new("bash");
        crate::site::run(shell.args(["-c", &line]).env("FLOWFABRIC_URL", &site.url)).complaint(130)
    };
    let said = interrupted("submit nobody --wait");
    let id = site.run(&["ls", "-q"]).text();
    assert!(said.contains(&format!("flowfabric result {id} --wait")), "{said}");
    let said = interrupted("submit nobody --lines --wait");
    assert!(said.contains("2 were not waited for and go on"), "{said}");
    let ids = site.run(&["ls", "-q"]).text();
    assert_eq!(ids.lines().filter(|id| said.contains(id)).count(), 2, "{said}");
}

#[test]
fn quiet_prints_results_alone() {
    let site = Site::start();
    let id = site.submit(&["mail", "-q"]);
    let listed = site.run(&["ls", "--quiet"]);
    assert_eq!((listed.stdout.trim_end(), listed.stderr.as_str()), (id.as_str(), ""));
    let listed = site.run(&["ls"]);
    assert!(listed.stdout.starts_with("EXECUTION") && listed.stderr.contains("1 execution"));
}

#[test]
fn what_is_debounced_keeps_its_id_and_a_singleton_is_one() {
    let site = Site::start();
    let debounced = |input: &str| {
        let pause = ["--debounce-delay", "10m", "--debounce-max-wait", "1h"];
        let what = ["submit", "index", "--input", input, "--debounce", "doc-7"];
        site.run(&[&what[..], &pause[..]].concat()).text()
    };
    assert_eq!(debounced("one"), debounced("two"));
    let single = ["submit", "sync", "--singleton", "site-1"];
    let first = site.run(&single).text();
    assert_eq!(site.run(&single).text(), first);
    let queued = site.run(&[&single[..], &["--queue"]].concat()).text();
    assert_ne!(queued, first);
    let why = site.run(&["why", queued.trim()]).text();
    assert!(why.contains("waits for its turn"), "{why}");
    site.run(&["submit", "sync", "--queue"]).complaint(2);
}
