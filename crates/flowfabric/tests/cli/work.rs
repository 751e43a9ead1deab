//! `worker run`: any program as a worker.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::site::{Running, Scratch, Site, eventually, uuid_in};

#[test]
fn a_failure_has_the_end_of_standard_error_as_its_reason() {
    let site = Site::start();
    let program = "yes complaint | head -n 5000 >&2; echo 'the disk is full' >&2; exit 7";
    let mut worker = site.worker(&["--kind", "k"], &["sh", "-c", program]);
    let id = site.submit(&["k"]);
    let failed = worker.event_named("failed");
    assert_eq!((uuid_in(&failed), &failed["attempt"]), (id.as_str(), &1.into()));
    let said = site.run(&["result", &id, "--wait"]).complaint(3);
    assert!(said.contains("failed (transient): "), "{said}");
    assert!(said.trim_end().ends_with("the disk is full"), "{said}");
}

#[test]
fn a_program_that_says_nothing_fails_with_how_it_ended() {
    let site = Site::start();
    let _worker = site.worker(&["--kind", "k"], &["sh", "-c", r#"eval "$(cat)""#]);
    let exit = site.run(&["submit", "k", "--input", "exit 9", "--wait"]).complaint(3);
    assert!(exit.contains("failed (transient): exit status 9"), "{exit}");
    let killed = site.run(&["submit", "k", "--input", "kill -KILL $$", "--wait"]).complaint(3);
    assert!(killed.contains("failed (transient): signal 9 (SIGKILL)"), "{killed}");
}

#[test]
fn a_worker_leaves_other_kinds_alone() {
    let site = Site::start();
    let other = site.submit(&["other"]);
    let _worker = site.worker(&["--kind", "mine"], &["echo", "done"]);
    assert_eq!(site.run(&["submit", "mine", "--wait"]).text(), "done");
    assert_eq!(site.run(&["get", &other, "--json"]).json()[0]["public_state"], "waiting");
}

#[test]
fn a_failure_is_tried_again_as_the_policy_says() {
    let site = Site::start();
    let program = r#"[ "$FLOWFABRIC_ATTEMPT" = 3 ] && echo "$FLOWFABRIC_KIND worked""#;
    let mut worker = site.worker(&["--kind", "flaky"], &["sh", "-c", program]);
    let policy = r#"{"retry_policy":{"max_retries":2,"backoff":{"type":"fixed","delay_ms":1}}}"#;
    let ran = site.run(&["submit", "flaky", "--policy", policy, "--wait"]);
    assert_eq!(ran.text(), "flaky worked");
    assert_eq!(worker.event_named("completed")["attempt"], 3);
}

#[test]
fn a_worker_s_policy_holds_for_submissions_that_say_nothing() {
    let site = Site::start();
    let program = r#"[ "$FLOWFABRIC_ATTEMPT" = 3 ] && echo "$FLOWFABRIC_KIND worked""#;
    let options = ["--kind", "flaky", "--retries", "2", "--backoff", "1ms"];
    let _worker = site.worker(&options, &["sh", "-c", program]);
    eventually(|| site.get("/v1/kinds/flaky", "none")["told_by"].is_string());
    assert_eq!(site.run(&["submit", "flaky", "--wait"]).text(), "flaky worked");
    site.run(&["submit", "flaky", "--retries", "1", "--wait"]).complaint(3);
}

#[test]
fn bytes_are_bytes_also_many_of_them() {
    let site = Site::start();
    let scratch = Scratch::new("bytes");
    let _worker = site.worker(&["--kind", "echo"], &["cat"]);
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    let file = scratch.path().join("bytes");
    std::fs::write(&file, &bytes).expect("written");
    let input = format!("@{}", file.display());
    let mut command = site.command(&["submit", "echo", "--input", &input, "--wait"]);
    let output = command.output().expect("it runs");
    assert!(output.status.success());
    assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
    let json = site.run(&["submit", "echo", "--input", &input, "--wait", "--json"]).json();
    assert!(json[0]["result_base64"].as_str().is_some_and(|text| text.len() == 4_000_000));
}

#[test]
fn a_program_that_never_stops_writing_is_stopped() {
    let site = Site::start();
    let _worker =
        site.worker(&["--kind", "k"], &["sh", "-c", "trap '' PIPE; while true; do yes; done 2>&1"]);
    let said = site.run(&["submit", "k", "--wait"]).complaint(3);
    assert!(said.contains("the program wrote more than 8388608 bytes"), "{said}");
}

#[test]
fn a_run_is_over_when_its_program_is_whatever_that_left_behind() {
    let site = Site::start();
    let scratch = Scratch::new("left-behind");
    let left = scratch.path().join("left");
    let program = format!("sleep 600 & echo $! > {}; cat; echo oops >&2", left.display());
    let _worker = site.worker(&["--kind", "k"], &["sh", "-c", &program]);
    let before = Instant::now();
    assert_eq!(site.run(&["submit", "k", "--input", "done", "--wait"]).text(), "done");
    assert!(before.elapsed() < Duration::from_secs(300), "it took {:?}", before.elapsed());
    let line = format!("kill $(cat {})", left.display());
    std::process::Command::new("sh").args(["-c", &line]).status().expect("a shell");
}

#[test]
fn a_program_need_not_read_its_input() {
    let site = Site::start();
    let scratch = Scratch::new("unread");
    let file = scratch.path().join("input");
    std::fs::write(&file, vec![b'x'; 1_000_000]).expect("written");
    let _worker = site.worker(&["--kind", "k"], &["echo", "done"]);
    let input = format!("@{}", file.display());
    assert_eq!(site.run(&["submit", "k", "--input", &input, "--wait"]).text(), "done");
}

#[test]
fn a_worker_that_is_told_to_stop_finishes_what_it_has() {
    let site = Site::start();
    let scratch = Scratch::new("drain");
    let go = scratch.path().join("go");
    let program = format!("until [ -e '{}' ]; do sleep 0.02; done; echo finished", go.display());
    let mut worker = site.worker(&["--kind", "k"], &["sh", "-c", &program]);
    let (held, left) = (site.submit(&["k"]), site.submit(&["other", "--lane", "l"]));
    site.until(&held, "active");
    worker.signal("-TERM");
    worker.event_named("draining");
    assert_eq!(site.field(&held, "public_state"), "active");
    std::fs::write(&go, "").expect("written");
    assert_eq!(worker.event_named("stopped")["handed_back"], 0);
    assert_eq!(worker.wait(), Some(0));
    assert_eq!(site.run(&["result", &held]).text(), "finished");
    assert_eq!(site.field(&left, "public_state"), "waiting");
}

#[test]
fn what_does_not_end_in_time_is_killed_and_handed_back() {
    let site = Site::start();
    let scratch = Scratch::new("hand-back");
    let pid_file = scratch.path().join("pid");
    let program = format!("echo $$ > '{}'; exec sleep 600", pid_file.display());
    let options = ["--kind", "k", "--drain", "50ms"];
    let mut worker = site.worker(&options, &["sh", "-c", &program]);
    let id = site.submit(&["k"]);
    let pid = || std::fs::read_to_string(&pid_file).unwrap_or_default().trim().to_owned();
    eventually(|| !pid().is_empty());
    worker.signal("-TERM");
    assert_eq!(worker.event_named("stopped")["handed_back"], 1);
    assert_eq!(worker.wait(), Some(0));
    let process = std::path::PathBuf::from(format!("/proc/{}", pid()));
    eventually(|| !process.exists());

    let _another = site.worker(&["--kind", "k"], &["echo", "taken over"]);
    assert_eq!(site.run(&["result", &id, "--wait"]).text(), "taken over");
}

#[test]
fn a_second_signal_stops_at_once() {
    let site = Site::start();
    let mut worker = site.worker(&["--kind", "k"], &["sleep", "600"]);
    let id = site.submit(&["k"]);
    site.until(&id, "active");
    let begun = Instant::now();
    worker.signal("-INT");
    worker.event_named("draining");
    worker.signal("-INT");
    assert_eq!(worker.wait(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5));
    site.until(&id, "waiting");
    assert!(begun.elapsed() < Duration::from_secs(20), "handed back, not lapsed");
}

#[test]
fn an_attempt_that_runs_out_of_time_loses_its_program() {
    let site = Site::start();
    let scratch = Scratch::new("timeout");
    let pid_file = scratch.path().join("pid");
    // The program that hangs is a grandchild.
    let program = format!("sleep 600 & echo $! > '{}'; wait", pid_file.display());
    let _worker = site.worker(&["--kind", "k"], &["sh", "-c", &program]);
    let policy = r#"{"timeout_policy":{"attempt_timeout_ms":300}}"#;
    let said = site.run(&["submit", "k", "--policy", policy, "--wait"]).complaint(3);
    assert!(said.contains("expired: "), "{said}");
    let pid = std::fs::read_to_string(&pid_file).expect("it ran");
    let process = std::path::PathBuf::from(format!("/proc/{}", pid.trim()));
    eventually(|| !process.exists());
}

#[test]
fn a_program_that_is_not_there_is_found_out_before_work_is_taken() {
    let site = Site::start();
    for program in ["no-such-program", "/no/such/program"] {
        let said = site.run(&["worker", "run", "--kind", "k", "--", program]).complaint(1);
        assert!(said.contains(&format!("there is no program {program:?}")), "{said}");
    }
    site.run(&["worker", "run", "--kind", "k"]).complaint(2);
}

#[test]
fn people_see_what_a_worker_does() {
    let site = Site::start();
    let scratch = Scratch::new("log");
    let log = scratch.path().join("log");
    let mut command =
        site.command(&["worker", "run", "--kind", "k", "--", "sh", "-c", "cat; exit 1"]);
    command.stderr(std::fs::File::create(&log).expect("created"));
    let mut worker = Running::start(&mut command);
    let id = site.submit(&["k"]);
    site.until(&id, "failed");
    worker.signal("-TERM");
    assert_eq!(worker.wait(), Some(0));
    let said = std::fs::read_to_string(&log).expect("text");
    assert!(said.contains("working on k with `sh -c cat; exit 1`"), "{said}");
    assert!(said.contains(&format!("{id}  k  attempt 1")), "{said}");
    assert!(said.contains("stopped; nothing was left undone"), "{said}");
}

#[test]
fn a_worker_outlives_its_server_and_says_so() {
    let scratch = Scratch::new("outlive");
    let data = scratch.path().join("data");
    let (data, log) = (data.to_str().expect("text"), scratch.path().join("log"));
    // An address of its own: no other test's server may get the port while ours is away.
    let site = Site::start_at("127.0.0.2:0", &["--store", data]);
    let mut command = site.command(&["worker", "run", "--json", "--kind", "k", "--", "cat"]);
    command.stderr(std::fs::File::create(&log).expect("created"));
    let mut worker = Running::start(&mut command);
    assert_eq!(worker.event()["event"], "working");
    // It is registered and works before its server leaves.
    assert_eq!(site.run(&["submit", "k", "--input", "first", "--wait"]).text(), "first");
    let address = site.url.trim_start_matches("http://").to_owned();
    site.stop();
    let said = || std::fs::read_to_string(&log).expect("text");
    // The claim was cut off, or the next one found nobody.
    eventually(|| said().contains("trying again"));

    let site = Site::start_at(&address, &["--store", data]);
    assert_eq!(site.run(&["submit", "k", "--input", "again", "--wait"]).text(), "again");
}

#[test]
fn a_script_is_a_program_too() {
    let site = Site::start();
    let scratch = Scratch::new("script");
    let script = scratch.path().join("worker.sh");
    std::fs::write(&script, "#!/bin/sh\necho \"$FLOWFABRIC_EXECUTION_ID\"\n").expect("written");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("executable");
    let _worker = site.worker(&["--kind", "k"], &[script.to_str().expect("text")]);
    let id = site.submit(&["k"]);
    assert_eq!(site.run(&["result", &id, "--wait"]).text(), id);
}

#[test]
fn a_program_says_by_its_exit_code_that_trying_again_would_not_help() {
    let site = Site::start();
    let worker = ["--kind", "hopeless"];
    let _worker = site.worker(&worker, &["sh", "-c", "echo no such customer >&2; exit 81"]);
    let ended = site.run(&["submit", "hopeless", "--retries", "5", "--wait"]).complaint(3);
    assert!(ended.contains("no such customer"), "{ended}");
    let id = site.run(&["ls", "-q"]).text();
    assert_eq!(site.field(&id, "total_attempt_count"), 1);
}
