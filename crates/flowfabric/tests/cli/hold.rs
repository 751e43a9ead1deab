//! `hold`, `release` and `held`.

use crate::site::Site;

#[test]
fn what_is_held_does_not_run_until_it_is_released() {
    let site = Site::start();
    let id = site.submit(&["upper", "--input", "x"]);
    let held = site.run(&["hold", &id, "--by", "mia", "--reason", "not yet"]).text();
    assert_eq!(held, format!("{id} is held"));
    let shown = site.run(&["get", &id]).text();
    assert!(shown.contains("because      held by mia: not yet"), "{shown}");
    let listed = site.run(&["held"]).text();
    assert!(listed.contains(&id) && listed.contains("mia") && listed.contains("not yet"));
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    let entry = site.run(&["held", "--json"]).json().remove(0);
    assert_eq!(entry["blocking_reason"], "paused_by_operator");

    let _worker = site.worker(&["--kind", "upper"], &["tr", "a-z", "A-Z"]);
    let other = site.submit(&["upper", "--input", "y"]);
    assert_eq!(site.run(&["result", &other, "--wait"]).text(), "Y");
    assert_eq!(site.run(&["release", &id]).text(), format!("{id} is waiting"));
    assert_eq!(site.run(&["result", &id, "--wait"]).text(), "X");
    let over = site.run(&["hold", &id]).complaint(1);
    assert!(over.contains("has ended"), "{over}");
    assert_eq!(site.run(&["held"]).text(), "");
}

#[test]
fn what_runs_is_held_when_its_attempt_is_over() {
    let site = Site::start();
    let id = site.submit(&["slow", "--retries", "5", "--backoff", "1ms"]);
    let _worker = site.worker(&["--kind", "slow"], &["sh", "-c", "sleep 1; exit 1"]);
    site.until(&id, "active");
    let said = site.run(&["hold", &id, "--by", "mia"]).text();
    assert!(said.contains("it is held when this attempt is over"), "{said}");
    let shown = site.run(&["get", &id]).text();
    assert!(shown.contains("hold         by mia, from when it could be claimed next"), "{shown}");
    site.until(&id, "waiting");
    let shown = site.run(&["get", &id]).text();
    assert!(shown.contains("because      held by mia"), "{shown}");
    let missing = site.run(&["hold", "0192f0aa-0000-7000-8000-000000000000"]).complaint(1);
    assert!(missing.contains("there is no execution"), "{missing}");
}

#[test]
fn what_waits_for_its_turn_is_held_by_nobody() {
    let site = Site::start();
    let first = site.submit(&["sync", "--singleton", "site-1"]);
    let second = site.submit(&["sync", "--singleton", "site-1", "--queue"]);
    let said = site.run(&["why", &second]).text();
    let turn = format!("waits for its turn: {first} has its singleton key");
    assert!(said.contains(&turn) && !said.contains("held"), "{said}");
    assert_eq!(site.run(&["held"]).text(), "");
    site.run(&["hold", &second, "--by", "mia"]).text();
    assert!(site.run(&["why", &second]).text().contains("mia"), "a hold beside it is told");
}
