//! `worker ls`.

use crate::site::{Site, eventually};

#[test]
fn who_is_there_and_who_runs_what_is_listed() {
    let site = Site::start();
    assert_eq!(site.run(&["worker", "ls"]).text(), "");
    let options = ["--kind", "slow", "--name", "mia", "--concurrency", "3", "--capability", "gpu"];
    let worker = site.worker(&options, &["sleep", "60"]);
    let id = site.submit(&["slow"]);
    site.until(&id, "active");
    let shown = site.run(&["worker", "ls"]).text();
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let line = |of: &str| shown.lines().find(|line| line.contains(of)).expect("a line").to_owned();
    for part in ["1/3", "default", "slow", "gpu"] {
        assert!(line("mia").contains(part), "{shown}");
    }
    assert!(line(&id).contains("slow") && line(&id).contains("mia"), "{shown}");
    let one = site.run(&["worker", "ls", "--json"]).json().remove(0);
    assert_eq!((one["worker_id"].as_str(), one["capacity"].as_u64()), (Some("mia"), Some(3)));
    assert_eq!(one["kinds"], serde_json::json!(["slow"]));
    assert_eq!(one["executions"][0]["kind"], "slow");
    drop(worker);
}

#[test]
fn who_is_gone_is_named_by_what_it_left() {
    let site = Site::start();
    let options = ["--kind", "slow", "--name", "mia", "--lease-ttl", "1s"];
    let worker = site.worker(&options, &["sleep", "60"]);
    let id = site.submit(&["slow"]);
    site.until(&id, "active");
    drop(worker);
    eventually(|| site.run(&["worker", "ls"]).text().contains("gone: mia-"));
    let shown = site.run(&["worker", "ls"]).text();
    assert!(shown.contains(&id), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn a_setting_of_a_worker_that_is_refused_is_told_by_its_flag() {
    let site = Site::start();
    for (flag, value, rule) in [
        ("--lane", "bad:lane", "--lane must be printable ASCII"),
        ("--lease-ttl", "1ms", "--lease-ttl must be from 1s to 1d, got 1ms"),
    ] {
        let worker = ["worker", "run", "--kind", "mail", flag, value, "--", "cat"];
        let said = site.run(&worker).complaint(2);
        assert!(said.contains(rule) && !said.contains("config:"), "{said}");
    }
}
